"""The tasks of Python workers: read splits as Arrow rows, and write them. Needs no Spark.

A job without operators reads and writes in one task.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import logical, physical
from sinkql.connector_api.stream import ReadCounts, Reader, Split, WriteResult, WriteTask
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.batch.engine import Batch
from sinkql.runtime.batch.split_count import count_split
from sinkql.runtime.state.report import Leave
from sinkql.runtime.state.unchanged_values import flattened
from sinkql.storage import failpoint

_SEQ_BITS = 40

Used = Mapping[str, Collection[str]]
"""The columns of each source that are used."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads splits of one source by their numbers.

    `what` has the used columns, `places` their indexes in the reader's rows; None if they are all. `first` is the
    number of its first split among the splits of all sources: with the row's place it makes `$seq`, if `sequence` is
    true. `diff` is true if the reader returns `$diff`. `letters` writes the records that cannot be decoded, if they are
    kept.
    """

    what: physical.Read
    reader: Reader
    splits: tuple[Split, ...]
    diff: bool
    sequence: bool
    first: int
    letters: WriteTask | None = None
    places: tuple[int, ...] | None = None

    def rows(self, numbers: Iterable[int], attempt: str, leave: Leave) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these splits; each split that was read to its end adds a `SplitReport`."""
        schema = self.schema()
        for number in numbers:
            with count_split(self.what, self.letters, f"{attempt}-{number}") as read_counts:
                yield from self._split(number, schema, read_counts)
                failpoint.point("read")
            leave(SplitReport(self.what.source, number, read_counts))

    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        fields = [(column.name, arrow_type(column.type)) for column in self.what.columns]
        if self.diff:
            fields.append((DIFF, pa.int64()))
        fields += [(column.name, arrow_type(column.type)) for column in physical.unchanged_value_columns(self.what)]
        if self.sequence:
            fields.append((SEQ, pa.int64()))
        return pa.schema(fields)

    def _split(self, number: int, schema: pa.Schema, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        at = (self.first + number) << _SEQ_BITS
        for batch in self.reader.read(self.splits[number], read_counts):
            if batch.num_rows == 0:
                continue
            read_counts.decoded += batch.num_rows
            chosen = batch if self.places is None else batch.select(list(self.places))
            arrays = flattened(self.what, chosen).columns
            if self.sequence:
                arrays = [*arrays, pa.array(np.arange(at, at + batch.num_rows, dtype=np.int64))]
                at += batch.num_rows
            # Neither Spark nor Parquet casts: a wrong type here would become wrong rows there.
            if [array.type for array in arrays] != schema.types:
                raise SinkqlError(
                    "SQ3390",
                    f'source "{self.what.source}" returned columns that it does not declare',
                    detail=f"declared {schema.types}, found {batch.schema.types}",
                )
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns of a source, in order, that become the sink's columns under the sink's names."""

    source: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FusedTask:
    """Reads splits and writes them in one step: rows never leave Arrow.

    `work` has pairs of branch and split number; `names` are the sink's columns.
    """

    reads: Mapping[str, ReadTask]
    branches: tuple[SourceColumns, ...]
    names: tuple[str, ...]
    write: WriteTask

    def __call__(self, bucket: int, work: Sequence[tuple[int, int]], attempt: str, leave: Leave) -> WriteResult:
        """Write the rows of this work."""
        batches = itertools.chain.from_iterable(self.rows(branch, number, attempt, leave) for branch, number in work)
        return self.write(bucket, attempt, batches)

    def rows(self, at: int, number: int, attempt: str, leave: Leave) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split of a branch, under the sink's names."""
        branch = self.branches[at]
        for batch in self.reads[branch.source].rows([number], attempt, leave):
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in branch.columns], names=list(self.names))


def used_columns(job: physical.Job) -> Used:
    """Return the columns of each source that a job uses."""
    return physical.columns_read(job.graph, [column.name for column in job.write.columns])


def read_task(read: physical.Read, used: Collection[str], batch: Batch, *, sequence: bool) -> ReadTask:
    """Return a task that reads the splits of one source in a batch, with the `used` columns."""
    first = 0
    for source, parts in batch.splits.items():
        if source == read.source:
            break
        first += len(parts)
    columns = tuple(column for column in read.columns if column.name in used)
    reader = batch.readers[read.source]
    whole = len(columns) == len(read.columns)
    narrow = reader if whole else reader.with_columns(tuple(column.name for column in columns))
    return ReadTask(
        msgspec.structs.replace(read, columns=columns),
        narrow or reader,
        tuple(batch.splits[read.source]),
        diff=read.change != "append",
        sequence=sequence,
        first=first,
        letters=batch.dead_letters,
        places=_places(read, used) if narrow is None else None,
    )


def _places(read: physical.Read, used: Collection[str]) -> tuple[int, ...]:
    """Return the indexes of used columns in a reader's rows, and of the internal columns."""
    places = [place for place, column in enumerate(read.columns) if column.name in used]
    more = (read.change != "append") + 2 * read.holes
    return (*places, *range(len(read.columns), len(read.columns) + more))


def fused_task(
    job: physical.Job, branches: Sequence[SourceColumns], used: Used, batch: Batch
) -> tuple[FusedTask, list[tuple[int, int]]]:
    """Return the task that reads and writes in one step, and its work: branches with the numbers of their splits."""
    reads = {read.source: read_task(read, used[read.source], batch, sequence=False) for read in job.reads()}
    names = tuple(column.name for column in job.write.columns)
    work = [(at, number) for at, branch in enumerate(branches) for number in range(len(batch.splits[branch.source]))]
    return FusedTask(reads, tuple(branches), names, batch.task), work


@dataclass(frozen=True, slots=True)
class SplitReport:
    """The report of a task about one split that it has read."""

    source: str
    number: int
    read_counts: ReadCounts


def source_tallies(
    words: Iterable[object], splits: Mapping[str, Sequence[Split]]
) -> tuple[dict[str, ReadCounts], list[tuple[str, int]]]:
    """Return the record accounting of each source, from one report per split, and the splits without a report.

    Raises SQ3391 if two attempts at a split counted differently: a split must return the same rows each time.
    """
    by_split: dict[tuple[str, int], ReadCounts] = {}
    for word in words:
        if not isinstance(word, SplitReport):
            continue
        twin = by_split.setdefault((word.source, word.number), word.read_counts)
        if _counts(twin) != _counts(word.read_counts):
            raise SinkqlError(
                "SQ3391",
                f'source "{word.source}" returned different rows when part of it was read again',
                detail=f"First {twin.rows} rows, {twin.failed} failed; then {word.read_counts.rows} rows, "
                f"{word.read_counts.failed} failed.",
            )
    totals = {source: ReadCounts() for source in splits}
    missing = []
    for source, parts in splits.items():
        for number in range(len(parts)):
            one = by_split.get((source, number))
            if one is None:
                missing.append((source, number))
                continue
            totals[source].add(one)
    return totals, missing


def _counts(read_counts: ReadCounts) -> tuple[int, ...]:
    return read_counts.rows, read_counts.failed, read_counts.dropped, read_counts.decoded


def fusable(write: physical.Write) -> tuple[SourceColumns, ...] | None:
    """Return the source columns that are the sink's columns, if the job computes nothing else."""
    if write.mode != "append" or write.change != "append":
        return None
    return _branches(write.input, tuple(column.name for column in write.columns))


def _branches(operator: physical.Operator, names: tuple[str, ...]) -> tuple[SourceColumns, ...] | None:
    match operator:
        case physical.Read():
            plain = operator.change != "retract" and not operator.holes
            return (SourceColumns(operator.source, names),) if plain else None
        case physical.Map():
            below = _columns_below(operator, names)
            return None if below is None else _branches(operator.input, below)
        case physical.Union():
            first = [column.name for column in physical.columns_of(operator)]
            columns: list[SourceColumns] = []
            for input_ in operator.inputs:
                others = [column.name for column in physical.columns_of(input_)]
                branches = _branches(input_, tuple(others[first.index(name)] for name in names))
                if branches is None:
                    return None
                columns.extend(branches)
            return tuple(columns)
        case physical.Stateful() | physical.Flatten() | physical.Repeat() | physical.Use():
            return None


def _columns_below(operator: physical.Map, names: tuple[str, ...]) -> tuple[str, ...] | None:
    if operator.where is not None:
        return None
    if not operator.outputs:
        return names
    types = {column.name: column.type for column in physical.columns_of(operator.input)}
    outputs = {output.name: output for output in operator.outputs}
    below = []
    for name in names:
        column = outputs[name].expression
        if not isinstance(column, logical.Reference) or types.get(column.name) != outputs[name].type:
            return None
        below.append(column.name)
    return tuple(below)
