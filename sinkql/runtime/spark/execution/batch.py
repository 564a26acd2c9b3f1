"""Define one batch as Spark executes it: its job, its tasks' reports, and the tasks that read its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.engine import Batch
from sinkql.runtime.local.task import ReadTask, SourceColumns, Used, fused_task, read_task, used_columns
from sinkql.runtime.spark.execution.staged_rows import StagedRows
from sinkql.runtime.state.report import Leave


class Spark(Protocol):
    """The Spark of an engine, and the number of its tasks that run together."""

    @property
    def spark(self) -> SparkSession:
        """Return the session."""

    @property
    def parallelism(self) -> int:
        """Return the number of tasks that run together."""


@dataclass(frozen=True, slots=True)
class Input:
    """The rows of one source for tasks, in `count` parts; `rows` reads a part by its number, inside of a task."""

    count: int
    rows: Callable[[int], Iterator[pa.RecordBatch]]


@dataclass(slots=True)
class SparkBatch:
    """One batch in Spark. `stateful` gets the bucket count of each stateful operator.

    Tasks `leave` reports in `words`; `key` distinguishes their errors from texts in rows. Unused columns are read only
    if rows must be `whole`.
    """

    engine: Spark
    job: physical.Job
    batch: Batch
    key: str
    leave: Leave
    words: list[object]
    stateful: dict[str, int] = field(default_factory=dict)
    whole: bool = False
    _staged: list[StagedRows] = field(default_factory=list)

    @property
    def used(self) -> Used:
        """Return the used columns of each source."""
        if self.whole:
            return {read.source: [column.name for column in read.columns] for read in self.job.reads()}
        return used_columns(self.job)

    @property
    def here(self) -> frozenset[str]:
        """Return the sources whose rows this process reads and passes to tasks."""
        if not self.job.remote:
            return frozenset()
        return frozenset(name for name, reader in self.batch.readers.items() if reader.local_only())

    def read_task(self, read: physical.Read, *, sequence: bool) -> ReadTask:
        """Return the task that reads the splits of a source."""
        return read_task(read, self.used[read.source], self.batch, sequence=sequence)

    def input(self, task: ReadTask) -> Input:
        """Return the rows of a source for tasks: its splits, or the files to which this process has staged its rows."""
        if task.what.source in self.here:
            return self._stage(task)
        leave = self.leave
        return Input(len(task.splits), lambda number: task.rows([number], attempt_name(), leave))

    def _stage(self, task: ReadTask) -> Input:
        arrangements = self.batch.arrangements
        staged = StagedRows(arrangements.home, f"{arrangements.epoch}-{new_id()}")
        self._staged.append(staged)
        rows = task.rows(range(len(task.splits)), new_id(), self.words.append)
        return Input(staged.stage(rows, task.schema()), staged.read_task())

    def spread(self, count: int) -> int:
        """Return the number of tasks that read this number of parts."""
        return max(1, min(count, self.engine.parallelism))

    def fused(self, branches: Sequence[SourceColumns]) -> list[WriteResult]:
        """Read and write in the same tasks."""
        task, work = fused_task(self.job, branches, self.used, self.batch)
        if not work:
            return []
        key, leave = self.key, self.leave

        def partition(bucket: int, mine: Iterator[tuple[int, int]]) -> Iterator[WriteResult]:
            with failure.as_task_error(key):
                yield task(bucket, list(mine), attempt_name(), leave)

        spread = self.engine.spark.sparkContext.parallelize(work, self.spread(len(work)))
        return list(spread.mapPartitionsWithIndex(partition).collect())

    def read_only(self, missing: Sequence[tuple[str, int]]) -> None:
        """Read splits for their record accounting only."""
        reads = {read.source: self.read_task(read, sequence=False) for read in self.job.reads()}
        key, leave = self.key, self.leave

        def partition(mine: Iterator[tuple[str, int]]) -> Iterator[int]:
            with failure.as_task_error(key):
                for source, number in mine:
                    yield sum(batch.num_rows for batch in reads[source].rows([number], attempt_name(), leave))

        here = self.here
        for source, number in missing:
            if source in here:
                for _ in reads[source].rows([number], new_id(), self.words.append):
                    pass
        there = [split for split in missing if split[0] not in here]
        if there:
            spread = self.engine.spark.sparkContext.parallelize(there, self.engine.parallelism)
            spread.mapPartitions(partition).collect()

    def close(self) -> None:
        """Delete the rows that were staged for tasks."""
        for staged in self._staged:
            staged.delete()


def partition_number() -> int:
    """Return the number of this task's partition, which is its bucket after a shuffle."""
    return int(_task_context().partitionId())


def attempt_name() -> str:
    """Return a name that distinguishes this attempt at a task from all others in this Spark application."""
    return f"t{_task_context().taskAttemptId()}"


def _task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("only a task of Spark has a context")
    return context
