"""The engine of this process for sinks: it takes a batch by what earlier batches of the job cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from sinkql import physical
from sinkql.connector_api.stream import Limit, Size
from sinkql.lowering.placement import COLD, SMALL, WARM, divides
from sinkql.machine import clock
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, SparkNeededError
from sinkql.runtime.local.placement import Placement
from sinkql.runtime.local.size import size_of


class SharedPlacement:
    """The placement rule of a process, for the threads of its sinks.

    Large batches run one at a time, because each may take several times the bytes of its input in memory.
    """

    def __init__(self) -> None:
        self._placement = Placement(idle_s=0.0)
        self._lock = threading.Lock()
        self._large = threading.Lock()

    @contextmanager
    def locked(self) -> Iterator[Placement]:
        """Hold the lock for the block; return the rule."""
        with self._lock:
            yield self._placement

    @contextmanager
    def room_for(self, size: Size) -> Iterator[None]:
        """Wait until a batch of this size may run, and let no other large batch run during the block."""
        with nullcontext() if WARM.holds(size) else self._large:
            yield

    def forget(self, job: str) -> None:
        """Forget a job that no longer runs."""
        with self.locked() as placement:
            placement.forget(job)

    def may_rest(self) -> bool:
        """Return whether batches in this process take little time without Spark."""
        with self.locked() as placement:
            return placement.may_rest(clock.monotonic())


class MeasuredEngine:
    """Runs batches with `engine` in this process, as long as `placement` allows their size; measures what they cost.

    `start_spark` starts Spark in the background if batches in this process take too much time for long.
    """

    def __init__(
        self,
        engine: Engine,
        placement: SharedPlacement,
        *,
        spark_up: Callable[[], bool],
        start_spark: Callable[[], None],
    ) -> None:
        self.bucketing = engine.bucketing
        self.buckets = engine.buckets
        self._engine = engine
        self._placement = placement
        self._spark_up = spark_up
        self._start_spark = start_spark

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Execute the batch; raises SparkNeededError if it is too large, and the errors of the engine."""
        size = size_of(batch)
        if job.execution == "SPARK" and (size is None or not SMALL.holds(size)):
            raise SparkNeededError("the cluster has EXECUTION = SPARK")
        with self._placement.locked() as placement:
            place = placement.place(job.sink_id, size, at=clock.monotonic(), spark_up=self._spark_up())
        if size is None or place == "Spark":
            raise SparkNeededError("the batch is large")
        try:
            with self._placement.room_for(size):
                began = time.thread_time()
                outcome = self._engine.execute(job, batch)
                seconds = time.thread_time() - began
        except SparkNeededError:
            with self._placement.locked() as placement:
                placement.gave_up(job.sink_id, size, at=clock.monotonic())
            raise
        with self._placement.locked() as placement:
            placement.ran_in_process(job.sink_id, size, seconds, at=clock.monotonic())
            wants_spark = placement.wants_spark(clock.monotonic())
        if wants_spark:
            self._start_spark()
        return outcome

    def room(self, job: physical.Job) -> Limit | None:
        """Return what a batch may read so that it runs in this process; None if it may as well run in Spark."""
        if not divides(job) or self._spark_up():
            return None
        with self._placement.locked() as placement:
            rows = placement.most_rows(job.sink_id, at=clock.monotonic())
        return None if rows is None else Limit(rows, COLD.bytes)

    def ran_in_spark(self, job: physical.Job, batch: Batch) -> None:
        """Learn that Spark has run a batch."""
        with self._placement.locked() as placement:
            placement.ran_in_spark(job.sink_id, size_of(batch), at=clock.monotonic())
