"""Run scheduling rounds in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ThreadWorker:
    """A worker of the batch scheduler: a thread that runs one round after each `start_round`."""

    is_worn = False

    def __init__(self, run_round: Callable[[], None]) -> None:
        self._run_round = run_round
        self._started = threading.Semaphore(0)
        self._stopped = False
        threading.Thread(target=self._run, name="batches", daemon=True).start()

    def start_round(self) -> None:
        """Start a round soon."""
        self._started.release()

    def failure(self) -> Exception | None:
        """Return None: a thread does not fail."""
        return None

    def stop(self) -> None:
        """End the thread after its round."""
        self._stopped = True
        self._started.release()

    def _run(self) -> None:
        while True:
            self._started.acquire()
            if self._stopped:
                return
            self._run_round()
