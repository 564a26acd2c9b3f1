"""Run a query once in this process, over the present rows of its inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from sinkql import logical, physical
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Reader, Size, Split, WriteResult
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.constant.reader import ConstantReader
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower_one_shot
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch.engine import Batch, SparkNeededError
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.session.row.inputs import Inputs
from sinkql.state_store.directory import StateDirectory

_COMPUTED_ROWS = 500_000
"""More rows take longer one by one than a start of Spark."""
_NOWHERE = physical.Connection("", "", {})


def local_rows(relation: logical.Relation, inputs: Inputs) -> pa.Table | None:
    """Return the rows of a relation; None if Spark must compute them.

    Raises SQ3201 if an expression fails for a row, and what `Inputs.rows` raises.
    """
    graph = lower_one_shot(relation, inputs.plans)
    columns = physical.columns_of(graph.root)
    change = physical.change_of(graph.root)
    write = physical.Write(graph.root, "", _NOWHERE, columns, "append", change, False, (), True, {})
    job = physical.Job("query", "query", "", "local", {}, timedelta(), 0, write, {}, shared=graph.shared)
    readers = {read.source: _reader(read, inputs) for read in job.reads()}
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        batch = _batch(Path(folder), readers)
        try:
            outcome = LocalEngine(1, policy="decline", most_computed=_COMPUTED_ROWS).execute(job, batch)
        except SparkNeededError as needed:
            error = _row_error(needed)
            if error is not None:
                raise error from None
            return None
        except (SinkqlError, ValueError):  # an error of a task, which Spark words for a query; a view cannot have this
            return None
        rows = [result.data for result in outcome.results if result.data is not None]
        return _in_full(rows[0], columns) if rows else _empty(columns)


def _batch(folder: Path, readers: Mapping[str, Reader]) -> Batch:
    """Return the batch of all rows. Its clock is now, and all rows are new."""
    empty = state.empty(bucketing=LocalEngine.bucketing, buckets=1)
    task = _CollectTask(new_id())
    splits = {name: reader.splits(reader.initial(at_end=False), reader.target({})) for name, reader in readers.items()}
    now = clock.time_ms()
    return Batch(task, splits, readers, Arrangements(StateDirectory(folder), empty, 1, task.commit), clock=(0, now))


def _row_error(needed: SparkNeededError) -> SinkqlError | None:
    """Return the error of the expression that fails for a row, with its place in the query."""
    below = needed.__cause__
    original = below.__cause__ if isinstance(below, SinkqlError) else None
    return original if isinstance(original, SinkqlError) else None


def _empty(columns: tuple[physical.Column, ...]) -> pa.Table:
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns]).empty_table()


def _in_full(rows: pa.Table, columns: tuple[physical.Column, ...]) -> pa.Table:
    """Return rows with `$diff` as often as it says."""
    if physical.DIFF not in rows.column_names:
        return rows
    counts = rows.column(physical.DIFF).to_numpy()
    return rows.select([column.name for column in columns]).take(pa.array(np.repeat(np.arange(len(rows)), counts)))


@dataclass(frozen=True, slots=True)
class _CollectTask:
    """A `WriteTask` that returns the rows as a table."""

    commit: str
    buckets: int | None = None
    key: tuple[str, ...] = ()

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        rows = list(batches)
        table = pa.Table.from_batches(rows) if rows else None
        return WriteResult(bucket, 0 if table is None else len(table), table)


@dataclass(frozen=True, slots=True)
class _RowsReader(Reader):
    """A reader of rows in memory, as one split."""

    table: pa.Table

    def initial(self, *, at_end: bool) -> Offsets:
        """Return no offsets."""
        return {}

    def target(self, start: Offsets) -> Offsets:
        """Return no offsets."""
        return {}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return no offsets."""
        return {}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return one split."""
        return [{}]

    def size(self, splits: Sequence[Split]) -> Size:
        """Return nothing: the rows are in memory already."""
        return Size(0, 0)

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        read_counts.rows += len(self.table)
        yield from self.table.to_batches(max_chunksize=_BATCH_ROWS)


_BATCH_ROWS = 1 << 15


def _reader(read: physical.Read, inputs: Inputs) -> Reader:
    if read.connector == physical.CONSTANT:
        return ConstantReader.of(read)
    _, rows = inputs.rows(read.source)
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in read.columns])
    return _RowsReader(rows.rename_columns(schema.names).cast(schema).combine_chunks())
