"""A signal → what is set once a process is to stop."""

from __future__ import annotations

import _thread
import threading


class StopSignal(threading.Event):
    """Whether all is to stop; `number` is the signal that said so."""

    number: int | None = None

    def signalled(self, number: int) -> None:
        """Set this from a signal's handler.

        A handler runs between any two instructions of the main thread, which may hold the lock of this very event, as
        it waits for it or takes in an earlier signal: another thread waits for the lock. It is started without
        `threading`, whose own locks the main thread may hold too.
        """
        self.number = number
        _thread.start_new_thread(self.set, ())
