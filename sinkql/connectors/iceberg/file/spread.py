"""Rows as they come → data files, each of one partition and in the table's order."""

from __future__ import annotations

import pyarrow as pa

from sinkql.connectors.iceberg.file.data_file import DataFileWriter, FileEntry, TaskTable, cast, target_schema
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file.sort_order import arrange, write_sorted

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
