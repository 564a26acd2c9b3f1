"""Run the sinks of one cluster in this process: one Spark application, one thread for each sink."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sinkql import physical
from sinkql.allocator import keep_freed
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.stream import Context
from sinkql.errors import LeaseHeldError, LeaseLostError, SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.events import Progress
from sinkql.runtime.process.capture_processes import CaptureDirectory
from sinkql.runtime.sink.host import SharedSpark, SinkHost, SinkOutcome
from sinkql.runtime.sink.runner import SinkRunner
from sinkql.runtime.sink.workload import SinkAssignment, Workload
from sinkql.runtime.spark.application import SparkApplication
from sinkql.runtime.spark.settings import PATIENCE_SECONDS as JVM_PATIENCE_SECONDS

Contexts = Callable[[physical.Job], Context]

_LOOK_SECONDS = 0.2
_WORKLOAD_SECONDS = 0.5
_LINGER_SECONDS = 30.0
_MEASURE_SECONDS = 1.0
_PATIENCE_SECONDS = 1.0
"""How long a sink without a running batch may take to stop: a catalog or store may not answer for minutes."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a process runs: the sinks of the workload `workload`, with their contexts.

    * `once`: a sink ends when it has committed the input that existed at its start.
    * `takeover`: a sink takes the lease of another process.
    * `stay`: sinks that are added later run too, and so do sinks that users start again. Without `stay` and `once`, a
      failed sink runs again if users start it or its assignment changes, as long as other sinks run here.
    * `captures`: the sources to capture for the sinks.
    * `submitted`: the cluster whose Spark is in the JVM that started this process.
    """

    workload: Workload
    contexts: Contexts
    registry: Registry
    control: Control
    progress: Progress
    once: bool
    takeover: bool
    stay: bool = False
    captures: CaptureDirectory | None = None
    submitted: str | None = None


def run_application(name: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
    """Run the sinks of cluster `name` until each has ended; `stopping` ends them after their running batches.

    Spark starts when the first sink has its lease; if Spark fails, each sink fails with SQ4003. With `stay` the run
    ends when no sink of the cluster has run for a while.
    """
    assignments = _assignments_of(name, workload.workload)
    if not assignments:
        return []
    keep_freed()
    jobs = [work.job for work in assignments]
    spark = SparkApplication(
        jobs, workload.contexts(jobs[0]), workload.progress, stopping, submitted=name == workload.submitted
    )
    application = _Application(workload, stopping, spark, assignments)
    application.serve()
    return [outcome for _, outcome in application.ended.values()]


def _assignments_of(name: str, workload: Workload) -> list[SinkAssignment]:
    return [work for work in workload.now() if work.job.cluster == name]


@dataclass(slots=True)
class _Application:
    """The sinks of a cluster that run in threads; `ended` has the assignment and outcome of each ended sink."""

    workload: RunSpec
    stopping: threading.Event
    spark: SparkApplication
    first: Sequence[SinkAssignment]
    running: dict[str, tuple[SinkRunner, Future[SinkOutcome]]] = field(default_factory=dict)
    ended: dict[str, tuple[SinkAssignment, SinkOutcome]] = field(default_factory=dict)
    _has_ended: threading.Event = field(default_factory=threading.Event)
    _workload_read_at: float = 0.0
    _busy_at: float = 0.0
    _stopped_at: float | None = None

    def serve(self) -> None:
        """Run sinks until all have ended and none is expected; then stop Spark."""
        ended = threading.Event()
        host = self._host()
        renewal = _in_thread(lambda: self._renew(ended))
        _in_thread(lambda: self._measure(ended))
        patience = JVM_PATIENCE_SECONDS
        try:
            for work in self.first:
                if not self.workload.stay or self.workload.takeover or self._can_begin(work):
                    self._begin(work, host)
            self._workload_read_at = self._busy_at = clock.monotonic()
            while self._has_work():
                clock.sleep(_LOOK_SECONDS)
                self._collect_outcomes()
                self._end_unread_views()
                if self.stopping.is_set():
                    for runner, _ in self.running.values():
                        runner.wake.set()
                    for queue in list(host.claim_queues.values()):
                        queue.look()
                    if self._is_stuck():
                        patience = _PATIENCE_SECONDS
                        self._abandon_stuck()
                elif not self.workload.once and clock.monotonic() > self._workload_read_at + _WORKLOAD_SECONDS:
                    self._begin_wanted(host)
        finally:
            ended.set()
            if not self.spark.settings.killable:
                host.scheduler.close()
            self.spark.end(patience)
        futures.wait([renewal], _PATIENCE_SECONDS)

    def _is_stuck(self) -> bool:
        """Return whether stopping takes too long although no batch is worth waiting for."""
        now = clock.monotonic()
        if self._stopped_at is None:
            self._stopped_at = now
        if now <= self._stopped_at + _PATIENCE_SECONDS:
            return False
        return not any(runner.batches.is_busy for runner, _ in self.running.values())

    def _abandon_stuck(self) -> None:
        """Release the leases of sinks that do not answer; their threads end with the process."""
        for sink_id, (runner, _) in list(self.running.items()):
            outcome = runner.release_for_move()
            if outcome is not None:
                del self.running[sink_id]
                self.ended[sink_id] = (runner.assignment, self._with_early(runner, outcome))

    def _with_early(self, runner: SinkRunner, outcome: SinkOutcome) -> SinkOutcome:
        """Return the outcome, marked as early if the sink was stopped before it ran."""
        early = outcome.ending == "stopped" and not runner.batches.ran and self.stopping.is_set()
        return replace(outcome, early=True) if early else outcome

    def _host(self) -> SinkHost:
        workload = self.workload
        return SinkHost(
            SharedSpark.of(self.spark),
            workload.registry,
            workload.control,
            workload.progress,
            workload.workload,
            workload.contexts,
            once=workload.once,
            stopping=self.stopping,
        )

    def _begin(self, work: SinkAssignment, host: SinkHost) -> None:
        # After a takeover, the sink does not take over again: two processes would do so for ever.
        takeover = self.workload.takeover and work.job.sink_id not in self.ended
        runner = SinkRunner(host, work, takeover=takeover)
        future = _in_thread(runner.run)
        self.running[work.job.sink_id] = (runner, future)
        future.add_done_callback(lambda _: self._has_ended.set())

    def _has_work(self) -> bool:
        if self.running:
            return True
        return self.workload.stay and not self.stopping.is_set() and clock.monotonic() < self._busy_at + _LINGER_SECONDS

    def _end_unread_views(self) -> None:
        """End the jobs of views if all sinks that read them have ended."""
        if self.workload.stay or self.workload.once:
            return
        sinks = [work for work in self.first if work.job.write.connector != physical.VIEW]
        if sinks and all(runner.job.write.connector == physical.VIEW for runner, _ in self.running.values()):
            for runner, _ in self.running.values():
                runner.end_unstarted()

    def _collect_outcomes(self) -> None:
        if not self._has_ended.is_set():
            return
        self._has_ended.clear()  # a sink that ends from now on sets it again
        for sink_id, (runner, future) in list(self.running.items()):
            if future.done():
                del self.running[sink_id]
                self.ended[sink_id] = (runner.assignment, self._with_early(runner, future.result()))

    def _begin_wanted(self, host: SinkHost) -> None:
        """Begin sinks that were added to the workload, and failed ones that must run again."""
        self._workload_read_at = clock.monotonic()
        try:
            assignments = _assignments_of(self.spark.cluster, self.workload.workload)
            if assignments:
                self._busy_at = self._workload_read_at
            for work in assignments:
                is_wanted = self.workload.stay or self._is_restarted(work)
                if is_wanted and work.job.sink_id not in self.running and self._can_begin(work):
                    self._begin(work, host)
        except SinkqlError:
            return  # the catalog is read again later

    def _is_restarted(self, work: SinkAssignment) -> bool:
        """Return whether users have started a sink that failed here with a permanent error."""
        before = self.ended.get(work.job.sink_id)
        return work.asked_at is not None and before is not None and _is_permanent_failure(before[1])

    def _can_begin(self, work: SinkAssignment) -> bool:
        """Return whether a sink may begin; a failed one may if its assignment has changed."""
        before = self.ended.get(work.job.sink_id)
        if before is not None and _is_permanent_failure(before[1]) and before[0] == work:
            return False
        return not self.workload.control.is_held(work.job.sink_id)

    def _measure(self, ended: threading.Event) -> None:
        """Report the progress of all sinks until the end, in a thread that a slow source may delay."""
        while not clock.wait(ended, _MEASURE_SECONDS):
            for runner, _ in list(self.running.values()):
                with suppress(Exception):  # a missing figure ends no sink
                    runner.status.report_progress()

    def _renew(self, ended: threading.Event) -> None:
        """Extend the leases until the end; stop the sinks whose lease another process has taken."""
        while not clock.wait(ended, self.workload.control.lease_seconds / 3):
            leased = {runner.sink_id: runner for runner, _ in list(self.running.values()) if runner.leased}
            if not leased:
                continue
            try:
                lost = self.workload.control.renew_all({sink_id: runner.owner for sink_id, runner in leased.items()})
            except SinkqlError:
                # The next turn may succeed before the leases expire.
                continue
            for sink_id, error in lost.items():
                leased[sink_id].lose_lease(error)


def _in_thread(function: Callable[[], _T]) -> Future[_T]:
    """Call a function in a thread that does not keep the process alive."""
    future: Future[_T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="sinkql", daemon=True).start()
    return future


def _is_permanent_failure(outcome: SinkOutcome) -> bool:
    """Return whether a retry would fail in the same way. A fenced sink only waits for the other process to end."""
    return outcome.error is not None and not isinstance(outcome.error, LeaseHeldError | LeaseLostError)
