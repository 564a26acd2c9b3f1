"""What the sinks of one process share: Spark, the scheduler, the order of claims, the desired states."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch.control import Control, Desired
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.events import Ending, Progress
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.local.measured_engine import MeasuredEngine, SharedPlacement
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from sinkql.runtime.schedule.schedule import ScheduleLimits
from sinkql.runtime.schedule.scheduler import BatchScheduler, Worker
from sinkql.runtime.schedule.thread_worker import ThreadWorker
from sinkql.runtime.sink.requests import WaitRequests
from sinkql.runtime.sink.workload import Workload
from sinkql.runtime.spark.application import SparkApplication
from sinkql.runtime.spark.settings import CancelledError, bucket_count, worker_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_CLAIMS = 4
_PATIENCE_SECONDS = 10.0
"""A longer claim is not counted: the store of a table may not answer for minutes."""
_LOOK_SECONDS = 0.2
_REST_SECONDS = 2.0
"""How often a waiting sink that is not the first checks whether it must stop."""


class ClaimQueue:
    """The turns in which sinks claim tables of one catalog, a few at a time.

    The first claim is alone, because not every catalog creates its internal tables safely. Turns are in order of
    arrival, and only the sink whose turn comes is woken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._claims: dict[object, float] = {}
        self._first = True

    @contextmanager
    def wait_turn(self, stops: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn, which lasts for the block; raises CancelledError if the sink must stop first."""
        turn = threading.Event()
        self._await(turn, stops)
        done = False
        try:
            yield
            done = True
        finally:
            with self._lock:
                del self._claims[turn]
                self._first = self._first and not done
                self._wake_first()

    def look(self) -> None:
        """Wake all waiting sinks, so that they check whether they must stop."""
        with self._lock:
            for turn in self._waiting:
                turn.set()

    def _await(self, turn: threading.Event, stops: Callable[[], bool]) -> None:
        with self._lock:
            self._waiting.append(turn)
        while True:
            turn.clear()
            with self._lock:
                stopped, is_first = stops(), self._waiting[0] is turn
                if stopped or (is_first and self._count_claims() < (1 if self._first else _MOST_CLAIMS)):
                    self._waiting.remove(turn)
                    if not stopped:
                        self._claims[turn] = clock.monotonic()
                    self._wake_first()
                    break
            clock.wait(turn, _LOOK_SECONDS if is_first else _REST_SECONDS)
        if stopped:
            raise CancelledError

    def _wake_first(self) -> None:
        """Wake the sink whose turn is next."""
        if self._waiting:
            self._waiting[0].set()

    def _count_claims(self) -> int:
        since = clock.monotonic() - _PATIENCE_SECONDS
        return sum(began > since for began in self._claims.values())


@dataclass(slots=True)
class DesiredStates:
    """The desired states of the sinks of an application, read for all of them once in `every_seconds`."""

    control: Control
    every_seconds: float = 0.5
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ids: set[str] = field(default_factory=set)
    _states: dict[str, tuple[Desired, int | None]] = field(default_factory=dict)
    _error: SinkqlError | None = None
    _read_at: float = float("-inf")

    def desired(self, sink_id: str) -> Desired:
        """Return what users want of a sink; raises SQ41xx if the catalog cannot be read."""
        return self._state(sink_id)[0]

    def is_optimize_requested(self, sink_id: str) -> bool:
        """Return whether an OPTIMIZE SINK was pending at the last read."""
        return self._state(sink_id)[1] is not None

    def now(self, sink_id: str) -> Desired:
        """Return what users want of a sink at this moment; an older state does not replace it."""
        with self._lock:
            self._ids.add(sink_id)
            self._states |= self.control.desired_states([sink_id])
            return self._states[sink_id][0]

    def _state(self, sink_id: str) -> tuple[Desired, int | None]:
        with self._lock:
            self._ids.add(sink_id)
            old = clock.monotonic() >= self._read_at + self.every_seconds
            if old or (self._error is None and sink_id not in self._states):
                self._read()
            if self._error is not None:
                raise self._error
            return self._states[sink_id]

    def _read(self) -> None:
        try:
            self._states, self._error = dict(self.control.desired_states(self._ids)), None
        except SinkqlError as error:
            self._error = error  # waiting sinks do not each ask a catalog that does not answer
        self._read_at = clock.monotonic()


@dataclass(frozen=True, slots=True)
class SinkOutcome:
    """How a sink ended, and the error if it failed, was fenced or lost its lease.

    `early` if the sink had to stop before it ran; `signal` is then the signal that stopped its process.
    """

    sink: str
    ending: Ending
    error: SinkqlError | None = None
    early: bool = False
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ran only this sink."""
        if self.error is not None:
            return self.error.exit_code
        return 128 + self.signal if self.early and self.signal is not None else 0


@dataclass(slots=True)
class SharedSpark:
    """The Spark application that the sinks of a process share.

    * `session` waits until it runs, and `prepare` starts it in the background.
    * `death` returns the error of the Spark of a session if it died.
    * `rest` stops it until it is needed again, except during an `in_use`.
    * `is_up` returns whether batches can run in it now.
    * `placement` decides which batches are too large for this process.
    * It runs up to `most_workers` workers, with folders in `folder`.
    """

    session: Callable[[], SparkSession]
    buckets: int
    folder: Path
    most_workers: int = 1
    prepare: Callable[[], None] = lambda: None
    death: Callable[[SparkSession], SinkqlError | None] = lambda _: None
    rest: Callable[[], None] = lambda: None
    in_use: Callable[[], AbstractContextManager[None]] = nullcontext
    is_up: Callable[[], bool] = lambda: True
    placement: SharedPlacement = field(default_factory=SharedPlacement)

    @classmethod
    def of(cls, spark: SparkApplication) -> SharedSpark:
        """Return the part of an application that its sinks share."""
        settings = spark.settings
        return cls(
            spark.session, bucket_count(settings), settings.folder / "lanes", worker_count(settings), spark.begin,
            spark.death, spark.rest, spark.in_use, spark.is_up,
        )  # fmt: skip

    def open_worker(self, run_round: Callable[[], None]) -> Worker:
        """Return a new worker whose scheduling rounds call the function."""
        from sinkql.runtime.spark.batch_worker import SparkWorker  # pyspark is imported with the first start

        with ExitStack() as uses:
            uses.enter_context(self.in_use())
            worker = SparkWorker(self.session(), self.folder / new_id()[:8], run_round)
            return _WorkerInUse(worker, uses.pop_all().close)

    def engine(self, session: Callable[[], SparkSession], buckets: int) -> PlacedEngine:
        """Return the engine of a sink, which gets the session for the first batch that needs it."""

        def open_spark() -> Engine:
            from sinkql.runtime.spark.engine import SparkEngine  # as above

            return SparkEngine(session, buckets=buckets)

        in_process = MeasuredEngine(
            LocalEngine(buckets, policy="decline"), self.placement, spark_up=self.is_up, start_spark=self.prepare
        )
        return PlacedEngine(in_process, open_spark, self.in_use, in_process.ran_in_spark, in_process.room)

    def rest_if_unneeded(self) -> None:
        """Stop Spark until it is needed again, unless batches in this process would take too much time without it."""
        if self.placement.may_rest():
            self.rest()


@dataclass(frozen=True, slots=True)
class _WorkerInUse:
    """A worker that keeps Spark running until it is stopped: a batch may be handed over while Spark begins to rest."""

    worker: Worker
    release: Callable[[], None]

    @property
    def is_worn(self) -> bool:
        return self.worker.is_worn

    def start_round(self) -> None:
        self.worker.start_round()

    def failure(self) -> Exception | None:
        return self.worker.failure()

    def stop(self) -> None:
        try:
            self.worker.stop()
        finally:
            self.release()


@dataclass(slots=True)
class EndedSinks:
    """The sinks that do not run in this process any longer, by id."""

    ids: set[str] = field(default_factory=set)
    """Sinks that ran here and have ended."""
    errors: dict[str, str] = field(default_factory=dict)
    """Errors of failed sinks."""
    elsewhere: set[str] = field(default_factory=set)
    """Views that another process runs."""


@dataclass(slots=True)
class SinkHost:
    """What all sinks of one Spark application share. `scheduler` runs their batches."""

    spark: SharedSpark
    registry: Registry
    control: Control
    progress: Progress
    workload: Workload
    contexts: Callable[[physical.Job], Context]
    once: bool
    stopping: threading.Event = field(default_factory=threading.Event)
    claim_queues: dict[str, ClaimQueue] = field(default_factory=lambda: defaultdict(ClaimQueue))
    ended: EndedSinks = field(default_factory=EndedSinks)
    since_ms: int = field(default_factory=clock.time_ms)
    """When the run began: a run with `once` commits what was available then."""
    scheduler: BatchScheduler = field(init=False)
    desired_states: DesiredStates = field(init=False)
    waits: WaitRequests = field(default_factory=WaitRequests)

    def __post_init__(self) -> None:
        self.scheduler = BatchScheduler(
            {"in process": ThreadWorker, "Spark": self.spark.open_worker},
            ScheduleLimits(self.spark.most_workers),
            rest=self.spark.rest_if_unneeded,
        )
        self.desired_states = DesiredStates(self.control)
