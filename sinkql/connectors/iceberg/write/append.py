"""Append sinks: commit the data files of a batch, and combine small files."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table

from sinkql.connector_api.stream import NO_PLAN, WriteResult, WriteTask
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.append import OwnFile, OwnFiles, choose_files, own_entries, own_files, rewrite
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Failures, Steps
from sinkql.connectors.iceberg.file.data_file import for_tasks
from sinkql.connectors.iceberg.file.deletes import all_files
from sinkql.connectors.iceberg.write.append_task import AppendTask
from sinkql.machine import clock


class AppendCompactor:
    """The compactions of an append sink, which knows the sink's small files; a `Compactor`."""

    def __init__(self) -> None:
        self._files: OwnFiles | None = None
        self._is_listed = False
        self._failures = Failures()

    def add(self, files: Sequence[OwnFile]) -> None:
        """Add the files of a commit."""
        if self._files is not None:
            self._files.files += files

    def forget(self, paths: frozenset[str]) -> None:
        """Forget files that are no longer in the table."""
        if self._files is not None:
            self._files.files = [file for file in self._files.files if file.path not in paths]

    def compact(self, attempt: Attempt, stored: StoredCheckpoint) -> Steps:
        """Combine small files of this sink."""
        if attempt.beside:  # all files of an append sink's compaction are small
            return None
        checkpoint = stored.checkpoint
        if self._files is None or not self._is_listed:
            self._files, self._is_listed = OwnFiles(), False  # commits between the steps add their files
            yield from own_files(attempt.table(), checkpoint.sink, self._files)
            self._is_listed = True
        if attempt.scope is not None:
            attempt.scope.fix(file.path for file in self._files.files)
        files = choose_files(self._files.files, attempt.table(), self._failures, attempt.scope)
        if not files:
            return None
        return (yield from rewrite(files, attempt, self._files.deletes, sink=checkpoint.sink, epoch=checkpoint.epoch))

    def on_compacted(self, compaction: Compaction, snapshot: int) -> None:
        """Remember the new files instead of the rewritten ones."""
        self.forget(compaction.change.remove)
        self.add(own_entries(compaction.change.add))

    def on_commit_failed(self, error: Exception) -> None:
        """List the table's files again next time: another process may have removed some."""
        self._files = None
        self._failures.record(error)

    def skipped_files(self) -> str | None:
        """Return why compaction skips a file of the table; None if it skips none."""
        return self._failures.skip_reason({file.path for file in self._files.files} if self._files is not None else ())


class AppendMode:
    """The append mode of one claim, which only adds rows; a `WriteMode`.

    Each batch of a changelog has a later time than the one before. With `replaces`, the first batch removes all files
    that the table had before it.
    """

    def __init__(self, *, changelog: bool, replaces: bool = False) -> None:
        self._changelog = changelog
        self._replaces = replaces
        self._foreign: frozenset[str] = frozenset()
        self._staged: list[OwnFile] = []
        self.compactor = AppendCompactor()

    def refresh(self, table: Table, stored: StoredCheckpoint) -> None:
        """Find the files of other writers that the first batch replaces."""
        self._foreign = frozenset()
        if self._replaces and stored.checkpoint.plan == NO_PLAN:
            self._foreign = all_files(table)

    def invalidate_index(self) -> None:
        """Do nothing: an append sink has no index."""

    def begin(
        self, table: Table, stored: StoredCheckpoint, *, commit: str, bucketing: str, buckets: int, cleared: bool
    ) -> AppendTask:
        """Return the task of an attempt; all its files have the timestamp that this method sets."""
        assert not cleared, "append sinks keep their rows"
        timestamp = max(clock.time_ms(), stored.timestamp + 1) if self._changelog else None
        return AppendTask(commit, stored.checkpoint.sink, stored.checkpoint.epoch, for_tasks(table), timestamp)

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[FileChange, str | None]:
        """Return the files to add and to remove."""
        entries = tuple(entry for result in results for entry in result.data)
        self._staged = own_entries(entries)
        return FileChange(entries, self._foreign), None

    def timestamp(self, task: WriteTask) -> int:
        """Return the timestamp of the task's rows."""
        assert isinstance(task, AppendTask)
        return task.timestamp or 0

    def on_commit(self, snapshot: int) -> None:
        """Add the staged files to the files that compaction may combine."""
        self.compactor.add(self._staged)

    def sweep(self, table: Table, stored: StoredCheckpoint) -> None:
        """Do nothing: an append sink has no files outside the table."""
