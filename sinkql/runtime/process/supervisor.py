"""A roster → its sinks running, a process a cluster; then their outcomes."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import FrameType

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import Event, Progress, SinkElsewhere, SinkStopped
from sinkql.runtime.process.application import RunSpec, run_application
from sinkql.runtime.process.capture_processes import captures_running
from sinkql.runtime.process.child import Child, settings
from sinkql.runtime.process.signals import StopSignal, watch_parent
from sinkql.runtime.sink.host import SinkOutcome
from sinkql.runtime.sink.workload import SinkAssignment
from sinkql.runtime.spark import jvm
from sinkql.runtime.spark.java import check_java

_LOOK_SECONDS = 0.2
_LONGEST_WAIT = 60.0


def run_until_done(workload: RunSpec) -> list[SinkOutcome]:
    """Run what is in the roster now until each sink has ended; return their outcomes in the roster's order.

    A failing sink does not stop the others. The first SIGINT, SIGTERM or SIGHUP lets running batches finish, the second
    ends the process at once. A process holds one Spark application: the others get processes of their own, forked here.
    What telling of progress raises is printed. Raises SinkqlError SQ4001, SQ4002 without a fit Java.
    """
    check_java()
    workload = replace(workload, progress=_telling(workload.progress))
    works = workload.roster.now()
    workload = replace(workload, submitted=_submitted(works))
    first, *others = _by_cluster(works).items()
    stopping, children = StopSignal(), list[Child]()
    capturing = captures_running(workload.desk, ahead=not workload.once)
    with _signals(stopping, children), capturing as captures, captures.watched(stopping.set):
        try:
            for _, each in others:
                if not stopping.is_set():
                    children.append(Child.start(each, workload, children))
            outcomes = run_application(first[0], workload, stopping)
        except BaseException:
            stopping.set()
            raise
        finally:
            while any(child.alive() for child in children):
                if stopping.is_set():  # also one that was started as the signal came
                    for child in children:
                        child.stop()
                time.sleep(_LOOK_SECONDS)
    for child in children:
        outcomes += child.outcomes()
    found = {outcome.sink: replace(outcome, signal=stopping.number) for outcome in outcomes}
    unbegun = (SinkOutcome(work.job.sink, "stopped", early=True, signal=stopping.number) for work in works)
    ended = [found.get(outcome.sink, outcome) for outcome in unbegun]
    return [_uncaptured(each) if captures.lost and each.ending == "stopped" else each for each in ended]


def _uncaptured(outcome: SinkOutcome) -> SinkOutcome:
    """Return the outcome of a sink that was stopped as nothing more would have come to it."""
    error = SinkqlError(
        "SQ4004",
        "the process that keeps sources captured ended",
        hint="Start the sinks again; they continue where they stopped.",
    )
    return SinkOutcome(outcome.sink, "failed", error)


def run_until_stopped(workload: RunSpec) -> list[SinkOutcome]:
    """Run what is in the roster, and what comes into it, until a signal stops it; return how each sink ended last.

    Signals are as for `run_until_done`. Each cluster has a process of its own; one that dies, or whose settings change,
    is started again. With `once`, what is in the roster now is run, and the end is when all of it has ended.
    """
    check_java()
    fleet = _Fleet(replace(workload, stay=not workload.once, progress=_telling(workload.progress)))
    stopping = StopSignal()
    with _signals(stopping, fleet.children), captures_running(workload.desk) as captures:
        fleet.look()
        while fleet.children or not (stopping.is_set() or workload.once):
            time.sleep(_LOOK_SECONDS)
            fleet.settle(stopping)
            if stopping.is_set():
                fleet.stop()
            elif not workload.once:
                captures.look()
                fleet.look()
    return [replace(outcome, signal=stopping.number) for outcome in fleet.outcomes.values()]


def _telling(progress: Progress) -> Progress:
    """Return what tells as `progress` does, and never raises: no sink ends because nobody could be told how it is."""

    def tell(event: Event) -> None:
        try:
            progress(event)
        except Exception:
            with suppress(OSError):
                traceback.print_exc()

    return tell


def _submitted(works: Sequence[SinkAssignment]) -> str | None:
    """Return the cluster whose Spark is in the JVM that started this process: the first one elsewhere."""
    return next((work.job.cluster for work in works if work.job.remote), None) if jvm.submitted() else None


def _by_cluster(works: Sequence[SinkAssignment]) -> dict[str, list[SinkAssignment]]:
    found: dict[str, list[SinkAssignment]] = {}
    for work in works:
        found.setdefault(work.job.cluster, []).append(work)
    return found


@dataclass(slots=True)
class _Fleet:
    """Keep a process for each cluster that has something to run."""

    workload: RunSpec
    children: list[Child] = field(default_factory=list)
    outcomes: dict[str, SinkOutcome] = field(default_factory=dict)
    _elsewhere: set[str] = field(default_factory=set)
    _deaths: dict[str, int] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Start processes for clusters that need one, and end those that were started with other settings."""
        try:
            roster = self.workload.roster.now()
            if self.workload.submitted is None:
                self.workload = replace(self.workload, submitted=_submitted(roster))
            clusters = _by_cluster(roster)
            for cluster, works in clusters.items():
                child = next((each for each in self.children if each.cluster == cluster), None)
                if child is not None and child.settings != settings(works[0]):
                    child.stop()  # and start again once it has ended
                free = works if self.workload.once else [work for work in works if self._free(work, child)]
                if child is None and free and time.monotonic() >= self._not_before.get(cluster, 0.0):
                    self.children.append(Child.start(free, self.workload, self.children))
        except SinkqlError:
            return  # a catalog that cannot be read now is asked again

    def stop(self) -> None:
        """Let all processes end after their running batches, also one that was started as the signal came."""
        for child in self.children:
            child.stop()

    def settle(self, stopping: threading.Event) -> None:
        """Take in the outcomes of processes that ended."""
        for child in [each for each in self.children if not each.alive()]:
            self.children.remove(child)
            for outcome in child.outcomes():
                self.outcomes[outcome.sink] = outcome
                if child.died():
                    self.workload.progress(SinkStopped(outcome.sink, outcome.ending, outcome.error))
            deaths = self._deaths.get(child.cluster, 0) + 1 if child.died() and not stopping.is_set() else 0
            self._deaths[child.cluster] = deaths
            self._not_before[child.cluster] = time.monotonic() + (min(_LONGEST_WAIT, 2.0**deaths) if deaths else 0)

    def _free(self, work: SinkAssignment, child: Child | None) -> bool:
        """Tell whether a sink is there to be run; say it once of one that another process runs."""
        job = work.job
        mine = any(job.sink in each.sinks for each in self.children)
        held = not mine and self.workload.control.held(job.sink_id)
        if held and child is None and not self.workload.takeover and job.sink_id not in self._elsewhere:
            self._elsewhere.add(job.sink_id)
            self.workload.progress(SinkElsewhere(job.sink, view=job.view))
        if not held:
            self._elsewhere.discard(job.sink_id)
        return not mine and (not held or self.workload.takeover)


@contextmanager
def _signals(stopping: StopSignal, children: Collection[Child]) -> Iterator[None]:
    """Stop at the first SIGINT, SIGTERM or SIGHUP, end all processes at the second; only a main thread can.

    A process that a JVM started stops with it. A SIGHUP that is ignored, as nohup has it, stays ignored; it is never
    the second: several come of one hang-up.
    """
    if jvm.submitted():
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
