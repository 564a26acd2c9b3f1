"""How long tests wait for what must come: far longer than it takes on a slow machine under load."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from threading import Thread

PATIENCE_S = 600.0
"""Seconds. It only decides when a test that hangs is given up."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of one whole wait, however many small ones it is made of."""

    at: float = field(default_factory=lambda: time.monotonic() + PATIENCE_S)

    def left(self) -> float:
        """Return the seconds until then, as a timeout; none are left afterwards."""
        return max(0.0, self.at - time.monotonic())

    def check(self, what: str) -> None:
        """Fail once it is over, saying what did not come."""
        assert self.left(), f"{what} did not come in {PATIENCE_S:.0f} seconds"


def source_of(holds: Callable[[], object]) -> str:
    """Return the text of a condition, for the message of a wait for it that was given up."""
    try:
        return " ".join(inspect.getsource(holds).split())
    except OSError:
        return repr(holds)


def ended(*processes: BaseProcess) -> list[int | None]:
    """Wait for the end of all processes, and return their exit codes; kills them and fails if one does not end."""
    deadline = Deadline()
    for process in processes:
        process.join(deadline.left())
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    assert not late, f"{late} did not end in {PATIENCE_S:.0f} seconds"
    return [process.exitcode for process in processes]


def joined(*threads: Thread) -> None:
    """Wait for the end of all threads, which are daemons; fails if one does not end."""
    deadline = Deadline()
    for thread in threads:
        assert thread.daemon, f"{thread} would keep the test's process from ending"
        thread.join(deadline.left())
        assert not thread.is_alive(), f"{thread} did not end in {PATIENCE_S:.0f} seconds"
