"""Compute a batch in Python tasks alone, if they can compute all its expressions: rows stay in Arrow, in RDDs.

Rows go to other tasks as the blobs of `exchange`, into the buckets that Spark SQL's shuffle would give them. So the
state and the files of a batch are the same whichever way computes it. Expressions are computed over whole columns; if
a row may fail, Spark SQL computes the batch again.

Functions of consecutive steps run in one task, so a stateful operator's changes go straight into the next exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import RDD, StorageLevel

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.logical.numeric_type import FLOATS
from sinkql.logical.type import BIGINT, Type
from sinkql.lowering.join_input import SidesPreparation
from sinkql.lowering.placement import passed_columns
from sinkql.lowering.task_input import TaskInput
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.batch import failure
from sinkql.runtime.local.arrow_form import arrow_form
from sinkql.runtime.local.map import RowBudget, TooManyRowsError, mapped
from sinkql.runtime.local.murmur3 import bucket_numbers
from sinkql.runtime.local.rows import flattened
from sinkql.runtime.local.task_input import prepared, prepared_side
from sinkql.runtime.spark import internals
from sinkql.runtime.spark.arrow import Consolidation
from sinkql.runtime.spark.execution.batch import Input, SparkBatch, attempt_name, partition_number
from sinkql.runtime.spark.execution.exchange import (
    Buckets,
    Combine,
    Pair,
    blobs,
    exchanged,
    packed,
    read_blob,
    unpacked,
)
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import task_of
from sinkql.runtime.state.pre_aggregation import PreAggregation

Batches = Iterator[pa.RecordBatch]
Step = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Branch:
    """Rows of one origin, a source or the tasks of another operator, and the steps that each batch of them takes."""

    origin: Input | RDD[pa.RecordBatch]
    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> Branch:
        """Return the branch with one more step."""
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The bucket of each row, and the columns that the tasks behind the exchange do not need."""

    bucket_of: Buckets
    buckets: int
    combine: Combine | None = None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows of one batch's operators in Python tasks."""

    work: SparkBatch
    _shared: dict[str, RDD[bytes]] = field(default_factory=dict)

    # --- what tasks can compute ---------------------------------------------------------------------------------------

    def computes_batch(self) -> bool:
        """Return whether tasks can compute the batch without Spark SQL."""
        write = self.work.job.write
        if self.work.batch.task.buckets is None and write.change == "retract":
            return False  # equal rows meet nowhere
        return self.computes(write.input)

    def computes(self, operator: physical.Operator) -> bool:
        """Return whether tasks can compute the rows of an operator."""
        match operator:
            case physical.Read():
                return not self.work.batch.deduplicated or not operator.key or operator.holes
            case physical.Map():
                return self._map_step(operator) is not None and self.computes(operator.input)
            case physical.Union():
                return all(map(self.computes, operator.inputs))
            case physical.Use():
                return self.computes(self.work.job.shared[operator.name])
            case physical.Flatten():
                return self.computes(operator.input)
            case physical.Stateful():
                return _exchanges(stateful(operator).preparation) and all(map(self.computes, operator.entering))
            case physical.Repeat():
                return False

    def _map_step(self, operator: physical.Map) -> Step | None:
        return _map_step(operator, self.work.job, self.work.key)

    def _copartitioned(self) -> physical.Copartitioned | None:
        """Return the operator whose tasks write, if they have the buckets of the sink."""
        work = self.work
        buckets = work.batch.arrangements.manifest["buckets"]
        return work.job.copartitioned if work.batch.task.buckets == buckets else None

    def _placed_by(self, operator: physical.Stateful) -> tuple[str, ...]:
        """Return the columns of the sink's key by which an operator's rows are placed; none if by its own hash."""
        copartitioned = self.work.job.copartitioned
        return copartitioned.key if copartitioned is not None and copartitioned.operator is operator else ()

    # --- what they compute --------------------------------------------------------------------------------------------

    def written(self) -> list[WriteResult]:
        """Run the operators, and the write task on their rows."""
        write, task = self.work.job.write, self.work.batch.task
        names = [column.name for column in write.columns]
        sequence = write.mode != "append" and write.change != "retract" and physical.sequenced(write.input)
        branches = self._branches(write.input, sequence=sequence)
        branches = [branch.then(partial(_columns, below=names, names=names)) for branch in branches]
        copartitioned, consolidation = self._copartitioned(), None
        is_changed = copartitioned is None or not copartitioned.columns  # other rows may have become equal
        if write.change == "retract" and is_changed and not isinstance(write.input, physical.Normalize):
            consolidation = Consolidation.of(write, self.work.batch.arrangements.home.for_tasks())
        key = self.work.key

        def put(batches: Batches) -> Iterator[WriteResult]:
            with failure.as_task_error(key):
                rows = batches if consolidation is None else consolidation(batches)
                yield task(partition_number(), attempt_name(), rows)

        if task.buckets is None or copartitioned is not None:
            parts = [self._rdd(branch) for branch in self._together(branches)]
        else:
            types = {column.name: column.type for column in write.columns}
            bucket_of = _by(task.key, [types[name] for name in task.key], task.buckets)
            pairs = self._exchanged(branches, _Exchange(bucket_of, task.buckets))
            parts = [pairs.mapPartitions(unpacked)]
        results = [part.mapPartitions(put) for part in parts]
        whole = results[0] if len(results) == 1 else self._context.union(results)
        return list(whole.collect())

    def close(self) -> None:
        """Release the rows that were stored for several uses."""
        for rows in self._shared.values():
            rows.unpersist()

    @property
    def _context(self) -> Any:  # Any: pyspark's SparkContext.union has no types
        return self.work.engine.spark.sparkContext

    def _branches(self, operator: physical.Operator, *, sequence: bool) -> list[Branch]:
        """Return an operator's rows: its columns, then `$diff` unless they are only inserted, `$seq` on request."""
        match operator:
            case physical.Read():
                return [Branch(self.work.input(self.work.read_task(operator, sequence=sequence)))]
            case physical.Map():
                step = self._map_step(operator)
                assert step is not None
                return [branch.then(step) for branch in self._branches(operator.input, sequence=sequence)]
            case physical.Union():
                return self._union(operator, sequence=sequence)
            case physical.Use():
                return [Branch(self._use(operator.name))]
            case physical.Stateful():
                return [Branch(self._stateful(operator))]
            case physical.Flatten():
                below = self._branches(operator.input, sequence=False)
                return [branch.then(partial(_flattened, operator)) for branch in below]
            case physical.Repeat():
                raise AssertionError(operator)  # tasks cannot compute it

    def _union(self, union: physical.Union, *, sequence: bool) -> list[Branch]:
        names = [column.name for column in physical.columns_of(union)]
        retract = physical.change_of(union) == "retract"
        branches = []
        for input_ in union.inputs:
            below = [column.name for column in physical.columns_of(input_)]

            for branch in self._branches(input_, sequence=sequence):
                named = branch.then(partial(_columns, below=below, names=names))
                branches.append(named.then(_with_diff) if retract else named)
        return branches

    def _use(self, name: str) -> RDD[pa.RecordBatch]:
        """Return the rows of a common subplan, which are computed once and stored."""
        if name not in self._shared:
            parts = self._together(self._branches(self.work.job.shared[name], sequence=False))
            stored = [self._rdd(branch).mapPartitions(blobs) for branch in parts]
            rows: RDD[bytes] = stored[0] if len(stored) == 1 else self._context.union(stored)
            self._shared[name] = rows.persist(StorageLevel.DISK_ONLY)
            internals.compute(rows)  # otherwise two uses could compute it at the same time on two machines
        return self._shared[name].flatMap(read_blob)

    def _stateful(self, operator: physical.Stateful) -> RDD[pa.RecordBatch]:
        """Return the changes of an operator's rows; the partitions are its buckets."""
        work, kind = self.work, stateful(operator)
        preparation, arrangements = kind.preparation, work.batch.arrangements
        task = task_of(kind, arrangements, *(work.batch.below(input_, work.job.shared) for input_ in operator.entering))
        buckets = work.stateful[kind.name] = preparation.buckets(arrangements.manifest["buckets"])
        branches, placed_by = [], self._placed_by(operator)
        for number, input_ in enumerate(operator.entering):
            step, sequence = _preparing(preparation, number, buckets, placed=bool(placed_by))
            branches += [branch.then(step) for branch in self._branches(input_, sequence=sequence)]
        hashes = _hashes(preparation)
        combine = PreAggregation.from_input(preparation, task.home.hash_key)
        bucket_of = self._place(operator, preparation, buckets)
        pairs = self._exchanged(branches, _Exchange(bucket_of, buckets, combine, hashes))
        key, leave = work.key, work.leave

        def changes(bucket: int, received: Iterator[Pair]) -> Batches:
            with failure.as_task_error(key):
                rows = (_with_zeros(batch, hashes) for batch in unpacked(received))
                yield from task(bucket, attempt_name(), rows, leave)

        return pairs.mapPartitionsWithIndex(changes)

    def _place(self, operator: physical.Stateful, preparation: TaskInput, buckets: int) -> Buckets:
        placed_by = self._placed_by(operator)
        if not placed_by:
            return _by((preparation.place,), (BIGINT,), buckets)
        types = {column.name: column.type for column in operator.columns}
        return _by(preparation.named(placed_by), [types[name] for name in placed_by], buckets)

    # --- tasks --------------------------------------------------------------------------------------------------------

    def _exchanged(self, branches: Sequence[Branch], exchange: _Exchange) -> RDD[Pair]:
        """Return the rows by bucket."""
        key = self.work.key

        def pack(batches: Batches) -> Iterator[Pair]:
            with failure.as_task_error(key):
                yield from packed(
                    batches,
                    exchange.bucket_of,
                    exchange.buckets,
                    combine=exchange.combine,
                    dropped=exchange.dropped,
                )

        parts = [self._rdd(branch).mapPartitions(pack) for branch in self._together(branches)]
        return exchanged(parts[0] if len(parts) == 1 else self._context.union(parts), exchange.buckets)

    def _together(self, branches: Sequence[Branch]) -> list[Branch]:
        """Return branches in which all sources are one."""
        inputs = [(branch.origin, branch.steps) for branch in branches if isinstance(branch.origin, Input)]
        others = [branch for branch in branches if not isinstance(branch.origin, Input)]
        return [*([Branch(self._inputs(inputs))] if inputs else []), *others]

    def _inputs(self, inputs: Sequence[tuple[Input, tuple[Step, ...]]]) -> RDD[pa.RecordBatch]:
        """Return the rows of sources; each task reads some parts of each."""
        work = [(place, number) for place, (input_, _) in enumerate(inputs) for number in range(input_.count)]
        count, key = self.work.spread(len(work)), self.work.key
        mixed = [part for first in range(count) for part in work[first::count]]

        def read(parts: Iterator[tuple[int, int]]) -> Batches:
            with failure.as_task_error(key):
                for place, number in parts:
                    input_, steps = inputs[place]
                    yield from _taking(input_.rows(number), steps)

        rows: RDD[pa.RecordBatch] = self._context.parallelize(mixed, count).mapPartitions(read)
        return rows

    def _rdd(self, branch: Branch) -> RDD[pa.RecordBatch]:
        """Return the rows of a branch that is no source."""
        origin, steps, key = branch.origin, branch.steps, self.work.key
        assert not isinstance(origin, Input)
        if not steps:
            return origin

        def take(batches: Batches) -> Batches:
            with failure.as_task_error(key):
                yield from _taking(batches, steps)

        return origin.mapPartitions(take)


def _taking(batches: Batches, steps: Sequence[Step]) -> Batches:
    return (reduce(_after, steps, rows) for rows in batches if rows.num_rows)


def _after(rows: pa.RecordBatch, step: Step) -> pa.RecordBatch:
    return step(rows)


# --- steps ------------------------------------------------------------------------------------------------------------


def _hashes(preparation: TaskInput) -> tuple[str, ...]:
    """Return the columns of an operator's input that its tasks replace by the hashes that identify rows."""
    inputs = preparation.sides if isinstance(preparation, SidesPreparation) else (preparation,)
    names = {hash_.name for input_ in inputs for hash_ in input_.hashes}
    return tuple(name for name in preparation.group if name in names)


def _exchanges(preparation: TaskInput) -> bool:
    """Return whether an operator's input may be exchanged here.

    A replicated side would be in memory once for each bucket. A sum of floats depends on the order of the rows.
    """
    sums = any(measure.kind == "sum" and measure.type.name in FLOATS for measure in preparation.measures)
    return preparation.repeated is None and not sums


def _preparing(preparation: TaskInput, number: int, buckets: int, *, placed: bool) -> tuple[Step, bool]:
    """Return the step that prepares rows of an operator's input, and whether they need `$seq`.

    Rows that the sink's key has `placed` need no hash for their bucket.
    """
    if isinstance(preparation, SidesPreparation):
        side = preparation.sides[number]
        return lambda rows: _batch(prepared_side(preparation, side, _table(rows), buckets)), side.latest
    return lambda rows: _batch(prepared(preparation, _table(rows), hashed=not placed)), preparation.ordered


def _flattened(operator: physical.Flatten, rows: pa.RecordBatch) -> pa.RecordBatch:
    return _batch(flattened(operator, _table(rows)))


def _table(rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows])


def _batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def _by(names: Sequence[str], types: Sequence[Type], buckets: int) -> Buckets:
    """Return the function that puts rows into buckets by columns, like Spark's shuffle."""
    return lambda rows: bucket_numbers([rows.column(name) for name in names], types, buckets)


def _with_zeros(rows: pa.RecordBatch, hashes: Sequence[str]) -> pa.RecordBatch:
    """Return rows with hashes, which the task computes."""
    zeros = pa.array(np.zeros(rows.num_rows, np.int64))
    for name in hashes:
        rows = rows.append_column(name, zeros)
    return rows


def _with_diff(rows: pa.RecordBatch) -> pa.RecordBatch:
    if DIFF in rows.schema.names:
        return rows
    place = len(rows.schema.names) - (SEQ in rows.schema.names)
    return rows.add_column(place, DIFF, pa.array(np.ones(rows.num_rows, np.int64)))


def _columns(rows: pa.RecordBatch, below: Sequence[str], names: Sequence[str]) -> pa.RecordBatch:
    """Return columns under other names, and the internal columns."""
    internal = [name for name in (DIFF, SEQ) if name in rows.schema.names]
    return pa.RecordBatch.from_arrays([rows.column(name) for name in (*below, *internal)], names=[*names, *internal])


class SqlNeededError(Exception):
    """Spark SQL must compute the batch: it knows which row fails in an expression, or that none does."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{_SQL_NEEDED}{key}")


_SQL_NEEDED = "Spark SQL is needed by batch "


def needs_sql(error: Exception, key: str) -> bool:
    """Return whether a task of a batch raised SqlNeededError; `key` is the batch's."""
    return f"{_SQL_NEEDED}{key}" in str(error)


def _map_step(map_: physical.Map, job: physical.Job, key: str) -> Step | None:
    """Return the step of a Map; None if one of its expressions has no form in Arrow.

    The step raises SqlNeededError if a row may fail.
    """
    outputs = [*map_.outputs, *([] if map_.where is None else [map_.where])]
    if (below := passed_columns(map_)) is not None:
        return partial(_columns, below=below, names=[output.name for output in map_.outputs])
    if any(arrow_form(output.expression) is None for output in outputs):
        return None

    def step(rows: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return _batch(mapped(job, map_, _table(rows), RowBudget(0)))
        except TooManyRowsError:
            raise SqlNeededError(key) from None

    return step
