"""A process that is forked: signals are kept from it until it has handlers of its own, and it ends with its parent.

A signal → what is set once a process is to stop.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 1.0


@contextmanager
def hold_signals() -> Iterator[set[signal.Signals]]:
    """Keep signals from a block, which forks a process that has handlers of its own; yield what was kept before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become_child(parent: int, kept: set[signal.Signals]) -> StopSignal:
    """Make a forked process one of its own; return what is set once it is to stop: by SIGTERM, or its parent's end."""
    stopping = StopSignal()

    def handle(number: int, frame: object) -> None:
        stopping.signalled(number)

    signal.signal(signal.SIGTERM, handle)
    # The terminal's Ctrl-C and hang-up reach the parent alone, which passes them on: twice would mean at once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, kept)
    os.setpgrp()
    # What the parent draws on its terminal is not this process's.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    watch_parent(parent, stopping)
    return stopping


def watch_parent(parent: int, stopping: threading.Event) -> None:
    """Have what is set be set once the parent is gone."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        stopping.set()

    threading.Thread(target=look, daemon=True).start()


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
