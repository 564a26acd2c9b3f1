"""The key index of an upsert sink's table, between the batches of one claim."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint, ancestry, own_checkpoint
from sinkql.connectors.iceberg.file.data_file import has_rows_of
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.key_index.index import Index, fetch_runs, files, sweep
from sinkql.connectors.iceberg.key_index.key_hash import KeyColumn, key_columns
from sinkql.connectors.iceberg.key_index.rebuild import build_index, catch_up
from sinkql.errors import LostIndexError, SharedKeyError
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

LAST_ID = 1 << 31


class TableIndex:
    """The key index as of one snapshot of the table; its files are in `directory`. `refresh` comes first.

    A new claim creates a new one.
    """

    def __init__(self, directory: StateDirectory, key: tuple[str, ...]) -> None:
        self.directory = directory
        self.folder = directory.folder
        self._key = key
        self._index: Index | None = None
        self._snapshot: int | None = None
        self._name: str | None = None
        self._is_wrong = False

    @property
    def current(self) -> Index:
        """Return the index as of the last refresh, commit or compaction."""
        assert self._index is not None, "not refreshed"
        return self._index

    def refresh(self, table: Table, stored: StoredCheckpoint) -> None:
        """Load the index that the checkpoint names, or rebuild it; add the changes of other writers."""
        before = self._index
        if self._index is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._index = self._load(table, stored)
        head = table.metadata.current_snapshot_id
        if head != self._snapshot:
            if stored.checkpoint.index not in (None, self._name):  # a commit succeeded although its reply was lost
                self._index = self._load(table, stored)
            try:
                self._index = catch_up(
                    self._index, table, self.folder, epoch=stored.checkpoint.epoch, have=self.fetch_runs
                )
            except LostIndexError:
                self._is_wrong = True
            self._snapshot = head
        # file numbers are never reused, and runs store them in 32 bits
        if self._is_wrong or self._index.next_file_id > LAST_ID:
            self._index = self._rebuild(table, stored, self._index.key)
            self._is_wrong = False
        if self._index is not before:
            self._index.save(self.folder)

    def refresh_or_clear(self, table: Table, stored: StoredCheckpoint) -> None:
        """Refresh; if rows of other writers share a key, use an index without rows, so that all rows are replaced."""
        try:
            self.refresh(table, stored)
        except SharedKeyError:
            live = live_files(table)
            checkpoint, key = stored.checkpoint, key_columns(table, self._key)
            self._index = Index(
                checkpoint.sink,
                checkpoint.epoch,
                new_id(),
                key,
                idle=(*live.data, *live.deletes),
                hash_key=self.directory.hash_key,
            )
            self._index.save(self.folder)
            self._snapshot = table.metadata.current_snapshot_id

    def invalidate(self) -> None:
        """Rebuild the index at the next refresh."""
        self._is_wrong = True

    def save(self, index: Index) -> str:
        """Save an index that a checkpoint is about to name, and upload its files; return its name."""
        name = index.save(self.folder)
        self.directory.ensure_uploaded(index.reached)
        failpoint.point("index-kept")
        return name

    def adopt(self, index: Index, snapshot: int) -> None:
        """Continue with the index of a commit, which is as of its snapshot."""
        self._index, self._snapshot, self._name = index, snapshot, index.name

    def as_of(self, table: Table) -> Index | None:
        """Return the index if it is as of the table's present snapshot."""
        return self._index if self._snapshot == table.metadata.current_snapshot_id else None

    def fetched_as_of(self, table: Table) -> Index | None:
        """Return the index if it is as of the table's present snapshot and its runs are in the folder."""
        index = self.as_of(table)
        if index is not None:
            try:
                self.fetch_runs(index)
            except LostIndexError:
                self._is_wrong = True
                return None
        return index

    def fetch_runs(self, index: Index) -> None:
        """Fetch the runs that the folder lacks; raises LostIndexError if one is lost."""
        fetch_runs(self.directory, index.runs)

    def paths(self) -> Sequence[str]:
        """Return the paths of the indexed files; none before the first refresh."""
        return tuple(self._index.paths()) if self._index is not None else ()

    def without_rows_of_sink(self, table: Table, stored: StoredCheckpoint) -> Index:
        """Return the index of the table without the rows that the sink has written."""
        sink = stored.checkpoint.sink
        return build_index(
            table,
            self.current.key,
            self.folder,
            sink=sink,
            epoch=stored.checkpoint.epoch,
            leaves=lambda path: has_rows_of(path, sink),
            hash_key=self.directory.hash_key,
        )

    def sweep(self, table: Table, stored: StoredCheckpoint) -> None:
        """Delete runs and manifests that neither the last two checkpoints nor this index need."""
        if self._index is None or not self.folder.is_dir():
            return
        sink = stored.checkpoint.sink
        named = [
            values["index"]
            for snapshot in ancestry(table)
            if "index" in (values := own_checkpoint(snapshot, sink) or {})
        ]
        recent = list(dict.fromkeys([*([stored.checkpoint.index] if stored.checkpoint.index else []), *named]))[:2]
        sweep(self.directory, sink=sink, epoch=stored.checkpoint.epoch, manifests=recent, indexes=(self._index,))

    def _load(self, table: Table, stored: StoredCheckpoint) -> Index:
        key = key_columns(table, self._key)
        self._name = stored.checkpoint.index
        index = self._load_saved(self._name, key) if self._name else None
        if index is not None:
            return index
        index = self._rebuild(table, stored, key)
        self._snapshot = table.metadata.current_snapshot_id
        return index

    def _rebuild(self, table: Table, stored: StoredCheckpoint, key: Sequence[KeyColumn]) -> Index:
        checkpoint = stored.checkpoint
        return build_index(
            table,
            key,
            self.folder,
            sink=checkpoint.sink,
            epoch=checkpoint.epoch,
            hash_key=self.directory.hash_key,
        )

    def _load_saved(self, name: str, key: Sequence[KeyColumn]) -> Index | None:
        """Load a saved index and fetch its files; return None if one is lost."""
        directory, remote = self.directory, self.directory.remote
        if directory.store is not None:
            directory.fetch({name: None})
            sizes = files(self.folder, name)
            directory.fetch({file: size for file, size in sizes.items() if size is None or not remote})
        index = Index.load(self.folder, name, key, runs=not remote, hash_key=directory.hash_key)
        if index is None or not remote:
            return index
        return None if directory.missing(run.name for run in index.runs) else index
