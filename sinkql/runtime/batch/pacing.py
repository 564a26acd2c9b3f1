"""Decide when a sink's next batch is due, how much it may read, and how much time maintenance may take.

`Reader.latest` of each source decides where its part of the batch ends within that limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from sinkql.connector_api.stream import JobOffsets, Limit, Offsets
from sinkql.machine import clock
from sinkql.runtime.batch.clock import CLOCK
from sinkql.runtime.batch.timeline import Timeline, TimelineStep


@dataclass(frozen=True, slots=True)
class PacingOrders:
    """Where a sink begins, and its pacing. With `targets`, batches are due immediately and none passes the targets."""

    start: JobOffsets
    commit_interval: timedelta
    max_rows_per_commit: int
    targets: JobOffsets | None = None

    @property
    def interval_ms(self) -> int:
        """Return the interval in the clock's unit."""
        return self.commit_interval // timedelta(milliseconds=1)


class InputProbe(Protocol):
    """The part of a reader that finds new input."""

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return where a batch from `start` may end now; see `Reader.latest`."""


@dataclass(slots=True)
class Pacer:
    """Decides when a batch is due and where it ends.

    The first window begins at the first call, each later one at the end of the previous window. At the end of a window,
    a batch is due if there is new input; after a batch that a limit cut, the next one is due immediately. If the clock
    is among the readers, a temporal change counts as new input from the time that `next_temporal_change` returns.
    Inputs that are read at ticks end where the `timeline` decides. `room` returns what a batch may read at most.
    """

    readers: Mapping[str, InputProbe]
    window_ms: int | None = None
    cut: bool = False
    next_temporal_change: Callable[[], int | None] = lambda: None
    timeline: Timeline | None = None
    room: Callable[[], Limit | None] = lambda: None

    def due(self, orders: PacingOrders, now_ms: int) -> bool:
        """Return whether a batch is due."""
        if self.window_ms is None:
            self.window_ms = now_ms
        if orders.targets is not None or self.cut:
            return True
        # A clock that was set back must not delay the sink until it catches up.
        self.window_ms = min(now_ms, self.window_ms)
        return now_ms >= self.window_ms + orders.interval_ms

    def left_ms(self, orders: PacingOrders, now_ms: int) -> int:
        """Return the milliseconds until a batch is due."""
        return 0 if self.window_ms is None else self.window_ms + orders.interval_ms - now_ms

    def next_end(self, start: JobOffsets, orders: PacingOrders, now_ms: int) -> JobOffsets:
        """Return where the due batch ends; `start` if there is no new input."""
        readers = {name: reader for name, reader in self.readers.items() if name != CLOCK}
        end = self._data_end(readers, start, orders, now_ms)
        if CLOCK not in self.readers or CLOCK in end:
            return end
        targets = {CLOCK: {"at": now_ms}} if orders.targets is None else orders.targets
        later = self.readers[CLOCK].latest(start[CLOCK], Limit(1), targets[CLOCK])
        has_data = any(end[name] != start[name] for name in readers)
        change_at = None if has_data else self.next_temporal_change()
        advances = has_data or (change_at is not None and change_at <= later["at"])
        return {**end, CLOCK: later if advances else start[CLOCK]}

    def _data_end(
        self, readers: Mapping[str, InputProbe], start: JobOffsets, orders: PacingOrders, now_ms: int
    ) -> dict[str, Offsets]:
        limit = self._limit(orders, max(1, len(readers)))
        at_ticks = self.timeline.inputs.sources_below if self.timeline is not None else ()
        readers = {name: reader for name, reader in readers.items() if name not in at_ticks}
        if orders.targets is not None:
            targets = orders.targets
            ends = {name: reader.latest(start[name], limit, targets[name]) for name, reader in readers.items()}
            return {**ends, **self._step(start, ends, limit, targets).ends}
        # A slightly wider limit shows whether the limit cuts, without reading all of a backlog. Time plays no part in
        # the difference, because the first answer bounds the second.
        wider = Limit(limit.rows + limit.rows // 16 + 1, limit.bytes + limit.bytes // 16 + 1)
        available = {name: reader.latest(start[name], wider) for name, reader in readers.items()}
        end = {name: self._limited(name, start[name], available[name], limit) for name in readers}
        step = self._step(start, end, limit, None)
        self.cut = end != available or step.more
        # a job at the tick of another job is due again when that job is
        self.window_ms = now_ms if step.at is None else min(now_ms, step.at)
        return {**end, **step.ends}

    def _limit(self, orders: PacingOrders, readers: int) -> Limit:
        """Return what the batch may read of each of its readers."""
        room = self.room()
        if room is None:
            return Limit(max(1, orders.max_rows_per_commit // readers))
        rows = min(orders.max_rows_per_commit, room.rows)
        return Limit(max(1, rows // readers), max(1, room.bytes // readers))

    def _step(self, start: JobOffsets, others: JobOffsets, limit: Limit, targets: JobOffsets | None) -> TimelineStep:
        """Return the step of the inputs that are read at ticks; `others` are the ends of the other inputs."""
        if self.timeline is None or not self.timeline.inputs.sources_below:
            return TimelineStep({})
        due = None
        if CLOCK in self.timeline.inputs.sources_below:
            moved = any(end != start[name] for name, end in others.items())
            due = 0 if moved else self.next_temporal_change()
        return self.timeline.ahead(start, limit, targets, due=due)

    def _limited(self, name: str, start: Offsets, available: Offsets, limit: Limit) -> Offsets:
        return start if available == start else self.readers[name].latest(start, limit, available)


_INITIAL_SECONDS = 1.0
_MOST_SECONDS = 2.0
"""The most that may be saved."""


def _never() -> bool:
    return False


def _unlimited() -> float:
    return math.inf


@dataclass(slots=True)
class MaintenanceBudget:
    """Saves a share of the time for maintenance.

    * `stops` ends maintenance at its next step.
    * At the `last` call, maintenance that has begun is completed.
    * `left` returns the seconds until a batch is due. A due batch does not wait for saved time. It waits for the end of
      a step at most, and for the share of the time since the last maintenance: otherwise a sink that is never idle
      would never spend its savings.
    """

    share: float = 0.15
    stops: Callable[[], bool] = _never
    last: Callable[[], bool] = _never
    left: Callable[[], float] = _unlimited
    clock: Callable[[], float] = clock.monotonic
    _saved: float = field(default=_INITIAL_SECONDS, init=False)
    _counted_at: float | None = field(default=None, init=False)
    _step_at: float | None = field(default=None, init=False)
    _owed: float = field(default=0.0, init=False)

    @contextmanager
    def record(self) -> Iterator[Callable[[bool], bool]]:
        """Yield the function that returns whether to continue; its argument is whether some work has begun.

        A step, whose time is counted, lasts from one call to the next.
        """
        now = self.clock()
        if self._counted_at is not None:
            self._owed = self.share * (now - self._counted_at)
            self._saved = min(_MOST_SECONDS, self._saved + self._owed)
        self._counted_at, self._step_at = now, None
        yield self._can_continue

    def _can_continue(self, begun: bool) -> bool:
        now = self.clock()
        if self._step_at is not None:
            self._saved -= now - self._step_at
            self._owed -= now - self._step_at
        self._step_at = now
        if self.stops() or self.share <= 0:
            return False
        return (self._saved > 0 and (self._owed > 0 or self.left() > 0)) or (begun and self.last())
