"""Sinks that start together → a few at a time open the tables of one catalog, none behind one that hangs."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sinkql.runtime.spark.session import CancelledError

_AT_ONCE = 4
_PATIENCE_SECONDS = 10.0
"""After so long a claim counts no more: a table's files may be where nobody answers for minutes."""
_LOOK_SECONDS = 0.2
_REST_SECONDS = 2.0
"""How often who waits behind others looks whether it is to stop, if nobody tells it."""


class ClaimQueue:
    """Let sinks claim tables of one catalog, the first one alone: not every catalog makes its own tables safely.

    They take their turns in the order in which they came, and nobody is woken whose turn it is not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._begun: dict[object, float] = {}
        self._first = True

    @contextmanager
    def wait_turn(self, stops: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn, which the block has; raises CancelledError where the sink is to stop before it comes."""
        mine = threading.Event()
        self._await(mine, stops)
        done = False
        try:
            yield
            done = True
        finally:
            with self._lock:
                del self._begun[mine]
                self._first = self._first and not done
                self._call()

    def look(self) -> None:
        """Have all that wait see whether they are to stop."""
        with self._lock:
            for each in self._waiting:
                each.set()

    def _await(self, mine: threading.Event, stops: Callable[[], bool]) -> None:
        with self._lock:
            self._waiting.append(mine)
        while True:
            mine.clear()
            with self._lock:
                stopped, front = stops(), self._waiting[0] is mine
                if stopped or (front and self._going_on() < (1 if self._first else _AT_ONCE)):
                    self._waiting.remove(mine)
                    if not stopped:
                        self._begun[mine] = time.monotonic()
                    self._call()
                    break
            mine.wait(_LOOK_SECONDS if front else _REST_SECONDS)
        if stopped:
            raise CancelledError

    def _call(self) -> None:
        """Wake who is first in line now."""
        if self._waiting:
            self._waiting[0].set()

    def _going_on(self) -> int:
        since = time.monotonic() - _PATIENCE_SECONDS
        return sum(began > since for began in self._begun.values())
