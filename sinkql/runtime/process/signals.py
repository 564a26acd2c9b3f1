"""Signals of forked processes: block them during the fork, handle them in the child, end the child with its parent."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sinkql.machine import clock

_LOOK_SECONDS = 1.0


@contextmanager
def hold_signals() -> Iterator[set[signal.Signals]]:
    """Block signals in a block that forks a process with other handlers; yield the mask from before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become_child(parent: int, signal_mask: set[signal.Signals]) -> StopSignal:
    """Set up a forked process; return the event that SIGTERM, or the end of the parent, sets."""
    stopping = StopSignal()

    def handle(number: int, frame: object) -> None:
        stopping.signalled(number)

    signal.signal(signal.SIGTERM, handle)
    # Only the parent handles the terminal's Ctrl-C and hang-up, and passes them on: a second signal would kill.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    os.setpgrp()
    # The parent alone draws on its terminal.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    watch_parent(parent, stopping)
    return stopping


def watch_parent(parent: int, stopping: threading.Event) -> None:
    """Set an event when the parent has ended."""

    def look() -> None:
        while os.getppid() == parent:
            clock.sleep(_LOOK_SECONDS)
        stopping.set()

    threading.Thread(target=look, daemon=True).start()


class StopSignal(threading.Event):
    """An event that is set when the process must stop; `number` is the signal that set it."""

    number: int | None = None

    def signalled(self, number: int) -> None:
        """Set the event from a signal handler.

        A handler runs between two instructions of the main thread, which may hold the lock of this event while it waits
        for it or handles an earlier signal. So another thread waits for the lock. It is started without `threading`,
        whose locks the main thread may hold too.
        """
        self.number = number
        _thread.start_new_thread(self.set, ())
