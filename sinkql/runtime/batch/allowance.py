"""Time that a sink spent on its batches → time that it may spend on its table between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FIRST = 1.0
_MOST = 2.0
"""Seconds to begin with, and at once: no batch that is due waits longer, but for the end of one step."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class Allowance:
    """Save up a share of the time. `stops` ends the work at its next step; at the `last` call, work begun is ended."""

    share: float = 0.15
    stops: Callable[[], bool] = _never
    last: Callable[[], bool] = _never
    clock: Callable[[], float] = time.monotonic
    _saved: float = field(default=_FIRST, init=False)
    _counted_at: float | None = field(default=None, init=False)
    _step_at: float | None = field(default=None, init=False)

    @contextmanager
    def spent(self) -> Iterator[Callable[[bool], bool]]:
        """Tell in the block whether to go on, given whether something was begun.

        What is counted is the time between two such questions: a step.
        """
        now = self.clock()
        if self._counted_at is not None:
            self._saved = min(_MOST, self._saved + self.share * (now - self._counted_at))
        self._counted_at, self._step_at = now, None
        yield self._goes_on

    def _goes_on(self, begun: bool) -> bool:
        now = self.clock()
        if self._step_at is not None:
            self._saved -= now - self._step_at
        self._step_at = now
        return not self.stops() and self.share > 0 and (self._saved > 0 or (begun and self.last()))
