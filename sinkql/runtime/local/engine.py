"""Run the operators of a job over one batch in this process: rows written and new state.

Python evaluates the expressions; tasks run as in Spark. With policy `strict`, everything runs in this process. With
`decline`, batches that are better left to Spark raise SparkNeededError.
"""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.stream import ReadCounts, Reader, Split, WriteResult
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.lowering.join_input import SidesPreparation
from sinkql.runtime.batch.engine import Batch, Outcome, SparkNeededError
from sinkql.runtime.batch.split_count import count_split
from sinkql.runtime.local.in_process import InProcessBatch
from sinkql.runtime.local.map import mapped, values
from sinkql.runtime.local.possible import possible
from sinkql.runtime.local.task_input import hash_of, prepared, prepared_sides
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import task_of
from sinkql.runtime.state.report import collect
from sinkql.runtime.state.unchanged_values import flattened as without_holes

Policy = Literal["strict", "decline"]
_SEQ_BITS = 40
Task = TypeVar("Task")
_TASK_ROWS = 1000


class LocalEngine:
    """Runs a job's operators over a batch in this process. With `decline`, Spark can continue from its state."""

    def __init__(self, buckets: int = 2, *, policy: Policy = "strict") -> None:
        self.buckets = buckets
        self.policy = policy
        self.bucketing = "local" if policy == "strict" else "spark-murmur3"

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Run the batch; raises SQ3201 if an expression fails for a row, SQ2663 if only Spark can compute it.

        Under the policy `decline` it raises SparkNeededError instead of both.
        """
        if self.policy == "decline":
            return self._execute_small(job, batch)
        work = _Work(job, batch, self.buckets, self.sent)
        results = work.write(work.rows(job.write.input))
        operators = list(map(stateful, job.graph.stateful()))
        buckets = {operator.name: operator.preparation.buckets(self.buckets) for operator in operators}
        left = collect(work.words, buckets)
        batch.arrangements.home.fetched.update(left.fetched)
        return Outcome(results, work.source_counts, left.runs, left.flows)

    def _execute_small(self, job: physical.Job, batch: Batch) -> Outcome:
        small = InProcessBatch.of(job, batch)
        outcome = small.compute() if small is not None else None
        if outcome is None:
            raise SparkNeededError(possible(job) or "the batch is large, or one of its rows fails")
        return outcome

    def sent(self, task: Task) -> Task:
        """Return a task after the serialization that a Spark process would receive."""
        copy: Task = pickle.loads(pickle.dumps(task))
        return copy


@dataclass(slots=True)
class _Work:
    """The work of one batch: returns the rows of operators, their columns and then `$diff`, `$seq` or both."""

    job: physical.Job
    batch: Batch
    buckets: int
    sent: Callable[[Any], Any]
    source_counts: dict[str, ReadCounts] = field(default_factory=dict)
    words: list[object] = field(default_factory=list)
    _read: dict[str, pa.Table] = field(default_factory=dict)
    _shared: dict[str, pa.Table] = field(default_factory=dict)

    def rows(self, operator: physical.Operator) -> pa.Table:
        match operator:
            case physical.Read():
                if operator.source not in self._read:
                    self._read[operator.source] = self.read(operator)
                return self._read[operator.source]
            case physical.Map():
                return mapped(self.job, operator, self.rows(operator.input))
            case physical.Union():
                return self.union(operator)
            case physical.Stateful():
                return self.stateful(operator)
            case physical.Flatten():
                return flattened(operator, self.rows(operator.input))
            case physical.Repeat():
                return repeated(self.job, operator, self.rows(operator.input))
            case physical.Use():
                if operator.name not in self._shared:
                    self._shared[operator.name] = self.rows(self.job.shared[operator.name])
                return self._shared[operator.name]

    def read(self, read: physical.Read) -> pa.Table:
        first = 0
        for other in self.job.reads():
            if other.source == read.source:
                break
            first += len(self.batch.splits.get(other.source, ()))
        splits = self.batch.splits.get(read.source, ())
        read_counts = self.source_counts.setdefault(read.source, ReadCounts())
        schema = _schema(read)
        tables = [schema.empty_table()]
        for number, split in enumerate(splits, first):
            with count_split(read, self.batch.dead_letters, uuid.uuid4().hex) as split_counts:
                tables += _split_rows(read, self.batch.readers[read.source], split, split_counts, schema, number)
            read_counts.add(split_counts)
        rows = pa.concat_tables(tables)
        return _last(rows, read.key) if self.batch.deduplicated and read.key and not read.holes else rows

    def union(self, union: physical.Union) -> pa.Table:
        tables = [self.rows(input_) for input_ in union.inputs]
        schema = _schema(union)
        if physical.change_of(union) == "retract":
            tables = [_with_diff(table) for table in tables]
        elif physical.SEQ not in schema.names:
            tables = [
                table.drop_columns(internal) if (internal := {physical.SEQ} & set(table.column_names)) else table
                for table in tables
            ]
        return pa.concat_tables([table.rename_columns(schema.names).cast(schema) for table in tables])

    def stateful(self, operator: physical.Stateful) -> pa.Table:
        meant = stateful(operator)
        below = [self.batch.below(input_, self.job.shared) for input_ in operator.entering]
        work = task_of(meant, self.batch.arrangements, *below)
        buckets = meant.preparation.buckets(self.buckets)
        inputs = list(map(self.rows, operator.entering))
        if isinstance(meant.preparation, SidesPreparation):
            grouped = prepared_sides(meant.preparation, inputs, buckets)
        else:
            (rows,) = inputs
            grouped = prepared(meant.preparation, rows)
        tables = [meant.preparation.output().empty_table()]
        at = grouped.column(meant.preparation.place).to_numpy().astype(np.uint64)
        for bucket, rows in enumerate(_split(grouped, at, buckets)):
            numbered = rows.append_column("$b", pa.array(np.full(len(rows), bucket)))
            batches = numbered.to_batches(max_chunksize=_TASK_ROWS)
            task = self.sent(work)
            results = task(bucket, uuid.uuid4().hex, iter(batches), self.words.append)
            tables += [pa.Table.from_batches([result]) for result in results]
        return pa.concat_tables(tables)

    def write(self, rows: pa.Table) -> Sequence[WriteResult]:
        write, task = self.job.write, self.batch.task
        names = [column.name for column in write.columns]
        rows = rows.select([*names, *physical.internal_of(write.input)])
        if write.change == "retract":
            rows = _consolidated(rows)
        if task.buckets is None:
            return [self.sent(task)(0, uuid.uuid4().hex, iter(rows.to_batches()))]
        keys = zip(*(rows.column(name).to_pylist() for name in task.key), strict=True)
        hashes = np.array([hash_of(key) for key in keys], np.uint64)
        parts = enumerate(_split(rows, hashes, task.buckets))
        return [self.sent(task)(bucket, uuid.uuid4().hex, iter(part.to_batches())) for bucket, part in parts]


def _split_rows(
    read: physical.Read, reader: Reader, split: Split, read_counts: ReadCounts, schema: pa.Schema, number: int
) -> Iterator[pa.Table]:
    row = number << _SEQ_BITS
    for batch in reader.read(split, read_counts):
        table = pa.Table.from_batches([without_holes(read, batch)])
        if physical.SEQ in schema.names:
            table = table.append_column("$seq", pa.array(np.arange(row, row + len(table), dtype=np.int64)))
        row += len(table)
        read_counts.decoded += len(table)
        yield table.cast(schema)


def _schema(operator: physical.Operator) -> pa.Schema:
    fields = [(column.name, arrow_type(column.type)) for column in physical.columns_of(operator)]
    fields += [(name, pa.int64()) for name in physical.internal_of(operator)]
    if isinstance(operator, physical.Read) and operator.holes:
        fields[-1:-1] = [
            (column.name, arrow_type(column.type)) for column in physical.unchanged_value_columns(operator)
        ]
    return pa.schema(fields)


def _last(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last change of each key."""
    values = zip(*(python_values(rows.column(name)) for name in key), strict=True)
    last = {value: place for place, value in enumerate(values)}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def _with_diff(table: pa.Table) -> pa.Table:
    if physical.DIFF in table.column_names:
        return table
    rows = table.drop_columns([physical.SEQ]) if physical.SEQ in table.column_names else table
    return rows.append_column(physical.DIFF, pa.array(np.ones(len(table), np.int64)))


def _consolidated(rows: pa.Table) -> pa.Table:
    """Add up the changes of equal rows, and omit rows whose changes cancel out."""
    counts: Counter[tuple[Any, ...]] = Counter()
    places: dict[tuple[Any, ...], int] = {}
    *columns, diffs = map(python_values, rows.columns)
    for place, (diff, *row_values) in enumerate(zip(diffs, *columns, strict=True)):
        row = tuple(map(_alike, row_values))
        places.setdefault(row, place)
        counts[row] += diff
    changes = [(places[row], diff) for row, diff in counts.items() if diff]
    distinct = rows.take(pa.array([place for place, _ in changes], pa.int64()))
    return distinct.set_column(len(columns), "$diff", pa.array([diff for _, diff in changes], pa.int64()))


def _alike(value: Any) -> Any:
    """Return a comparison key of a value: NaN equals NaN."""
    if isinstance(value, tuple):
        return tuple(map(_alike, value))
    return "NaN" if value != value else value  # only NaN differs from itself


def _split(rows: pa.Table, hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], buckets: int) -> list[pa.Table]:
    place = hashes % np.uint64(buckets)
    return [rows.filter(pa.array(place == bucket)) for bucket in range(buckets)]


def flattened(operator: physical.Flatten, below: pa.Table) -> pa.Table:
    """Return the rows of a Flatten, with the internal columns."""
    held = below.column(operator.array.column).combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(held), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.maximum(lengths, 1) if operator.outer else lengths
    places = np.repeat(np.arange(len(below)), counts)
    numbers = np.arange(len(places)) - (np.cumsum(counts) - counts)[places]
    missing = lengths[places] == 0
    flat = pc.list_flatten(held)
    indexes = pa.array((np.cumsum(lengths) - lengths)[places] + numbers, pa.int64(), mask=missing)
    internal = [name for name in (physical.DIFF,) if name in below.column_names]
    rows = below.take(pa.array(places, pa.int64()))
    columns = {column.name: rows.column(column.name) for column in physical.columns_of(operator.input)}
    columns[operator.name] = flat.take(indexes).cast(arrow_type(operator.element))
    if operator.ordinality is not None:
        columns[operator.ordinality] = pa.array(numbers + 1, pa.int64(), mask=missing)
    return pa.table(columns | {name: rows.column(name) for name in internal})


def repeated(job: physical.Job, operator: physical.Repeat, below: pa.Table) -> pa.Table:
    """Return the rows of a Repeat."""
    times = np.array(values(job, operator.times, below), np.int64)
    diffs = below.column(physical.DIFF).to_numpy() * times
    place = below.column_names.index(physical.DIFF)
    multiplied = below.set_column(place, physical.DIFF, pa.array(diffs, pa.int64()))
    return multiplied.filter(pa.array(diffs != 0))
