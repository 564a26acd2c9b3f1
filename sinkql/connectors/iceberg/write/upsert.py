"""The index of an upsert sink between batches, and what its tasks did with it → the files of a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import StaleFilesError, WriteResult, WriteTask
from sinkql.connectors.iceberg.commit.checkpoint import StoredCheckpoint, ancestry, own_checkpoint
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Failures, Steps, WrongIndexError, remove
from sinkql.connectors.iceberg.compact.selection import choose
from sinkql.connectors.iceberg.compact.upsert import UpsertCompaction
from sinkql.connectors.iceberg.file.data_file import (
    FileEntry,
    for_tasks,
    has_rows_of,
)
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.key_index.change import one_each
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange, fetch_runs, files, sweep
from sinkql.connectors.iceberg.key_index.key_hash import KeyColumn, key_columns
from sinkql.connectors.iceberg.key_index.rebuild import catch_up, rebuild
from sinkql.connectors.iceberg.write.refresh_collect import CollectTask, part_files
from sinkql.connectors.iceberg.write.refresh_diff import RefreshDiff
from sinkql.connectors.iceberg.write.upsert_task import UpsertResult, UpsertTask
from sinkql.errors import LostIndexError, SharedKeyError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

LAST_ID = 1 << 31
_FILES_A_LOOK = 256
"""Files for which one commit passes without a look for what to compact."""


class UpsertMode:
    """Keep the index of one claim of a table; a `WriteMode`. A new claim begins with a new one.

    `aside` is for the rows of a rebuild, `home` for the index.
    """

    def __init__(
        self, home: StateDirectory, aside: StateDirectory, key: tuple[str, ...], change: physical.Change
    ) -> None:
        self._home, self._aside = home, aside
        self._folder = home.folder
        self._key = key
        self._change = change
        self._index: Index | None = None
        self._begun: Index | None = None
        self._staged: Index | None = None
        self._true_at: int | None = None
        self._rewritten: Index | None = None
        self._named: str | None = None
        self._wrong = False
        self._failed = Failures()
        self._looked = self._there = 0
        self._under_way: frozenset[str] = frozenset()

    def refresh(self, table: Table, kept: StoredCheckpoint) -> None:
        """Load the index that the marker names, or rebuild it; add what others wrote."""
        self._staged = None
        before = self._index
        if self._index is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._forget()
            self._index = self._load(table, kept)
        head = table.metadata.current_snapshot_id
        if head != self._true_at:
            if kept.marker.index not in (None, self._named):  # a commit has landed of which no reply came
                self._index = self._load(table, kept)
            try:
                self._index = catch_up(self._index, table, self._folder, epoch=kept.marker.epoch, have=self._have)
            except LostIndexError:
                self._wrong = True
            self._true_at = head
        # numbers are never given twice, and those of a run have 32 bits
        if self._wrong or self._index.next_file_id > LAST_ID:
            self._index = rebuild(table, self._index.key, self._folder, sink=kept.marker.sink, epoch=kept.marker.epoch,
                                  hash_key=self._home.hash_key)  # fmt: skip
            self._wrong = False
        if self._index is not before:
            self._index.save(self._folder)

    def invalidate_index(self) -> None:
        """Rebuild the index at the next refresh."""
        self._wrong = True

    def begin(
        self, table: Table, kept: StoredCheckpoint, *, commit: str, bucketing: str, buckets: int, cleared: bool
    ) -> WriteTask:
        """Return the task of an attempt; the index that it probes is saved first.

        With `cleared` it has none of the sink's rows: their files leave the table with what the task writes.
        """
        assert self._index is not None, "not refreshed"
        self._begun = self._without_own(table, kept) if cleared else self._index
        self._begun.save(self._folder)
        if self._home.remote:
            self._home.ensure_uploaded(self._begun.reached)
        return UpsertTask.of(
            table,
            self._begun,
            self._home.for_tasks(),
            epoch=kept.marker.epoch,
            commit=commit,
            change=self._change,
            bucketing=bucketing,
            buckets=buckets,
        )

    def stage(self, task: WriteTask, results: Sequence[WriteResult]) -> tuple[FileChange, str | None]:
        """Save the index as it will be, and return the files to add, and those of which nothing is left."""
        assert self._begun is not None, "not begun"
        assert isinstance(task, UpsertTask)
        found = [result.data for result in results if isinstance(result.data, UpsertResult)]
        changes: Sequence[IndexChange] = [each.change for each in found]
        entries: Sequence[FileEntry] = [entry for each in found for entry in each.entries]
        twins = f"b{task.buckets}-{task.sink}-{task.epoch}-{task.commit}-deletes"
        changes, entries = one_each(changes, entries, self._begun, task.table, twins)
        self._staged = self._begun.after(changes, epoch=task.epoch, commit=task.commit)
        return FileChange(tuple(entries), self._staged.leaving), self._kept(self._staged)

    def _kept(self, index: Index) -> str:
        """Save what a marker is to name, wherever it may be asked for; return its name."""
        name = index.save(self._folder)
        self._home.ensure_uploaded(index.reached)
        failpoint.point("index-kept")
        return name

    def _without_own(self, table: Table, kept: StoredCheckpoint) -> Index:
        """Return the index of the table without the rows that the sink has written."""
        assert self._index is not None, "not refreshed"
        sink, epoch = kept.marker.sink, kept.marker.epoch
        return rebuild(
            table,
            self._index.key,
            self._folder,
            sink=sink,
            epoch=epoch,
            leaves=lambda path: has_rows_of(path, sink),
            hash_key=self._home.hash_key,
        )

    def refresh_to_rebuild(self, table: Table, kept: StoredCheckpoint) -> None:
        """Refresh; where rows of others have one key, all rows are taken to be in the way."""
        try:
            self.refresh(table, kept)
        except SharedKeyError:
            files = live_files(table)
            marker, key = kept.marker, key_columns(table, self._key)
            idle = (*files.data, *files.deletes)
            self._index = Index(marker.sink, marker.epoch, uuid4().hex, key, idle=idle, hash_key=self._home.hash_key)
            self._index.save(self._folder)
            self._true_at = table.metadata.current_snapshot_id

    def collect(self, table: Table, number: int, *, commit: str, buckets: int) -> WriteTask:
        """Return the task that puts by a part of what the table is to have; the first one forgets all before it."""
        if number == 0:
            self._forget()
        home = self._aside.for_tasks()
        return CollectTask(commit, buckets, self._key, self._change, number, home, for_tasks(table))

    def rebuild(
        self, table: Table, kept: StoredCheckpoint, names: Sequence[str], *, commit: str, between: Callable[[int], None]
    ) -> tuple[FileChange, str, int]:
        """Write what the table lacks of the rows put by; return files, index and rows, as `stage` does."""
        assert self._index is not None, "not refreshed"
        self._have(self._index)
        if self._aside.remote and self._aside.fetch({file: None for name in names for file in part_files(name)}):
            raise StaleFilesError
        comparison = RefreshDiff(
            table,
            self._index,
            self._folder,
            self._aside.folder,
            attempt=commit,
            epoch=kept.marker.epoch,
            between=between,
        )
        try:
            found = comparison.compare(names)
        except BaseException:
            remove(table, comparison.written)
            raise
        self._staged = found.index
        return found.change, self._kept(self._staged), found.rows

    def rebuilt(self, snapshot: int) -> None:
        """Go on with the index as it was staged, and without what was put by."""
        self.on_commit(snapshot)
        self._forget()

    def _forget(self) -> None:
        self._aside.delete_all()

    def timestamp(self, task: WriteTask) -> int:
        """Upserts have no changelog."""
        return 0

    def on_commit(self, snapshot: int) -> None:
        """Go on with the index as it was staged."""
        assert self._staged is not None, "nothing staged"
        self._index, self._staged = self._staged, None
        self._true_at, self._named = snapshot, self._index.name

    def compact(self, attempt: Attempt, kept: StoredCheckpoint) -> Steps:
        """Write files anew without dead rows."""
        self._rewritten = None
        while (index := self._now(attempt)) is None:
            if attempt.beside:
                return None
            yield False
        if attempt.scope is not None:
            attempt.scope.fix(index.paths())
        self._looked += 1
        if attempt.scope is None and self._looked * _FILES_A_LOOK < self._there:
            return None
        self._looked, self._there = 0, len(index.files)
        table = attempt.table()
        beside = self._under_way if attempt.beside else None
        parts = choose(index, table, self._failed, attempt.scope, beside)
        if parts is None:
            return None
        if not attempt.beside:
            self._under_way = frozenset(note.path for part in parts for note in part.files.values())
        key = tuple(column.name for column in index.key)
        rewriting = UpsertCompaction(
            lambda: self._had(attempt), self._folder, attempt, sink=index.sink, key=key, epoch=kept.marker.epoch,
            failed=self._failed,
        )  # fmt: skip
        found = yield from rewriting.rewrite(parts)
        if found is None:
            return None
        done, self._rewritten = found
        try:
            self._kept(self._rewritten)
        except BaseException:
            remove(table, done.change.add)
            raise
        return done

    def _now(self, attempt: Attempt) -> Index | None:
        """Return the index if it is true of the table as it is now."""
        return self._index if self._true_at == attempt.table().metadata.current_snapshot_id else None

    def _had(self, attempt: Attempt) -> Index | None:
        """Return the index if it is true of the table as it is now; its runs are in the folder."""
        index = self._now(attempt)
        if index is not None:
            try:
                self._have(index)
            except LostIndexError:
                self._wrong = True
                return None
        return index

    def _have(self, index: Index) -> None:
        fetch_runs(self._home, index.runs)

    def compacted(self, done: Compaction, snapshot: int) -> None:
        """Go on with the index that the compaction made."""
        assert self._rewritten is not None, "nothing rewritten"
        self._index, self._rewritten = self._rewritten, None
        self._true_at, self._named = snapshot, self._index.name
        self._there = 0  # one has not enough room for all that may be due

    def on_commit_failed(self, error: Exception) -> None:
        """Go on with the index as it was, or with a new one if it is wrong."""
        self._rewritten = None
        self._wrong |= isinstance(error, WrongIndexError)
        self._failed.note(error)

    def skipped_files(self) -> str | None:
        """Return why a file is never tried again."""
        return self._failed.left(self._index.paths() if self._index is not None else ())

    def sweep(self, table: Table, kept: StoredCheckpoint) -> None:
        """Delete runs and manifests that neither the last two markers nor this index reach."""
        if self._index is None or not self._folder.is_dir():
            return
        sink = kept.marker.sink
        named = [values["index"] for each in ancestry(table) if "index" in (values := own_checkpoint(each, sink) or {})]
        recent = list(dict.fromkeys([*([kept.marker.index] if kept.marker.index else []), *named]))[:2]
        sweep(self._home, sink=sink, epoch=kept.marker.epoch, manifests=recent, indexes=(self._index,))

    def _load(self, table: Table, kept: StoredCheckpoint) -> Index:
        key = key_columns(table, self._key)
        marker = kept.marker
        found = self._loaded(marker.index, key) if marker.index else None
        self._named = marker.index
        if found is not None:
            return found
        index = rebuild(table, key, self._folder, sink=marker.sink, epoch=marker.epoch, hash_key=self._home.hash_key)
        self._true_at = table.metadata.current_snapshot_id
        return index

    def _loaded(self, name: str, key: Sequence[KeyColumn]) -> Index | None:
        """Load an index; what it names is in the folder then, if anything has it."""
        remote = self._home.remote
        if self._home.store is not None:
            self._home.fetch({name: None})
            needed = files(self._folder, name)
            self._home.fetch({each: size for each, size in needed.items() if size is None or not remote})
        found = Index.load(self._folder, name, key, runs=not remote, hash_key=self._home.hash_key)
        if found is None or not remote:
            return found
        return None if self._home.missing(run.name for run in found.runs) else found
