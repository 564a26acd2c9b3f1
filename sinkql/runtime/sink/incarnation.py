"""One incarnation of a sink: claim the table, run batches under the scheduler, leave it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.stream import Context, JobOffsets, Reader
from sinkql.errors import SinkqlError
from sinkql.lowering.placement import reason_for_spark
from sinkql.machine import clock
from sinkql.runtime.batch.clock import with_clock
from sinkql.runtime.batch.dead_letter import open_dead_letter_table
from sinkql.runtime.batch.engine import Place, SparkNeededError
from sinkql.runtime.batch.events import Ending, Rereading, SinkRereading, SinkStarted
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import MaintenanceBudget, Pacer
from sinkql.runtime.batch.timeline import Timeline
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from sinkql.runtime.schedule.scheduler import BatchDone, Process, ScheduledSink
from sinkql.runtime.sink.control import SinkControl, pacing_orders
from sinkql.runtime.sink.host import SinkHost
from sinkql.runtime.sink.life import BatchesEnded, Ready, Retries, Seen
from sinkql.runtime.sink.requests import run_replay_request
from sinkql.runtime.sink.status import StatusReporter
from sinkql.runtime.sink.wait_for_views import wait_for_views
from sinkql.runtime.sink.workload import WorkloadFollower
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 1.0
_TURN_SECONDS = 0.02
"""How long a batch waits, without a worker, before it checks again whether an OPTIMIZE step has ended."""
_YOUNG_SECONDS = 30.0
"""A first batch this young has done little but wait for Spark's processes."""


class StoppedError(Exception):
    """A batch was discarded because the sink must stop."""


class ReassignedError(Exception):
    """A full refresh was interrupted because the sink's job or desired state changed."""


@dataclass(slots=True)
class BatchTracker:
    """Whether a batch of a sink runs, and whether the process may end without it. All incarnations share it.

    `lock` is held while a batch, or an operation between batches, runs. `ran` is set once the scheduler has had the
    sink or a batch has committed, unless its first batch is abandoned.
    """

    ran: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    abandoned: bool = field(default=False, init=False)
    _commit_lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _first_began_at: float | None = field(default=None, init=False)
    _committed: bool = field(default=False, init=False)

    @property
    def is_busy(self) -> bool:
        """Return whether a batch runs that is worth waiting for.

        A sink's first batches do not count until one commits or has run for a while.
        """
        began_at = self._first_began_at
        return self.lock.locked() and not (began_at is not None and clock.monotonic() < began_at + _YOUNG_SECONDS)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock for a batch."""
        with self.lock:
            if not self._committed:
                self._first_began_at = clock.monotonic()
            try:
                yield
            finally:
                self._first_began_at = None

    def begin_commit(self) -> None:
        """Begin a commit; from now on the process waits for it. Raises StoppedError if the sink is abandoned."""
        with self._commit_lock:
            if self.abandoned:
                raise StoppedError
            self._first_began_at, self._committed, self.ran = None, True, True

    def abandon(self) -> bool:
        """Refuse all later commits; return False, and do nothing, if a batch runs that is worth waiting for."""
        with self._commit_lock:
            if self.is_busy:
                return False
            self.abandoned = True
            self.ran = self.ran and (self._committed or not self.lock.locked())
        return True


@dataclass(slots=True)
class Incarnation:
    """One incarnation of a sink, between a claim of its table and the next: the steps of its life as methods.

    All raise CancelledError and StoppedError if the sink must stop, and SinkqlError.
    """

    host: SinkHost
    follower: WorkloadFollower
    control: SinkControl
    retries: Retries
    status: StatusReporter
    batches: BatchTracker
    _sessions: list[SparkSession] = field(default_factory=list, init=False)
    _claimed: tuple[BatchLoop, PlacedEngine] | None = field(default=None, init=False)

    @property
    def _job(self) -> physical.Job:
        return self.follower.work.job

    @property
    def _context(self) -> Context:
        return self.host.contexts(self._job)

    def look(self) -> Seen:
        """Look at the sink's assignment and at what users want."""
        moved = self.follower.update() == "moved"
        seen = Seen(moved, "running" if moved else self.control.desired(now=True))
        if seen == Seen(False, "running") and not self.control.is_stopping():
            self.status.report_name()
        return seen

    def renew(self) -> None:
        """Renew the sink's lease."""
        self.host.control.renew(self._job.sink_id, owner=self.status.owner)

    def await_views(self) -> None:
        """Wait until the views that the sink reads have all present input."""
        wait_for_views(self._job, self.host, self.control.is_stopping)

    def claim_table(self, epoch: int) -> None:
        """Claim the table in the turn of its catalog."""
        self.status.report_stage("opening the table")
        engine = self.engine()
        self._claimed = self.claim(epoch, engine), engine
        self.status.loop = self._claimed[0]

    def commit_pending(self) -> Ready:
        """Commit what precedes the first scheduled batch: a full refresh, unread output, a replay.

        Raises ReassignedError if the sink's job changes during a full refresh.
        """
        loop, _ = self._claim_of()
        self._commit_pending(loop)
        return Ready(loop.caught_up(), reason_for_spark(self._job) is not None)

    def open_spark(self) -> None:
        """Wait until Spark runs."""
        self.status.report_stage("waiting for Spark")
        with self.host.spark.in_use():
            self._session()

    def run_batches(self) -> BatchesEnded:
        """Run batches until the sink ends or its job changes; raises OutdatedStartError and the error of a batch."""
        return BatchesEnded(self._run_batches(*self._claim_of()))

    def _claim_of(self) -> tuple[BatchLoop, PlacedEngine]:
        if self._claimed is None:
            raise RuntimeError("the table is not claimed")
        return self._claimed

    def engine(self) -> PlacedEngine:
        """Return the engine of the incarnation's batches."""
        return self.host.spark.engine(self._session, self._job.buckets or self.host.spark.buckets)

    def claim(self, epoch: int, engine: PlacedEngine) -> BatchLoop:
        """Claim the table in the turn of its catalog; return the started batch loop."""
        host, job, context = self.host, self._job, self._context
        loop = BatchLoop(
            job, self._readers(), host.registry.writer(job.write, context), engine, context.folder, host.control,
            host.progress, MaintenanceBudget(stops=self.control.is_stopping), before_commit=self.batches.begin_commit,
            dead_letters=open_dead_letter_table(host.registry, job, context),
            state_directory=StateDirectory.of(context), since_ms=host.since_ms, ticks=context.ticks, renew=self.renew,
        )  # fmt: skip
        with host.claim_queues[job.write.connection.name].wait_turn(self.control.is_stopping):
            loop.start(epoch=epoch, once=host.once)
        return loop

    def _readers(self) -> dict[str, Reader]:
        context = self._context
        readers = {read.source: self.host.registry.reader(read, context) for read in self._job.reads()}
        return with_clock(self._job, readers)

    def _commit_pending(self, loop: BatchLoop) -> None:
        if loop.needs_full_refresh():
            self._refresh(loop)
        self.status.conflicts = loop.conflicts()
        if loop.has_unread_output():
            with self.batches.hold():
                loop.commit_batch(loop.checkpoint.end, loop.checkpoint.end)
        run_replay_request(loop, self._context.notes, self.batches.lock, self.control.is_stopping)

    def _refresh(self, loop: BatchLoop) -> None:
        """Run a full refresh. A sink that must stop, or whose job changes, interrupts it.

        A new name or cluster takes effect afterwards.
        """
        looked_at = 0.0

        def between(step: Rereading, rows: int) -> None:
            nonlocal looked_at
            if self.control.is_stopping():
                raise StoppedError
            now = clock.monotonic()
            if now < looked_at + _LOOK_SECONDS:
                return
            looked_at = now
            if self.follower.outdated() or self.control.desired() != "running":
                raise ReassignedError
            self.host.progress(SinkRereading(self._job.sink, step, rows))
            self.status.record("starting", details={"rebuild": {"step": step, "rows": rows}})

        with self.batches.hold():
            loop.full_refresh(between)

    def _session(self) -> SparkSession:
        """Return the session of a running Spark, which this incarnation then depends on."""
        session = self.host.spark.session()
        if session not in self._sessions:
            self._sessions.append(session)
        return session

    def spark_death(self) -> SinkqlError | None:
        """Return the error of a Spark that this incarnation used and that died; another sink may have restarted it."""
        deaths = (self.host.spark.death(session) for session in self._sessions)
        return next((error for error in deaths if error is not None), None)

    # --- batches under the scheduler -----------------------------------------------------------------------------

    def _run_batches(self, loop: BatchLoop, engine: PlacedEngine) -> Ending | None:
        readers = self._readers()
        pacer = Pacer(
            readers,
            next_temporal_change=lambda: loop.next_temporal_change,
            timeline=self._timeline(readers),
            room=lambda: engine.room(loop.job),
        )
        needs_spark = reason_for_spark(self._job) is not None
        scheduled = ScheduledSink(
            pacer, pacing_orders(loop), self.process(loop, engine), self.control.wake, needs_spark=needs_spark
        )
        self.status.scheduled = scheduled
        if not self.host.once:
            loop.maintenance.budget.left = lambda: self.host.scheduler.idle_seconds(scheduled)
        try:
            if self.control.is_stopping():
                return "stopped"
            self.status.report_stage("starting the query")
            self.host.scheduler.add(scheduled)
            self.batches.ran = True
            self.host.progress(SinkStarted(self._job.sink, loop.checkpoint.epoch, scheduled.orders.start))
            self.status.record("running")
            return self.control.watch(loop, scheduled, self.batches.lock)
        finally:
            self.control.leave(scheduled)

    def _timeline(self, readers: Mapping[str, Reader]) -> Timeline:
        context = self._context
        return Timeline.from_job(self._job, readers, context.folder, context.ticks, since_ms=self.host.since_ms)

    def process(self, loop: BatchLoop, engine: PlacedEngine) -> Process:
        """Return the function by which the scheduler commits a batch of this incarnation."""
        first, handed_over = True, False

        def process(start: JobOffsets, end: JobOffsets, more: bool, place: Place) -> float | BatchDone:
            nonlocal first, handed_over
            if self.batches.lock.locked():
                return _TURN_SECONDS
            with self.batches.hold():
                if first:
                    first = False
                    self.status.report_stage("first batch")
                if self.control.is_stopping():
                    raise StoppedError
                chosen = engine.in_process if place == "in process" else engine.spark if handed_over else engine
                failpoint.point("batch-placed")
                try:
                    loop.commit_batch(start, end, more=more, engine=chosen)
                except SparkNeededError:
                    handed_over = True
                    failpoint.point("spark-needed")
                    self.status.report_stage("waiting for Spark")
                    raise
                except SinkqlError as error:
                    wait = None if self.control.is_stopping() else self.retries.seconds_until(error)
                    if wait is None:
                        raise
                    self.status.report_stall(error, wait)
                    return wait
                if self.retries.failures or loop.conflicts() != self.status.conflicts:
                    self.retries.failures, self.status.conflicts = 0, loop.conflicts()
                    self.status.record("running")
                handed_over = False
            if loop.caught_up():
                self.control.wake.set()
            return BatchDone(loop.checkpoint.end, loop.last_place)

        return process
