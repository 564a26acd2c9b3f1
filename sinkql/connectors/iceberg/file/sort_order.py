"""The order of rows within data files, as a table's sort order says."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connectors.iceberg.file.data_file import (
    DataFileWriter,
    FileEntry,
    Sorting,
    TaskTable,
    cast,
    target_schema,
    write_data_file,
)
from sinkql.connectors.iceberg.file.partition import PartitionValue, divide
from sinkql.storage.sorted_run import Indices

_IN_MEMORY, _AT_ONCE = 128 << 20, 32 << 20
"""Bytes of the rows that wait in memory to be sorted, and of those that are put in order at once."""


def arrange(rows: pa.Table, table: TaskTable) -> list[tuple[PartitionValue, Indices]]:
    """Return the partitions of rows that have the table's types, each with the numbers of its rows in their order."""
    parts = divide(rows, table.schema(), table.spec())
    if not table.sorting or not parts:
        return parts
    rank = np.empty(rows.num_rows, np.int64)
    rank[sorted_numbers(rows, table.sorting)] = np.arange(rows.num_rows)
    return [(place, mine[np.argsort(rank[mine])]) for place, mine in parts]


class SortedWriter:
    """Write rows of one partition to one new data file in the table's sort order; without one, as they come.

    Rows to sort wait until the file is closed, many of them in a temporary file; then `order` has their numbers in the
    file's order.
    """

    def __init__(self, table: TaskTable, name: str, place: PartitionValue) -> None:
        self.order: Indices | None = None
        self._table = table
        self._file = DataFileWriter(table, name, place)
        self._schema: pa.Schema | None = None
        self._waiting = _Waiting()

    def write(self, rows: pa.Table) -> None:
        """Add rows; those of other files may have other types of Arrow's."""
        if not self._table.sorting:
            self._file.write(rows)
            return
        if self._schema is None:
            self._schema = target_schema(self._table.schema(), rows.schema)
        self._waiting.add(cast(rows, self._schema))

    def close(self) -> FileEntry | None:
        """Finish the file and return its entry; None where no row came."""
        if self._schema is not None:
            rows = self._waiting.rows(self._schema)
            self.order = sorted_numbers(rows, self._table.sorting)
            for some in _in_order(rows, self.order):
                self._file.write(some)
            self._waiting.discard()
        entry = self._file.close()
        return None if entry is None else replace(entry, order_id=self._table.order_id)

    def discard(self) -> None:
        """Give the file up, which nothing names."""
        self._waiting.discard()
        self._file.discard()


class _Waiting:
    """Rows that wait to be sorted: in memory, and in a temporary file without a name once they are many."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._stream: pa.RecordBatchFileWriter | None = None

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _IN_MEMORY:
            self._put_by()

    def rows(self, schema: pa.Schema) -> pa.Table:
        """Return all rows; those of the temporary file come into memory when they are looked at, for that long."""
        if self._stream is None or self._file is None:
            return pa.concat_tables(self._tables) if self._tables else schema.empty_table()
        self._put_by()
        self._stream.close()
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.py_buffer(mapped)).read_all()

    def discard(self) -> None:
        self._tables = []
        if self._file is not None:
            self._file.close()

    def _put_by(self) -> None:
        for rows in self._tables:
            if self._stream is None:
                self._file = TemporaryFile()  # noqa: SIM115  # it is needed until the rows are written
                self._stream = pa.ipc.new_file(self._file, rows.schema)
            self._stream.write_table(rows)
        self._tables, self._bytes = [], 0


def _in_order(rows: pa.Table, numbers: Indices) -> Iterator[pa.Table]:
    """Yield the rows with these numbers, some at a time: Arrow's own `take` would copy all of them at first."""
    batches = rows.to_batches()
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    step = max(1, rows.num_rows * _AT_ONCE // max(1, rows.nbytes))
    for first in range(0, len(numbers), step):
        some = numbers[first : first + step]
        rising = np.argsort(some)
        cuts = np.searchsorted(some[rising], starts)
        found = [
            _taken(batch, some[rising[cuts[each] : cuts[each + 1]]] - starts[each])
            for each, batch in enumerate(batches)
            if cuts[each] < cuts[each + 1]
        ]
        gathered = pa.Table.from_batches(found).combine_chunks()
        yield gathered if _rise(some) else gathered.take(pa.array(np.argsort(rising)))


def _taken(batch: pa.RecordBatch, places: Indices) -> pa.RecordBatch:
    """Return the rows at rising places, without a copy where they are neighbours."""
    first, last = int(places[0]), int(places[-1])
    return batch.slice(first, len(places)) if last - first + 1 == len(places) else batch.take(pa.array(places))


def _rise(numbers: Indices) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def write_sorted(table: TaskTable, name: str, rows: pa.Table, place: PartitionValue) -> FileEntry:
    """Write one data file with all of `rows`, which `arrange` has put in order."""
    return replace(write_data_file(table, name, rows, place), order_id=table.order_id)


def sorted_numbers(rows: pa.Table, sorting: Sequence[Sorting]) -> Indices:
    """Return the numbers of rows in order; rows that are equal keep theirs."""
    if len(sorting) == 1 and not sorting[0].descending:
        values = _integers(rows.column(sorting[0].column))
        if values is not None:
            return np.argsort(values, kind="stable")
    columns, keys = {}, []
    for number, term in enumerate(sorting):
        column = _comparable(rows.column(term.column))
        if column.null_count:
            columns[f"n{number}"] = column.is_null()
            keys.append((f"n{number}", "descending" if term.nulls_first else "ascending"))
        columns[f"v{number}"] = column
        keys.append((f"v{number}", "descending" if term.descending else "ascending"))
    found: Indices = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return found


def _integers(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[Any]] | None:
    """Return values that are integers, none of them NULL: those of sorted files are sorted again many times faster."""
    if column.null_count or not pa.types.is_integer(column.type):
        return None
    values: np.ndarray[tuple[int], np.dtype[Any]] = column.to_numpy()
    return values


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Arrow compares as Iceberg does: a uuid's bytes, floats as integers, NaN above infinity."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    if not pa.types.is_floating(column.type):
        return column
    values = column.cast(pa.float64()).combine_chunks()
    bits = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).view(np.int64)
    whole = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return pa.chunked_array([pa.array(whole, mask=values.is_null().to_numpy(zero_copy_only=False))])
