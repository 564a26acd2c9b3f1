"""Jobs → their sinks running in Spark, one application a cluster, until all have ended; then their outcomes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

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


def run(
    jobs: Sequence[physical.Job],
    *,
    contexts: Contexts,
    registry: Registry,
    control: Control,
    once: bool,
    takeover: bool,
    progress: Progress,
) -> list[SinkOutcome]:
    """Run the jobs until each has ended, in the order given; a failing one does not stop the others.

    The first SIGINT or SIGTERM lets running batches finish, the second ends the process at once. Raises SinkqlError
    SQ40xx where Spark cannot start.
    """
    spark.check_java()
    first = jobs[0].cluster
    mine = [job for job in jobs if job.cluster == first]
    settings = spark.Settings(mine[0].master, mine[0].conf, _folder(contexts(mine[0]), first), f"sinkql {first}")
    session: Future[SparkSession] = Future()
    cluster = Cluster(
        session.result, spark.buckets(settings), registry, control, progress, once=once, takeover=takeover
    )
    runs = [SinkRun(cluster, job, contexts(job)) for job in mine]
    with _signals(cluster), ThreadPoolExecutor(len(runs) + 2, "sinkql") as threads:
        threads.submit(_start, settings, session, first, progress)
        ended = [threads.submit(each.run) for each in runs]
        renewal = threading.Event()
        threads.submit(_renew, control, runs, renewal)
        try:
            while not all(each.done() for each in ended):
                time.sleep(_LOOK_SECONDS)
                if cluster.stopping.is_set():
                    for each in runs:
                        each.wake.set()
        finally:
            cluster.stopping.set()
            renewal.set()
            with suppress(SinkqlError):
                spark.stop(session.result())
    return [each.result() for each in ended]


def _folder(context: Context, cluster: str) -> Path:
    return context.folder.parent / "spark" / f"{cluster}-{os.getpid()}"


def _start(settings: spark.Settings, session: Future[SparkSession], cluster: str, progress: Progress) -> None:
    progress(SparkStarting(cluster))
    began = time.monotonic()
    try:
        session.set_result(spark.start(settings))
    except BaseException as error:
        session.set_exception(error)
        return
    progress(SparkStarted(cluster, time.monotonic() - began))


def _renew(control: Control, runs: Sequence[SinkRun], ended: threading.Event) -> None:
    """Prolong the leases; a sink whose lease is somebody else's now is told so."""
    while not ended.wait(control.lease_seconds / 3):
        for each in runs:
            if not each.leased:
                continue
            try:
                control.renew(each.job.sink_id, owner=each.owner)
            except SinkqlError as error:
                # A catalog that cannot be written now may be writable at the next turn, before the lease has run out.
                if error.code == "SQ5202":
                    each.lost = error
                    each.wake.set()


@contextmanager
def _signals(cluster: Cluster) -> Iterator[None]:
    """Stop at the first SIGINT or SIGTERM, end the process at the second; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if cluster.stopping.is_set():
            os._exit(128 + number)
        cluster.stopping.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
