"""A keyed batch: a bucket's changes → a data file, delete files and an index run; the index between batches."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table import Table

from sinkql import faults, physical
from sinkql.connectors.iceberg.commit.marker import Kept, ancestry, own
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.job import Attempt, Compaction, Failures, Steps, WrongIndexError, remove
from sinkql.connectors.iceberg.compact.keyed import Rewriting
from sinkql.connectors.iceberg.compact.pick import choose
from sinkql.connectors.iceberg.file.data import (
    FileEntry,
    TaskTable,
    cast,
    for_tasks,
    target_schema,
)
from sinkql.connectors.iceberg.file.delete import live_files
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.name import has_rows_of
from sinkql.connectors.iceberg.file.order import arrange, write_sorted
from sinkql.connectors.iceberg.keyindex.change import KeyChanges, Mask, key_changes, two_rows
from sinkql.connectors.iceberg.keyindex.index import Index, IndexChange, Run, open_index, sweep
from sinkql.connectors.iceberg.keyindex.key import key_columns
from sinkql.connectors.iceberg.keyindex.layer import FileNote, Home
from sinkql.connectors.iceberg.keyindex.rebuild import catch_up, rebuild
from sinkql.connectors.iceberg.keyindex.run import (
    TIERS,
    TOMBSTONE,
    Entries,
    merge,
    open_run,
    probe,
    write_run,
)
from sinkql.connectors.iceberg.keyindex.vector import Named, one_each, write_dead
from sinkql.connectors.iceberg.rebuild.collect import CollectTask
from sinkql.connectors.iceberg.rebuild.compare import Comparison
from sinkql.errors import SharedKeyError
from sinkql.extension.stream import WriteResult, WriteTask

LAST_ID = 1 << 31
_FILES_A_LOOK = 256
"""Files for which one commit passes without a look for what to compact."""


@dataclass(frozen=True, slots=True)
class UpsertTask:
    """Write one bucket of a keyed batch; `index` is the name of a manifest saved in `folder`.

    With `change` append or upsert, rows end with `$seq`, and the last of a key wins; with upsert that may be one whose
    `$diff`, before `$seq`, says that the key is gone. With retract they end with `$diff` and are consolidated: a key
    has at most one row with +, and one without it goes. Two rows of one key alive at once, in a batch or over several,
    have no place in the table: SQ3552, before anything of them is written.
    """

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    bucketing: str
    change: physical.Change
    sink: str
    epoch: int
    folder: Path
    index: str
    table: TaskTable

    @classmethod
    def of(cls, table: Table, index: Index, folder: Path, *, epoch: int, commit: str, change: physical.Change,
           bucketing: str, buckets: int) -> UpsertTask:  # fmt: skip
        """Return the task of an attempt on a loaded table and its saved index."""
        key = tuple(column.name for column in index.key)
        return cls(
            commit, buckets, key, bucketing, change, index.sink, epoch, folder, index.name, for_tasks(table, key=key)
        )

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write one bucket's rows; raises SQ3552 for a key with two rows, SQ3411 for a torn run."""
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return WriteResult(bucket, 0, None)
        rows = pa.Table.from_batches(given).combine_chunks()
        changes = key_changes(rows, self.table.schema(), self.key, self.change)
        result = _BucketFiles(self, bucket, attempt, open_index(self.folder, self.index)).write(rows, changes)
        return WriteResult(bucket, len(changes.row), result)


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """What a task did in one bucket: `WriteResult.data`, None in its place where no row came."""

    change: IndexChange
    entries: tuple[FileEntry, ...]


class _BucketFiles:
    """Write the files of one bucket in one task attempt."""

    def __init__(self, task: UpsertTask, bucket: int, attempt: str, index: Index) -> None:
        assert task.buckets is not None
        self._task, self._bucket, self._index = task, bucket, index
        self._buckets = task.buckets
        self._name = f"b{bucket}-{task.sink}-{task.epoch}-{task.commit}-{attempt}"
        self._runs = index.probed(bucket, buckets=task.buckets, bucketing=task.bucketing)

    def write(self, rows: pa.Table, changes: KeyChanges) -> UpsertResult:
        mapped = [open_run(self._task.folder / run.name) for run in self._runs]
        files, positions = probe(mapped, changes.h1, changes.h2)
        live = files != TOMBSTONE
        self._check_room(rows, changes, files)
        written, places = self._write_rows(rows, changes)
        deletes, dead = self._write_deletes(files[live], positions[live])
        run, merged = self._write_run(self._entries(changes, live, *places))
        home = Home(self._bucket, self._buckets, self._task.bucketing)
        notes = {
            id_: FileNote(file.path, file.rows, size=file.size, home=home, place=file.place)
            for id_, file in written.items()
        }
        named = {entry.name: ids for entry, ids in deletes}
        vectors = self._task.table.version >= VECTORS
        change = IndexChange(self._index.name, notes, named, dead, run, merged, whole=vectors)
        return UpsertResult(change, (*written.values(), *(entry for entry, _ in deletes)))

    def _check_room(self, rows: pa.Table, changes: KeyChanges, files: npt.NDArray[np.uint32]) -> None:
        """Raise SQ3552 where a row comes while another of its key stays; rows found in the table make room."""
        crowded = np.flatnonzero(changes.fresh & (files != TOMBSTONE))
        ids, first = np.unique(files[crowded], return_index=True)
        for id_, place in zip(ids, crowded[first], strict=True):
            if has_rows_of(self._index.file(int(id_)).path, self._task.sink):
                raise two_rows(rows.select(list(self._task.key)), int(changes.row[place]))

    def _write_rows(
        self, rows: pa.Table, changes: KeyChanges
    ) -> tuple[dict[int, FileEntry], tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]:
        """Write a file of new rows for each partition; return the files by number, and each row's file and position."""
        table = self._task.table
        chosen = rows.take(pa.array(changes.row[changes.upsert]))
        chosen = cast(chosen, target_schema(table.schema(), chosen.schema))
        files, positions = np.zeros(chosen.num_rows, np.uint32), np.zeros(chosen.num_rows, np.uint32)
        written = {}
        for number, (place, mine) in enumerate(arrange(chosen, table)):
            id_ = self._index.next_file_id + self._bucket + number * self._buckets
            alike = len(mine) == chosen.num_rows and not table.sorting
            data = chosen if alike else chosen.take(pa.array(mine))
            written[id_] = write_sorted(table, f"{self._name}-{number}.parquet", data, place)
            files[mine], positions[mine] = id_, np.arange(len(mine))
        faults.point("data-file")
        return written, (files, positions)

    def _write_deletes(
        self, files: npt.NDArray[np.uint32], positions: npt.NDArray[np.uint32]
    ) -> tuple[Named, dict[int, int]]:
        """Write what names dead rows, each returned with the ids of its data files; return the dead by id too."""
        if not len(files):
            return (), {}
        order = np.lexsort((positions, files))
        ids, starts = np.unique(files[order], return_index=True)
        parts = np.split(positions[order].astype(np.int64), starts[1:])
        dead = {int(id_): part for id_, part in zip(ids, parts, strict=True)}
        counts = {id_: len(part) for id_, part in dead.items()}
        return write_dead(self._task.table, self._index, dead, self._name), counts

    def _entries(
        self, changes: KeyChanges, live: Mask, new_files: npt.NDArray[np.uint32], new_positions: npt.NDArray[np.uint32]
    ) -> Entries:
        """Return what the index learns: new places, and tombstones for keys that lived and go."""
        files = np.full(len(changes.row), TOMBSTONE, np.uint32)
        positions = np.zeros(len(changes.row), np.uint32)
        files[changes.upsert], positions[changes.upsert] = new_files, new_positions
        return Entries(changes.h1, changes.h2, files, positions).take(changes.upsert | live)

    def _write_run(self, entries: Entries) -> tuple[Run | None, tuple[str, ...]]:
        """Write the run, merged with the newest older ones when it is time: only runs of this bucket alone."""
        if not entries.rows:
            return None, ()
        owned = [run.rows for run in self._runs]
        for place, run in enumerate(self._runs):
            if (run.bucket, run.buckets, run.bucketing) != (self._bucket, self._buckets, self._task.bucketing):
                # Runs that hold keys of other buckets stay, and nothing may be merged across them.
                owned = owned[:place]
                break
        length = TIERS.due([entries.rows, *owned])
        merged = self._runs[: length - 1] if length else ()
        if merged:
            older = [open_run(self._task.folder / run.name) for run in merged]
            entries = merge([entries, *older], keep_tombstones=len(merged) < len(self._runs))
        if not entries.rows:  # all that was merged is gone
            return None, tuple(run.name for run in merged)
        name = f"{self._name}.run"
        write_run(self._task.folder / name, entries.rows, [entries])
        faults.point("index-run")
        named = entries.file[entries.file != TOMBSTONE]
        span = (int(named.min()), int(named.max())) if len(named) else (1, 0)
        written = Run(name, entries.rows, self._bucket, self._buckets, self._task.bucketing, files=span)
        return written, tuple(run.name for run in merged)


class UpsertMode:
    """Keep the index of one claim of a table; a `WriteMode`. A new claim begins with a new one."""

    def __init__(self, folder: Path, key: tuple[str, ...], change: physical.Change) -> None:
        self._folder = folder
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

    def refresh(self, table: Table, kept: Kept) -> None:
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
            self._index = catch_up(self._index, table, self._folder, epoch=kept.marker.epoch)
            self._true_at = head
        # numbers are never given twice, and those of a run have 32 bits
        if self._wrong or self._index.next_file_id > LAST_ID:
            self._index = rebuild(table, self._index.key, self._folder, sink=kept.marker.sink, epoch=kept.marker.epoch)
            self._wrong = False
        if self._index is not before:
            self._index.save(self._folder)

    def begin(self, table: Table, kept: Kept, *, commit: str, bucketing: str, buckets: int, cleared: bool) -> WriteTask:
        """Return the task of an attempt; the index that it probes is saved first.

        With `cleared` it has none of the sink's rows: their files leave the table with what the task writes.
        """
        assert self._index is not None, "not refreshed"
        self._begun = self._without_own(table, kept) if cleared else self._index
        self._begun.save(self._folder)
        return UpsertTask.of(
            table,
            self._begun,
            self._folder,
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
        name = self._staged.save(self._folder)
        return FileChange(tuple(entries), self._staged.leaving), name

    def _without_own(self, table: Table, kept: Kept) -> Index:
        """Return the index of the table without the rows that the sink has written."""
        assert self._index is not None, "not refreshed"
        sink, epoch = kept.marker.sink, kept.marker.epoch
        return rebuild(
            table, self._index.key, self._folder, sink=sink, epoch=epoch, leaves=lambda path: has_rows_of(path, sink)
        )

    def refresh_to_rebuild(self, table: Table, kept: Kept) -> None:
        """Refresh; where rows of others have one key, all rows are taken to be in the way."""
        try:
            self.refresh(table, kept)
        except SharedKeyError:
            files = live_files(table)
            marker, key = kept.marker, key_columns(table, self._key)
            idle = (*files.data, *files.deletes)
            self._index = Index(marker.sink, marker.epoch, uuid4().hex, key, idle=idle)
            self._index.save(self._folder)
            self._true_at = table.metadata.current_snapshot_id

    def collect(self, table: Table, number: int, *, commit: str, buckets: int) -> WriteTask:
        """Return the task that puts by a part of what the table is to have; the first one forgets all before it."""
        if number == 0:
            self._forget()
        return CollectTask(commit, buckets, self._key, self._change, number, self._aside, for_tasks(table))

    def rebuild(
        self, table: Table, kept: Kept, names: Sequence[str], *, commit: str, between: Callable[[int], None]
    ) -> tuple[FileChange, str, int]:
        """Write what the table lacks of the rows put by; return files, index and rows, as `stage` does."""
        assert self._index is not None, "not refreshed"
        comparison = Comparison(
            table, self._index, self._folder, self._aside, attempt=commit, epoch=kept.marker.epoch, between=between
        )
        try:
            found = comparison.run(names)
        except BaseException:
            remove(table, comparison.written)
            raise
        self._staged = found.index
        return found.change, self._staged.save(self._folder), found.rows

    def rebuilt(self, snapshot: int) -> None:
        """Go on with the index as it was staged, and without what was put by."""
        self.settled(snapshot)
        self._forget()

    def _forget(self) -> None:
        shutil.rmtree(self._aside, ignore_errors=True)

    @property
    def _aside(self) -> Path:
        return self._folder.parent / "rebuild"

    def timestamp(self, task: WriteTask) -> int:
        """Upserts have no changelog."""
        return 0

    def settled(self, snapshot: int) -> None:
        """Go on with the index as it was staged."""
        assert self._staged is not None, "nothing staged"
        self._index, self._staged = self._staged, None
        self._true_at, self._named = snapshot, self._index.name

    def compact(self, attempt: Attempt, kept: Kept) -> Steps:
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
        rewriting = Rewriting(
            lambda: self._now(attempt), self._folder, attempt, sink=index.sink, key=key, epoch=kept.marker.epoch,
            failed=self._failed,
        )  # fmt: skip
        found = yield from rewriting.run(parts)
        if found is None:
            return None
        done, self._rewritten = found
        return done

    def _now(self, attempt: Attempt) -> Index | None:
        """Return the index if it is true of the table as it is now."""
        return self._index if self._true_at == attempt.table().metadata.current_snapshot_id else None

    def compacted(self, done: Compaction, snapshot: int) -> None:
        """Go on with the index that the compaction made."""
        assert self._rewritten is not None, "nothing rewritten"
        self._index, self._rewritten = self._rewritten, None
        self._true_at, self._named = snapshot, self._index.name
        self._there = 0  # one has not enough room for all that may be due

    def given_up(self, error: Exception) -> None:
        """Go on with the index as it was, or with a new one if it is wrong."""
        self._rewritten = None
        self._wrong |= isinstance(error, WrongIndexError)
        self._failed.note(error)

    def left_out(self) -> str | None:
        """Return why a file is never tried again."""
        return self._failed.left(self._index.paths() if self._index is not None else ())

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
        self._named = marker.index
        if found is not None:
            return found
        index = rebuild(table, key, self._folder, sink=marker.sink, epoch=marker.epoch)
        self._true_at = table.metadata.current_snapshot_id
        return index
