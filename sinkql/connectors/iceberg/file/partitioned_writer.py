"""Write rows to one data file per partition, in the table's sort order.

`ClusteredWriter` also returns the file and position of each row. `FanoutWriter` writes files as rows arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sinkql.connectors.iceberg.file.data_file import DataFileWriter, FileEntry, Sorting, TaskTable, cast, target_schema
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file.sort_order import arrange, is_ascending, sorted_numbers, write_sorted
from sinkql.storage.spill import MOST, Ranges, Spill

_NUMBER = "$number"
_BOUNDS = 255

Where = npt.NDArray[np.uint32]
"""The number of a file and a position in it, for each row."""


class ClusteredWriter:
    """A writer of rows in the table's types; `name` returns the name of the file with a number.

    A single part is sorted in memory. Several parts are spilled to a temporary file in `folder`, by ranges of the sort
    order, and each range is then sorted. The first part is the sample that determines the ranges.
    """

    def __init__(self, table: TaskTable, name: Callable[[int], str], folder: Path) -> None:
        self._table, self._name, self._folder = table, name, folder
        self._first: pa.Table | None = None
        self._spilled: _RangeSpill | None = None

    def add(self, rows: pa.Table) -> None:
        """Add a part."""
        if not rows.num_rows:
            return
        if self._spilled is None:
            if self._first is None:
                self._first = rows
                return
            first, self._first = self._first, None
            self._spilled = _RangeSpill(first, self._table.sorting, self._folder)
            self._spilled.add(first)
        self._spilled.add(rows)

    def close(self) -> tuple[list[FileEntry], Where]:
        """Finish the files; return their entries by number, and the place of each row in input order."""
        if self._spilled is not None:
            return self._close_spilled(self._spilled)
        if self._first is None:
            return [], np.zeros((0, 2), np.uint32)
        rows, entries = self._first, []
        where = np.zeros((rows.num_rows, 2), np.uint32)
        for number, (place, numbers_of_place) in enumerate(arrange(rows, self._table)):
            alike = len(numbers_of_place) == len(where) and is_ascending(numbers_of_place)
            data = rows if alike else rows.take(pa.array(numbers_of_place))
            entries.append(write_sorted(self._table, self._name(number), data, place))
            where[numbers_of_place, 0], where[numbers_of_place, 1] = number, np.arange(len(numbers_of_place))
        return entries, where

    def _close_spilled(self, spilled: _RangeSpill) -> tuple[list[FileEntry], Where]:
        writers: dict[PartitionValue, tuple[int, DataFileWriter]] = {}
        counts: dict[int, int] = {}
        with TemporaryFile(dir=self._folder) as file, spilled.spill:
            file.truncate(8 * spilled.rows)
            where = np.memmap(file, np.uint32, "r+", shape=(spilled.rows, 2))  # the mapping outlives the file's name
            for numbered, *_ in spilled.spill.parts():
                rows = numbered.drop_columns([_NUMBER])
                numbers = numbered.column(_NUMBER).to_numpy()
                for place, numbers_of_place in arrange(rows, self._table):
                    if place not in writers:
                        number = len(writers)
                        writers[place] = number, DataFileWriter(self._table, self._name(number), place)
                    number, writer = writers[place]
                    writer.write(rows.take(pa.array(numbers_of_place)))
                    start = counts.get(number, 0)
                    where[numbers[numbers_of_place], 0] = number
                    where[numbers[numbers_of_place], 1] = np.arange(start, start + len(numbers_of_place))
                    counts[number] = start + len(numbers_of_place)
                if sum(writer.waiting for _, writer in writers.values()) > MOST:
                    for _, writer in writers.values():
                        writer.flush()
        closed = [writer.close() for _, writer in writers.values()]
        return [replace(entry, order_id=self._table.order_id) for entry in closed if entry is not None], where


class _RangeSpill:
    """Rows in a temporary file, numbered and divided into ranges of the sort order; `sample` determines the ranges."""

    def __init__(self, sample: pa.Table, sorting: Sequence[Sorting], folder: Path) -> None:
        self.spill = Spill(folder, sample.schema.append(pa.field(_NUMBER, pa.int64())))
        self.rows = 0
        self._sorting = sorting
        columns = list(dict.fromkeys(term.column for term in sorting))
        ordered = sorted_numbers(sample, sorting)
        chosen = ordered[np.linspace(0, len(ordered) - 1, min(_BOUNDS, len(ordered))).astype(np.int64)]
        self._bounds = sample.select(columns).take(pa.array(chosen))

    def add(self, rows: pa.Table) -> None:
        numbers = pa.array(np.arange(self.rows, self.rows + rows.num_rows, dtype=np.int64))
        self.rows += rows.num_rows
        self.spill.add(rows.append_column(_NUMBER, numbers), self._ranges(rows))

    def _ranges(self, rows: pa.Table) -> Ranges:
        """Return how many bounds precede each row."""
        count = self._bounds.num_rows
        both = pa.concat_tables([self._bounds, rows.select(self._bounds.column_names)])
        order = sorted_numbers(both, self._sorting)
        preceding = np.empty(len(order), np.int64)
        preceding[order] = np.cumsum(order < count)
        return preceding[count:].astype(np.uint8)


_ROWS, _BYTES = 1 << 20, 128 << 20
"""Rows are buffered in memory up to these limits; then each partition gets a file."""


class FanoutWriter:
    """A writer of rows to new data files of their partitions; `name` is formatted with a file's number."""

    def __init__(self, table: TaskTable, name: str) -> None:
        self._table, self._name = table, name
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._entries: list[FileEntry] = []
        whole = table.spec().is_unpartitioned() and not table.sorting
        self._whole = DataFileWriter(table, name.format(""), PartitionValue(table.spec().spec_id)) if whole else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, and write files when many rows are buffered."""
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
