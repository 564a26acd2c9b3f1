"""The sinks of one cluster → a Spark application in this process, a thread a sink, until all have ended."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.allocator import keep_freed
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.stream import Context
from sinkql.errors import LeaseHeldError, LeaseLostError, SinkqlError, UnforeseenError
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.events import Progress, SparkStarted, SparkStarting
from sinkql.runtime.process.capture_processes import CaptureDirectory
from sinkql.runtime.sink.host import SharedSpark, SinkHost, SinkOutcome
from sinkql.runtime.sink.runner import SinkRunner
from sinkql.runtime.sink.workload import SinkAssignment, Workload
from sinkql.runtime.spark import session as spark
from sinkql.runtime.spark.jvm import PATIENCE_SECONDS as JVM_PATIENCE_SECONDS
from sinkql.runtime.spark.scratch_folder import ScratchFolder
from sinkql.runtime.spark.setting_path import with_absolute_paths

Contexts = Callable[[physical.Job], Context]

_LOOK_SECONDS = 0.2
_ROSTER_SECONDS = 0.5
_LINGER_SECONDS = 30.0
_MEASURE_SECONDS = 1.0
_MOST_OF_NAME = 100  # a cluster's name may be longer than that of a file
_PATIENCE_SECONDS = 1.0
"""How long what runs no batch may take to stop: a table's catalog, or a file system, may not answer for minutes."""
_DYING_SECONDS = 0.5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a process is to run: the sinks of `roster`, each with its context, and whom to tell.

    With `once` a sink ends when what was there at its start is committed; with `takeover` it takes the lease of another
    process; with `stay` sinks that come later are run too, and those that are to run again. Without either a sink that
    failed runs again once users ask for it, or something of it changes, as long as others run here. `desk` tells which
    sources are to be captured for them. The Spark of the cluster `submitted` is in the JVM that started this process.
    """

    roster: Workload
    contexts: Contexts
    registry: Registry
    control: Control
    progress: Progress
    once: bool
    takeover: bool
    stay: bool = False
    desk: CaptureDirectory | None = None
    submitted: str | None = None


def run_application(name: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
    """Run the sinks of cluster `name` until each has ended; `stopping` lets them end after their running batches.

    Spark starts when the first sink is leased; where it does not, each sink fails with SQ4003. With `stay` the run
    ends once no sink of the cluster is to run for a while.
    """
    works = _of_cluster(name, workload.roster)
    if not works:
        return []
    keep_freed()
    application = _Application(workload, stopping, _Spark(works[0].job, workload, stopping), works)
    application.run()
    return [outcome for _, outcome in application.ended.values()]


def _of_cluster(name: str, roster: Workload) -> list[SinkAssignment]:
    return [work for work in roster.now() if work.job.cluster == name]


class _Spark:
    """Start a cluster's Spark once somebody needs it."""

    def __init__(self, job: physical.Job, workload: RunSpec, stopping: threading.Event) -> None:
        self.cluster = job.cluster
        plain = re.sub(r"[^\w.-]", "_", job.cluster, flags=re.ASCII)[:_MOST_OF_NAME]
        context = workload.contexts(job)
        self._folder = ScratchFolder(context.folder.parent / "spark", plain)
        self.settings = spark.SparkSettings(
            job.master,
            with_absolute_paths(job.conf, context.path),
            self._folder.path,
            f"sinkql {job.cluster}",
            submitted=job.remote and job.cluster == workload.submitted,
        )
        self._progress = workload.progress
        self._stopping = stopping
        self._starting = spark.SparkStart(self.settings)
        self._died: list[tuple[SparkSession, SinkqlError]] = []
        self._beginning = threading.Lock()

    def begin(self) -> None:
        """Start it in the background, unless that was done; again where it died, or another try may succeed."""
        began = time.monotonic()
        self._folder.take()
        with self._beginning:
            if self._starting.failed:
                self._starting = spark.SparkStart(self.settings)
            code = self._starting.death()
            if code is not None:
                self._died.append((self._starting.result(), self._starting.starved or self._death(code)))
                self._starting.end()
                self._starting = spark.SparkStart(self.settings)
            if self._starting.begin(lambda: self._progress(SparkStarted(self.cluster, time.monotonic() - began))):
                self._progress(SparkStarting(self.cluster))

    def death(self, session: SparkSession) -> SinkqlError | None:
        """Return the error of a session's Spark if it died, or got no executors, also where another was begun since.

        One that answers no more may be about to end: its connections go first.
        """
        self._starting.wait(_DYING_SECONDS)
        with self._beginning:
            code, starved = self._starting.death(), self._starting.starved
            if (code is not None or starved is not None) and self._starting.result() is session:
                return starved or self._death(code or 0)
            return next((error for died, error in self._died if died is session), None)

    def _death(self, code: int) -> SinkqlError:
        return UnforeseenError(
            "SQ4004",
            f'the Java process of cluster "{self.cluster}" ended',
            detail=f"signal {-code}" if code < 0 else f"exit code {code}",
            hint=f"Spark starts again, and the sink continues. If it goes on, see {self.settings.log}; the machine may "
            "have too little memory.",
        )

    def session(self) -> SparkSession:
        """Wait until it is up, and elsewhere for an executor; raises as `start` and `try_executor` do.

        CancelledError where all is to stop before that.
        """
        self.begin()
        while True:
            starting = self._starting
            try:
                session = starting.result(_LOOK_SECONDS)
            except TimeoutError:
                if self._stopping.is_set():
                    starting.cancel()
                continue
            starting.try_executor(self._stopping.is_set)
            return session

    def shared(self) -> SharedSpark:
        """Return what sinks use of it."""
        return SharedSpark(
            self.session,
            spark.bucket_count(self.settings),
            self.settings.folder / "lanes",
            most_workers=spark.worker_count(self.settings),
            prepare=self.begin,
            death=self.death,
        )

    def end(self, patience: float) -> None:
        """Stop it, by force after `patience` seconds, and delete its files but the log."""
        if not self._starting.begun:
            return
        self._starting.end(patience)
        self._folder.release()


@dataclass(slots=True)
class _Application:
    """Run sinks beside each other; `ended` is how those that run no more ended, and with which work."""

    workload: RunSpec
    stopping: threading.Event
    spark: _Spark
    first: Sequence[SinkAssignment]
    running: dict[str, tuple[SinkRunner, Future[SinkOutcome]]] = field(default_factory=dict)
    ended: dict[str, tuple[SinkAssignment, SinkOutcome]] = field(default_factory=dict)
    _looked_at: float = 0.0
    _busy_at: float = 0.0
    _stopped_at: float | None = None

    def run(self) -> None:
        ended = threading.Event()
        host = self._host()
        renewing = _in_thread(lambda: self._renew(ended))
        _in_thread(lambda: self._measure(ended))
        patience = JVM_PATIENCE_SECONDS
        try:
            for work in self.first:
                if not self.workload.stay or self.workload.takeover or self._startable(work):
                    self._begin(work, host)
            self._looked_at = self._busy_at = time.monotonic()
            while self._goes_on():
                time.sleep(_LOOK_SECONDS)
                self._settle()
                self._retire()
                if self.stopping.is_set():
                    for run, _ in self.running.values():
                        run.wake.set()
                    for claiming in list(host.claiming.values()):
                        claiming.look()
                    if self._stuck():
                        patience = _PATIENCE_SECONDS
                        self._leave()
                elif not self.workload.once and time.monotonic() > self._looked_at + _ROSTER_SECONDS:
                    self._look(host)
        finally:
            ended.set()
            if not self.spark.settings.killable:
                host.scheduler.close()
            self.spark.end(patience)
        futures.wait([renewing], _PATIENCE_SECONDS)

    def _stuck(self) -> bool:
        """Tell whether what is to stop takes too long, and no batch is the reason."""
        now = time.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
        if now <= self._stopped_at + _PATIENCE_SECONDS:
            return False
        return not any(run.batches.is_busy for run, _ in self.running.values())

    def _leave(self) -> None:
        """End without the sinks that do not answer: their threads end with the process."""
        for sink_id, (run, _) in list(self.running.items()):
            outcome = run.release_for_move()
            if outcome is not None:
                del self.running[sink_id]
                self.ended[sink_id] = (run.work, self._told(run, outcome))

    def _told(self, run: SinkRunner, outcome: SinkOutcome) -> SinkOutcome:
        """Say of a sink that was stopped whether it had run."""
        early = outcome.ending == "stopped" and not run.batches.ran and self.stopping.is_set()
        return replace(outcome, early=True) if early else outcome

    def _host(self) -> SinkHost:
        workload = self.workload
        return SinkHost(
            self.spark.shared(),
            workload.registry,
            workload.control,
            workload.progress,
            workload.roster,
            workload.contexts,
            once=workload.once,
            stopping=self.stopping,
        )

    def _begin(self, work: SinkAssignment, host: SinkHost) -> None:
        # Who was taken over himself does not take over again: two would do so for ever.
        takeover = self.workload.takeover and work.job.sink_id not in self.ended
        run = SinkRunner(host, work, takeover=takeover)
        self.running[work.job.sink_id] = (run, _in_thread(run.run))

    def _goes_on(self) -> bool:
        if self.running:
            return True
        return self.workload.stay and not self.stopping.is_set() and time.monotonic() < self._busy_at + _LINGER_SECONDS

    def _retire(self) -> None:
        """End the views that were run for sinks which have all ended."""
        if self.workload.stay or self.workload.once:
            return
        sinks = [work for work in self.first if work.job.write.connector != physical.VIEW]
        views = [run for run, _ in self.running.values() if run.job.write.connector == physical.VIEW]
        if sinks and len(views) == len(self.running):
            for run in views:
                run.end_unstarted()

    def _settle(self) -> None:
        for sink_id, (run, future) in list(self.running.items()):
            if future.done():
                del self.running[sink_id]
                self.ended[sink_id] = (run.work, self._told(run, future.result()))

    def _look(self, host: SinkHost) -> None:
        """Begin what has come to be in the roster, and what failed and is to run again."""
        self._looked_at = time.monotonic()
        try:
            works = _of_cluster(self.spark.cluster, self.workload.roster)
            if works:
                self._busy_at = self._looked_at
            for work in works:
                wanted = self.workload.stay or self._failed(work)
                if wanted and work.job.sink_id not in self.running and self._startable(work):
                    self._begin(work, host)
        except SinkqlError:
            return  # a catalog that cannot be read now is asked again

    def _failed(self, work: SinkAssignment) -> bool:
        """Tell whether a sink that users want to run ended with an error that another try would end with too."""
        before = self.ended.get(work.job.sink_id)
        return work.asked_at is not None and before is not None and _waits(before[1])

    def _startable(self, work: SinkAssignment) -> bool:
        """Tell whether a sink may begin: what failed only after something of it changed."""
        before = self.ended.get(work.job.sink_id)
        if before is not None and _waits(before[1]) and before[0] == work:
            return False
        return not self.workload.control.held(work.job.sink_id)

    def _measure(self, ended: threading.Event) -> None:
        """Have all sinks say how far they are, until the end; who waits for a source then holds up nothing else."""
        while not ended.wait(_MEASURE_SECONDS):
            for run, _ in list(self.running.values()):
                with suppress(Exception):  # a figure that is missing ends no sink
                    run.status.report_progress()

    def _renew(self, ended: threading.Event) -> None:
        """Prolong the leases; a sink whose lease is somebody else's now is told so."""
        while not ended.wait(self.workload.control.lease_seconds / 3):
            leased = {run.sink_id: run for run, _ in list(self.running.values()) if run.leased}
            if not leased:
                continue
            try:
                lost = self.workload.control.renew_all({sink_id: run.owner for sink_id, run in leased.items()})
            except SinkqlError:
                # A catalog that cannot be written now may be at the next turn, before the lease has run out.
                continue
            for sink_id, error in lost.items():
                leased[sink_id].lose_lease(error)


def _in_thread(function: Callable[[], _T]) -> Future[_T]:
    """Call a function in a thread that keeps no process from ending."""
    future: Future[_T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="sinkql", daemon=True).start()
    return future


def _waits(outcome: SinkOutcome) -> bool:
    """Tell whether another try would end in the same way; one who lost to another waits for that one's end alone."""
    return outcome.error is not None and not isinstance(outcome.error, LeaseHeldError | LeaseLostError)
