"""Rows of one batch → data files of an append sink: rows as they come, in a changelog with their diff and time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyiceberg.table import Table

from sinkql.connector_api.stream import NO_PLAN, WriteResult, WriteTask
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.append import OwnFile, OwnFiles, chosen, own_entries, own_files, rewrite
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Failures, Steps
from sinkql.connectors.iceberg.file.data_file import TaskTable, for_tasks
from sinkql.connectors.iceberg.file.deletes import all_files
from sinkql.connectors.iceberg.file.partitioned_writer import FanoutWriter
from sinkql.connectors.iceberg.table.schema import DIFF_COLUMN, TIMESTAMP_COLUMN
from sinkql.storage import failpoint


@dataclass(frozen=True, slots=True)
class AppendTask:
    """Write the rows of one bucket, to one data file a partition; a `WriteTask`.

    `timestamp` is the changelog's `_mz_timestamp` in ms, None for a plain append. A row whose `$diff` is n stays one
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
        """Write the rows; the result's data is a tuple of file entries, empty where no row came."""
        name = f"b{bucket:03d}-{self.sink}-{self.epoch}-{self.commit}-{attempt}{{}}{self.suffix}"
        writer = FanoutWriter(self.table, name)
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            writer.write(batch if self.timestamp is None else self._with_change(batch))
        entries = writer.close()
        failpoint.point("data-file")
        return WriteResult(bucket, rows, entries, superseded=0)

    def _with_change(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = batch.schema.names
        diff = batch.column("$diff") if "$diff" in names else pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        time = pa.repeat(pa.scalar(self.timestamp, pa.int64()), batch.num_rows)
        return pa.RecordBatch.from_arrays([*batch.columns, diff, time], names=[*names, DIFF_COLUMN, TIMESTAMP_COLUMN])


class AppendMode:
    """Rows are only added; a changelog gives each batch a later time than the one before.

    With `replaces`, the first batch takes all files out of the table that are there before it.
    """

    def __init__(self, *, changelog: bool, replaces: bool = False) -> None:
        self._changelog = changelog
        self._replaces = replaces
        self._others: frozenset[str] = frozenset()
        self._files: OwnFiles | None = None
        self._listed = False
        self._failed = Failures()
        self._staged: list[OwnFile] = []

    def refresh(self, table: Table, kept: StoredCheckpoint) -> None:
        """Nothing is known of the rows, but for those of others that are to go."""
        self._others = frozenset()
        if self._replaces and kept.marker.plan == NO_PLAN:
            self._others = all_files(table)

    def invalidate_index(self) -> None:
        """Rows that are only added need no index."""

    def begin(
        self, table: Table, kept: StoredCheckpoint, *, commit: str, bucketing: str, buckets: int, cleared: bool
    ) -> AppendTask:
        """Return the task; its timestamp is decided here, so that all files of the attempt have the same."""
        assert not cleared, "rows of an append sink stay"
        timestamp = max(int(time.time() * 1000), kept.timestamp + 1) if self._changelog else None
        return AppendTask(commit, kept.marker.sink, kept.marker.epoch, for_tasks(table), timestamp)

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[FileChange, str | None]:
        """Return the files; there is no index."""
        entries = tuple(entry for result in results for entry in result.data)
        self._staged = own_entries(entries)
        return FileChange(entries, self._others), None

    def timestamp(self, task: WriteTask) -> int:
        """Return the task's time."""
        assert isinstance(task, AppendTask)
        return task.timestamp or 0

    def on_commit(self, snapshot: int) -> None:
        """Remember the files until they are large."""
        if self._files is not None:
            self._files.files += self._staged

    def compact(self, attempt: Attempt, kept: StoredCheckpoint) -> Steps:
        """Put small files of this sink together."""
        if attempt.beside:  # its files are small all of them
            return None
        marker = kept.marker
        if self._files is None or not self._listed:
            self._files, self._listed = OwnFiles(), False  # commits meanwhile add theirs
            yield from own_files(attempt.table(), marker.sink, self._files)
            self._listed = True
        if attempt.scope is not None:
            attempt.scope.fix(file.path for file in self._files.files)
        files = chosen(self._files.files, attempt.table(), self._failed, attempt.scope)
        if not files:
            return None
        return (yield from rewrite(files, attempt, self._files.deletes, sink=marker.sink, epoch=marker.epoch))

    def compacted(self, done: Compaction, snapshot: int) -> None:
        """Remember the new files in place of the old ones."""
        if self._files is not None:
            left = [file for file in self._files.files if file.path not in done.change.remove]
            self._files.files = left + own_entries(done.change.add)

    def exchanged(self, gone: frozenset[str]) -> None:
        """Forget files that are not in the table any more."""
        if self._files is not None:
            self._files.files = [file for file in self._files.files if file.path not in gone]

    def on_commit_failed(self, error: Exception) -> None:
        """Look at the table again next time: somebody else may have removed files."""
        self._files = None
        self._failed.note(error)

    def skipped_files(self) -> str | None:
        """Return why a file is never tried again."""
        return self._failed.left({file.path for file in self._files.files} if self._files is not None else ())

    def sweep(self, table: Table, kept: StoredCheckpoint) -> None:
        """There are no files outside the table."""
