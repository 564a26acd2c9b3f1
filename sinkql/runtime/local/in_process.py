"""Read, compute and write a small batch in this process, without a Spark job.

Passing a task to Spark takes two to four times the CPU of reading and writing a few rows, and more of this process's
time. A shuffle takes twenty times as much, overwriting rows require two shuffles, and Spark plans each batch again.
`evaluate` computes the expressions; if it cannot, or if a row fails, Spark runs the batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.connector_api.stream import Size, WriteResult
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT
from sinkql.lowering.join_input import SidesPreparation
from sinkql.lowering.task_input import TaskInput
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.placement import COLD
from sinkql.runtime.local.map import mapped
from sinkql.runtime.local.murmur3 import bucket_numbers
from sinkql.runtime.local.possible import passed_columns, possible
from sinkql.runtime.local.task import ReadTask, read_task, source_tallies, used_columns
from sinkql.runtime.local.xxhash64 import prepared, prepared_sides
from sinkql.runtime.state import report
from sinkql.runtime.state.arrangement import rows_to_merge
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.storage.consolidate import consolidate

_BATCH_ROWS = 1 << 15
_MERGED_ROWS = 1 << 20
"""With more rows of state to merge, Spark runs the batch: this process serves all sinks."""

_BYTES = COLD.bytes
_COMPUTED_ROWS = 1 << 14
"""With more rows, Spark computes the expressions, as for a row that fails here: Spark reports it, or can compute it."""


class _ElsewhereError(Exception):
    """Spark must run the batch."""


@dataclass(frozen=True, slots=True)
class InProcessBatch:
    """A batch that runs in this process."""

    job: physical.Job
    batch: Batch
    attempt: str = field(default_factory=lambda: f"h{uuid.uuid4().hex[:12]}")
    _shared: dict[str, pa.Table] = field(default_factory=dict)
    _words: list[object] = field(default_factory=list)

    @classmethod
    def of(cls, job: physical.Job, batch: Batch) -> InProcessBatch | None:
        """Return the batch, or None if Spark must run it because of its operators or its number of rows."""
        if batch.deduplicated or possible(job) is not None or (batch.cleared and job.graph.stateful()):
            return None
        if job.remote and batch.task.buckets is not None:
            return None
        size = Size.total(batch.readers[source].size(parts) for source, parts in batch.splits.items())
        if size is None or not COLD.holds(size):
            return None
        in_process = cls(job, batch)
        return in_process if all(map(in_process._light, job.graph.stateful())) else None

    def compute(self) -> Outcome | None:
        """Read and write; raises the errors of a task. Return None if Spark must run the batch."""
        buckets = self.batch.task.buckets
        try:
            results = self._appended() if buckets is None else self._keyed(buckets)
        except _ElsewhereError:
            return None
        totals, missing = source_tallies(self._words, self.batch.splits)
        assert not missing
        operators = {operator.name: self._buckets(operator) for operator in self._operators()}
        left = report.collect(self._words, operators)
        self.batch.arrangements.home.fetched.update(left.fetched)
        return Outcome(results, totals, left.runs, left.flows)

    def _appended(self) -> list[WriteResult]:
        """Write the rows as they are read."""
        write = self.job.write
        if not any(self.batch.splits.values()):
            return []
        names = [column.name for column in write.columns]
        rows = self._rows(write.input, sequence=False)
        if self._operators():  # they may return more rows than they read
            rows = iter(self._table(write.input, sequence=False).to_batches())
        return [self._written(0, (row.select(names) for row in rows))]

    def _keyed(self, buckets: int) -> list[WriteResult]:
        """Write the rows of each bucket."""
        write, key = self.job.write, self.batch.task.key
        rows = self._table(write.input, sequence=write.change != "retract")
        rows = rows.select([*(column.name for column in write.columns), *_internal(rows.schema)])
        if write.change == "retract" and not (self.job.copartitioned and self.job.copartitioned.columns):
            rows = pa.Table.from_batches(consolidate(rows.to_batches()), rows.schema)
        types = {column.name: column.type for column in write.columns}
        places = bucket_numbers(
            [rows.column(name).combine_chunks() for name in key], [types[name] for name in key], buckets
        )
        parts = enumerate(_parts(rows, places, buckets))
        return [self._written(bucket, iter(part.to_batches())) for bucket, part in parts]

    def _written(self, bucket: int, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        return self.batch.task(bucket, self.attempt, batches)

    def _table(self, operator: physical.Operator, *, sequence: bool) -> pa.Table:
        """Return all rows of an operator; raises _ElsewhereError."""
        schema, batches, size = self._schema(operator, sequence=sequence), [], 0
        for batch in self._rows(operator, sequence=sequence):
            batches.append(batch)
            size += batch.nbytes
            if size > _BYTES:
                raise _ElsewhereError
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
        return read_task(read, used_columns(self.job)[read.source], self.batch, sequence=sequence)

    def _rows(self, operator: physical.Operator, *, sequence: bool) -> Iterator[pa.RecordBatch]:
        """Yield the operator's rows: its columns, then `$diff` unless they are only inserted, `$seq` on request."""
        match operator:
            case physical.Read():
                task = self._reading(operator, sequence=sequence)
                yield from task.rows(range(len(task.splits)), self.attempt, self._words.append)
            case physical.Map() if (below := passed_columns(operator)) is not None:
                for rows in self._rows(operator.input, sequence=sequence):
                    yield _renamed(rows, below, [output.name for output in operator.outputs]) if below else rows
            case physical.Map():
                yield from self._computed(operator, sequence=sequence)
            case physical.Union():
                yield from self._union(operator, sequence=sequence)
            case physical.Stateful():
                yield from self._stateful(stateful(operator), operator)
            case physical.Use():
                if operator.name not in self._shared:
                    self._shared[operator.name] = self._table(self.job.shared[operator.name], sequence=False)
                yield from self._shared[operator.name].to_batches()
            case physical.Flatten() | physical.Repeat():
                raise AssertionError(operator)  # it is not simple

    def _computed(self, operator: physical.Map, *, sequence: bool) -> Iterator[pa.RecordBatch]:
        count = 0
        for rows in self._rows(operator.input, sequence=sequence):
            count += len(rows)
            if count > _COMPUTED_ROWS:
                raise _ElsewhereError
            try:
                computed = mapped(self.job, operator, pa.Table.from_batches([rows]))
            except SinkqlError as error:
                raise _ElsewhereError from error
            yield from computed.combine_chunks().to_batches()

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
        preparation = operator.preparation
        if isinstance(preparation, SidesPreparation):
            sides = zip(struct.entering, preparation.sides, strict=True)
            rows = prepared_sides(preparation, [self._table(input_, sequence=side.latest) for input_, side in sides])
        else:
            (below,) = struct.inputs
            table = self._table(below, sequence=preparation.ordered)
            try:
                rows = prepared(preparation, table)
            except pa.ArrowInvalid as error:
                raise _ElsewhereError from error
        below_each = [self.batch.below(input_, self.job.shared) for input_ in struct.entering]
        task = task_of(operator, self.batch.arrangements, *below_each)
        buckets = self._buckets(operator)
        for bucket, part in enumerate(_parts(rows, self._places(struct, preparation, rows, buckets), buckets)):
            yield from task(bucket, self.attempt, iter(part.to_batches()), self._words.append)

    def _places(
        self, struct: physical.Stateful, preparation: TaskInput, rows: pa.Table, buckets: int
    ) -> NDArray[np.int64]:
        """Return the bucket of each row of an operator."""
        copartitioned = self.job.copartitioned
        if copartitioned is None or copartitioned.operator is not struct:
            return bucket_numbers([rows.column("$h1").combine_chunks()], [BIGINT], buckets)
        types = {column.name: column.type for column in struct.columns}
        columns = [rows.column(name).combine_chunks() for name in preparation.named(copartitioned.key)]
        return bucket_numbers(columns, [types[name] for name in copartitioned.key], buckets)

    def _operators(self) -> list[StatefulOperator]:
        return list(map(stateful, self.job.graph.stateful()))

    def _buckets(self, operator: StatefulOperator) -> int:
        return operator.preparation.buckets(int(self.batch.arrangements.manifest["buckets"]))

    def _light(self, struct: physical.Stateful) -> bool:
        """Return whether the batch merges few rows of an operator's state."""
        arrangements = self.batch.arrangements.manifest["arrangements"]
        return all(
            rows_to_merge(entries, int(bucket), _BATCH_ROWS, grows=arrangement.grows) <= _MERGED_ROWS
            for arrangement in stateful(struct).arrangements
            if self._comes_to(arrangement.name, struct)
            for bucket, entries in arrangements.get(arrangement.name, {}).items()
        )

    def _comes_to(self, arrangement: str, struct: physical.Stateful) -> bool:
        """Return whether the batch may have rows for an arrangement; without rows nothing is merged."""
        sides = struct.leaves if isinstance(struct, physical.Join) else ()
        inputs = [side.input for side in sides if side.arrangement == arrangement] or struct.entering
        reads = (read for input_ in inputs for read in physical.reads_below(input_, self.job.shared))
        return any(self.batch.splits.get(read.source) for read in reads)


def _internal(schema: pa.Schema) -> list[str]:
    return [name for name in (DIFF, SEQ) if name in schema.names]


def _renamed(rows: pa.RecordBatch, below: Sequence[str], names: Sequence[str]) -> pa.RecordBatch:
    internal = _internal(rows.schema)
    columns = [rows.column(name) for name in (*below, *internal)]
    return pa.RecordBatch.from_arrays(columns, names=[*names, *internal])


def _parts(rows: pa.Table, places: NDArray[np.int64], buckets: int) -> list[pa.Table]:
    return [rows.filter(pa.array(places == bucket)) for bucket in range(buckets)]
