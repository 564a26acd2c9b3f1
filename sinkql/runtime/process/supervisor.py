"""Run the sinks of a workload, one process for each cluster, and return their outcomes."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType

from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.events import Event, JavaMissing, Progress, SinkElsewhere, SinkStopped
from sinkql.runtime.process.application import RunSpec, run_application
from sinkql.runtime.process.capture_processes import captures_running
from sinkql.runtime.process.child import Child, settings
from sinkql.runtime.process.signals import StopSignal, watch_parent
from sinkql.runtime.sink.host import SinkOutcome
from sinkql.runtime.sink.workload import SinkAssignment
from sinkql.runtime.spark.java import is_java_missing
from sinkql.runtime.spark.settings import submitted

_LOOK_SECONDS = 0.2
_LONGEST_WAIT = 60.0


def run_until_done(workload: RunSpec) -> list[SinkOutcome]:
    """Run the present workload until each sink has ended; return the outcomes in the order of the workload.

    A sink that fails does not stop the rest. The first SIGINT, SIGTERM or SIGHUP lets running batches finish; the
    second ends the process immediately. A process has one Spark application, so further clusters get forked processes.
    Errors of the progress listener are printed.
    """
    workload = _with_safe_progress(workload)
    works = workload.workload.now()
    workload = replace(workload, submitted=_submitted(works))
    first, *others = _by_cluster(works).items()
    stopping, children = StopSignal(), list[Child]()
    capturing = captures_running(workload.captures, ahead=not workload.once)
    with _signals(stopping, children), capturing as captures, captures.watched(stopping.set):
        try:
            for _, assignments in others:
                if not stopping.is_set():
                    children.append(Child.start(assignments, workload, children))
            outcomes = run_application(first[0], workload, stopping)
        except BaseException:
            stopping.set()
            raise
        finally:
            while any(child.alive() for child in children):
                if stopping.is_set():  # also a child that was started while the signal arrived
                    for child in children:
                        child.stop()
                clock.sleep(_LOOK_SECONDS)
    for child in children:
        outcomes += child.outcomes()
    by_sink = {outcome.sink: replace(outcome, signal=stopping.number) for outcome in outcomes}
    unstarted = (SinkOutcome(work.job.sink, "stopped", early=True, signal=stopping.number) for work in works)
    ended = [by_sink.get(outcome.sink, outcome) for outcome in unstarted]
    if not captures.lost:
        return ended
    return [_as_uncaptured(outcome) if outcome.ending == "stopped" else outcome for outcome in ended]


def _as_uncaptured(outcome: SinkOutcome) -> SinkOutcome:
    """Return the outcome of a sink that was stopped because its sources are no longer captured."""
    error = SinkqlError(
        "SQ4004",
        "the process that captures sources ended",
        hint="Start the sinks again; they continue where they stopped.",
    )
    return SinkOutcome(outcome.sink, "failed", error)


def run_until_stopped(workload: RunSpec) -> list[SinkOutcome]:
    """Run the workload and follow its changes until a signal; return the last outcome of each sink.

    Signals work as in `run_until_done`. Each cluster has a separate process, which is started again if it dies or if
    its settings change. With `once`, only the present workload runs, until all of its sinks have ended.
    """
    fleet = _Fleet(replace(_with_safe_progress(workload), stay=not workload.once))
    stopping = StopSignal()
    with _signals(stopping, fleet.children), captures_running(workload.captures) as captures:
        fleet.update()
        while fleet.children or not (stopping.is_set() or workload.once):
            clock.sleep(_LOOK_SECONDS)
            fleet.collect_outcomes(stopping)
            if stopping.is_set():
                fleet.stop()
            elif not workload.once:
                captures.look()
                fleet.update()
    return [replace(outcome, signal=stopping.number) for outcome in fleet.outcomes.values()]


def _with_safe_progress(workload: RunSpec) -> RunSpec:
    """Return the workload with a listener that never stops a sink, after a notice about a missing Java."""
    progress = _without_errors(workload.progress)
    if is_java_missing():
        progress(JavaMissing())
    return replace(workload, progress=progress)


def _without_errors(progress: Progress) -> Progress:
    """Wrap `progress` so that a failing listener never stops a sink."""

    def report(event: Event) -> None:
        try:
            progress(event)
        except Exception:
            with suppress(OSError):
                traceback.print_exc()

    return report


def _submitted(works: Sequence[SinkAssignment]) -> str | None:
    """Return the cluster whose Spark is in the JVM that started this process: the first remote one."""
    return next((work.job.cluster for work in works if work.job.remote), None) if submitted() else None


def _by_cluster(works: Sequence[SinkAssignment]) -> dict[str, list[SinkAssignment]]:
    clusters: dict[str, list[SinkAssignment]] = {}
    for work in works:
        clusters.setdefault(work.job.cluster, []).append(work)
    return clusters


@dataclass(slots=True)
class _Fleet:
    """The processes of the clusters that have sinks to run."""

    workload: RunSpec
    children: list[Child] = field(default_factory=list)
    outcomes: dict[str, SinkOutcome] = field(default_factory=dict)
    _elsewhere: set[str] = field(default_factory=set)
    _deaths: dict[str, int] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)

    def update(self) -> None:
        """Start processes for clusters that need one, and stop those with outdated settings."""
        try:
            workload = self.workload.workload.now()
            if self.workload.submitted is None:
                self.workload = replace(self.workload, submitted=_submitted(workload))
            clusters = _by_cluster(workload)
            for cluster, works in clusters.items():
                child = next((child for child in self.children if child.cluster == cluster), None)
                if child is not None and child.settings != settings(works[0]):
                    child.stop()  # it is started again once it has ended
                free = works if self.workload.once else [work for work in works if self._is_free(work, child)]
                if child is None and free and clock.monotonic() >= self._not_before.get(cluster, 0.0):
                    self.children.append(Child.start(free, self.workload, self.children))
        except SinkqlError:
            return  # the catalog is read again later

    def stop(self) -> None:
        """Stop all processes after their running batches, also one that was started while the signal arrived."""
        for child in self.children:
            child.stop()

    def collect_outcomes(self, stopping: threading.Event) -> None:
        """Collect the outcomes of processes that have ended."""
        for child in [child for child in self.children if not child.alive()]:
            self.children.remove(child)
            for outcome in child.outcomes():
                self.outcomes[outcome.sink] = outcome
                if child.died():
                    self.workload.progress(SinkStopped(outcome.sink, outcome.ending, outcome.error))
            deaths = self._deaths.get(child.cluster, 0) + 1 if child.died() and not stopping.is_set() else 0
            self._deaths[child.cluster] = deaths
            self._not_before[child.cluster] = clock.monotonic() + (min(_LONGEST_WAIT, 2.0**deaths) if deaths else 0)

    def _is_free(self, work: SinkAssignment, child: Child | None) -> bool:
        """Return whether no process runs a sink; report once that another process does."""
        job = work.job
        runs_here = any(job.sink in child.sinks for child in self.children)
        held = not runs_here and self.workload.control.is_held(job.sink_id)
        if held and child is None and not self.workload.takeover and job.sink_id not in self._elsewhere:
            self._elsewhere.add(job.sink_id)
            self.workload.progress(SinkElsewhere(job.sink, view=job.view))
        if not held:
            self._elsewhere.discard(job.sink_id)
        return not runs_here and (not held or self.workload.takeover)


@contextmanager
def _signals(stopping: StopSignal, children: Collection[Child]) -> Iterator[None]:
    """Stop at the first SIGINT, SIGTERM or SIGHUP, and kill all processes at the second; main thread only.

    A process that a JVM started stops with it. An ignored SIGHUP, as under nohup, stays ignored. A SIGHUP is never the
    second signal, because one hang-up may send several.
    """
    if submitted():
        watch_parent(os.getppid(), stopping)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        first = stopping.number is None and not stopping.is_set()
        if not first and number == signal.SIGHUP:
            return
        if not first:
            for child in children:
                child.kill()
            os._exit(128 + number)
        stopping.signalled(number)
        for child in children:
            child.stop()

    handlers: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue
        handlers[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
