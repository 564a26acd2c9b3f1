"""A sink's orders and the clock → how far its next batch goes.

Time that a sink spent on its batches → time that it may spend on its table between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from sinkql.connector_api.stream import JobOffsets, Limit, Offsets
from sinkql.runtime.batch.clock import CLOCK
from sinkql.runtime.batch.timeline import Timeline, TimelineStep


@dataclass(frozen=True, slots=True)
class PacingOrders:
    """Where a sink begins, and how it is paced. With `targets`, a batch is due at once and none goes past them."""

    begin: JobOffsets
    commit_interval: timedelta
    max_rows_per_commit: int
    targets: JobOffsets | None = None

    @property
    def interval_ms(self) -> int:
        """Return the interval in the clock's unit."""
        return self.commit_interval // timedelta(milliseconds=1)


class InputProbe(Protocol):
    """The part of a reader that looks for new input."""

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return how far a batch from `start` may go now; see `Reader.latest`."""


@dataclass(slots=True)
class Pacer:
    """Decide when a batch is due and how far it goes.

    A window begins at the first call, and where the previous one ended. At its end a batch is due if anything is new;
    at once after a batch that a limit cut. Where the clock is among the readers something is new, too, once it is
    `comes`: when a row comes or goes by itself. Inputs that are read at ticks go as far as the `timeline` says.
    """

    readers: Mapping[str, InputProbe]
    window_ms: int | None = None
    cut: bool = False
    comes: Callable[[], int | None] = lambda: None
    timeline: Timeline | None = None

    def due(self, orders: PacingOrders, now_ms: int) -> bool:
        """Tell whether a batch is due."""
        if self.window_ms is None:
            self.window_ms = now_ms
        if orders.targets is not None or self.cut:
            return True
        # A clock that was set back must not silence the sink until it catches up.
        self.window_ms = min(now_ms, self.window_ms)
        return now_ms >= self.window_ms + orders.interval_ms

    def left_ms(self, orders: PacingOrders, now_ms: int) -> int:
        """Return how long it is until a batch is due."""
        return 0 if self.window_ms is None else self.window_ms + orders.interval_ms - now_ms

    def next_end(self, start: JobOffsets, orders: PacingOrders, now_ms: int) -> JobOffsets:
        """Return where the due batch ends; `start` if nothing is new."""
        readers = {name: reader for name, reader in self.readers.items() if name != CLOCK}
        end = self._data(readers, start, orders, now_ms)
        if CLOCK not in self.readers or CLOCK in end:
            return end
        targets = {CLOCK: {"at": now_ms}} if orders.targets is None else orders.targets
        later = self.readers[CLOCK].latest(start[CLOCK], Limit(1), targets[CLOCK])
        new = any(end[name] != start[name] for name in readers)
        comes = None if new else self.comes()
        return {**end, CLOCK: later if new or (comes is not None and comes <= later["at"]) else start[CLOCK]}

    def _data(
        self, readers: Mapping[str, InputProbe], start: JobOffsets, orders: PacingOrders, now_ms: int
    ) -> dict[str, Offsets]:
        limit = Limit(max(1, orders.max_rows_per_commit // max(1, len(readers))))
        followed = self.timeline.inputs if self.timeline is not None else ()
        readers = {name: reader for name, reader in readers.items() if name not in followed}
        if orders.targets is not None:
            targets = orders.targets
            own = {name: reader.latest(start[name], limit, targets[name]) for name, reader in readers.items()}
            return {**own, **self._step(start, own, limit, targets).ends}
        # A little more than the limit tells whether it cuts, and costs no look at all of a backlog. The clock has no
        # say in the difference: the second answer is bounded by the first.
        wider = Limit(limit.rows + limit.rows // 16 + 1, limit.bytes + limit.bytes // 16 + 1)
        there = {name: reader.latest(start[name], wider) for name, reader in readers.items()}
        end = {name: self._limited(name, start[name], there[name], limit) for name in readers}
        step = self._step(start, end, limit, None)
        self.cut = end != there or step.more
        # who follows a tick of another job is due again when that one is
        self.window_ms = now_ms if step.at is None else min(now_ms, step.at)
        return {**end, **step.ends}

    def _step(self, start: JobOffsets, others: JobOffsets, limit: Limit, targets: JobOffsets | None) -> TimelineStep:
        """Return how far the inputs go that are read at ticks, beside others."""
        if self.timeline is None or not self.timeline.inputs:
            return TimelineStep({})
        due = None
        if CLOCK in self.timeline.inputs:
            moved = any(end != start[name] for name, end in others.items())
            due = 0 if moved else self.comes()
        return self.timeline.ahead(start, limit, targets, due=due)

    def _limited(self, name: str, start: Offsets, there: Offsets, limit: Limit) -> Offsets:
        return start if there == start else self.readers[name].latest(start, limit, there)


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
