"""The time limit of tests' waits: far longer than anything takes on a slow machine under load."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from threading import Thread

PATIENCE_S = 600.0
"""Seconds; they only decide when a hanging test fails."""
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time limit of a wait that consists of several shorter ones."""

    at: float = field(default_factory=lambda: time.monotonic() + PATIENCE_S)

    def left(self) -> float:
        """Return the remaining seconds, as a timeout; 0 after the end."""
        return max(0.0, self.at - time.monotonic())

    def check(self, what: str) -> None:
        """Fail after the end, and name what did not come; else pause, so that what is waited for has the processor."""
        assert self.left(), f"{what} did not come in {PATIENCE_S:.0f} seconds"
        time.sleep(_PAUSE_S)


def source_of(holds: Callable[[], object]) -> str:
    """Return the source text of a condition, for the message of a failed wait."""
    try:
        return " ".join(inspect.getsource(holds).split())
    except OSError:
        return repr(holds)


def ended(*processes: BaseProcess) -> list[int | None]:
    """Wait until all processes end, and return their exit codes; kill them and fail if one does not end."""
    deadline = Deadline()
    for process in processes:
        process.join(deadline.left())
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    assert not late, f"{late} did not end in {PATIENCE_S:.0f} seconds"
    return [process.exitcode for process in processes]


def joined(*threads: Thread) -> None:
    """Wait until all threads, which must be daemons, end; fail if one does not."""
    deadline = Deadline()
    for thread in threads:
        assert thread.daemon, f"{thread} would keep the test's process from ending"
        thread.join(deadline.left())
        assert not thread.is_alive(), f"{thread} did not end in {PATIENCE_S:.0f} seconds"
