"""What differs between append and upsert sinks in the life of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pyiceberg.table import Table

from sinkql.connector_api.stream import Checkpoint, Committed, WriteResult, WriteTask
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.commit.proposal import BatchCommit
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Steps
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.connectors.iceberg.write.claimed_table import ClaimedTable


class Compactor(Protocol):
    """Compacts the data files of one claim of a table."""

    def compact(self, attempt: Attempt, stored: StoredCheckpoint) -> Steps:
        """Rewrite files, if some are due, in the steps of one compaction."""

    def on_compacted(self, compaction: Compaction, snapshot: int) -> None:
        """Continue with the files of a compaction that was committed as this snapshot."""

    def on_commit_failed(self, error: Exception) -> None:
        """Discard a compaction that failed with this error before its commit, or whose outcome is unknown."""

    def skipped_files(self) -> str | None:
        """Return why compaction skips a file of the table after failures; None if it skips none."""


class WriteMode(Protocol):
    """Creates the tasks of batches, and turns their results into files to commit."""

    @property
    def compactor(self) -> Compactor:
        """Return the compactor of the table's files."""

    def refresh(self, table: Table, stored: StoredCheckpoint) -> None:
        """Update what the mode knows of the table's rows from a new load."""

    def invalidate_index(self) -> None:
        """Discard what the mode knows of the table's rows."""

    def begin(
        self, table: Table, stored: StoredCheckpoint, *, commit: str, bucketing: str, buckets: int, cleared: bool
    ) -> WriteTask:
        """Return the task of a new attempt; with `cleared` its commit deletes all rows that the sink has written."""

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[FileChange, str | None]:
        """Make durable what the commit names; return the files to add and to remove, and the name of the index."""

    def timestamp(self, task: WriteTask) -> int:
        """Return the last `_mz_timestamp` that the task wrote; 0 if none."""

    def on_commit(self, snapshot: int) -> None:
        """Continue with the staged files, which were committed as this snapshot."""

    def sweep(self, table: Table, stored: StoredCheckpoint) -> None:
        """Delete files outside the table that no checkpoint needs."""


def commit_batch(
    claimed: ClaimedTable,
    mode: WriteMode,
    task: WriteTask,
    results: Sequence[WriteResult],
    checkpoint: Checkpoint,
    replaced: frozenset[str] = frozenset(),
) -> Committed:
    """Commit one snapshot with the task's files, which also removes the `replaced` ones."""
    _, stored = claimed.current
    with storage_errors(claimed.name):
        change, index = mode.stage(task, results)
    change = replace(change, remove=change.remove | replaced)
    checkpoint = replace(checkpoint, index=index)
    timestamp = max(stored.timestamp, mode.timestamp(task))
    snapshot = claimed.commit(
        BatchCommit(change, checkpoint, stored.checkpoint.commit, timestamp, claimed.expected)
    ).snapshot
    mode.on_commit(snapshot)
    sizes = {entry.path: entry.size for entry in change.add}
    return Committed(checkpoint, snapshot, sum(result.rows for result in results), sum(sizes.values()), len(sizes))
