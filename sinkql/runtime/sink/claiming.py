"""Sinks that start together → a few at a time open the tables of one catalog, none behind one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sinkql.runtime.spark.session import CancelledError

_AT_ONCE = 4
_PATIENCE_SECONDS = 10.0
"""After so long a claim counts no more: a table's files may be where nobody answers for minutes."""
_LOOK_SECONDS = 0.2


class Claiming:
    """Let sinks claim tables of one catalog, the first one alone: not every catalog makes its own tables safely."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun: dict[object, float] = {}
        self._first = True

    @contextmanager
    def turn(self, stops: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn, which the block has; raises CancelledError where the sink is to stop before it comes."""
        mine = object()
        with self._changed:
            while not stops() and self._going_on() >= (1 if self._first else _AT_ONCE):
                self._changed.wait(_LOOK_SECONDS)
            if stops():
                raise CancelledError
            self._begun[mine] = time.monotonic()
        done = False
        try:
            yield
            done = True
        finally:
            with self._changed:
                del self._begun[mine]
                self._first = self._first and not done
                self._changed.notify_all()

    def _going_on(self) -> int:
        since = time.monotonic() - _PATIENCE_SECONDS
        return sum(began > since for began in self._begun.values())
