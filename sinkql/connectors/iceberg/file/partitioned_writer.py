"""Rows in parts → one data file a partition, in the table's order, and where each row went.

Rows as they come → data files, each of one partition and in the table's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sinkql.connectors.iceberg.file.data_file import DataFileWriter, FileEntry, TaskTable, cast, target_schema
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file.sort_order import arrange, sorted_numbers, write_sorted
from sinkql.storage.spill import MOST, Ranges, Spill

_NUMBER = "$number"
_BOUNDS = 255

Where = npt.NDArray[np.uint32]
"""A file's number and a position in it, of each row."""


class ClusteredWriter:
    """Write rows that have the table's types; `name` gives the name of the file with a number.

    Rows of one part are sorted in memory. Those of several wait in a temporary file in `folder`, by ranges of the
    table's order, of which one after the other is sorted. The first part is a sample of all.
    """

    def __init__(self, table: TaskTable, name: Callable[[int], str], folder: Path) -> None:
        self._table, self._name, self._folder = table, name, folder
        self._first: pa.Table | None = None
        self._spill: Spill | None = None
        self._bounds: pa.Table | None = None
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Add a part."""
        if not rows.num_rows:
            return
        if self._first is None and self._spill is None:
            self._first = rows
            return
        if self._first is not None:
            first, self._first = self._first, None
            columns = list(dict.fromkeys(term.column for term in self._table.sorting))
            ordered = sorted_numbers(first, self._table.sorting)
            some = ordered[np.linspace(0, len(ordered) - 1, min(_BOUNDS, len(ordered))).astype(np.int64)]
            self._bounds = first.select(columns).take(pa.array(some))
            self._put_by(first)
        self._put_by(rows)

    def close(self) -> tuple[list[FileEntry], Where]:
        """Finish the files; return them by their numbers, and where the rows are, in the order in which they came."""
        if self._spill is not None:
            return self._close_spilled(self._spill)
        if self._first is None:
            return [], np.zeros((0, 2), np.uint32)
        rows, entries = self._first, []
        where = np.zeros((rows.num_rows, 2), np.uint32)
        for number, (place, mine) in enumerate(arrange(rows, self._table)):
            alike = len(mine) == len(where) and not self._table.sorting
            data = rows if alike else rows.take(pa.array(mine))
            entries.append(write_sorted(self._table, self._name(number), data, place))
            where[mine, 0], where[mine, 1] = number, np.arange(len(mine))
        return entries, where

    def _put_by(self, rows: pa.Table) -> None:
        numbers = pa.array(np.arange(self._rows, self._rows + rows.num_rows, dtype=np.int64))
        self._rows += rows.num_rows
        numbered = rows.append_column(_NUMBER, numbers)
        if self._spill is None:
            self._spill = Spill(self._folder, numbered.schema)
        self._spill.add(numbered, self._ranges(rows))

    def _ranges(self, rows: pa.Table) -> Ranges:
        """Return how many of the bounds stand before each row."""
        assert self._bounds is not None
        count = self._bounds.num_rows
        both = pa.concat_tables([self._bounds, rows.select(self._bounds.column_names)])
        order = sorted_numbers(both, self._table.sorting)
        found = np.empty(len(order), np.int64)
        found[order] = np.cumsum(order < count)
        return found[count:].astype(np.uint8)

    def _close_spilled(self, spill: Spill) -> tuple[list[FileEntry], Where]:
        writers: dict[PartitionValue, tuple[int, DataFileWriter]] = {}
        counts: dict[int, int] = {}
        with TemporaryFile(dir=self._folder) as file, spill:
            file.truncate(8 * self._rows)
            where = np.memmap(file, np.uint32, "r+", shape=(self._rows, 2))  # which outlives the file's name
            for numbered, *_ in spill.parts():
                rows = numbered.drop_columns([_NUMBER])
                numbers = numbered.column(_NUMBER).to_numpy()
                for place, mine in arrange(rows, self._table):
                    if place not in writers:
                        number = len(writers)
                        writers[place] = number, DataFileWriter(self._table, self._name(number), place)
                    number, writer = writers[place]
                    writer.write(rows.take(pa.array(mine)))
                    start = counts.get(number, 0)
                    where[numbers[mine], 0] = number
                    where[numbers[mine], 1] = np.arange(start, start + len(mine))
                    counts[number] = start + len(mine)
                if sum(writer.waiting for _, writer in writers.values()) > MOST:
                    for _, writer in writers.values():
                        writer.flush()
        entries = []
        for _, writer in writers.values():
            entry = writer.close()
            assert entry is not None, "no rows"
            entries.append(replace(entry, order_id=self._table.order_id))
        return entries, where


_ROWS, _BYTES = 1 << 20, 128 << 20
"""Rows wait in memory until there are so many, or so large ones; then each partition gets a file."""


class FanoutWriter:
    """Write rows to new data files of their partitions, one file after the other; `name` gets a file's number."""

    def __init__(self, table: TaskTable, name: str) -> None:
        self._table, self._name = table, name
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._entries: list[FileEntry] = []
        whole = table.spec().is_unpartitioned() and not table.sorting
        self._whole = DataFileWriter(table, name.format(""), PartitionValue(table.spec().spec_id)) if whole else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; files go out when there are many."""
        if self._whole is not None:
            self._whole.write(batch)
        elif batch.num_rows:
            rows = pa.Table.from_batches([batch])
            self._waiting.append(cast(rows, target_schema(self._table.schema(), rows.schema)))
            self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
            if self._rows >= _ROWS or self._bytes >= _BYTES:
                self._flush()

    def close(self) -> tuple[FileEntry, ...]:
        """Finish the files and return their entries."""
        if self._whole is not None:
            entry = self._whole.close()
            return () if entry is None else (entry,)
        self._flush()
        return tuple(self._entries)

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._rows, self._bytes = [], 0, 0
        for place, numbers in arrange(rows, self._table):
            name = self._name.format(f"-{len(self._entries)}")
            self._entries.append(write_sorted(self._table, name, rows.take(pa.array(numbers)), place))
