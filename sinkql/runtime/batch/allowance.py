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
    _ended_at: float | None = field(default=None, init=False)

    @contextmanager
    def spent(self) -> Iterator[Callable[[bool], bool]]:
        """Count the block's time, and tell in it whether to go on, given whether something was begun."""
        began = self.clock()
        if self._ended_at is not None:
            self._saved = min(_MOST, self._saved + self.share * (began - self._ended_at))
        try:
            yield lambda begun: self._goes_on(began, begun=begun)
        finally:
            self._ended_at = self.clock()
            self._saved -= self._ended_at - began

    def _goes_on(self, began: float, *, begun: bool) -> bool:
        if self.stops():
            return False
        return self.clock() - began < self._saved or (begun and self.last())
