"""Decide which sink's batch runs next, where and when: a state machine without threads and clocks.

`Schedule.next` takes one event and returns the actions that follow from it. `scheduler` carries them out in threads,
and tells the results as further events.

A sink waits until its batch is due, is looked at for new input, is ready, and runs. Its batch runs in one of two
places: in a thread of this process, or in a streaming query of Spark. Both places have workers. A worker takes ready
sinks within a *scheduling round*, which it stays in while more batches are due soon: Spark's workers pay the cost of a
trigger once a round, not once a batch.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic

from sinkql.runtime.batch.engine import Place
from sinkql.runtime.schedule.event import (
    Action,
    BatchCommitted,
    BatchDelayed,
    BatchFailed,
    BatchHandedOver,
    BatchWanted,
    Closed,
    EndRound,
    Event,
    Fail,
    InputFound,
    Look,
    LookFailed,
    NoInput,
    Open,
    OpenFailed,
    RestSpark,
    Retire,
    RoundBegan,
    Run,
    SinkAdded,
    SinkPaced,
    SinkRemoved,
    SinkT,
    StartRound,
    TimePassed,
    WorkerFailed,
    WorkerOpened,
    WorkerT,
)

PLACES: tuple[Place, ...] = ("in process", "Spark")
_AVAILABLE = "starting", "waiting"
"""States in which a worker takes a ready sink."""


@dataclass(slots=True)
class ScheduleLimits:
    """The limits of a schedule; times are in seconds.

    * `most`: the most workers of each place that are not slow.
    * `round`: how long a worker stays in a round.
    * `ahead`: how long before the end of a round of several batches another worker is started.
    * `slow`, `most_slow`: after how long a batch's worker is not counted, and how many are not.
    * `spare`: how long a worker that is not the last of its place may be idle.
    * `spark_idle`: how long Spark runs without use.
    """

    most: int = 1
    round: float = 10.0
    ahead: float = 1.0
    slow: float = 10.0
    most_slow: int = 8
    spare: float = 60.0
    spark_idle: float = 300.0


class _DueQueue(Generic[SinkT]):
    """The waiting sinks of a place by the time of their next batch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, SinkT]] = []

    def push(self, sink: SinkT, at: float) -> None:
        heapq.heappush(self._heap, (at, sink.turn, sink))

    def due_at(self) -> float | None:
        """Return when the next batch is due."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)  # the sink was removed, or is due at another time now
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[float, int, SinkT]) -> bool:
        _, turn, sink = entry
        return sink.state == "waiting" and sink.turn == turn

    def pop_due(self, now: float) -> Iterator[SinkT]:
        """Yield and remove the sinks that are due."""
        while (due_at := self.due_at()) is not None and due_at <= now:
            yield heapq.heappop(self._heap)[2]


@dataclass(slots=True)
class _Pool(Generic[SinkT, WorkerT]):
    """The workers of a place, and the sinks whose next batch runs there."""

    place: Place
    limits: ScheduleLimits
    workers: list[WorkerT] = field(default_factory=list)
    ready: deque[SinkT] = field(default_factory=deque)
    queue: _DueQueue[SinkT] = field(default_factory=_DueQueue)
    needs_relief: bool = False
    opening: int = 0

    def available(self) -> int:
        return sum(worker.state in _AVAILABLE for worker in self.workers)

    def wanted(self) -> int:
        """Return how many workers the ready sinks need beyond the available ones."""
        return max(len(self.ready), self.needs_relief) - self.available()

    def is_short(self, now: float) -> bool:
        """Return whether another worker is wanted and allowed."""
        counted = len(self.workers) + self.opening - self._count_slow(now)
        return self.wanted() > self.opening and counted < self.limits.most

    def _count_slow(self, now: float) -> int:
        running = [worker for worker in self.workers if worker.state == "running"]
        slow = sum(now >= worker.since + self.limits.slow for worker in running)
        return min(slow, self.limits.most_slow)


class Schedule(Generic[SinkT, WorkerT]):
    """The sinks and workers of one process. Not thread-safe."""

    def __init__(self, limits: ScheduleLimits | None = None) -> None:
        self.limits = limits or ScheduleLimits()
        self.sinks: dict[SinkT, None] = {}
        self.closed = False
        self._pools: dict[Place, _Pool[SinkT, WorkerT]] = {place: _Pool(place, self.limits) for place in PLACES}
        self._turns = itertools.count()
        self._spark_unused_since: float | None = None

    def workers(self, place: Place | None = None) -> list[WorkerT]:
        """Return the workers of a place, or all."""
        return [worker for pool in self._pools.values() if place in (None, pool.place) for worker in pool.workers]

    def due_at(self) -> float | None:
        """Return when the next sink is due."""
        times = [at for pool in self._pools.values() if (at := pool.queue.due_at()) is not None]
        return min(times, default=None)

    def is_waited_for(self, sink: SinkT) -> bool:
        """Return whether more sinks are ready than there are free workers where this sink runs."""
        pool = self._pools[sink.place]
        return len(pool.ready) > sum(worker.state != "running" for worker in pool.workers)

    def next(self, event: Event[SinkT, WorkerT], now: float) -> list[Action[SinkT, WorkerT]]:
        """Return the actions that follow from an event at the time `now`, in seconds of a monotonic clock."""
        return list(self._next(event, now))

    def _next(self, event: Event[SinkT, WorkerT], now: float) -> Iterator[Action[SinkT, WorkerT]]:
        match event:
            case SinkAdded(sink, due_in):
                self.sinks[sink] = None
                sink.place = "Spark" if sink.needs_spark else "in process"
                self._wait(sink, now + due_in)
            case SinkPaced(sink, due_in, needs_spark):
                sink.needs_spark = needs_spark
                if sink.state == "waiting" and not sink.has_batch:
                    sink.place = "Spark" if needs_spark else sink.place
                    self._wait(sink, now + due_in)
            case SinkRemoved(sink):
                self._remove(sink)
            case InputFound(sink, turn):
                if self._is_looked_for(sink, turn):
                    sink.has_batch = True
                    yield from self._offer(sink, now)
            case NoInput(sink, turn, due_in):
                if self._is_looked_for(sink, turn):
                    self._wait(sink, now + due_in)
            case LookFailed(sink, turn, error):
                if self._is_looked_for(sink, turn):
                    yield self._fail(sink, error)
            case BatchCommitted() | BatchDelayed() | BatchHandedOver() | BatchFailed():
                yield from self._end_batch(event, now)
            case WorkerOpened(worker):
                yield from self._opened(worker, now)
            case OpenFailed(place, error):
                yield from self._open_failed(self._pools[place], error)
            case WorkerFailed(worker, error):
                yield from self._lose(worker, error)
            case RoundBegan(worker):
                worker.until, worker.batches = now + self.limits.round, 0
            case BatchWanted(worker, worn):
                yield from self._serve(worker, now, worn=worn)
            case TimePassed():
                yield from self._pass(now)
            case Closed():
                self.closed = True
                for pool in self._pools.values():
                    pool.needs_relief = False

    # --- sinks -------------------------------------------------------------------------------------------------------

    def _wait(self, sink: SinkT, at: float) -> None:
        sink.state, sink.turn = "waiting", next(self._turns)
        self._pools[sink.place].queue.push(sink, at)

    def _is_looked_for(self, sink: SinkT, turn: int) -> bool:
        return sink.state == "looking" and sink.turn == turn

    def _offer(self, sink: SinkT, now: float) -> Iterator[Action[SinkT, WorkerT]]:
        pool = self._pools[sink.place]
        sink.state = "ready"
        pool.ready.append(sink)
        yield from self._start_rounds(pool, now)

    def _remove(self, sink: SinkT) -> None:
        self.sinks.pop(sink, None)
        if sink.state == "ready":
            self._pools[sink.place].ready.remove(sink)
        if sink.state != "running":
            sink.state = "removed"

    def _fail(self, sink: SinkT, error: Exception) -> Fail[SinkT]:
        self.sinks.pop(sink, None)
        sink.state = "removed"
        return Fail(sink, error)

    def _end_batch(
        self,
        event: BatchCommitted[SinkT] | BatchDelayed[SinkT] | BatchHandedOver[SinkT] | BatchFailed[SinkT],
        now: float,
    ) -> Iterator[Action[SinkT, WorkerT]]:
        sink = event.sink
        if isinstance(event, BatchFailed):
            yield self._fail(sink, event.error)
        elif sink not in self.sinks:
            sink.state = "removed"
        elif isinstance(event, BatchDelayed):
            self._wait(sink, now + event.seconds)
        elif isinstance(event, BatchHandedOver):
            sink.place = "Spark"
            yield from self._offer(sink, now)
        else:
            sink.has_batch = False
            sink.place = "Spark" if sink.needs_spark else event.place
            self._wait(sink, now + event.due_in)

    def _pass(self, now: float) -> Iterator[Action[SinkT, WorkerT]]:
        if self.closed:
            return
        for pool in self._pools.values():
            for sink in list(pool.queue.pop_due(now)):
                if sink.has_batch:
                    yield from self._offer(sink, now)
                else:
                    sink.state = "looking"
                    yield Look(sink, sink.turn)
            for worker in list(pool.workers):
                if worker.state == "idle" and len(pool.workers) > 1 and now > worker.since + self.limits.spare:
                    yield self._retire(worker)
            yield from self._open(pool, now)
        yield from self._rest(now)

    # --- workers -----------------------------------------------------------------------------------------------------

    def _start_rounds(
        self, pool: _Pool[SinkT, WorkerT], now: float, *, relief: bool = False
    ) -> Iterator[Action[SinkT, WorkerT]]:
        """Start as many idle workers as the ready sinks need, or one as `relief` for batches that are due soon."""
        if self.closed:
            return
        pool.needs_relief |= relief
        wanted = pool.wanted()
        for worker in pool.workers:
            if wanted > 0 and worker.state == "idle":
                worker.state = "starting"
                wanted -= 1
                yield StartRound(worker)
        pool.needs_relief = pool.needs_relief and not pool.available()
        yield from self._open(pool, now)

    def _open(self, pool: _Pool[SinkT, WorkerT], now: float) -> Iterator[Action[SinkT, WorkerT]]:
        if pool.is_short(now):
            pool.opening += 1
            yield Open(pool.place)

    def _opened(self, worker: WorkerT, now: float) -> Iterator[Action[SinkT, WorkerT]]:
        pool = self._pools[worker.place]
        pool.opening -= 1
        worker.since = now
        if self.closed:
            worker.state = "retired"
            yield Retire(worker)
            return
        pool.workers.append(worker)
        yield from self._start_rounds(pool, now)

    def _open_failed(self, pool: _Pool[SinkT, WorkerT], error: Exception) -> Iterator[Action[SinkT, WorkerT]]:
        """Fail the ready sinks; they may be added again."""
        pool.opening -= 1
        pool.needs_relief = False
        ready, pool.ready = list(pool.ready), deque()
        for sink in ready:
            yield self._fail(sink, error)

    def _lose(self, worker: WorkerT, error: Exception) -> Iterator[Action[SinkT, WorkerT]]:
        """Retire a worker that failed, and fail the sinks whose next batch needs its place; they may be added again."""
        if worker.state == "retired":
            return
        yield self._retire(worker)
        pool = self._pools[worker.place]
        pool.ready.clear()
        pool.needs_relief = False
        for sink in [sink for sink in self.sinks if sink.place == worker.place and sink.state != "running"]:
            if sink.has_batch or sink.needs_spark:
                yield self._fail(sink, error)
            else:
                sink.place = "in process"

    def _retire(self, worker: WorkerT) -> Retire[WorkerT]:
        self._pools[worker.place].workers.remove(worker)
        worker.state = "retired"
        return Retire(worker)

    def _serve(self, worker: WorkerT, now: float, *, worn: bool) -> Iterator[Action[SinkT, WorkerT]]:
        pool = self._pools[worker.place]
        retired = worker.state == "retired"
        if not retired and not self.closed and now < worker.until:
            if pool.ready:
                sink = pool.ready.popleft()
                sink.state = worker.state = "running"
                worker.since = now
                worker.batches += 1
                if worker.batches > 1 and now >= worker.until - self.limits.ahead:
                    yield from self._start_rounds(pool, now, relief=True)
                yield Run(worker, sink)
                return
            soon = self._next_ready_at(pool, now)
            if soon is not None and soon <= worker.until:
                worker.state = "waiting"
                return
        if not retired:
            worker.state, worker.since = "idle", now
            if worn:  # a busy worker is never seen while it is idle
                yield self._retire(worker)
            yield from self._start_rounds(pool, now, relief=self._needs_another_round(pool, worker, now))
        yield EndRound(worker)

    def _needs_another_round(self, pool: _Pool[SinkT, WorkerT], worker: WorkerT, now: float) -> bool:
        """Return whether a batch is due soon after a round of several batches."""
        soon = self._next_ready_at(pool, now)
        return worker.batches > 1 and soon is not None and soon <= now + self.limits.ahead

    def _next_ready_at(self, pool: _Pool[SinkT, WorkerT], now: float) -> float | None:
        """Return when a sink of a place may be ready; a running one may be, as soon as its batch ends."""
        active = any(sink.place == pool.place and sink.state in ("looking", "running") for sink in self.sinks)
        return now if active else pool.queue.due_at()

    def _rest(self, now: float) -> Iterator[Action[SinkT, WorkerT]]:
        """Stop Spark if no sink has needed it for long."""
        pool = self._pools["Spark"]
        spark_sinks = [sink for sink in self.sinks if sink.place == "Spark"]
        used = any(sink.needs_spark or sink.has_batch for sink in spark_sinks) or pool.opening > 0
        if used or any(worker.state != "idle" for worker in pool.workers):
            self._spark_unused_since = None
        elif self._spark_unused_since is None:
            self._spark_unused_since = now
        elif now >= self._spark_unused_since + self.limits.spark_idle:
            self._spark_unused_since = now
            for sink in spark_sinks:
                sink.place = "in process"
            for worker in list(pool.workers):
                yield self._retire(worker)
            yield RestSpark()
