"""One batch of a job in this process: read, compute and write it, without a Spark job.

Passing a task to Spark takes two to four times the CPU of reading and writing a few rows, and more of this process's
time. A shuffle takes twenty times as much, overwriting rows require two shuffles, and Spark plans each batch again.
Rows get the buckets that Spark would give them, and tasks run as in Spark, so Spark can run the next batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT
from sinkql.lowering.join_input import SidesPreparation
from sinkql.lowering.placement import passed_columns
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.batch.engine import Batch, Outcome, SparkNeededError
from sinkql.runtime.local.map import RowBudget, TooManyRowsError, mapped
from sinkql.runtime.local.murmur3 import bucket_numbers
from sinkql.runtime.local.rows import flattened, last_rows, repeated
from sinkql.runtime.local.task import ReadTask, Used, read_task, source_tallies, used_columns
from sinkql.runtime.local.task_input import prepared, prepared_sides
from sinkql.runtime.state import report
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.storage.consolidate import consolidate

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
Policy = Literal["strict", "decline"]
"""What happens with a batch that is better left to Spark: `strict` runs it, `decline` raises SparkNeededError."""

_BYTES = 256 << 20
"""With more bytes of rows between two operators, Spark runs the batch: they are in memory here."""
_TASK_ROWS = 1 << 15


class HiddenColumnsError(Exception):
    """An expression failed for a row that was read without its unused columns, so that it cannot be shown."""


@dataclass(slots=True)
class LocalBatch:
    """A batch that runs in this process; it runs once.

    `sent` returns a task as the process that runs it receives it. `most_computed` is the number of rows that one
    operator may compute one by one, None for any number. If `whole`, unused columns are read too, for the
    error that shows a row.
    """

    job: physical.Job
    batch: Batch
    policy: Policy
    sent: Callable[[Any], Any]  # a task of any kind, and a copy of it
    most_computed: int | None
    whole: bool = False
    attempt: str = field(default_factory=lambda: f"h{uuid.uuid4().hex[:12]}")
    _shared: dict[str, pa.Table] = field(default_factory=dict)
    _words: list[object] = field(default_factory=list)

    def execute(self) -> Outcome:
        """Read, compute and write; raises HiddenColumnsError, SparkNeededError, and the errors of rows and tasks."""
        buckets = self.batch.task.buckets
        results = self._appended() if buckets is None else self._keyed(buckets)
        totals, missing = source_tallies(self._words, self.batch.splits)
        assert not missing
        operators = {operator.name: self._buckets(operator) for operator in map(stateful, self._operators())}
        left = report.collect(self._words, operators)
        self.batch.arrangements.home.fetched.update(left.fetched)
        return Outcome(results, totals, left.runs, left.flows)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _appended(self) -> list[WriteResult]:
        """Write the rows of a sink without buckets, as they are read if possible."""
        write = self.job.write
        if not any(self.batch.splits.values()) and not self._operators():
            return []
        if self._operators() or write.change == "retract":  # all reports, and all changes that may cancel out
            return [self._written(0, iter(self._changes().to_batches()))]
        return [self._written(0, map(self._ordered, self._rows(write.input, sequence=self._in_sequence())))]

    def _keyed(self, buckets: int) -> list[WriteResult]:
        """Write the rows of each bucket."""
        write, key = self.job.write, self.batch.task.key
        rows = self._changes()
        types = {column.name: column.type for column in write.columns}
        places = bucket_numbers(
            [rows.column(name).combine_chunks() for name in key], [types[name] for name in key], buckets
        )
        parts = enumerate(_parts(rows, places, buckets))
        return [self._written(bucket, iter(part.to_batches())) for bucket, part in parts]

    def _in_sequence(self) -> bool:
        """Return whether the write task gets `$seq`."""
        write = self.job.write
        return write.mode != "append" and write.change != "retract" and physical.sequenced(write.input)

    def _ordered(self, rows: Rows) -> Rows:
        """Return rows with the sink's columns, then the internal ones."""
        return rows.select([*(column.name for column in self.job.write.columns), *_internal(rows.schema)])

    def _changes(self) -> pa.Table:
        """Return all rows of the sink; the changes of equal rows are added up, if an operator has not done so."""
        write, copartitioned = self.job.write, self.job.copartitioned
        rows = self._ordered(self._table(write.input, sequence=self._in_sequence()))
        if write.change != "retract" or isinstance(write.input, physical.Normalize):
            return rows
        if copartitioned is not None and copartitioned.columns:
            return rows
        return pa.Table.from_batches(consolidate(rows.to_batches()), rows.schema)

    def _written(self, bucket: int, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        result: WriteResult = self.sent(self.batch.task)(bucket, self.attempt, batches)
        return result

    # --- operators ---------------------------------------------------------------------------------------------------

    def _table(self, operator: physical.Operator, *, sequence: bool) -> pa.Table:
        """Return all rows of an operator."""
        schema, batches, size = self._schema(operator, sequence=sequence), [], 0
        for batch in self._rows(operator, sequence=sequence):
            batches.append(batch)
            size += batch.nbytes
            if size > _BYTES and self.policy == "decline":
                raise SparkNeededError(f"the batch has more than {_BYTES >> 20} MB of rows")
        return pa.Table.from_batches(batches, schema).combine_chunks()

    def _schema(self, operator: physical.Operator, *, sequence: bool) -> pa.Schema:
        if isinstance(operator, physical.Read):
            return self._reading(operator, sequence=sequence).schema()
        if isinstance(operator, physical.Map) and not operator.outputs:
            return self._schema(operator.input, sequence=sequence)
        fields = [(column.name, arrow_type(column.type)) for column in physical.columns_of(operator)]
        fields += [(DIFF, pa.int64())] if physical.change_of(operator) != "append" else []
        return pa.schema([*fields, (SEQ, pa.int64())] if sequence else fields)

    def _reading(self, read: physical.Read, *, sequence: bool) -> ReadTask:
        return read_task(read, self._used()[read.source], self.batch, sequence=sequence)

    def _used(self) -> Used:
        if self.whole:
            return {read.source: [column.name for column in read.columns] for read in self.job.reads()}
        return used_columns(self.job)

    def _rows(self, operator: physical.Operator, *, sequence: bool) -> Iterator[pa.RecordBatch]:
        """Yield the operator's rows: its columns, then `$diff` unless they are only inserted, `$seq` on request."""
        match operator:
            case physical.Read():
                yield from self._read(operator, sequence=sequence)
            case physical.Map() if (below := passed_columns(operator)) is not None:
                for rows in self._rows(operator.input, sequence=sequence):
                    yield _renamed(rows, below, [output.name for output in operator.outputs]) if below else rows
            case physical.Map():
                yield from self._computed(operator, sequence=sequence)
            case physical.Union():
                yield from self._union(operator, sequence=sequence)
            case physical.Stateful():
                yield from self._stateful(stateful(operator), operator)
            case physical.Flatten():
                for rows in self._rows(operator.input, sequence=False):
                    yield from _batches(flattened(operator, pa.Table.from_batches([rows])))
            case physical.Repeat():
                for rows in self._rows(operator.input, sequence=False):
                    with self._failing_rows():
                        result = repeated(self.job, operator, pa.Table.from_batches([rows]))
                    yield from _batches(result)
            case physical.Use():
                if operator.name not in self._shared:
                    self._shared[operator.name] = self._table(self.job.shared[operator.name], sequence=False)
                yield from self._shared[operator.name].to_batches()

    def _read(self, read: physical.Read, *, sequence: bool) -> Iterator[pa.RecordBatch]:
        task = self._reading(read, sequence=sequence)
        rows = task.rows(range(len(task.splits)), self.attempt, self._words.append)
        if self.batch.deduplicated and read.key and not read.holes:  # a row may have a value that the next one lacks
            yield from _batches(last_rows(pa.Table.from_batches(rows, task.schema()), read.key))
        else:
            yield from rows

    def _computed(self, operator: physical.Map, *, sequence: bool) -> Iterator[pa.RecordBatch]:
        budget = RowBudget(self.most_computed)
        for rows in self._rows(operator.input, sequence=sequence):
            with self._failing_rows():
                computed = mapped(self.job, operator, pa.Table.from_batches([rows]), budget)
            yield from _batches(computed)

    @contextmanager
    def _failing_rows(self) -> Iterator[None]:
        """Translate the error of an expression: Spark reports it, or can compute it."""
        try:
            yield
        except TooManyRowsError as error:
            raise SparkNeededError(f"more than {self.most_computed} rows are computed one by one") from error
        except SinkqlError as error:
            if self.policy == "decline":
                raise SparkNeededError(f"an expression fails for a row: {error.message}") from error
            if not self.whole:
                raise HiddenColumnsError from error
            raise

    def _union(self, union: physical.Union, *, sequence: bool) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in physical.columns_of(union)]
        retract = physical.change_of(union) == "retract"
        for input_ in union.inputs:
            columns = [column.name for column in physical.columns_of(input_)]
            for rows in self._rows(input_, sequence=sequence):
                renamed = _renamed(rows, columns, names)
                if retract and DIFF not in rows.schema.names:
                    renamed = renamed.append_column(DIFF, pa.array(np.ones(len(rows), np.int64)))
                yield renamed

    def _stateful(self, operator: StatefulOperator, struct: physical.Stateful) -> Iterator[pa.RecordBatch]:
        preparation, buckets = operator.preparation, self._buckets(operator)
        if isinstance(preparation, SidesPreparation):
            sides = zip(struct.entering, preparation.sides, strict=True)
            inputs = [self._table(input_, sequence=side.latest) for input_, side in sides]
            rows = prepared_sides(preparation, inputs, buckets)
        else:
            (below,) = struct.inputs
            table = self._table(below, sequence=preparation.ordered)
            with self._failing_rows():
                rows = prepared(preparation, table)
        below_each = [self.batch.below(input_, self.job.shared) for input_ in struct.entering]
        task = task_of(operator, self.batch.arrangements, *below_each)
        for bucket, part in enumerate(_parts(rows, self._places(struct, operator, rows), buckets)):
            batches = iter(part.to_batches(max_chunksize=_TASK_ROWS))
            yield from self.sent(task)(bucket, self.attempt, batches, self._words.append)

    def _places(self, struct: physical.Stateful, operator: StatefulOperator, rows: pa.Table) -> NDArray[np.int64]:
        """Return the bucket of each row of an operator."""
        copartitioned, preparation, buckets = self.job.copartitioned, operator.preparation, self._buckets(operator)
        if copartitioned is None or copartitioned.operator is not struct:
            return bucket_numbers([rows.column(preparation.place).combine_chunks()], [BIGINT], buckets)
        types = {column.name: column.type for column in struct.columns}
        columns = [rows.column(name).combine_chunks() for name in preparation.named(copartitioned.key)]
        return bucket_numbers(columns, [types[name] for name in copartitioned.key], buckets)

    def _operators(self) -> list[physical.Stateful]:
        return self.job.graph.stateful()

    def _buckets(self, operator: StatefulOperator) -> int:
        return operator.preparation.buckets(int(self.batch.arrangements.manifest["buckets"]))


def _internal(schema: pa.Schema) -> list[str]:
    return [name for name in (DIFF, SEQ) if name in schema.names]


def _renamed(rows: pa.RecordBatch, below: Sequence[str], names: Sequence[str]) -> pa.RecordBatch:
    internal = _internal(rows.schema)
    columns = [rows.column(name) for name in (*below, *internal)]
    return pa.RecordBatch.from_arrays(columns, names=[*names, *internal])


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = rows.combine_chunks().to_batches()
    return batches


def _parts(rows: pa.Table, places: NDArray[np.int64], buckets: int) -> list[pa.Table]:
    """Return the rows of each bucket, in their order."""
    if buckets == 1:
        return [rows]
    ordered = rows.take(pa.array(np.argsort(places, kind="stable")))
    ends = np.cumsum(np.bincount(places, minlength=buckets)).tolist()
    return [ordered.slice(start, end - start) for start, end in pairwise([0, *ends])]
