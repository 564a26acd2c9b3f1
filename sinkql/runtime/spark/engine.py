"""Run a job's operators and the splits of one batch in Spark, with Spark SQL only if it has something to compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.errors import SinkqlError
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.local.task import fusable, source_tallies
from sinkql.runtime.spark.diagnosis import diagnose
from sinkql.runtime.spark.execution.frames import Frames
from sinkql.runtime.spark.execution.task_rows import SqlNeededError, TaskRows, needs_sql
from sinkql.runtime.spark.task_report import task_reports
from sinkql.runtime.state import report


class SparkEngine:
    """Runs a job's batches in one Spark session. Buckets are Spark's hash partitions of the key columns."""

    bucketing = "spark-murmur3"
    exchanges_blobs = True
    """False leaves all exchanges to Spark SQL, for comparisons."""

    def __init__(self, session: Callable[[], SparkSession], *, buckets: int) -> None:
        """Get the session for the first batch only: it may be starting while tables are claimed."""
        self._session = session
        self.buckets = buckets
        self._needing_sql: set[str] = set()

    @property
    def spark(self) -> SparkSession:
        """Return the session."""
        return self._session()

    @property
    def parallelism(self) -> int:
        """Return the number of tasks that run together."""
        return max(1, int(self.spark.sparkContext.defaultParallelism))

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Run the batch; raises a task's SinkqlError unchanged, SQ3201 for an expression that failed for a row."""
        if self.exchanges_blobs and job.sink_id not in self._needing_sql:
            try:
                return self._execute(job, batch, sql=False)
            except SqlNeededError:
                self._needing_sql.add(job.sink_id)  # the next batches probably have such rows too
        return self._execute(job, batch, sql=True)

    def _execute(self, job: physical.Job, batch: Batch, *, sql: bool) -> Outcome:
        """Run the batch, with Spark SQL or as costs least; raises SqlNeededError too."""
        key = new_id()  # input data cannot contain it
        with task_reports(self.spark.sparkContext, key) as (leave, words):
            frames = Frames(self, job, batch, key, leave, words)
            try:
                return self._execute_once(frames, sql=sql)
            except SinkqlError:
                raise
            except Exception as error:
                if needs_sql(error, key):
                    raise SqlNeededError(key) from None
                frames.whole = True  # the error shows the row that fails
                row_error = failure.from_spark_error(error, key) or diagnose(
                    job, partial(frames.frame, sequence=False, first=False), error
                )
                if row_error is not None:
                    raise row_error from None
                raise
            finally:
                frames.close()

    def _execute_once(self, frames: Frames, *, sql: bool) -> Outcome:
        context, job = self.spark.sparkContext, frames.job
        context.setJobGroup(job.sink_id, f"sink {job.sink}")
        context.setLocalProperty("spark.scheduler.pool", job.sink_id)
        batch = frames.batch
        results = self._results(frames, sql=sql)
        totals, missing = source_tallies(frames.words, batch.splits)
        if missing:
            # Spark skips splits that it proves empty (WHERE false); they are read for their counts and errors.
            frames.read_only(missing)
            totals, missing = source_tallies(frames.words, batch.splits)
        assert not missing
        left = report.collect(frames.words, frames.stateful)
        batch.arrangements.home.fetched.update(left.fetched)
        return Outcome(results, totals, left.runs, left.flows, in_spark=True)

    def _results(self, frames: Frames, *, sql: bool) -> list[WriteResult]:
        """Run the batch in fused tasks, in tasks that exchange rows, or with Spark SQL: whichever costs least."""
        branches = fusable(frames.job.write) if frames.batch.task.buckets is None and not frames.here else None
        if branches is not None:
            return frames.fused(branches)
        rows = TaskRows(frames)
        if sql or not rows.computes_batch():
            return frames.written()
        try:
            return rows.written()
        finally:
            rows.close()
