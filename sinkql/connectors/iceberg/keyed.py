"""The life of an upsert batch: the key index beside the table's state, its tasks, and their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector.stream import WriteResult, WriteTask
from sinkql.connectors.iceberg.datafile import FileEntry
from sinkql.connectors.iceberg.index import Index, sweep
from sinkql.connectors.iceberg.marker import Kept, ancestry, own
from sinkql.connectors.iceberg.rebuild import catch_up, rebuild
from sinkql.connectors.iceberg.result import UpsertResult
from sinkql.connectors.iceberg.upsert import UpsertTask, key_columns


class UpsertMode:
    """Keep the index of one claim of a table; a `Mode`. A new claim begins with a new one."""

    def __init__(self, folder: Path, key: tuple[str, ...], change: physical.Change) -> None:
        self._folder = folder
        self._key = key
        self._change = change
        self._index: Index | None = None
        self._staged: Index | None = None
        self._true_at: int | None = None

    def refresh(self, table: Table, kept: Kept) -> None:
        """Load the index that the marker names, or make it anew; read into it what others wrote."""
        self._staged = None
        if self._index is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._index = self._load(table, kept)
        head = table.metadata.current_snapshot_id
        if head != self._true_at:
            self._index = catch_up(self._index, table, self._folder, epoch=kept.marker.epoch)
            self._true_at = head

    def begin(self, table: Table, kept: Kept, *, commit: str, bucketing: str, buckets: int) -> WriteTask:
        """Return the task of an attempt; the index that it probes is saved first."""
        assert self._index is not None, "not refreshed"
        self._index.save(self._folder)
        return UpsertTask.of(
            table,
            self._index,
            self._folder,
            epoch=kept.marker.epoch,
            commit=commit,
            change=self._change,
            bucketing=bucketing,
            buckets=buckets,
        )

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[tuple[FileEntry, ...], str | None]:
        """Save the index as it will be, and return the files to add."""
        assert self._index is not None, "not refreshed"
        assert isinstance(task, UpsertTask)
        self._staged = self._index.after(results, epoch=task.epoch, commit=task.commit)
        name = self._staged.save(self._folder)
        found = [result.data for result in results if isinstance(result.data, UpsertResult)]
        return tuple(entry for data in found for entry in data.entries), name

    def timestamp(self, task: WriteTask) -> int:
        """Upserts have no changelog."""
        return 0

    def settled(self, snapshot: int) -> None:
        """Go on with the index as it was staged."""
        assert self._staged is not None, "nothing staged"
        self._index, self._staged = self._staged, None
        self._true_at = snapshot

    def sweep(self, table: Table, kept: Kept) -> None:
        """Delete runs and manifests that neither the last two markers nor this index reach."""
        if self._index is None or not self._folder.is_dir():
            return
        sink = kept.marker.sink
        named = [values["index"] for each in ancestry(table) if "index" in (values := own(each, sink) or {})]
        recent = list(dict.fromkeys([*([kept.marker.index] if kept.marker.index else []), *named]))[:2]
        sweep(self._folder, sink=sink, epoch=kept.marker.epoch, manifests=recent, indexes=(self._index,))

    def _load(self, table: Table, kept: Kept) -> Index:
        key = key_columns(table, self._key)
        marker = kept.marker
        found = Index.load(self._folder, marker.index, key) if marker.index else None
        if found is not None:
            return found
        index = rebuild(table, key, self._folder, sink=marker.sink, epoch=marker.epoch)
        self._true_at = table.metadata.current_snapshot_id
        return index
