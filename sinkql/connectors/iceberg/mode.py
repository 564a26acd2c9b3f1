"""What differs between append and upsert sinks in the life of a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from pyiceberg.table import Table

from sinkql.connector.stream import WriteResult, WriteTask
from sinkql.connectors.iceberg.append import AppendTask
from sinkql.connectors.iceberg.datafile import FileEntry, for_tasks
from sinkql.connectors.iceberg.marker import Kept


class Mode(Protocol):
    """Make tasks, and turn what they did into files to commit."""

    def refresh(self, table: Table, kept: Kept) -> None:
        """Bring what is known of the table's rows up to date with a fresh load."""

    def begin(self, table: Table, kept: Kept, *, commit: str, bucketing: str, buckets: int) -> WriteTask:
        """Return the task of a new attempt."""

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[tuple[FileEntry, ...], str | None]:
        """Make durable what the commit will name; return the files to add and the index's name."""

    def timestamp(self, task: WriteTask) -> int:
        """Return the last `_mz_timestamp` that the task wrote, 0 if none."""

    def settled(self, snapshot: int) -> None:
        """Take what was staged as true: the commit stands, as this snapshot."""

    def sweep(self, table: Table, kept: Kept) -> None:
        """Delete own files outside the table that nothing reaches."""


class AppendMode:
    """Rows are only added; a changelog gives each batch a later time than the one before."""

    def __init__(self, *, changelog: bool) -> None:
        self._changelog = changelog

    def refresh(self, table: Table, kept: Kept) -> None:
        """Nothing is known of the rows."""

    def begin(self, table: Table, kept: Kept, *, commit: str, bucketing: str, buckets: int) -> AppendTask:
        """Return the task; its timestamp is decided here, so that all files of the attempt have the same."""
        timestamp = max(int(time.time() * 1000), kept.timestamp + 1) if self._changelog else None
        return AppendTask(commit, kept.marker.sink, kept.marker.epoch, for_tasks(table), timestamp)

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[tuple[FileEntry, ...], str | None]:
        """Return the files; there is no index."""
        return tuple(entry for result in results for entry in result.data), None

    def timestamp(self, task: WriteTask) -> int:
        """Return the task's time."""
        assert isinstance(task, AppendTask)
        return task.timestamp or 0

    def settled(self, snapshot: int) -> None:
        """Nothing was staged."""

    def sweep(self, table: Table, kept: Kept) -> None:
        """There are no files outside the table."""
