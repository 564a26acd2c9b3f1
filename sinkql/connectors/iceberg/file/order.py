"""The order of rows within data files, as a table's sort order says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connectors.iceberg.file.data import DataFileWriter, FileEntry, Sorting, TaskTable, cast, target_schema
from sinkql.connectors.iceberg.file.place import Place, divide
from sinkql.runs import Places


def arrange(rows: pa.Table, table: TaskTable) -> list[tuple[Place, Places]]:
    """Return the partitions of rows that have the table's types, each with the numbers of its rows in their order."""
    parts = divide(rows, table.schema(), table.spec())
    if not table.sorting or not parts:
        return parts
    rank = np.empty(rows.num_rows, np.int64)
    rank[sorted_numbers(rows, table.sorting)] = np.arange(rows.num_rows)
    return [(place, mine[np.argsort(rank[mine])]) for place, mine in parts]


class SortedWriter:
    """Write rows of one partition to one new data file in the table's sort order; without one, as they come.

    Rows to sort wait in memory until the file is closed; then `order` has their numbers in the file's order.
    """

    def __init__(self, table: TaskTable, name: str, place: Place) -> None:
        self.order: Places | None = None
        self._table = table
        self._file = DataFileWriter(table, name, place)
        self._waiting: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        """Add rows; those of other files may have other types of Arrow's."""
        if not self._table.sorting:
            self._file.write(rows)
            return
        first = self._waiting[0].schema if self._waiting else target_schema(self._table.schema(), rows.schema)
        self._waiting.append(cast(rows, first))

    def close(self) -> FileEntry | None:
        """Finish the file and return its entry; None where no row came."""
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._waiting = []
            self.order = sorted_numbers(rows, self._table.sorting)
            self._file.write(rows.take(pa.array(self.order)))
        entry = self._file.close()
        return None if entry is None else replace(entry, order_id=self._table.order_id)

    def discard(self) -> None:
        """Give the file up, which nothing names."""
        self._waiting = []
        self._file.discard()


def write_sorted(table: TaskTable, name: str, rows: pa.Table, place: Place) -> FileEntry:
    """Write one data file with all of `rows`, which `arrange` has put in order."""
    writer = DataFileWriter(table, name, place)
    writer.write(rows)
    entry = writer.close()
    assert entry is not None, "no rows"
    return replace(entry, order_id=table.order_id)


def sorted_numbers(rows: pa.Table, sorting: Sequence[Sorting]) -> Places:
    """Return the numbers of rows in order; rows that are equal keep theirs."""
    columns, keys = {}, []
    for number, term in enumerate(sorting):
        column = _comparable(rows.column(term.column))
        columns[f"n{number}"] = column.is_null()
        columns[f"v{number}"] = column
        keys.append((f"n{number}", "descending" if term.nulls_first else "ascending"))
        keys.append((f"v{number}", "descending" if term.descending else "ascending"))
    found: Places = pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    return found


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
