"""Overload a machine for some processes: they run for a slice of each period, and are stopped for the rest."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from support.leftover import processes

_TURN_S = 0.8


@contextmanager
def overloaded(mark: Mapping[str, str], *, times: int) -> Iterator[None]:
    """Slow the marked processes down by a factor until the block ends."""
    over = threading.Event()
    helper = threading.Thread(target=_turns, args=(mark, times, over), daemon=True)
    helper.start()
    try:
        yield
    finally:
        over.set()
        helper.join()


def _turns(mark: Mapping[str, str], times: int, over: threading.Event) -> None:
    while not over.wait(_TURN_S / times):
        _send(mark, signal.SIGSTOP)
        over.wait(_TURN_S * (times - 1) / times)
        _send(mark, signal.SIGCONT)


def _send(mark: Mapping[str, str], number: signal.Signals) -> None:
    for pid in processes(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
