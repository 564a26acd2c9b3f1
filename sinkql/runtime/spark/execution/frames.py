"""Compute a batch with Spark SQL: operators as data frames, with Python tasks between them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its customary name
from pyspark.sql.types import StructType

from sinkql import physical
from sinkql.connector_api.stream import WriteResult, WriteTask
from sinkql.logical.type import Type
from sinkql.lowering.join_input import PreparedSide, SidesPreparation
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.lowering.spark.task_input import map_steps, side_steps, spark_steps
from sinkql.lowering.task_input import TaskInput
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.batch import failure
from sinkql.runtime.local.murmur3 import hashes_of
from sinkql.runtime.spark.arrow import (
    Consolidation,
    batches_to_spark,
    bucket_column,
    from_spark,
    map_in_arrow,
    split_bucket_rows,
    with_bucket_rows,
)
from sinkql.runtime.spark.execution.batch import SparkBatch, attempt_name, partition_number
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import task_of


@dataclass(slots=True)
class Frames(SparkBatch):
    """The operators of one batch as data frames."""

    _shared: dict[str, DataFrame] = field(default_factory=dict)

    def written(self) -> list[WriteResult]:
        """Run the operators, and the write task on their rows."""
        write, task = self.job.write, self.batch.task
        copartitioned, consolidation = self.job.copartitioned, None
        if copartitioned is not None and task.buckets == self.batch.arrangements.manifest["buckets"]:
            if copartitioned.columns:
                return results_of(self._stateful(copartitioned.operator, first=True, writing=copartitioned))
            consolidation = Consolidation.of(write, self.batch.arrangements.home.for_tasks())
        rows = self.frame(write.input, sequence=write.mode != "append" and write.change != "retract")
        if task.buckets is not None and consolidation is None:
            rows = rows.repartition(task.buckets, *[F.col(quoted(name)) for name in task.key])
        if write.change == "retract" and consolidation is None and not isinstance(write.input, physical.Normalize):
            rows = _consolidated(rows)
        rows = rows.select(*[F.col(quoted(name)) for name in _ordered(rows, write)])
        types = [column.type for column in write.columns]
        return results_of(map_in_arrow(rows, _write_function(task, types, consolidation, self.key), _RESULT))

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
        SparkBatch.close(self)

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
        task = self.read_task(read, sequence=sequence)
        struct = _struct(
            task.what.columns, diff=task.diff, sequence=sequence, holes=physical.unchanged_value_columns(read)
        )
        source, key = self.input(task), self.key

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with failure.as_task_error(key):
                for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                    yield from batches_to_spark(source.rows(number))

        return self.engine.spark.range(0, source.count, 1, self.spread(source.count)).mapInArrow(rows, struct)

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


def results_of(rows: DataFrame) -> list[WriteResult]:
    return [pickle.loads(row["result"]) for row in rows.collect()]


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
