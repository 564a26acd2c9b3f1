"""The machine's clock: the time now, and waiting for a time.

The functions ask the clock in use, which `use` replaces. A function that was stored earlier, such as the default of a
field, then asks the new clock too.
"""

from __future__ import annotations

import time as system
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol


class Waitable(Protocol):
    """An event or a condition of threads or processes."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for at most `timeout` seconds; return whether it happened."""
        ...


class Clock:
    """The clock of this machine. Subclasses are the clocks of simulations."""

    def time_ns(self) -> int:
        """Return nanoseconds since 1970. The time may be set back."""
        return system.time_ns()

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an unknown moment. They never go back."""
        return system.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        system.sleep(seconds)

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait for an event for at most `seconds`; return whether it happened."""
        return event.wait(seconds)


_in_use = [Clock()]
"""The clock that all functions ask, as the last one."""


@contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Replace the clock of the whole process while the block runs."""
    _in_use.append(clock)
    try:
        yield
    finally:
        _in_use.remove(clock)


def time() -> float:
    """Return seconds since 1970. The time may be set back."""
    return time_ns() / 1_000_000_000


def time_ns() -> int:
    """Return nanoseconds since 1970. The time may be set back."""
    return _in_use[-1].time_ns()


def time_ms() -> int:
    """Return milliseconds since 1970, rounded down. The time may be set back."""
    return time_ns() // 1_000_000


def now() -> datetime:
    """Return the time in UTC, as an aware datetime. The time may be set back."""
    return datetime.fromtimestamp(time(), UTC)


def monotonic() -> float:
    """Return seconds since an unknown moment. They never go back."""
    return monotonic_ns() / 1_000_000_000


def monotonic_ns() -> int:
    """Return nanoseconds since an unknown moment. They never go back."""
    return _in_use[-1].monotonic_ns()


def sleep(seconds: float) -> None:
    """Wait."""
    _in_use[-1].sleep(seconds)


def wait(event: Waitable, seconds: float) -> bool:
    """Wait for an event for at most `seconds`; return whether it happened."""
    return _in_use[-1].wait(event, seconds)
