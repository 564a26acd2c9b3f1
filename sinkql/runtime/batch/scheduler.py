"""Run the batches of many sinks in a few workers. A worker executes one batch at a time.

A heap orders the scheduled sinks by the time at which their next batch is due. When a batch is due, a thread looks for
new input, so that a slow source delays no other sink. If there is new input, the sink is ready, and a worker takes it.

A worker that is started begins a *scheduling round*: it runs ready sinks and stays while more batches are due within
the round. The cost of a trigger is thus paid once a round, not once a batch. Shortly before a round of several batches
ends, another worker is started, or the same one again, so that due batches need not wait for Spark.

A batch that waits for its retry is in the heap and occupies no worker. The worker of a slow batch, as of a table whose
catalog does not answer, is not counted.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sinkql.connector_api.stream import JobOffsets
from sinkql.runtime.batch.pacing import Pacer, PacingOrders

ROUND_SECONDS = 10.0
_CHECK_SECONDS = 1.0
"""How often the workers are checked."""
_SPARE_SECONDS = 60.0
"""How long a spare worker may be idle."""
_RETRY_LOOK_SECONDS = 0.25
"""When a run with `--once` looks again for input that a source does not show yet."""
_LEAST_SECONDS = 0.005
_AHEAD_SECONDS = 1.0
"""How long before the end of a round of several batches another worker is started."""

_SLOW_SECONDS = 10.0
_MOST_SLOW = 8
"""The most workers with a slow batch that are not counted."""

_AVAILABLE = "starting", "waiting"
"""States in which a worker takes a ready sink."""

Process = Callable[[JobOffsets, JobOffsets, bool], float | JobOffsets]
"""Commit the batch from the first offsets to the second; True if a limit cut it.

Returns the offsets of the table after the batch, which may exceed the second, or the seconds until a retry. An
exception ends the schedule of the sink.
"""


class Worker(Protocol):
    """Runs scheduling rounds, one at a time, each after a `start_round`."""

    @property
    def is_worn(self) -> bool:
        """Return whether another worker should replace it."""

    def start_round(self) -> None:
        """Start a round soon; called while no round runs."""

    def failure(self) -> Exception | None:
        """Return the error after which it can run no round; None if it works."""

    def stop(self) -> None:
        """Stop it; called while no round runs, or one that is about to end."""


Open = Callable[[Callable[[], None]], Worker]
"""Return a new worker whose rounds call the function."""


@dataclass(slots=True, eq=False)
class ScheduledSink:
    """A sink that the scheduler runs, with its pacing and offsets.

    `error` is set and `wake` notified when it cannot continue. It `stalls` from a failed batch until its commit.
    """

    pacer: Pacer
    orders: PacingOrders
    process: Process
    wake: threading.Event
    error: Exception | None = field(default=None, init=False)
    stalls: bool = field(default=False, init=False)
    _offsets: JobOffsets = field(init=False)
    _end: JobOffsets | None = field(default=None, init=False)
    _state: Literal["waiting", "looking", "ready", "running", "removed"] = field(default="removed", init=False)
    _turn: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self._offsets = self.orders.start


class _DueQueue:
    """The scheduled sinks by the time of their next batch. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ScheduledSink]] = []
        self._turns = itertools.count()

    def push(self, sink: ScheduledSink, seconds: float) -> None:
        """Make a batch of the sink due after `seconds`."""
        sink._state, sink._turn = "waiting", next(self._turns)
        heapq.heappush(self._heap, (time.monotonic() + seconds, sink._turn, sink))

    def due_at(self) -> float | None:
        """Return when the next batch is due."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)  # the sink was removed, or is due at another time now
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[float, int, ScheduledSink]) -> bool:
        _, turn, sink = entry
        return sink._state == "waiting" and sink._turn == turn

    def pop_due(self, now: float) -> Iterator[ScheduledSink]:
        """Yield and remove the sinks that are due."""
        while (due_at := self.due_at()) is not None and due_at <= now:
            yield heapq.heappop(self._heap)[2]


@dataclass(slots=True, eq=False)
class _PooledWorker:
    """A worker and its state: "starting" until its round begins, "waiting" for a ready sink within the round."""

    worker: Worker = field(init=False)
    state: Literal["idle", "starting", "running", "waiting"] = "idle"
    since: float = field(default_factory=time.monotonic)
    """When the state began, except "waiting"; while it runs, when the batch began."""
    batches: int = 0
    """Batches in the present round."""


class _WorkerPool:
    """The workers of a scheduler: at most `most`, not counting workers with slow batches.

    All methods but `open` need the scheduler's lock.
    """

    def __init__(self, open_worker: Open, most: int) -> None:
        self.workers: list[_PooledWorker] = []
        self.wants_worker = False
        self._needs_relief = False
        self._open_worker = open_worker
        self._most = most

    def open(self, serve: Callable[[_PooledWorker], None]) -> _PooledWorker:
        """Return a new worker, not in the pool; raises what opening raises."""
        pooled = _PooledWorker()
        pooled.worker = self._open_worker(lambda: serve(pooled))
        return pooled

    def start_rounds(self, ready: int, *, relief: bool = False) -> tuple[_PooledWorker, OSError] | None:
        """Start as many idle workers as the `ready` sinks need, or one as `relief` for batches that are due soon.

        Return a worker that failed to start, with the error.
        """
        self._needs_relief |= relief
        wanted = max(ready, self._needs_relief) - self._count_available()
        for pooled in self.workers:
            if wanted > 0 and pooled.state == "idle":
                try:
                    pooled.worker.start_round()
                except OSError as error:
                    return pooled, error
                pooled.state = "starting"
                wanted -= 1
        self._needs_relief = self._needs_relief and not self._count_available()
        self.wants_worker = wanted > 0
        return None

    def _count_available(self) -> int:
        return sum(pooled.state in _AVAILABLE for pooled in self.workers)

    def is_short(self, now: float) -> bool:
        """Return whether another worker is wanted and allowed."""
        return self.wants_worker and len(self.workers) - self._count_slow(now) < self._most

    def _count_slow(self, now: float) -> int:
        slow = [pooled for pooled in self.workers if pooled.state == "running" and now >= pooled.since + _SLOW_SECONDS]
        return min(len(slow), _MOST_SLOW)

    def is_spare(self, pooled: _PooledWorker) -> bool:
        """Return whether a worker has been idle for long and is not the last."""
        return pooled.state == "idle" and len(self.workers) > 1 and time.monotonic() > pooled.since + _SPARE_SECONDS

    def forget_demand(self) -> None:
        """Want no worker."""
        self.wants_worker = self._needs_relief = False

    def retire(self, pooled: _PooledWorker) -> None:
        """Remove a worker; it stops after its round."""
        self.workers.remove(pooled)
        with suppress(RuntimeError):  # if no thread can be started, the worker ends with Spark
            threading.Thread(target=_stop, args=(pooled.worker,), name="ending", daemon=True).start()


class BatchScheduler:
    """Runs the batches of all its sinks in as many workers as are needed together, `most` at the most.

    `close` stops the workers.
    """

    def __init__(self, open_worker: Open, most: int, *, round_seconds: float = ROUND_SECONDS) -> None:
        self._pool = _WorkerPool(open_worker, most)
        self._queue = _DueQueue()
        self._round_seconds = round_seconds
        self._changed = threading.Condition()
        self._opening = threading.Lock()
        self._sinks: set[ScheduledSink] = set()
        self._ready: deque[ScheduledSink] = deque()
        self._closed = False
        self._checked_at = time.monotonic()
        self._checks = self._requested_checks = 0
        self._thread: threading.Thread | None = None

    def add(self, sink: ScheduledSink) -> None:
        """Run a sink's batches from now on; return once there is a worker. Raises what opening one raises."""
        self._request_check()
        with self._opening:
            if not self._pool.workers:
                self._open()
        with self._changed:
            self._sinks.add(sink)
            self._wait(sink)
            if self._thread is None:
                self._thread = threading.Thread(target=self._schedule, name="scheduler", daemon=True)
                self._thread.start()

    def _request_check(self) -> None:
        """Request a check of the workers by the scheduler's thread, and wait for it.

        Each thread that calls Spark has a connection and a Java thread for as long as it lives.
        """
        with self._changed:
            if self._thread is None:
                return  # there are no workers yet
            self._requested_checks = requested = self._requested_checks + 1
            self._changed.notify_all()
            while self._checks < requested and not self._closed:
                self._changed.wait()

    def reschedule(self, sink: ScheduledSink, orders: PacingOrders) -> None:
        """Pace a sink by other orders from now on."""
        with self._changed:
            sink.orders = orders
            if sink._state == "waiting" and sink._end is None:
                self._wait(sink)

    def idle_seconds(self, sink: ScheduledSink) -> float:
        """Return how long the worker of a sink whose batch has ended is not needed, by this sink or others."""
        with self._changed:
            if len(self._ready) > sum(pooled.state != "running" for pooled in self._pool.workers):
                return 0.0
        return 0.0 if sink.pacer.cut else sink.pacer.left_ms(sink.orders, _now_ms()) / 1000

    def remove(self, sink: ScheduledSink) -> None:
        """Begin no other batch of a sink, and wait for the running one."""
        with self._changed:
            self._sinks.discard(sink)
            if sink in self._ready:
                self._ready.remove(sink)
            while sink._state == "running":
                self._changed.wait()
            sink._state = "removed"

    def close(self) -> None:
        """Stop the workers after their running batches; the remaining sinks no longer run."""
        with self._changed:
            self._closed = True
            workers, self._pool.workers = self._pool.workers, []
            self._changed.notify_all()
        for pooled in workers:
            pooled.worker.stop()

    # --- sinks: called with the lock held --------------------------------------------------------------------------

    def _wait(self, sink: ScheduledSink, *, least: float = 0.0) -> None:
        """Queue a sink until its next batch is due, for at least `least` seconds."""
        now_ms = _now_ms()
        left = 0.0 if sink.pacer.due(sink.orders, now_ms) else sink.pacer.left_ms(sink.orders, now_ms) / 1000
        self._push(sink, max(left, least))

    def _push(self, sink: ScheduledSink, seconds: float) -> None:
        self._queue.push(sink, seconds)
        self._changed.notify_all()

    def _offer(self, sink: ScheduledSink) -> None:
        sink._state = "ready"
        self._ready.append(sink)
        self._start_rounds()

    def _start_rounds(self, *, relief: bool = False) -> None:
        failed = self._pool.start_rounds(len(self._ready), relief=relief)
        if failed is not None:
            self._lose(*failed)
            return
        self._changed.notify_all()

    def _fail(self, sink: ScheduledSink, error: Exception) -> None:
        self._sinks.discard(sink)
        sink._state, sink.error = "removed", error
        sink.wake.set()
        self._changed.notify_all()

    def _lose(self, pooled: _PooledWorker, error: Exception) -> None:
        """Retire a worker that failed. All sinks without a running batch fail, and may be added again."""
        self._pool.retire(pooled)
        self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        self._ready.clear()
        self._pool.forget_demand()
        for sink in [sink for sink in self._sinks if sink._state != "running"]:
            self._fail(sink, error)

    # --- the scheduler's thread ------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        while not self._closed:
            try:
                self._step()
            except Exception as error:  # for example if no thread can be started: no sink may wait for ever
                with self._changed:
                    self._checks = self._requested_checks
                    self._fail_all(error)

    def _step(self) -> None:
        """Look for input of the sinks that are due, and check the workers; wait if there is nothing to do."""
        with self._changed:
            if self._closed:
                return
            now, requested = time.monotonic(), self._requested_checks
            check_at = self._checked_at + _CHECK_SECONDS if requested == self._checks else now
            for sink in self._queue.pop_due(now):
                self._look(sink)
            due_at, is_short = self._queue.due_at(), self._pool.is_short(now)
            if not is_short and now < check_at:
                self._changed.wait(max(_LEAST_SECONDS, min(check_at, due_at or check_at) - now))
                return
        with self._opening:
            if is_short:
                self._open_another()
                return
            self._checked_at = time.monotonic()
            self._check_workers()
        with self._changed:
            self._checks = requested
            self._changed.notify_all()

    def _look(self, sink: ScheduledSink) -> None:
        """Start a thread that looks for new input of a sink that is due."""
        if sink._end is not None:
            self._offer(sink)
            return
        if not sink.pacer.due(sink.orders, _now_ms()):  # the clock was set back
            self._wait(sink, least=_LEAST_SECONDS)
            return
        sink._state = "looking"
        threading.Thread(target=self._find_end, args=(sink, sink._turn), name="looking", daemon=True).start()

    def _find_end(self, sink: ScheduledSink, turn: int) -> None:
        try:
            end: JobOffsets | Exception = sink.pacer.next_end(sink._offsets, sink.orders, _now_ms())
        except Exception as error:
            end = error
        with self._changed:
            if sink._state != "looking" or sink._turn != turn:
                return
            if isinstance(end, Exception):
                self._fail(sink, end)
            elif end == sink._offsets:
                self._wait(sink, least=_RETRY_LOOK_SECONDS if sink.orders.targets is not None else _LEAST_SECONDS)
            else:
                sink._end = end
                self._offer(sink)

    # --- workers: opened and checked with `_opening` held ------------------------------------------------------------

    def _open(self) -> None:
        pooled = self._pool.open(self._run_round)
        with self._changed:
            closed = self._closed
            if not closed:
                self._pool.workers.append(pooled)
                self._start_rounds()
        if closed:
            pooled.worker.stop()

    def _open_another(self) -> None:
        with self._changed:
            if not self._pool.is_short(time.monotonic()):  # a sink that was added has opened one
                return
        try:
            self._open()
        except Exception as error:
            with self._changed:
                self._pool.forget_demand()
                while self._ready:
                    self._fail(self._ready.popleft(), error)

    def _check_workers(self) -> None:
        """Retire failed workers and spare ones."""
        failures = [(pooled, pooled.worker.failure()) for pooled in list(self._pool.workers)]
        with self._changed:
            for pooled, error in failures:
                if pooled not in self._pool.workers:
                    continue
                if error is not None:
                    self._lose(pooled, error)
                elif self._pool.is_spare(pooled):
                    self._pool.retire(pooled)

    # --- a scheduling round ----------------------------------------------------------------------------------------

    def _run_round(self, pooled: _PooledWorker) -> None:
        until, pooled.batches = time.monotonic() + self._round_seconds, 0
        while (sink := self._next(pooled, until)) is not None:
            self._serve(sink)

    def _next(self, pooled: _PooledWorker, until: float) -> ScheduledSink | None:
        """Wait for the next ready sink and return it; None at the end of the round."""
        with self._changed:
            while not self._closed and pooled in self._pool.workers and (now := time.monotonic()) < until:
                if self._ready:
                    sink = self._ready.popleft()
                    sink._state = pooled.state = "running"
                    pooled.since = now
                    pooled.batches += 1
                    if pooled.batches > 1 and now >= until - _AHEAD_SECONDS:
                        self._start_rounds(relief=True)
                    return sink
                soon = self._next_ready_at(now)
                if soon is None or soon > until:
                    break
                pooled.state = "waiting"
                self._changed.wait(until - now)
            pooled.state, pooled.since = "idle", time.monotonic()
            if pooled in self._pool.workers:
                if pooled.worker.is_worn:  # a busy worker is never checked while it is idle
                    self._pool.retire(pooled)
                self._start_rounds(relief=self._needs_another_round(pooled, pooled.since))  # maybe this worker again
            return None

    def _needs_another_round(self, pooled: _PooledWorker, now: float) -> bool:
        """Return whether a batch is due soon after a round of several batches."""
        soon = self._next_ready_at(now)
        return pooled.batches > 1 and soon is not None and soon <= now + _AHEAD_SECONDS

    def _next_ready_at(self, now: float) -> float | None:
        """Return when a sink may be ready; a running one may be, as soon as its batch ends."""
        active = any(sink._state in ("looking", "running") for sink in self._sinks)
        return now if active else self._queue.due_at()

    def _serve(self, sink: ScheduledSink) -> None:
        assert sink._end is not None
        try:
            result = sink.process(sink._offsets, sink._end, sink.pacer.cut)
        except Exception as error:
            with self._changed:
                self._fail(sink, error)
            return
        with self._changed:
            sink.stalls = not isinstance(result, Mapping)
            if sink not in self._sinks:
                sink._state = "removed"
                self._changed.notify_all()
            elif not isinstance(result, Mapping):
                self._push(sink, result)
            else:
                sink._offsets, sink._end = result, None
                self._wait(sink)


def _stop(worker: Worker) -> None:
    with suppress(Exception):  # a worker that does not stop does nothing either
        worker.stop()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
