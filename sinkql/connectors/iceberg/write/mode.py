"""What differs between append and upsert sinks in the life of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyiceberg.table import Table

from sinkql.connector_api.stream import WriteResult, WriteTask
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Steps


class WriteMode(Protocol):
    """Make tasks, and turn what they did into files to commit."""

    def refresh(self, table: Table, kept: StoredCheckpoint) -> None:
        """Bring what is known of the table's rows up to date with a fresh load."""

    def invalidate_index(self) -> None:
        """Take for wrong what is known of the table's rows."""

    def begin(
        self, table: Table, kept: StoredCheckpoint, *, commit: str, bucketing: str, buckets: int, cleared: bool
    ) -> WriteTask:
        """Return the task of a new attempt; with `cleared` its commit takes out all rows that the sink has written."""

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[FileChange, str | None]:
        """Make durable what the commit will name; return the files to add and to remove, and the index's name."""

    def timestamp(self, task: WriteTask) -> int:
        """Return the last `_mz_timestamp` that the task wrote, 0 if none."""

    def on_commit(self, snapshot: int) -> None:
        """Take what was staged as true: the commit stands, as this snapshot."""

    def compact(self, attempt: Attempt, kept: StoredCheckpoint) -> Steps:
        """Write files anew, if some are due, in the steps of one compaction."""

    def compacted(self, done: Compaction, snapshot: int) -> None:
        """Take what a compaction did as true: it stands, as this snapshot."""

    def on_commit_failed(self, error: Exception) -> None:
        """Forget what a compaction began, which failed so: it is not committed, or nobody knows whether it is."""

    def skipped_files(self) -> str | None:
        """Return why a file of the table is left as it is, since compactions of it failed; None where none is."""

    def sweep(self, table: Table, kept: StoredCheckpoint) -> None:
        """Delete own files outside the table that nothing reaches."""
