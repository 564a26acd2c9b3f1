"""An upsert sink between batches: the tasks on its key index, and what they did → the files of a commit."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import WriteResult, WriteTask
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.file.data_file import FileEntry
from sinkql.connectors.iceberg.key_index.change import one_each
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange
from sinkql.connectors.iceberg.write.table_index import TableIndex
from sinkql.connectors.iceberg.write.upsert_compactor import UpsertCompactor
from sinkql.connectors.iceberg.write.upsert_task import UpsertResult, UpsertTask


class UpsertMode:
    """The upsert mode of one claim; a `WriteMode`. `begin` comes first, then `stage`, then `on_commit`."""

    def __init__(self, index: TableIndex, change: physical.Change) -> None:
        self._index = index
        self._change = change
        self._base: Index | None = None
        self._staged: Index | None = None
        self.compactor = UpsertCompactor(index)

    def refresh(self, table: Table, stored: StoredCheckpoint) -> None:
        """Refresh the index."""
        self._staged = None
        self._index.refresh(table, stored)

    def invalidate_index(self) -> None:
        """Rebuild the index at the next refresh."""
        self._index.invalidate()

    def begin(
        self, table: Table, stored: StoredCheckpoint, *, commit: str, bucketing: str, buckets: int, cleared: bool
    ) -> WriteTask:
        """Return the task of an attempt, after saving the index that it probes.

        With `cleared` that index has no rows of the sink: the task's commit removes their files from the table.
        """
        directory, index = self._index.directory, self._index.current
        base = self._base = self._index.without_rows_of_sink(table, stored) if cleared else index
        base.save(self._index.folder)
        if directory.remote:
            directory.ensure_uploaded(base.reached)
        return UpsertTask.from_index(
            table,
            base,
            directory.for_tasks(),
            epoch=stored.checkpoint.epoch,
            commit=commit,
            change=self._change,
            bucketing=bucketing,
            buckets=buckets,
        )

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[FileChange, str | None]:
        """Save the index as of the commit; return the files to add, those without live rows, and the index's name."""
        assert self._base is not None, "not begun"
        assert isinstance(task, UpsertTask)
        written = [result.data for result in results if isinstance(result.data, UpsertResult)]
        changes: Sequence[IndexChange] = [result.change for result in written]
        entries: Sequence[FileEntry] = [entry for result in written for entry in result.entries]
        deletes_name = f"b{task.buckets}-{task.sink}-{task.epoch}-{task.commit}-deletes"
        changes, entries = one_each(changes, entries, self._base, task.table, deletes_name)
        self._staged = self._base.after(changes, epoch=task.epoch, commit=task.commit)
        return FileChange(tuple(entries), self._staged.leaving), self._index.save(self._staged)

    def timestamp(self, task: WriteTask) -> int:
        """Return 0: upsert sinks have no changelog."""
        return 0

    def on_commit(self, snapshot: int) -> None:
        """Continue with the staged index."""
        assert self._staged is not None, "nothing staged"
        self._index.adopt(self._staged, snapshot)
        self._staged = None

    def sweep(self, table: Table, stored: StoredCheckpoint) -> None:
        """Delete files of the index that no checkpoint needs."""
        self._index.sweep(table, stored)
