"""Run a batch in this process if it can, and in Spark otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from sinkql import physical
from sinkql.connector_api.stream import Limit
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, SparkNeededError
from sinkql.storage import failpoint


class PlacedEngine:
    """The two engines of a sink, which have the same buckets and continue from each other's state.

    `in_process` raises SparkNeededError for what it leaves to Spark. `open_spark` opens Spark's engine with the first
    such batch; `in_use` keeps Spark running while the engine executes. `ran_in_spark` is told of each batch there.
    `room` returns what a batch of a job may read so that it runs in this process, None if there is no need.
    """

    def __init__(
        self,
        in_process: Engine,
        open_spark: Callable[[], Engine],
        in_use: Callable[[], AbstractContextManager[None]] = nullcontext,
        ran_in_spark: Callable[[physical.Job, Batch], None] = lambda job, batch: None,
        room: Callable[[physical.Job], Limit | None] = lambda job: None,
    ) -> None:
        self.in_process = in_process
        self.room = room
        self.bucketing = in_process.bucketing
        self.buckets = in_process.buckets
        self.spark = _EngineInUse(self, open_spark, in_use, ran_in_spark)

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Execute the batch in this process, or else in Spark."""
        try:
            return self.in_process.execute(job, batch)
        except SparkNeededError:
            return self.spark.execute(job, batch)


class _EngineInUse:
    """Spark's engine of a placed engine."""

    def __init__(
        self,
        placed: PlacedEngine,
        open_spark: Callable[[], Engine],
        in_use: Callable[[], AbstractContextManager[None]],
        ran: Callable[[physical.Job, Batch], None],
    ) -> None:
        self.bucketing = placed.bucketing
        self.buckets = placed.buckets
        self._open = open_spark
        self._in_use = in_use
        self._ran = ran
        self._engine: Engine | None = None

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Execute the batch in Spark."""
        with self._in_use():
            if self._engine is None:
                self._engine = self._open()
            failpoint.point("spark-batch")
            outcome = self._engine.execute(job, batch)
        self._ran(job, batch)
        return outcome
