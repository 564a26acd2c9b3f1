"""Time that a sink spent on its batches → time that it may spend on its table between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FIRST = 1.0
_MOST = 2.0
"""Seconds to begin with, and at once."""


def _never() -> bool:
    return False


def _long() -> float:
    return math.inf


@dataclass(slots=True)
class MaintenanceBudget:
    """Save up a share of the time. `stops` ends the work at its next step; at the `last` call, work begun is ended.

    `left` says in how many seconds a batch is due: it does not wait for what was saved up, but at most for the end of a
    step, and for the share of the time since the work before, or a sink that is never idle would save for ever.
    """

    share: float = 0.15
    stops: Callable[[], bool] = _never
    last: Callable[[], bool] = _never
    left: Callable[[], float] = _long
    clock: Callable[[], float] = time.monotonic
    _saved: float = field(default=_FIRST, init=False)
    _counted_at: float | None = field(default=None, init=False)
    _step_at: float | None = field(default=None, init=False)
    _owed: float = field(default=0.0, init=False)

    @contextmanager
    def record(self) -> Iterator[Callable[[bool], bool]]:
        """Tell in the block whether to go on, given whether something was begun.

        What is counted is the time between two such questions: a step.
        """
        now = self.clock()
        if self._counted_at is not None:
            self._owed = self.share * (now - self._counted_at)
            self._saved = min(_MOST, self._saved + self._owed)
        self._counted_at, self._step_at = now, None
        yield self._goes_on

    def _goes_on(self, begun: bool) -> bool:
        now = self.clock()
        if self._step_at is not None:
            self._saved -= now - self._step_at
            self._owed -= now - self._step_at
        self._step_at = now
        if self.stops() or self.share <= 0:
            return False
        return (self._saved > 0 and (self._owed > 0 or self.left() > 0)) or (begun and self.last())
