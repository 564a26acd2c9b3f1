"""A cluster's Spark application: it starts when a batch needs it, starts again after it died, and rests when idle.

This module and what it imports need no pyspark until Spark starts.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError, UnforeseenError
from sinkql.machine import clock
from sinkql.runtime.batch.events import Progress, SparkRested, SparkStarted, SparkStarting
from sinkql.runtime.spark.scratch_folder import ScratchFolder
from sinkql.runtime.spark.setting_path import with_absolute_paths
from sinkql.runtime.spark.settings import SparkSettings
from sinkql.runtime.spark.task_modules import task_modules
from sinkql.storage import failpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sinkql.runtime.spark.session import SparkStart

_LOOK_SECONDS = 0.2
_NAME_LENGTH = 100  # a cluster's name may be longer than a file name
_DYING_SECONDS = 0.5


class SparkApplication:
    """The Spark of one cluster in this process; `submitted` if a JVM with its Spark started this process.

    Its Python workers load the modules that tasks of the `jobs` use when they start; other tasks load theirs later.
    """

    def __init__(
        self,
        jobs: Sequence[physical.Job],
        context: Context,
        progress: Progress,
        stopping: threading.Event,
        *,
        submitted: bool,
    ) -> None:
        job = jobs[0]
        self.cluster = job.cluster
        plain = re.sub(r"[^\w.-]", "_", job.cluster, flags=re.ASCII)[:_NAME_LENGTH]
        self._folder = ScratchFolder(context.folder.parent / "spark", plain)
        self.settings = SparkSettings(
            job.master,
            with_absolute_paths(job.conf, context.path),
            self._folder.path,
            f"sinkql {job.cluster}",
            submitted=job.remote and submitted,
            tasks=task_modules(jobs),
        )
        self._progress = progress
        self._stopping = stopping
        self._start: SparkStart | None = None
        self._uses = 0
        self._deaths: list[tuple[SparkSession, SinkqlError]] = []
        self._start_lock = threading.Lock()

    def begin(self) -> None:
        """Start Spark in the background unless it runs; start it again after it died or failed to start."""
        self._begun()

    def _begun(self) -> SparkStart:
        from sinkql.runtime.spark.session import SparkStart  # pyspark is imported with the first start

        began = clock.monotonic()
        self._folder.take()
        with self._start_lock:
            start = self._start
            if start is not None and (code := start.death()) is not None:
                self._deaths.append((start.result(), start.starved or self._death_error(code)))
                start.end()
                start = None
            if start is None or start.failed:
                start = self._start = SparkStart(self.settings)
            if start.begin(lambda: self._progress(SparkStarted(self.cluster, clock.monotonic() - began))):
                self._progress(SparkStarting(self.cluster))
                failpoint.point("spark-starting")
        return start

    def death(self, session: SparkSession) -> SinkqlError | None:
        """Return the error of a session's Spark if it died or got no executors, even if another was started since.

        Connections fail before the process ends, so this waits a moment for the end.
        """
        start = self._start
        if start is None:
            return None
        start.wait(_DYING_SECONDS)
        with self._start_lock:
            code, starved = start.death(), start.starved
            if (code is not None or starved is not None) and start.result() is session:
                return starved or self._death_error(code or 0)
            return next((error for dead, error in self._deaths if dead is session), None)

    def _death_error(self, code: int) -> SinkqlError:
        return UnforeseenError(
            "SQ4004",
            f'the Java process of cluster "{self.cluster}" ended',
            detail=f"signal {-code}" if code < 0 else f"exit code {code}",
            hint=f"Spark starts again, and the sink continues. If it ends again, see {self.settings.log}: the machine "
            "may have too little memory.",
        )

    def session(self) -> SparkSession:
        """Wait until Spark runs, and on a remote cluster for an executor; raises as `start` and `try_executor` do.

        Raises CancelledError if the process must stop first.
        """
        start = self._begun()
        while True:
            try:
                session = start.result(_LOOK_SECONDS)
            except TimeoutError:
                if self._stopping.is_set():
                    start.cancel()
                continue
            start.try_executor(self._stopping.is_set)
            return session

    def is_up(self) -> bool:
        """Return whether Spark runs, or a start has failed, so that waiting for it does not help."""
        start = self._start
        return start is not None and start.is_up

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep Spark from resting for the block, in which its session is used."""
        with self._start_lock:
            self._uses += 1
        try:
            yield
        finally:
            with self._start_lock:
                self._uses -= 1

    def rest(self) -> None:
        """Stop Spark until it is needed again, unless it is in use. The JVM that started this process never rests."""
        with self._start_lock:
            start = self._start
            if start is None or self._uses or self.settings.submitted:
                return
            self._start = None
            failpoint.point("spark-resting")
            start.end()
            failpoint.point("spark-rested")
        self._progress(SparkRested(self.cluster))

    def end(self, patience: float) -> None:
        """Stop Spark, by force after `patience` seconds, and delete its files except the log."""
        start = self._start
        if start is not None:
            start.end(patience)
        self._folder.release()
