"""A batch worker of the scheduler that runs in a Python thread; Spark's workers run in Java threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.patience import PATIENCE_S, joined


class ThreadWorker:
    """Runs one round per call. A test sets `broken` to the error of a worker that runs no rounds."""

    def __init__(self, round_: Callable[[], None]) -> None:
        self.calls, self.is_worn, self.stopped = 0, False, False
        self.broken: Exception | None = None
        self.asked: list[threading.Thread] = []
        self.ended = threading.Event()
        self._called = threading.Semaphore(0)
        self._played = threading.Semaphore(0)
        self._round = round_
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._called.acquire() and not self.stopped:
            self._round()
            self._played.release()

    def start_round(self) -> None:
        """Begin a round; raise OSError if the worker is broken."""
        if self.broken is not None:
            raise OSError("no room for a tick")
        self.calls += 1
        self._called.release()

    def played(self, rounds: int) -> None:
        """Wait for the end of this number of rounds."""
        for _ in range(rounds):
            assert self._played.acquire(timeout=PATIENCE_S)

    def failure(self) -> Exception | None:
        """Return why the worker runs no rounds; None if it does."""
        self.asked.append(threading.current_thread())
        return self.broken

    def stop(self) -> None:
        """Wait for the running round, and run no further rounds."""
        self.stopped = True
        self._called.release()
        joined(self._thread)
        self.ended.set()
