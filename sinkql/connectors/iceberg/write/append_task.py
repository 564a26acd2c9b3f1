"""Write the rows of one bucket to data files, in a changelog with their diff and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.iceberg.file.data_file import TaskTable
from sinkql.connectors.iceberg.file.partitioned_writer import FanoutWriter
from sinkql.connectors.iceberg.table.schema import DIFF_COLUMN, TIMESTAMP_COLUMN
from sinkql.storage import failpoint


@dataclass(frozen=True, slots=True)
class AppendTask:
    """Writes the rows of one bucket to one data file per partition; a `WriteTask`.

    `timestamp` is the changelog's `_mz_timestamp` in ms, None without a changelog. A row whose `$diff` is n stays one
    row with that diff.
    """

    commit: str
    sink: str
    epoch: int
    table: TaskTable
    timestamp: int | None
    buckets: int | None = None
    key: tuple[str, ...] = ()

    suffix: ClassVar[str] = ".parquet"

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the rows; the result's data is a tuple of file entries, empty if the bucket has no rows."""
        name = f"b{bucket:03d}-{self.sink}-{self.epoch}-{self.commit}-{attempt}{{}}{self.suffix}"
        writer = FanoutWriter(self.table, name)
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            writer.write(batch if self.timestamp is None else self._add_change(batch))
        entries = writer.close()
        failpoint.point("data-file")
        return WriteResult(bucket, rows, entries, superseded=0)

    def _add_change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = batch.schema.names
        diff = batch.column("$diff") if "$diff" in names else pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        time = pa.repeat(pa.scalar(self.timestamp, pa.int64()), batch.num_rows)
        return pa.RecordBatch.from_arrays([*batch.columns, diff, time], names=[*names, DIFF_COLUMN, TIMESTAMP_COLUMN])
