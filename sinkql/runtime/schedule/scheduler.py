"""Run the batches of many sinks in a few workers, as `schedule` decides. A worker executes one batch at a time.

When a batch is due, a thread looks for new input, so that a slow source delays no other sink. A batch runs in a thread
of this process first. If it needs Spark, it is handed over: it begins again with the same offsets in a worker of Spark,
which starts with the first such batch. A worker is opened in a thread of its own, as Spark takes seconds to start.

A batch that waits for its retry occupies no worker. The worker of a slow batch, as of a table whose catalog does not
answer, is not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from sinkql.connector_api.stream import JobOffsets
from sinkql.machine import clock
from sinkql.runtime.batch.engine import Place, SparkNeededError
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
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
    SinkTurn,
    StartRound,
    TimePassed,
    WorkerFailed,
    WorkerOpened,
    WorkerTurn,
)
from sinkql.runtime.schedule.schedule import Schedule, ScheduleLimits
from sinkql.storage import failpoint

_CHECK_SECONDS = 1.0
"""How often the workers are checked."""
_RETRY_LOOK_SECONDS = 0.25
"""When a run with `--once` looks again for input that a source does not show yet."""
_LEAST_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A committed batch: the offsets of the table after it, which may exceed its end, and where it ran."""

    end: JobOffsets
    place: Place


Process = Callable[[JobOffsets, JobOffsets, bool, Place], BatchDone | float]
"""Commit the batch from the first offsets to the second in a worker of the place; True if a limit cut it.

Returns what was committed, or the seconds until a retry. Raises SparkNeededError for a batch in this process that only
Spark can run, before anything of it is committed; another exception ends the schedule of the sink.
"""


class Worker(Protocol):
    """Runs scheduling rounds, one at a time, each after a `start_round`."""

    @property
    def is_worn(self) -> bool:
        """Return whether another worker should replace it."""

    def start_round(self) -> None:
        """Start a round soon; called while no round runs. Raises OSError."""

    def failure(self) -> Exception | None:
        """Return the error after which it can run no round; None if it works."""

    def stop(self) -> None:
        """Stop it; called while no round runs, or one that is about to end."""


OpenWorker = Callable[[Callable[[], None]], Worker]
"""Return a new worker whose rounds call the function."""


@dataclass(slots=True, eq=False)
class ScheduledSink(SinkTurn):
    """A sink that the scheduler runs, with its pacing and offsets.

    `error` is set and `wake` notified when it cannot continue. It `stalls` from a failed batch until its commit.
    """

    pacer: Pacer
    orders: PacingOrders
    process: Process
    wake: threading.Event
    error: Exception | None = field(default=None, init=False)
    stalls: bool = field(default=False, init=False)
    offsets: JobOffsets = field(init=False)
    end: JobOffsets | None = field(default=None, init=False)
    """The end of the next batch, if it is known."""

    def __post_init__(self) -> None:
        self.offsets = self.orders.start

    def due_in(self) -> float:
        """Return the seconds until the next batch is due."""
        now_ms = _now_ms()
        return 0.0 if self.pacer.due(self.orders, now_ms) else self.pacer.left_ms(self.orders, now_ms) / 1000


@dataclass(slots=True, eq=False)
class _ScheduledWorker(WorkerTurn):
    """A worker in the schedule."""

    worker: Worker = field(init=False)


_Event = Event[ScheduledSink, _ScheduledWorker]
_Action = Action[ScheduledSink, _ScheduledWorker]


class BatchScheduler:
    """Runs the batches of all its sinks in as many workers as are needed together.

    `open_worker` opens the workers of each place. `rest` stops Spark, which has been idle; nothing of it is in use by
    the scheduler then. `close` stops the workers.
    """

    def __init__(
        self, open_worker: Mapping[Place, OpenWorker], limits: ScheduleLimits, *, rest: Callable[[], object] = bool
    ) -> None:
        self.limits = limits
        self._open_worker = open_worker
        self._stop_spark = rest
        self._schedule: Schedule[ScheduledSink, _ScheduledWorker] = Schedule(limits)
        self._changed = threading.Condition()
        self._checked_at = clock.monotonic()
        self._checks = self._requested_checks = 0
        self._thread: threading.Thread | None = None

    def add(self, sink: ScheduledSink) -> None:
        """Run a sink's batches from now on."""
        self._request_check()
        with self._changed:
            self._tell(SinkAdded(sink, sink.due_in()))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
                self._thread.start()

    def _request_check(self) -> None:
        """Request a check of Spark's workers by the scheduler's thread, and wait for it.

        Each thread that calls Spark has a connection and a Java thread for as long as it lives.
        """
        with self._changed:
            if self._thread is None or not self._schedule.workers("Spark"):
                return
            self._requested_checks = requested = self._requested_checks + 1
            self._changed.notify_all()
            while self._checks < requested and not self._schedule.closed:
                self._changed.wait()

    def reschedule(self, sink: ScheduledSink, orders: PacingOrders, *, needs_spark: bool = False) -> None:
        """Pace a sink by other orders from now on; all its batches are Spark's if `needs_spark`."""
        with self._changed:
            sink.orders = orders
            self._tell(SinkPaced(sink, sink.due_in(), needs_spark))

    def idle_seconds(self, sink: ScheduledSink) -> float:
        """Return how long the worker of a sink whose batch has ended is not needed, by this sink or others."""
        with self._changed:
            if self._schedule.is_waited_for(sink):
                return 0.0
        return 0.0 if sink.pacer.cut else sink.pacer.left_ms(sink.orders, _now_ms()) / 1000

    def remove(self, sink: ScheduledSink) -> None:
        """Begin no other batch of a sink, and wait for the running one."""
        with self._changed:
            self._tell(SinkRemoved(sink))
            while sink.state == "running":
                self._changed.wait()

    def close(self) -> None:
        """Stop the workers after their running batches; the remaining sinks no longer run."""
        with self._changed:
            workers = self._schedule.workers()
            self._tell(Closed())
        for pooled in workers:
            pooled.worker.stop()

    # --- the machine: called with the lock held ----------------------------------------------------------------------

    def _tell(self, event: _Event) -> None:
        """Give the schedule an event, carry out the actions that follow, and wake the threads that wait."""
        self._carry_out(self._schedule.next(event, clock.monotonic()))
        self._changed.notify_all()

    def _carry_out(self, actions: Sequence[_Action]) -> None:
        """Carry out actions, except `Run` and `EndRound`."""
        retired = []
        for action in actions:
            match action:
                case Look(sink, turn):
                    self._begin_look(sink, turn)
                case Open(place):
                    threading.Thread(target=self._open, args=(place,), name="opening", daemon=True).start()
                case StartRound(pooled):
                    self._start_round(pooled)
                case Retire(pooled):
                    retired.append(pooled.worker)
                case Fail(sink, error):
                    sink.error = error
                    sink.wake.set()
                case RestSpark():
                    self._in_thread_if_possible([worker.stop for worker in retired] + [self._stop_spark])
                    retired = []
                case Run() | EndRound():
                    pass  # the answers to a worker
        if retired:
            self._in_thread_if_possible([worker.stop for worker in retired])

    def _begin_look(self, sink: ScheduledSink, turn: int) -> None:
        due_in = sink.due_in()
        if due_in > 0:  # the clock was set back
            self._tell(NoInput(sink, turn, max(_LEAST_SECONDS, due_in)))
            return
        threading.Thread(target=self._look, args=(sink, turn), name="looking", daemon=True).start()

    def _start_round(self, pooled: _ScheduledWorker) -> None:
        try:
            pooled.worker.start_round()
        except OSError as error:
            self._tell(WorkerFailed(pooled, error))

    def _in_thread_if_possible(self, calls: Sequence[Callable[[], object]]) -> None:
        """Stop workers one after the other; if no thread can be started, they end with Spark."""
        with suppress(RuntimeError):
            threading.Thread(target=_call_each, args=(calls,), name="ending", daemon=True).start()

    # --- the scheduler's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._schedule.closed:
            try:
                self._step()
            except Exception as error:  # for example if no thread can be started: no sink may wait for ever
                with self._changed:
                    self._checks = self._requested_checks
                    self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        for sink in [sink for sink in self._schedule.sinks if sink.state != "running"]:
            self._tell(SinkRemoved(sink))
            sink.error = error
            sink.wake.set()
        self._changed.notify_all()

    def _step(self) -> None:
        """Tell the schedule that time has passed: sinks become due, and workers are checked."""
        with self._changed:
            self._tell(TimePassed())
            now, requested = clock.monotonic(), self._requested_checks
            check_at = self._checked_at + _CHECK_SECONDS if requested == self._checks else now
            if now < check_at:
                due_at = self._schedule.due_at()
                wake_at = check_at if due_at is None else min(check_at, due_at)
                clock.wait(self._changed, max(_LEAST_SECONDS, wake_at - now))
                return
            self._checked_at = now
            workers = self._schedule.workers("Spark")
        failures = [(pooled, pooled.worker.failure()) for pooled in workers]
        with self._changed:
            for pooled, error in failures:
                if error is not None:
                    self._tell(WorkerFailed(pooled, error))
            self._checks = requested
            self._changed.notify_all()

    # --- threads that do one thing -----------------------------------------------------------------------------------

    def _look(self, sink: ScheduledSink, turn: int) -> None:
        """Look for new input of a sink that is due."""
        try:
            end = sink.pacer.next_end(sink.offsets, sink.orders, _now_ms())
        except Exception as error:
            with self._changed:
                self._tell(LookFailed(sink, turn, error))
            return
        with self._changed:
            if end == sink.offsets:
                least = _RETRY_LOOK_SECONDS if sink.orders.targets is not None else _LEAST_SECONDS
                self._tell(NoInput(sink, turn, max(least, sink.due_in())))
            elif sink.turn == turn:
                sink.end = end
                self._tell(InputFound(sink, turn))

    def _open(self, place: Place) -> None:
        pooled = _ScheduledWorker(place)
        try:
            failpoint.point("worker-opening")
            pooled.worker = self._open_worker[place](lambda: self._run_round(pooled))
        except Exception as error:
            with self._changed:
                self._tell(OpenFailed(place, error))
            return
        failpoint.point("worker-opened")
        with self._changed:
            self._tell(WorkerOpened(pooled))

    # --- a scheduling round ------------------------------------------------------------------------------------------

    def _run_round(self, pooled: _ScheduledWorker) -> None:
        with self._changed:
            self._tell(RoundBegan(pooled))
        while (sink := self._next(pooled)) is not None:
            self._serve(sink, pooled.place)

    def _next(self, pooled: _ScheduledWorker) -> ScheduledSink | None:
        """Wait for the next ready sink and return it; None at the end of the round.

        Asking for it wakes no other thread: two that wait would wake each other for ever.
        """
        with self._changed:
            while True:
                now = clock.monotonic()
                actions = self._schedule.next(BatchWanted(pooled, pooled.worker.is_worn), now)
                self._carry_out(actions)
                for action in actions:
                    match action:
                        case Run(sink=sink):
                            return sink
                        case EndRound():
                            return None
                        case _:
                            pass
                clock.wait(self._changed, max(_LEAST_SECONDS, pooled.until - now))

    def _serve(self, sink: ScheduledSink, place: Place) -> None:
        assert sink.end is not None
        event = self._process(sink, sink.end, place)
        with self._changed:
            self._tell(event)

    def _process(self, sink: ScheduledSink, end: JobOffsets, place: Place) -> _Event:
        """Run a sink's batch; return the event that tells how it ended."""
        try:
            result = sink.process(sink.offsets, end, sink.pacer.cut, place)
        except SparkNeededError as error:
            if place == "Spark":
                return BatchFailed(sink, error)
            failpoint.point("handed-over")
            return BatchHandedOver(sink)
        except Exception as error:
            return BatchFailed(sink, error)
        sink.stalls = not isinstance(result, BatchDone)
        if not isinstance(result, BatchDone):
            return BatchDelayed(sink, result)
        sink.offsets, sink.end = result.end, None
        return BatchCommitted(sink, result.place, sink.due_in())


def _call_each(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        with suppress(Exception):  # a worker that does not stop does nothing either
            call()


def _now_ms() -> int:
    return clock.time_ms()
