"""The jobs of one cluster → a Spark application in this process, a thread a sink, until all have ended."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector.registry import Registry
from sinkql.connector.stream import Context
from sinkql.errors import SinkqlError
from sinkql.runtime import spark
from sinkql.runtime.control import Control
from sinkql.runtime.progress import Progress, SparkStarted, SparkStarting
from sinkql.runtime.runner import Cluster, SinkOutcome, SinkRun

Contexts = Callable[[physical.Job], Context]

_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold what a run is given but its jobs."""

    contexts: Contexts
    registry: Registry
    control: Control
    progress: Progress
    once: bool
    takeover: bool


def run_here(jobs: Sequence[physical.Job], wanted: Wanted, stopping: threading.Event) -> list[SinkOutcome]:
    """Run the jobs, all of one cluster, until each has ended; `stopping` lets them end after their running batches.

    Where Spark does not start, each sink fails with SQ4003.
    """
    job = jobs[0]
    folder = wanted.contexts(job).folder.parent / "spark" / f"{job.cluster}-{os.getpid()}"
    settings = spark.Settings(job.master, job.conf, folder, f"sinkql {job.cluster}")
    session: Future[SparkSession] = Future()
    cluster = Cluster(
        session.result,
        spark.buckets(settings),
        wanted.registry,
        wanted.control,
        wanted.progress,
        once=wanted.once,
        takeover=wanted.takeover,
        stopping=stopping,
    )
    runs = [SinkRun(cluster, each, wanted.contexts(each)) for each in jobs]
    ended = threading.Event()
    with ThreadPoolExecutor(len(runs) + 2, "sinkql") as threads:
        threads.submit(_start, settings, session, job.cluster, wanted.progress)
        threads.submit(_renew, wanted.control, runs, ended)
        running = [threads.submit(each.run) for each in runs]
        try:
            while not all(each.done() for each in running):
                time.sleep(_LOOK_SECONDS)
                if stopping.is_set():
                    for each in runs:
                        each.wake.set()
        finally:
            ended.set()
            _end(settings, session)
    return [each.result() for each in running]


def _start(settings: spark.Settings, session: Future[SparkSession], cluster: str, progress: Progress) -> None:
    progress(SparkStarting(cluster))
    began = time.monotonic()
    try:
        session.set_result(spark.start(settings))
    except BaseException as error:
        session.set_exception(error)
        return
    progress(SparkStarted(cluster, time.monotonic() - began))


def _end(settings: spark.Settings, session: Future[SparkSession]) -> None:
    """Stop Spark and delete its files but the log."""
    with suppress(SinkqlError):
        spark.stop(session.result())
    for path in settings.folder.iterdir():
        if path != settings.log:
            _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _renew(control: Control, runs: Sequence[SinkRun], ended: threading.Event) -> None:
    """Prolong the leases; a sink whose lease is somebody else's now is told so."""
    while not ended.wait(control.lease_seconds / 3):
        for each in runs:
            if not each.leased:
                continue
            try:
                control.renew(each.job.sink_id, owner=each.owner)
            except SinkqlError as error:
                # A catalog that cannot be written now may be at the next turn, before the lease has run out.
                if error.code == "SQ5202":
                    each.lost = error
                    each.wake.set()
