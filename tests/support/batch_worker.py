"""A conductor's lane in a thread, as Spark's are in threads of Java."""

from __future__ import annotations

import threading
from collections.abc import Callable

from support.patience import PATIENCE_S, joined


class ThreadLane:
    """Run a round a call; `broken` is why it does not, if a test says so."""

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
        """Begin a round; raises OSError where it is broken."""
        if self.broken is not None:
            raise OSError("no room for a tick")
        self.calls += 1
        self._called.release()

    def played(self, rounds: int) -> None:
        """Wait for the end of so many rounds."""
        for _ in range(rounds):
            assert self._played.acquire(timeout=PATIENCE_S)

    def failure(self) -> Exception | None:
        """Return why it runs no rounds."""
        self.asked.append(threading.current_thread())
        return self.broken

    def stop(self) -> None:
        """Wait for the round that runs, and run no other."""
        self.stopped = True
        self._called.release()
        joined(self._thread)
        self.ended.set()
