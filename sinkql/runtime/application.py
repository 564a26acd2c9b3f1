"""The sinks of one cluster → a Spark application in this process, a thread a sink, until all have ended."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector.registry import Registry
from sinkql.connector.stream import Context
from sinkql.errors import SinkqlError
from sinkql.runtime import spark
from sinkql.runtime.cluster import Cluster, SinkOutcome
from sinkql.runtime.control import Control
from sinkql.runtime.progress import Progress, SparkStarted, SparkStarting
from sinkql.runtime.roster import Roster, Work
from sinkql.runtime.runner import SinkRun

Contexts = Callable[[physical.Job], Context]

_LOOK_SECONDS = 0.2
_ROSTER_SECONDS = 0.5
_LINGER_SECONDS = 30.0
_MOST_OF_NAME = 100  # a cluster's name may be longer than that of a file
_MOST_THREADS = 10_000  # they are made as they are needed


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold what a run is given. With `stay` it takes sinks that come later too, and those that are to run again."""

    roster: Roster
    contexts: Contexts
    registry: Registry
    control: Control
    progress: Progress
    once: bool
    takeover: bool
    stay: bool = False


def run_here(name: str, wanted: Wanted, stopping: threading.Event) -> list[SinkOutcome]:
    """Run the sinks of cluster `name` until each has ended; `stopping` lets them end after their running batches.

    Spark starts when the first sink is leased; where it does not, each sink fails with SQ4003. With `stay` the run
    ends once no sink of the cluster is to run for a while.
    """
    works = _of_cluster(name, wanted.roster)
    if not works:
        return []
    application = _Application(wanted, stopping, _Spark(works[0].job, wanted), works)
    with ThreadPoolExecutor(_MOST_THREADS, "sinkql") as threads:
        application.run(threads)
    return [outcome for _, outcome in application.ended.values()]


def _of_cluster(name: str, roster: Roster) -> list[Work]:
    return [work for work in roster.now() if work.job.cluster == name]


class _Spark:
    """Start a cluster's Spark once somebody needs it."""

    def __init__(self, job: physical.Job, wanted: Wanted) -> None:
        self.cluster = job.cluster
        plain = re.sub(r"[^\w.-]", "_", job.cluster, flags=re.ASCII)[:_MOST_OF_NAME]
        folder = wanted.contexts(job).folder.parent / "spark" / f"{plain}-{os.getpid()}"
        self.settings = spark.Settings(job.master, job.conf, folder, f"sinkql {job.cluster}")
        self._progress = wanted.progress
        self._session: Future[SparkSession] = Future()
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Start it in the background, unless that was done."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
        threading.Thread(target=self._start, daemon=True).start()

    def session(self) -> SparkSession:
        """Wait until it is up; raises SQ4001 to SQ4003."""
        self.begin()
        return self._session.result()

    def end(self) -> None:
        """Stop it and delete its files but the log."""
        if not self._begun:
            return
        with suppress(SinkqlError):
            spark.stop(self._session.result())
        for path in self.settings.folder.iterdir():
            if path != self.settings.log:
                _delete(path)

    def _start(self) -> None:
        self._progress(SparkStarting(self.cluster))
        began = time.monotonic()
        try:
            self._session.set_result(spark.start(self.settings))
        except BaseException as error:
            self._session.set_exception(error)
            return
        self._progress(SparkStarted(self.cluster, time.monotonic() - began))


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@dataclass(slots=True)
class _Application:
    """Run sinks beside each other; `ended` is how those that run no more ended, and with which work."""

    wanted: Wanted
    stopping: threading.Event
    spark: _Spark
    first: Sequence[Work]
    running: dict[str, tuple[SinkRun, Future[SinkOutcome]]] = field(default_factory=dict)
    ended: dict[str, tuple[Work, SinkOutcome]] = field(default_factory=dict)
    _looked_at: float = 0.0
    _busy_at: float = 0.0

    def run(self, threads: ThreadPoolExecutor) -> None:
        ended = threading.Event()
        cluster = self._cluster()
        threads.submit(self._renew, ended)
        try:
            for work in self.first:
                if not self.wanted.stay or self.wanted.takeover or self._startable(work):
                    self._begin(work, cluster, threads)
            self._looked_at = self._busy_at = time.monotonic()
            while self._goes_on():
                time.sleep(_LOOK_SECONDS)
                self._settle()
                if self.stopping.is_set():
                    for run, _ in self.running.values():
                        run.wake.set()
                elif self.wanted.stay and time.monotonic() > self._looked_at + _ROSTER_SECONDS:
                    self._look(cluster, threads)
        finally:
            ended.set()
            self.spark.end()

    def _cluster(self) -> Cluster:
        wanted = self.wanted
        return Cluster(
            self.spark.session,
            spark.buckets(self.spark.settings),
            wanted.registry,
            wanted.control,
            wanted.progress,
            wanted.roster,
            wanted.contexts,
            once=wanted.once,
            prepare=self.spark.begin,
            stopping=self.stopping,
        )

    def _begin(self, work: Work, cluster: Cluster, threads: ThreadPoolExecutor) -> None:
        # Who was taken over himself does not take over again: two would do so for ever.
        takeover = self.wanted.takeover and work.job.sink_id not in self.ended
        run = SinkRun(cluster, work, takeover=takeover)
        self.running[work.job.sink_id] = (run, threads.submit(run.run))

    def _goes_on(self) -> bool:
        if self.running:
            return True
        return self.wanted.stay and not self.stopping.is_set() and time.monotonic() < self._busy_at + _LINGER_SECONDS

    def _settle(self) -> None:
        for sink_id, (run, future) in list(self.running.items()):
            if future.done():
                del self.running[sink_id]
                self.ended[sink_id] = (run.work, future.result())

    def _look(self, cluster: Cluster, threads: ThreadPoolExecutor) -> None:
        """Begin what has come to be in the roster."""
        self._looked_at = time.monotonic()
        try:
            works = _of_cluster(self.spark.cluster, self.wanted.roster)
            if works:
                self._busy_at = self._looked_at
            for work in works:
                if work.job.sink_id not in self.running and self._startable(work):
                    self._begin(work, cluster, threads)
        except SinkqlError:
            return  # a catalog that cannot be read now is asked again

    def _startable(self, work: Work) -> bool:
        """Tell whether a sink may begin: what failed only after something of it changed."""
        before = self.ended.get(work.job.sink_id)
        if before is not None and _waits(before[1]) and before[0] == work:
            return False
        return not self.wanted.control.held(work.job.sink_id)

    def _renew(self, ended: threading.Event) -> None:
        """Prolong the leases; a sink whose lease is somebody else's now is told so."""
        while not ended.wait(self.wanted.control.lease_seconds / 3):
            for run, _ in list(self.running.values()):
                if not run.leased:
                    continue
                try:
                    self.wanted.control.renew(run.sink_id, owner=run.owner)
                except SinkqlError as error:
                    # A catalog that cannot be written now may be at the next turn, before the lease has run out.
                    if error.code == "SQ5202":
                        run.lost = error
                        run.wake.set()


def _waits(outcome: SinkOutcome) -> bool:
    """Tell whether another try would end in the same way; one who lost to another waits for that one's end alone."""
    return outcome.error is not None and outcome.error.code not in ("SQ5201", "SQ5202")
