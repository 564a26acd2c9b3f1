"""One sink of a cluster: lease → claim → batches, again after what may pass, until it ends; then its outcome."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector_api.stream import Context, JobOffsets, Reader
from sinkql.errors import FencedError, LateError, LeaseHeldError, LeaseLostError, SinkqlError, UnforeseenError
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.batch.clock import with_clock
from sinkql.runtime.batch.control import Desired, Status
from sinkql.runtime.batch.dead_letter import open_dead_letter_table
from sinkql.runtime.batch.events import (
    Ending,
    Rereading,
    SinkReached,
    SinkRereading,
    SinkStage,
    SinkStalled,
    SinkStarted,
    SinkStarting,
    SinkStopped,
    Stage,
)
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.metrics import ProgressMeter
from sinkql.runtime.batch.pacing import MaintenanceBudget, Pacer, PacingOrders
from sinkql.runtime.batch.scheduler import Process, ScheduledSink
from sinkql.runtime.batch.timeline import Timeline
from sinkql.runtime.sink.host import SinkHost, SinkOutcome
from sinkql.runtime.sink.requests import WaitReplies, run_optimize_request, run_replay_request
from sinkql.runtime.sink.wait_for_views import wait_for_views
from sinkql.runtime.sink.workload import SinkAssignment, WorkloadFollower
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.runtime.spark.session import CancelledError
from sinkql.state_store.directory import StateDirectory

_LOOK_SECONDS = 1.0
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 20.0
_TRIES_FIRST = 2
_TRIES_UNFORESEEN = 3
_FOR_EVER = 1 << 30
_TURN_SECONDS = 0.02
"""How long a batch waits, in no lane, before it asks again whether OPTIMIZE has done a part of its work."""
_YOUNG_SECONDS = 30.0
"""A first batch that began so long ago has hardly more behind it than the start of Spark's processes."""


class _StoppedError(Exception):
    """Say that a batch is not begun, or not committed, because the sink is to stop."""


class _OtherWorkError(Exception):
    """Say that a rebuild is broken off, because the sink is to do something else, or nothing."""


@dataclass(slots=True)
class SinkRunner:
    """Run one sink in the calling thread, following what the roster says of it.

    `lost` is set, by who renews the lease, when somebody else has it; `ran` once the conductor has had it, or it
    committed, unless its first batch is broken off.
    """

    host: SinkHost
    first: SinkAssignment
    takeover: bool = False
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    leased: bool = False
    lost: SinkqlError | None = None
    ran: bool = False
    wake: threading.Event = field(default_factory=threading.Event)
    _batch: threading.Lock = field(default_factory=threading.Lock)
    _edge: threading.Lock = field(default_factory=threading.Lock)
    _first_at: float | None = None
    _committed: bool = False
    _ran: bool = False
    _failures: int = 0
    _conflicts: int = 0
    _stop_asked: bool = False
    _left: bool = False
    _told: str | None = None
    _sessions: list[SparkSession] = field(default_factory=list)
    _following: WorkloadFollower = field(init=False)
    _loop: BatchLoop | None = None
    _seat: ScheduledSink | None = None
    _meter: ProgressMeter = field(init=False)
    _answers: WaitReplies = field(default_factory=WaitReplies)

    def __post_init__(self) -> None:
        self._following = WorkloadFollower(self.host.roster, self.first, self.first.job.cluster, self.host.once)
        self._meter = ProgressMeter(self.sink_id, self.host.control, self.host.progress)

    @property
    def work(self) -> SinkAssignment:
        """Return what is run now."""
        return self._following.work

    @property
    def job(self) -> physical.Job:
        """Return the job as it is run now."""
        return self.work.job

    @property
    def context(self) -> Context:
        """Return what the job's parts may use."""
        return self.host.contexts(self.job)

    @property
    def sink_id(self) -> str:
        """Return the sink's id, which no change of its job changes."""
        return self.first.job.sink_id

    @property
    def busy(self) -> bool:
        """Tell whether a batch runs, or is waited for; at any other time little is lost where the process ends.

        A run's batches do not count until the first of them commits, or has run for a while.
        """
        young = self._first_at is not None and time.monotonic() < self._first_at + _YOUNG_SECONDS
        return self._batch.locked() and not young

    def report_progress(self, *, last: bool = False) -> None:
        """Say how far the sink is in its sources; called each second by a thread for all sinks, and at the `last`."""
        loop, seat = self._loop, self._seat
        if loop is not None:
            waits = seat is not None and seat.stalls
            at, state = loop.marker.end, loop.report.metrics.now
            tick = loop.marker.tick
            self._meter.sample(loop.job.sink, loop.readers, at, waits=waits, last=last, state=state, tick=tick)

    def release_for_move(self) -> SinkOutcome | None:
        """Say of a sink that does not answer, and whose process ends, that it is stopped; others may take it.

        It commits nothing from then on. None where a batch runs by now that is waited for.
        """
        with self._edge:
            if self.busy:
                return None
            self._left = True
            self.ran = self.ran and (self._committed or not self._batch.locked())
        outcome = SinkOutcome(self.job.sink, "stopped")
        with suppress(SinkqlError):
            self._note(outcome)
            self.host.control.release(self.sink_id, owner=self.owner)
        self._tell_end(outcome)
        return outcome

    def run(self) -> SinkOutcome:
        """Run the sink until it is to stop, has caught up (`once`), or cannot go on; never raises a SinkqlError."""
        control = self.host.control
        while True:
            try:
                epoch = control.acquire(self.sink_id, owner=self.owner, takeover=self.takeover)
                break
            except LeaseHeldError as error:
                ending = self._elsewhere()
                if ending is not None:
                    return self._end(SinkOutcome(self.job.sink, ending))
                if not self._view:
                    return self._end(self._failed(error))
            except SinkqlError as error:
                if not isinstance(error, LateError) or not self._again(error):
                    return self._end(self._failed(error))
        self.leased = True
        self.host.prepare()
        try:
            outcome = self._run(epoch)
            if outcome.ending == "caught up":
                with suppress(Exception):  # a figure that is missing ends no sink
                    self.report_progress(last=True)
            self._note(outcome)
        except SinkqlError as error:
            outcome = SinkOutcome(self.job.sink, "failed", error)
        finally:
            self.leased = False
            with suppress(LateError):  # it runs out by itself, and this process is seen to have ended
                control.release(self.sink_id, owner=self.owner)
        return self._end(outcome)

    def end_unstarted(self) -> None:
        """End after the running batch: nothing here reads the view any more."""
        self._stop_asked = True
        self.wake.set()

    @property
    def _view(self) -> bool:
        return self.job.write.connector == physical.VIEW

    def _elsewhere(self) -> Ending | None:
        """Wait for a moment where another process runs a view; return how this one ends, None where it tries again.

        Those that read the view read what the other process commits.
        """
        if not self._view:
            return None
        if self.host.once:
            self.host.elsewhere.add(self.sink_id)
            return "caught up"
        self.host.stopping.wait(_LOOK_SECONDS)
        return "stopped" if self._stops() else None

    def _end(self, outcome: SinkOutcome) -> SinkOutcome:
        if outcome.ending == "failed" and outcome.error is not None:
            self.host.failed[self.sink_id] = f"{outcome.error.code}: {outcome.error.message}"
        if self.sink_id not in self.host.elsewhere:
            self.host.ended.add(self.sink_id)
        if not self._left:
            self._tell_end(outcome)
        return outcome

    def _tell_end(self, outcome: SinkOutcome) -> None:
        self.host.progress(SinkStopped(outcome.sink, outcome.ending, outcome.error))

    def _run(self, epoch: int) -> SinkOutcome:
        self._status("starting")
        while True:
            try:
                ending: Ending | None = self._incarnation(epoch)
            except (CancelledError, _StoppedError):
                ending = "stopped"
            except _OtherWorkError:
                continue
            except OutdatedStartError as error:
                self._failures += 1
                if self._failures > _TRIES_UNFORESEEN:
                    return self._failed(failure.unforeseen(error))
                continue
            except SinkqlError as error:
                if not self._again(error, between=True):
                    return self._failed(error)
                continue
            except Exception as error:
                coded = self._death() or failure.with_code(error)
                if not self._again(coded, between=True):
                    return self._failed(coded)
                continue
            if ending == "stopped" and self.lost is not None:
                return self._failed(self.lost)
            if ending is not None:
                return SinkOutcome(self.job.sink, ending)

    def _failed(self, error: SinkqlError) -> SinkOutcome:
        if isinstance(error, LateError) and self.host.stopping.is_set():
            return SinkOutcome(self.job.sink, "stopped")
        fenced = isinstance(error, FencedError | LeaseLostError)
        named = failure.name_source(error, self.job.reads())
        return SinkOutcome(self.job.sink, "fenced" if fenced else "failed", named)

    def _note(self, outcome: SinkOutcome) -> None:
        match outcome.ending:
            case "caught up" | "stopped" | "moved" | "renamed":
                self._status("stopped")
            case "dropped":
                self._status("dropped")
            case "fenced":
                self._status("fenced", outcome.error)
            case "failed":
                self._status("failed", outcome.error)

    def _status(
        self, status: Status, error: SinkqlError | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        if self._conflicts and error is None and details is None:
            details = {"conflicting_keys": self._conflicts}
        with suppress(LateError):  # of a catalog that is locked: no sink ends because it could not tell how it is
            self.host.control.status(
                self.sink_id,
                status,
                owner=self.owner,
                error=f"{error.code}: {error.message}" if error is not None else None,
                hint=error.hint if error is not None else None,
                details=details,
            )

    def _spark(self) -> SparkSession:
        """Return the session of a Spark that runs, which the incarnation uses from here on."""
        session = self.host.session()
        if session not in self._sessions:
            self._sessions.append(session)
        return session

    def _death(self) -> SinkqlError | None:
        """Return the error of a Spark of this incarnation that died; another sink may have begun a new one since."""
        return next((error for each in self._sessions if (error := self.host.death(each)) is not None), None)

    def _stage(self, stage: Stage) -> None:
        self.host.progress(SinkStage(self.job.sink, stage))

    # --- one incarnation: a claim, and the seat at the conductor that goes with it ---------------------------------

    def _incarnation(self, epoch: int) -> Ending | None:
        self._sessions.clear()
        if self._following.take() == "moved":
            return "moved"
        wish = self._desired(now=True)
        if wish != "running":  # also of a sink that only waits to try again
            return wish
        if self._stops():
            return "stopped"
        self._tell_name()
        if self._ran:
            # Whoever took the sink over has the table too: claiming it again would be a fight without end.
            self._renew()
        if self.host.once:
            wait_for_views(self.job, self.host, self._stops)
        if self._stops():
            return "stopped"
        self._stage("opening the table")
        loop = self._loop = self._claim(epoch)
        self._ran = True
        if loop.needs_full_refresh():
            self._rebuild(loop)
        self._conflicts = loop.conflicts()
        if loop.has_unread_output():
            with self._in_batch():
                loop.process(loop.marker.end, loop.marker.end)
        run_replay_request(loop, self.context.notes, self._batch, self._stops)
        if loop.caught_up():
            return "caught up"
        self._stage("waiting for Spark")
        self._spark()
        readers = self._readers()
        pacer = Pacer(readers, comes=lambda: loop.next_temporal_change, timeline=self._timeline(readers))
        seat = self._seat = ScheduledSink(pacer, self._orders(loop), self._process(loop), self.wake)
        if not self.host.once:
            loop.maintenance.budget.left = lambda: self.host.conductor.idle_seconds(seat)
        try:
            if self._stops():
                return "stopped"
            self._stage("starting the query")
            self.host.conductor.add(seat)
            self.ran = True
            self.host.progress(SinkStarted(self.job.sink, loop.marker.epoch, seat.orders.begin))
            self._status("running")
            return self._watch(loop, seat)
        finally:
            self._leave_seat(seat)

    def _readers(self) -> dict[str, Reader]:
        readers = {read.source: self.host.registry.reader(read, self.context) for read in self.job.reads()}
        return with_clock(self.job, readers)

    def _timeline(self, readers: Mapping[str, Reader]) -> Timeline:
        return Timeline.of(self.job, readers, self.context.folder, self.context.ticks, since_ms=self.host.since_ms)

    def _orders(self, loop: BatchLoop) -> PacingOrders:
        return PacingOrders(loop.marker.end, self.job.commit_interval, self.job.max_rows_per_commit, loop.targets)

    def _rebuild(self, loop: BatchLoop) -> None:
        """Have all rows of the table computed again; a sink that is to stop, or to do other work, breaks that off.

        One that gets another name or cluster does so afterwards.
        """
        self._stage("waiting for Spark")
        self.host.session()
        looked = 0.0

        def between(step: Rereading, rows: int) -> None:
            nonlocal looked
            if self._stops():
                raise _StoppedError
            now = time.monotonic()
            if now < looked + _LOOK_SECONDS:
                return
            looked = now
            if self._following.outdated() or self._desired() != "running":
                raise _OtherWorkError
            self.host.progress(SinkRereading(self.job.sink, step, rows))
            self._status("starting", details={"rebuild": {"step": step, "rows": rows}})

        with self._in_batch():
            loop.full_refresh(between)

    def _tell_name(self) -> None:
        """Tell under which name the sink runs, at first and where it was renamed."""
        name, told = self.job.sink, self._told
        if name == told:
            return
        self._told = name
        if told is not None:
            self.host.progress(SinkStopped(told, "renamed"))
        self.host.progress(SinkStarting(name, self.job.cluster, view=self.job.view))

    def _renew(self) -> None:
        self.host.control.renew(self.sink_id, owner=self.owner)

    def _claim(self, epoch: int) -> BatchLoop:
        host, job = self.host, self.job
        writer = host.registry.writer(job.write, self.context)
        engine = SparkEngine(self._spark, buckets=job.buckets or host.buckets)
        loop = BatchLoop(
            job, self._readers(), writer, engine, self.context.folder, host.control, host.progress,
            MaintenanceBudget(stops=self._stops), before_commit=self._commits,
            dead_letters=open_dead_letter_table(host.registry, job, self.context),
            state_directory=StateDirectory.of(self.context), since_ms=host.since_ms, ticks=self.context.ticks,
            renew=self._renew,
        )  # fmt: skip
        with host.claiming[job.write.connection.name].wait_turn(self._stops):
            loop.start(epoch=epoch, once=host.once)
        return loop

    def _process(self, loop: BatchLoop) -> Process:
        first = True

        def process(start: JobOffsets, end: JobOffsets, more: bool) -> float | JobOffsets:  # the conductor gives it
            nonlocal first
            if self._batch.locked():
                return _TURN_SECONDS
            with self._in_batch():
                if first:
                    first = False
                    self._stage("first batch")
                if self._stops():
                    raise _StoppedError
                try:
                    loop.process(start, end, more=more)
                except SinkqlError as error:
                    wait = self._stall(error)
                    if wait is None:
                        raise
                    return wait
                if self._failures or loop.conflicts() != self._conflicts:
                    self._failures, self._conflicts = 0, loop.conflicts()
                    self._status("running")
            if loop.caught_up():
                self.wake.set()
            return loop.marker.end

        return process

    @contextmanager
    def _in_batch(self) -> Iterator[None]:
        with self._batch:
            if not self._committed:
                self._first_at = time.monotonic()
            try:
                yield
            finally:
                self._first_at = None

    def _commits(self) -> None:
        """Let a batch commit, which is waited for from here on; raises _StoppedError where its sink was left."""
        with self._edge:
            if self._left:
                raise _StoppedError
            self._first_at, self._committed, self.ran = None, True, True

    def _watch(self, loop: BatchLoop, seat: ScheduledSink) -> Ending | None:
        """Wait until a batch fails, the sink is to stop, or it has caught up; raise what failed."""
        while True:
            self.wake.wait(_LOOK_SECONDS)
            self.wake.clear()
            if loop.caught_up():
                return "caught up"
            if self.lost is not None:
                raise self.lost
            if self._stops():
                return "stopped"
            match self._desired():
                case "dropped":
                    return "dropped"
                case "stopped":
                    return "stopped"
                case "running":
                    pass
            if seat.error is not None:
                raise seat.error
            if not seat.stalls:
                if self._asked():
                    run_optimize_request(loop, self.host.control, self._batch, self._stops_or_leaves)
                run_replay_request(loop, self.context.notes, self._batch, self._stops_or_leaves)
                done = self._answers.reply(self.host.waits.pending(self.context), loop, self.context, self._batch)
                if done:
                    self.host.progress(SinkReached(self.job.sink, done))
            if self._batch.acquire(blocking=False):
                try:
                    loop.maintenance.refresh_files()
                finally:
                    self._batch.release()
            change = self._following.take()
            if change == "moved":
                return "moved"
            if change == "other":
                return None
            self._pace(loop, seat)

    def _pace(self, loop: BatchLoop, seat: ScheduledSink) -> None:
        """Let the batches to come keep the job's interval and limit."""
        ran, now = loop.job, self.job
        if (ran.commit_interval, ran.max_rows_per_commit) != (now.commit_interval, now.max_rows_per_commit):
            loop.job = self.job
            self.host.conductor.reschedule(seat, self._orders(loop))

    def _stops_or_leaves(self) -> bool:
        return self._stops() or self._desired() != "running"

    def _desired(self, *, now: bool = False) -> Desired:
        watch = self.host.watch
        try:
            return watch.now(self.sink_id) if now else watch.desired(self.sink_id)
        except SinkqlError:
            return "running"  # a catalog that cannot be read now is asked again; the lease tells whether it matters

    def _asked(self) -> bool:
        try:
            return self.host.watch.asked(self.sink_id)
        except SinkqlError:
            return False  # it is asked again

    def _leave_seat(self, seat: ScheduledSink) -> None:
        """Wait for the batch that runs, and let no other begin."""
        stop_asked, self._stop_asked = self._stop_asked, True
        self.host.conductor.remove(seat)
        self._stop_asked = stop_asked

    def _stops(self) -> bool:
        return self._stop_asked or self.lost is not None or self.host.stopping.is_set()

    def _stall(self, error: SinkqlError) -> float | None:
        """Say that the sink waits for what may pass; return for how long, longer each time, or None if it does not."""
        if self._stops() or self._failures >= self._tries(error):
            return None
        failure.name_source(error, self.job.reads())
        wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self._failures, 10))
        self._failures += 1
        with suppress(SinkqlError):  # on a full disk the catalog takes no status either: that must not end the sink
            self._status("stalled", error)
        self.host.progress(SinkStalled(self.job.sink, error, timedelta(seconds=wait)))
        return wait

    def _again(self, error: SinkqlError, *, between: bool = False) -> bool:
        """Wait for what may pass; tell whether to try again.

        `between` incarnations the wait ends where the sink changes, or is to stop.
        """
        wait = self._stall(error)
        if wait is None:
            return False
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0 and not self._stops():
            self.host.stopping.wait(min(left, 0.2))
            if between and (self._following.differs() or self._desired() != "running"):
                break
        return not self._stops()

    def _tries(self, error: SinkqlError) -> int:
        if isinstance(error, LateError):
            return _FOR_EVER
        if isinstance(error, UnforeseenError):
            return _TRIES_UNFORESEEN
        if not error.retryable:
            return 0
        # Before the first claim the user is likely there to see the error; later a sink waits as long as it takes.
        return _TRIES_FIRST if not self._ran or self.host.once else _FOR_EVER
