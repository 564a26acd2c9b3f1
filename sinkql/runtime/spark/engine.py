"""Run a job's operators and the splits of one batch in Spark, or one fused task per split if no SQL is needed."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its customary name
from pyspark.sql.types import StructType

from sinkql import physical
from sinkql.connector_api.stream import WriteResult, WriteTask
from sinkql.errors import SinkqlError
from sinkql.logical.type import Type
from sinkql.lowering.join_input import PreparedSide, SidesPreparation
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.lowering.spark.task_input import map_steps, side_steps, spark_steps
from sinkql.lowering.task_input import TaskInput
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.local.murmur3 import hashes_of
from sinkql.runtime.local.task import (
    ReadTask,
    SourceColumns,
    Used,
    fusable,
    fused_task,
    read_task,
    source_tallies,
    used_columns,
)
from sinkql.runtime.spark.arrow import (
    Consolidation,
    batches_to_spark,
    bucket_column,
    from_spark,
    map_in_arrow,
    split_bucket_rows,
    with_bucket_rows,
)
from sinkql.runtime.spark.diagnosis import diagnose
from sinkql.runtime.spark.staged_rows import StagedRows
from sinkql.runtime.spark.task_report import task_reports
from sinkql.runtime.state import report
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import task_of
from sinkql.runtime.state.report import Leave

Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The work of a task: turns numbered batches into the rows for these numbers."""


class SparkEngine:
    """Runs a job's batches in one Spark session. Buckets are Spark's hash partitions of the key columns."""

    bucketing = "spark-murmur3"

    def __init__(self, session: Callable[[], SparkSession], *, buckets: int) -> None:
        """Get the session for the first batch only: it may be starting while tables are claimed."""
        self._session = session
        self.buckets = buckets

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
        key = uuid.uuid4().hex  # input data cannot contain it
        with task_reports(self.spark.sparkContext, key) as (leave, words):
            frames = _Frames(self, job, batch, key, leave, words)
            try:
                return self._execute_once(frames)
            except SinkqlError:
                raise
            except Exception as error:
                frames.whole = True  # the error shows the row that fails
                row_error = failure.from_spark_error(error, key) or diagnose(
                    job, partial(frames.frame, sequence=False, first=False), error
                )
                if row_error is not None:
                    raise row_error from None
                raise
            finally:
                frames.close()

    def _execute_once(self, frames: _Frames) -> Outcome:
        context, job = self.spark.sparkContext, frames.job
        context.setJobGroup(job.sink_id, f"sink {job.sink}")
        context.setLocalProperty("spark.scheduler.pool", job.sink_id)
        batch = frames.batch
        branches = fusable(frames.job.write) if batch.task.buckets is None and not frames.here else None
        results = frames.fused(branches) if branches is not None else frames.written()
        totals, missing = source_tallies(frames.words, batch.splits)
        if missing:
            # Spark skips splits that it proves empty (WHERE false); they are read for their counts and errors.
            frames.read_only(missing)
            totals, missing = source_tallies(frames.words, batch.splits)
        assert not missing
        left = report.collect(frames.words, frames.stateful)
        batch.arrangements.home.fetched.update(left.fetched)
        return Outcome(results, totals, left.runs, left.flows, in_spark=True)


@dataclass(slots=True)
class _Frames:
    """The work of one batch in Spark: turns operators into data frames. `stateful` gets each operator's bucket count.

    Tasks `leave` reports in `words`; `key` distinguishes their errors from texts in rows. Unused columns are read only
    if rows must be `whole`.
    """

    engine: SparkEngine
    job: physical.Job
    batch: Batch
    key: str
    leave: Leave
    words: list[object]
    stateful: dict[str, int] = field(default_factory=dict)
    whole: bool = False
    _shared: dict[str, DataFrame] = field(default_factory=dict)
    _handed: list[StagedRows] = field(default_factory=list)

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

    def fused(self, branches: Sequence[SourceColumns]) -> list[WriteResult]:
        """Read and write in the same tasks."""
        task, work = fused_task(self.job, branches, self.used, self.batch)
        if not work:
            return []
        key, leave = self.key, self.leave

        def partition(bucket: int, mine: Iterator[tuple[int, int]]) -> Iterator[WriteResult]:
            with failure.as_task_error(key):
                yield task(bucket, list(mine), attempt_name(), leave)

        context = self.engine.spark.sparkContext
        spread = context.parallelize(work, min(len(work), self.engine.parallelism))
        return list(spread.mapPartitionsWithIndex(partition).collect())

    def written(self) -> list[WriteResult]:
        """Run the operators, and the write task on their rows."""
        write, task = self.job.write, self.batch.task
        copartitioned, consolidation = self.job.copartitioned, None
        if copartitioned is not None and task.buckets == self.batch.arrangements.manifest["buckets"]:
            if copartitioned.columns:
                return _results(self._stateful(copartitioned.operator, first=True, writing=copartitioned))
            consolidation = Consolidation.of(write, self.batch.arrangements.home.for_tasks())
        rows = self.frame(write.input, sequence=write.mode != "append" and write.change != "retract")
        if task.buckets is not None and consolidation is None:
            rows = rows.repartition(task.buckets, *[F.col(quoted(name)) for name in task.key])
        if write.change == "retract" and consolidation is None and not isinstance(write.input, physical.Normalize):
            rows = _consolidated(rows)
        rows = rows.select(*[F.col(quoted(name)) for name in _ordered(rows, write)])
        types = [column.type for column in write.columns]
        return _results(map_in_arrow(rows, _write_function(task, types, consolidation, self.key), _RESULT))

    def read_only(self, missing: Sequence[tuple[str, int]]) -> None:
        """Read splits for their record accounting only."""
        reads = {read.source: self._task(read, sequence=False) for read in self.job.reads()}
        key, leave = self.key, self.leave

        def partition(mine: Iterator[tuple[str, int]]) -> Iterator[int]:
            with failure.as_task_error(key):
                for source, number in mine:
                    yield sum(batch.num_rows for batch in reads[source].rows([number], attempt_name(), leave))

        here = self.here
        for source, number in missing:
            if source in here:
                for _ in reads[source].rows([number], uuid.uuid4().hex, self.words.append):
                    pass
        there = [split for split in missing if split[0] not in here]
        if there:
            spread = self.engine.spark.sparkContext.parallelize(there, self.engine.parallelism)
            spread.mapPartitions(partition).collect()

    def frame(self, operator: physical.Operator, *, sequence: bool, first: bool = True) -> DataFrame:
        """Return the operator's rows: its columns, then `$diff` unless they are only inserted, `$seq` on request.

        `first`: no partitions precede its own in their stage.
        """
        match operator:
            case physical.Read():
                return self._read(operator, sequence=sequence)
            case physical.Map():
                return self._map(operator, sequence=sequence, first=first)
            case physical.Union():
                return self._union(operator, sequence=sequence, first=first)
            case physical.Stateful():
                return self._stateful(operator, first=first)
            case physical.Flatten():
                return flattened(operator, self.frame(operator.input, sequence=False, first=first))
            case physical.Repeat():
                return repeated(operator, self.frame(operator.input, sequence=False, first=first))
            case physical.Use():
                return self._use(operator)

    def close(self) -> None:
        """Release the rows that were cached for several uses or passed to tasks."""
        for rows in self._shared.values():
            rows.unpersist()
        for handed in self._handed:
            handed.delete()

    def _use(self, use: physical.Use) -> DataFrame:
        if use.name not in self._shared:
            rows = self.frame(self.job.shared[use.name], sequence=False, first=False).persist(StorageLevel.DISK_ONLY)
            self._shared[use.name] = rows
            rows.count()  # otherwise two uses could compute it at the same time on two machines
        return self._shared[use.name]

    def _read(self, read: physical.Read, *, sequence: bool) -> DataFrame:
        if not self.batch.deduplicated or not read.key or read.holes:  # a row may have a value that the next one lacks
            return self._rows(read, sequence=sequence)
        rows = self._rows(read, sequence=True)
        whole = F.struct(*[F.col(quoted(name)) for name in rows.columns])
        keys = [F.col(quoted(name)).alias(f"$g{place}") for place, name in enumerate(read.key)]
        last = rows.groupBy(*keys).agg(F.max_by(whole, F.col(quoted(SEQ))).alias("$last")).select("`$last`.*")
        return last if sequence else last.drop(SEQ)

    def _rows(self, read: physical.Read, *, sequence: bool) -> DataFrame:
        task = self._task(read, sequence=sequence)
        struct = _struct(
            task.what.columns, diff=task.diff, sequence=sequence, holes=physical.unchanged_value_columns(read)
        )
        count, rows = self._handed_over(task) if read.source in self.here else self._reading(task)
        spread = self.engine.spark.range(0, count, 1, max(1, min(count, self.engine.parallelism)))
        return spread.mapInArrow(rows, struct)

    def _reading(self, task: ReadTask) -> tuple[int, Rows]:
        """Return a function that reads splits in tasks by their numbers, and the number of splits."""
        key, leave = self.key, self.leave

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            with failure.as_task_error(key):
                yield from batches_to_spark(task.rows(numbers, attempt_name(), leave))

        return len(task.splits), rows

    def _handed_over(self, task: ReadTask) -> tuple[int, Rows]:
        """Read splits here; return a function that reads their rows in tasks by file number, and the file count."""
        arrangements = self.batch.arrangements
        handed = StagedRows(arrangements.home, f"{arrangements.epoch}-{uuid.uuid4().hex}")
        self._handed.append(handed)
        rows = task.rows(range(len(task.splits)), uuid.uuid4().hex, self.words.append)
        return handed.stage(rows, task.schema()), handed.read_task(partial(failure.as_task_error, self.key))

    def _map(self, operator: physical.Map, *, sequence: bool, first: bool) -> DataFrame:
        rows = self.frame(operator.input, sequence=sequence, first=first)
        steps = map_steps(operator)
        if steps.diff is not None:
            rows = rows.withColumn(DIFF, F.expr(steps.diff))
        if steps.where is not None:
            rows = rows.where(F.expr(steps.where))
        if not steps.outputs:
            return rows
        extra = [name for name in (DIFF, SEQ) if name in rows.columns]
        outputs = [F.expr(text).alias(name) for name, text in steps.outputs]
        return rows.select(*outputs, *[F.col(quoted(name)) for name in extra])

    def _union(self, union: physical.Union, *, sequence: bool, first: bool) -> DataFrame:
        retract = physical.change_of(union) == "retract"
        names = [column.name for column in physical.columns_of(union)]
        frames = []
        for place, operator in enumerate(union.inputs):
            rows = self.frame(operator, sequence=sequence, first=first and place == 0)
            columns = [
                F.col(quoted(column.name)).alias(name)
                for column, name in zip(physical.columns_of(operator), names, strict=True)
            ]
            if retract:
                columns.append(F.col(quoted(DIFF)) if DIFF in rows.columns else F.lit(1).cast("bigint").alias(DIFF))
            if sequence:
                columns.append(F.col(quoted(SEQ)))
            frames.append(rows.select(*columns))
        together = frames[0]
        for rows in frames[1:]:
            together = together.unionAll(rows)
        return together

    def _stateful(
        self, operator: physical.Stateful, *, first: bool, writing: physical.Copartitioned | None = None
    ) -> DataFrame:
        """Return an operator's rows, or the write task's results if the operator's tasks write."""
        arrangements, key, leave = self.batch.arrangements, self.key, self.leave
        meant = stateful(operator)
        task = task_of(
            meant, arrangements, *(self.batch.below(input_, self.job.shared) for input_ in operator.entering)
        )
        preparation = meant.preparation
        buckets = self.stateful[meant.name] = preparation.buckets(arrangements.manifest["buckets"])
        delivered = [*preparation.types(), None]

        write = _written(writing, self.job, self.batch.task) if writing is not None else None

        def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with failure.as_task_error(key):
                received = (from_spark(batch, delivered) for batch in batches)
                bucket, bucket_rows = (partition_number(), received) if first else split_bucket_rows(received)
                if bucket is None:
                    return
                results = task(bucket, attempt_name(), bucket_rows, leave)
                yield from batches_to_spark(results) if write is None else write(bucket, results)

        steps = spark_steps(preparation)
        if isinstance(preparation, SidesPreparation):
            rows = self._sides(preparation, operator.entering, buckets)
        else:
            (below,) = operator.inputs
            rows = self.frame(below, sequence=preparation.ordered).selectExpr(*steps.select)
        place = self._place(operator, preparation)
        if not first and place == (preparation.place,):
            rows = with_bucket_rows(self.engine.spark, rows, buckets, preparation.place)
        rows = rows.repartition(buckets, *[F.col(quoted(name)) for name in place])
        if steps.aggregates:
            rows = rows.groupBy(*[F.expr(text) for text in steps.group]).agg(*map(F.expr, steps.aggregates))
        result = _struct(preparation.columns, diff=operator.change != "append", sequence=False)
        rows = rows.withColumn("$b", bucket_column(buckets, place))
        if preparation.place != "$h1":
            rows = rows.drop(preparation.place)
        return map_in_arrow(rows, changes, _RESULT if writing is not None else result)

    def _place(self, operator: physical.Stateful, preparation: TaskInput) -> tuple[str, ...]:
        """Return the columns by which a shuffle puts rows into buckets."""
        copartitioned = self.job.copartitioned
        if copartitioned is None or copartitioned.operator is not operator:
            return (preparation.place,)
        return preparation.named(copartitioned.key)

    def _sides(self, preparation: SidesPreparation, inputs: Sequence[physical.Operator], buckets: int) -> DataFrame:
        """Return the input of a join's tasks: the rows of all its sides."""
        sides = zip(preparation.sides, inputs, strict=True)
        return reduce(DataFrame.unionAll, [self._side(preparation, side, below, buckets) for side, below in sides])

    def _side(
        self, preparation: SidesPreparation, side: PreparedSide, below: physical.Operator, buckets: int
    ) -> DataFrame:
        rows = self.frame(below, sequence=side.latest, first=side.number == 0)
        steps = side_steps(preparation, side, hashes_of(buckets))
        return (rows if steps.where is None else rows.where(F.expr(steps.where))).selectExpr(*steps.select)

    def _task(self, read: physical.Read, *, sequence: bool) -> ReadTask:
        return read_task(read, self.used[read.source], self.batch, sequence=sequence)


def _consolidated(rows: DataFrame) -> DataFrame:
    """Add up the changes of equal rows, and omit rows whose changes cancel out."""
    columns = [F.col(quoted(name)) for name in rows.columns if name != DIFF]
    diff = F.col(quoted(DIFF))
    return rows.groupBy(*columns).agg(F.sum(diff).cast("bigint").alias(DIFF)).where(diff != 0)


def _ordered(rows: DataFrame, write: physical.Write) -> list[str]:
    """Return the sink's columns and the internal column, in the order of the write task."""
    return [*(column.name for column in write.columns), *(name for name in (DIFF, SEQ) if name in rows.columns)]


def _write_function(
    task: WriteTask, types: Sequence[Type], consolidation: Consolidation | None, key: str
) -> Any:  # Any: pyspark's type for it needs pyarrow's types
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (from_spark(batch, types) for batch in batches)
        left = rows if consolidation is None else consolidation(rows)
        with failure.as_task_error(key):
            yield _result(task(partition_number(), attempt_name(), left))

    return write


def _written(
    copartitioned: physical.Copartitioned, job: physical.Job, task: WriteTask
) -> Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that writes the rows of a task."""
    sources = (*copartitioned.columns, DIFF)
    names = [*(column.name for column in job.write.columns), DIFF]

    def write(bucket: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (pa.RecordBatch.from_arrays([row.column(name) for name in sources], names=names) for row in rows)
        yield _result(task(bucket, attempt_name(), named))

    return write


_RESULT = "result BINARY"


def _result(result: WriteResult) -> pa.RecordBatch:
    return pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})


def _results(rows: DataFrame) -> list[WriteResult]:
    return [pickle.loads(row["result"]) for row in rows.collect()]


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


def _struct(
    columns: Sequence[physical.Column], *, diff: bool, sequence: bool, holes: Sequence[physical.Column] = ()
) -> StructType:
    fields = [_field(column) for column in columns]
    fields += [f"{quoted(DIFF)} BIGINT"] if diff else []
    fields += [_field(column) for column in holes]
    fields += [f"{quoted(SEQ)} BIGINT"] if sequence else []
    return StructType.fromDDL(", ".join(fields))


def _field(column: physical.Column) -> str:
    return f"{quoted(column.name)} {spark_type(column.type)}"


_PLACE = "$place"


def flattened(operator: physical.Flatten, rows: DataFrame) -> DataFrame:
    """Return the rows of a Flatten, with their `$diff`."""
    columns_below = [F.col(quoted(name)) for name in rows.columns]
    array = F.expr(spark_sql(operator.array.expression))
    explode = F.posexplode_outer if operator.outer else F.posexplode
    exploded = rows.select(*columns_below, explode(array).alias(_PLACE, operator.name))
    names = [column.name for column in physical.columns_of(operator)]
    number = [] if operator.ordinality is None else [operator.ordinality]
    columns = [F.col(quoted(name)) for name in names if name not in number]
    numbers = [(F.col(quoted(_PLACE)) + 1).cast("bigint").alias(name) for name in number]
    return exploded.select(*columns, *numbers, *[F.col(quoted(name)) for name in (DIFF,) if name in rows.columns])


def repeated(operator: physical.Repeat, rows: DataFrame) -> DataFrame:
    """Return the rows of a Repeat."""
    diff = F.col(quoted(DIFF)) * F.expr(spark_sql(operator.times.expression))
    return rows.withColumn(DIFF, diff).where(F.col(quoted(DIFF)) != 0)
