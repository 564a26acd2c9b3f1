"""Sort the rows of data files by a table's sort order."""

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
"""The bytes of rows to buffer in memory before the sort, and of rows to reorder together."""


def arrange(rows: pa.Table, table: TaskTable) -> list[tuple[PartitionValue, Indices]]:
    """Return the partitions of rows in the table's types, each with its row numbers in sort order."""
    parts = divide(rows, table.schema(), table.spec())
    if not table.sorting or not parts:
        return parts
    numbers = sorted_numbers(rows, table.sorting)
    if len(parts) == 1:
        return [(parts[0][0], numbers)]
    rank = np.empty(rows.num_rows, np.int64)
    rank[numbers] = np.arange(rows.num_rows)
    return [(place, numbers[np.argsort(rank[numbers])]) for place, numbers in parts]


class SortedWriter:
    """A writer of rows of one partition to one new data file in the table's sort order, if it has one.

    Rows to sort are buffered until the file is closed, and spill to a temporary file if they are many. Afterwards
    `order` has their numbers in the file's order.
    """

    def __init__(self, table: TaskTable, name: str, place: PartitionValue) -> None:
        self.order: Indices | None = None
        self._table = table
        self._file = DataFileWriter(table, name, place)
        self._schema: pa.Schema | None = None
        self._waiting = _SortBuffer()

    def write(self, rows: pa.Table) -> None:
        """Add rows; rows of different files may differ in their Arrow types."""
        if not self._table.sorting:
            self._file.write(rows)
            return
        if self._schema is None:
            self._schema = target_schema(self._table.schema(), rows.schema)
        self._waiting.add(cast(rows, self._schema))

    def close(self) -> FileEntry | None:
        """Finish the file and return its entry; None if it has no rows."""
        if self._schema is not None:
            rows = self._waiting.rows(self._schema)
            self.order = sorted_numbers(rows, self._table.sorting)
            for slice_ in _in_sort_order(rows, self.order):
                self._file.write(slice_)
            self._waiting.discard()
        entry = self._file.close()
        return None if entry is None else replace(entry, order_id=self._table.order_id)

    def discard(self) -> None:
        """Delete the file, which no manifest names."""
        self._waiting.discard()
        self._file.discard()


class _SortBuffer:
    """Rows buffered for the sort: in memory, and in an unnamed temporary file if they are many."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._stream: pa.RecordBatchFileWriter | None = None

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _IN_MEMORY:
            self._spill()

    def rows(self, schema: pa.Schema) -> pa.Table:
        """Return all rows; rows in the temporary file are mapped into memory."""
        if self._stream is None or self._file is None:
            return pa.concat_tables(self._tables) if self._tables else schema.empty_table()
        self._spill()
        self._stream.close()
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.py_buffer(mapped)).read_all()

    def discard(self) -> None:
        self._tables = []
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        for rows in self._tables:
            if self._stream is None:
                self._file = TemporaryFile()  # noqa: SIM115  # it stays open until the rows are written
                self._stream = pa.ipc.new_file(self._file, rows.schema)
            self._stream.write_table(rows)
        self._tables, self._bytes = [], 0


def _in_sort_order(rows: pa.Table, numbers: Indices) -> Iterator[pa.Table]:
    """Yield the rows with these numbers in slices; Arrow's `take` would first copy all rows."""
    batches = rows.to_batches()
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    step = max(1, rows.num_rows * _AT_ONCE // max(1, rows.nbytes))
    for first in range(0, len(numbers), step):
        chosen = numbers[first : first + step]
        rising = np.argsort(chosen)
        cuts = np.searchsorted(chosen[rising], starts)
        slices = [
            _take(batch, chosen[rising[cuts[position] : cuts[position + 1]]] - starts[position])
            for position, batch in enumerate(batches)
            if cuts[position] < cuts[position + 1]
        ]
        gathered = pa.Table.from_batches(slices).combine_chunks()
        yield gathered if is_ascending(chosen) else gathered.take(pa.array(np.argsort(rising)))


def _take(batch: pa.RecordBatch, places: Indices) -> pa.RecordBatch:
    """Return the rows at ascending positions, without a copy if they are adjacent."""
    first, last = int(places[0]), int(places[-1])
    return batch.slice(first, len(places)) if last - first + 1 == len(places) else batch.take(pa.array(places))


def is_ascending(numbers: Indices) -> bool:
    """Return whether the numbers of rows are in the order of the rows."""
    return bool((numbers[1:] > numbers[:-1]).all())


def write_sorted(table: TaskTable, name: str, rows: pa.Table, place: PartitionValue) -> FileEntry:
    """Write one data file with all of `rows`, which `arrange` has sorted."""
    return replace(write_data_file(table, name, rows, place), order_id=table.order_id)


def sorted_numbers(rows: pa.Table, sorting: Sequence[Sorting]) -> Indices:
    """Return the numbers of rows in sort order; the sort is stable."""
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
    numbers: Indices = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return numbers


def _integers(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[Any]] | None:
    """Return a column of integers without NULL as an array; None for other columns.

    NumPy sorts almost sorted integers many times faster.
    """
    if column.null_count or not pa.types.is_integer(column.type):
        return None
    values: np.ndarray[tuple[int], np.dtype[Any]] = column.to_numpy()
    return values


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Arrow orders as Iceberg does: uuids as bytes, floats as integers, NaN above infinity."""
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
