"""Files of an upsert sink with their dead rows → fewer without them, and where the rows are now.

Which rows live, and what the hashes of their keys are, is the key index's to say; the keys of the first rows of each
file are compared with it. Delete files are never asked. They leave the table with the last file that they name; many
small ones become one.

Rows are copied a part at a time, with batches in between. What batches meanwhile did to rows that were copied is found
in the end, in the index runs that have come since: such a row is dead in the new file from its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from sinkql.connectors.iceberg.commit.committer import delete_manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.compaction import (
    Attempt,
    Compaction,
    Footprint,
    UnreadableFileError,
    WrongIndexError,
    readable,
    remove,
)
from sinkql.connectors.iceberg.compact.selection import CompactionCandidates, IndexedFile
from sinkql.connectors.iceberg.file.data_file import (
    FileEntry,
    TaskTable,
    cast,
    for_tasks,
    rewritten_name,
    target_schema,
)
from sinkql.connectors.iceberg.file.deletes import (
    Positions,
    read_position_deletes,
    write_position_deletes,
    write_vectors,
)
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file.reader import RewrittenRows
from sinkql.connectors.iceberg.file.sort_order import SortedWriter
from sinkql.connectors.iceberg.key_index.compaction import compact_runs
from sinkql.connectors.iceberg.key_index.index import Index, MergedDeletes, Rewrite, Run
from sinkql.connectors.iceberg.key_index.key_hash import key_schema
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.key_index.run import Entries, live_rows, lives, open_run, write_run
from sinkql.hash_key import HashKey
from sinkql.row_hash import hash_rows
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import Indices

_TRIED = 256
"""Rows of each file whose keys are compared with those that the index knows there."""


@dataclass(slots=True)
class _Copy:
    """A part's rows that lived when it was begun, by `runs`, sorted by their keys' hashes: where each was, and is.

    `at` are their positions in the new file; rows of a file that left the table meanwhile may have none.
    """

    part: IndexedFile
    number: int
    runs: frozenset[str]
    entries: Entries
    hash_key: HashKey
    at: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    written: FileEntry | None = None


class UpsertCompaction:
    """One compaction of a table. `index` gives the key index as it is now, None while it is not true of the table."""

    def __init__(
        self, index: Callable[[], Index | None], folder: Path, attempt: Attempt, *, sink: str, key: tuple[str, ...],
        epoch: int, failed: Container[str] = (),
    ) -> None:  # fmt: skip
        self._now, self._folder, self._attempt = index, folder, attempt
        self._sink, self._key, self._epoch, self._failed = sink, key, epoch, failed
        self._table = attempt.table()
        self._written: list[FileEntry] = []
        self._deletes = 0

    def rewrite(self, parts: Sequence[IndexedFile]) -> Generator[bool, None, tuple[Compaction, Index] | None]:
        """Write the files, runs and the index's manifest; return what is to be committed, and the index after it.

        Raises WrongIndexError where the files do not hold what the index says, UnreadableFileError where they cannot be
        read; then nothing written stays in the table's folder.
        """
        try:
            return (yield from self._run(parts))
        except BaseException:  # the end of a sink is one
            remove(self._table, self._written)
            raise

    def _run(self, parts: Sequence[IndexedFile]) -> Generator[bool, None, tuple[Compaction, Index] | None]:
        failpoint.point("compaction-read")
        copies: list[_Copy] = []
        for number, part in enumerate(parts):
            copies.append((yield from self._copy(part, number)))
        failpoint.point("compaction-file")
        return self._finish(copies, (yield from self._index()))

    def _copy(self, part: IndexedFile, number: int) -> Generator[bool, None, _Copy]:
        name = rewritten_name(self._sink, self._epoch, self._attempt.id, number, foreign=part.foreign)
        copy = self._begin(part, number, (yield from self._index()))
        yield True
        moving = RewrittenRows(self._table, self._order(part), {note.path for note in part.files.values()})
        writer = SortedWriter(moving.table, name, part.place)
        order = [np.empty(0, np.int64)]
        try:
            for file in part.files:
                if not (yield from self._stays(part, file)):
                    continue
                mine = np.flatnonzero(copy.entries.file == file)
                mine = mine[np.argsort(copy.entries.pos[mine], kind="stable")]
                try:
                    for rows, live in self._read(copy, file, mine, moving):
                        writer.write(rows)
                        order.append(live)
                        if not self._attempt.late():
                            yield True
                except UnreadableFileError:
                    if (yield from self._stays(part, file)):
                        raise
                    # It left the table meanwhile, and was deleted: what was read of it is dead.
            copy.written = writer.close()
        except BaseException:
            writer.discard()
            raise
        if copy.written is not None:
            self._written.append(copy.written)
        copied = np.concatenate(order)
        copied = copied if writer.order is None else copied[writer.order]
        at = np.full(copy.entries.rows, -1, np.int64)
        at[copied] = np.arange(len(copied))
        copy.entries, copy.at = copy.entries.take(at >= 0), at[at >= 0]
        return copy

    def _order(self, part: IndexedFile) -> TaskTable:
        """Return the table with the order that a part's rows are to be put into: those of one file have it by key."""
        declared, keyed = for_tasks(self._table), for_tasks(self._table, key=self._key)
        return declared if len(part.files) == 1 and not part.foreign else keyed

    def _begin(self, part: IndexedFile, number: int, index: Index) -> _Copy:
        """Find the rows of a part that live now."""
        there = _there(part, index)
        runs = _runs(part, index)
        known = [(open_run(self._folder / run.name), run.may_name(there)) for run in runs]
        return _Copy(part, number, frozenset(run.name for run in runs), live_rows(known, there), index.hash_key)

    def _read(self, copy: _Copy, file: int, mine: Indices, moving: RewrittenRows) -> Iterator[tuple[pa.Table, Indices]]:
        """Yield the live rows of a file in their order, a part at a time, and which of the copy's entries they are."""
        note, positions = copy.part.files[file], copy.entries.pos[mine]
        start = 0
        for rows in readable(note.path, moving.rows(note.path)):
            first, last = np.searchsorted(positions, [start, start + rows.num_rows])
            live = mine[first:last]
            if len(live):
                kept = rows if len(live) == rows.num_rows else rows.filter(_mask(positions[first:last] - start, rows))
                if not first:
                    self._check_keys(note, kept.slice(0, _TRIED), copy, live[:_TRIED])
                yield kept, live
            start += rows.num_rows
        if start != note.rows:
            raise UnreadableFileError(note.path, f"it has {start} rows, its manifest says {note.rows}")

    def _check_keys(self, note: FileRecord, rows: pa.Table, copy: _Copy, live: Indices) -> None:
        """Raise where the first rows of a file are not those that the index knows there."""
        keys = cast(rows, target_schema(key_schema(self._table.schema(), self._key), rows.schema))
        h1, h2 = hash_rows(copy.hash_key, [keys.column(name) for name in self._key])
        entries = copy.entries.take(live)
        if not (np.array_equal(h1, entries.h1) and np.array_equal(h2, entries.h2)):
            raise WrongIndexError(note.path, "its rows have other keys than the index says")

    def _index(self) -> Generator[bool, None, Index]:
        """Return the index once it is true of the table."""
        while (index := self._now()) is None:
            yield False
        return index

    def _stays(self, part: IndexedFile, file: int) -> Generator[bool, None, bool]:
        """Tell whether a file is in the table still: others are deleted once their snapshots expire."""
        return file in _there(part, (yield from self._index()))

    def _finish(self, copies: Sequence[_Copy], index: Index) -> tuple[Compaction, Index] | None:
        index.save(self._folder)
        table = self._attempt.table()
        notes: dict[int, FileRecord] = {}
        runs: list[Run] = []
        deletes: list[MergedDeletes] = []
        removed = frozenset(number for copy in copies for number in _there(copy.part, index))
        for copy in copies:
            self._place(copy, index, notes, runs, deletes)
        pools = CompactionCandidates(index, table, self._failed, self._attempt.scope).pools(removed)
        merged = frozenset(number for pool in pools for number in pool)
        if not removed and not merged:
            remove(table, self._written)
            return None
        deletes += [each for pool in pools for each in self._merge(index, pool, removed)]
        rewrite = Rewrite(removed, notes, tuple(runs), merged, tuple(deletes))
        after = index.rewritten(rewrite, epoch=self._epoch, commit=self._attempt.id)
        try:
            after = compact_runs(after, self._folder, f"base-{self._sink}-{self._epoch}-{self._attempt.id}")
        except ValueError as error:
            raise WrongIndexError(index.name, str(error)) from error
        failpoint.point("compaction-run")
        change = FileChange(tuple(self._written), after.leaving, Operation.REPLACE)
        gone = [index.file(number) for number in removed]
        before = Footprint(len(gone) + len(merged), sum(note.size for note in gone))
        told = Footprint(len(self._written), sum(each.size for each in self._written if each.content == "data"))
        return Compaction(change, delete_manifests(table), before, told, after.save(self._folder)), after

    def _place(
        self, copy: _Copy, index: Index, notes: dict[int, FileRecord], runs: list[Run], deletes: list[MergedDeletes]
    ) -> None:
        """Note where a copy's rows are that live by now; delete the others in the new file."""
        entries, file = copy.entries, copy.written
        there = _there(copy.part, index)
        known = _runs(copy.part, index)
        # Those that came since, and what lies above them: one may be of older runs, below others that are there still.
        since = max((number for number, run in enumerate(known, 1) if run.name not in copy.runs), default=0)
        newer = [open_run(self._folder / run.name) for run in known[:since]]
        live = lives(entries, newer, older=since < len(known))
        live &= np.isin(entries.file, np.fromiter(there, np.uint32))
        for number, note in there.items():
            alive = int(np.count_nonzero(live & (entries.file == number)))
            if alive != note.rows - note.dead:
                raise WrongIndexError(note.path, f"it has {alive} live rows of {note.rows}, the index says {note}")
        if file is None:
            return
        if not live.any():
            self._written.remove(file)
            remove(self._table, [file])
            return
        id_ = index.next_file_id + copy.number
        dead = np.sort(copy.at[~live])
        home, place = copy.part.home, copy.part.place
        notes[id_] = FileRecord(file.path, file.rows, len(dead), size=file.size, home=home, place=place)
        if len(dead):
            deletes.append(self._delete({file.path: dead}, {file.path: id_}, place))
        moved = Entries(entries.h1, entries.h2, np.full(entries.rows, id_, np.uint32), copy.at.astype(np.uint32))
        moved = moved.take(live)
        run = f"c{copy.number}-{self._sink}-{self._epoch}-{self._attempt.id}.run"
        write_run(self._folder / run, moved.rows, [moved])
        bucket, buckets, bucketing = (home.bucket, home.buckets, home.bucketing) if home else (None, 0, "")
        runs.append(Run(run, moved.rows, bucket, buckets, bucketing, (id_, id_)))

    def _merge(self, index: Index, pool: Sequence[int], removed: frozenset[int]) -> Iterator[MergedDeletes]:
        """Write what a pool of delete files says of the files that stay."""
        named = {note.path: number for number, note in index.files.items() if number not in removed}
        found: dict[str, list[Positions]] = defaultdict(list)
        for path in (index.deletes[number].path for number in pool):
            for each in readable(path, (read_position_deletes(self._table.io, [name]) for name in (path,))):
                for target in each.keys() & named.keys():
                    found[target].append(each[target])
        dead = {path: _united(parts) for path, parts in found.items()}
        if dead:
            place = index.file(named[next(iter(dead))]).place
            yield self._delete(dead, named, place)

    def _delete(self, dead: Mapping[str, Positions], named: Mapping[str, int], place: PartitionValue) -> MergedDeletes:
        name = f"c{self._deletes}-{self._sink}-{self._epoch}-{self._attempt.id}-deletes"
        self._deletes += 1  # `_written` may lose files: no name is given twice
        table = for_tasks(self._table)
        if table.version >= VECTORS:
            (entry,) = write_vectors(table, name, dead, dict.fromkeys(dead, place))
        else:
            entry = write_position_deletes(table, f"{name}.parquet", dead, place)
        self._written.append(entry)
        return MergedDeletes(entry.name, entry.rows, tuple(named[path] for path in sorted(dead)))


def _runs(part: IndexedFile, index: Index) -> tuple[Run, ...]:
    """Return the runs that may hold keys of a part, newest first."""
    home = part.home
    return index.runs if home is None else index.probed(home.bucket, buckets=home.buckets, bucketing=home.bucketing)


def _mask(places: npt.NDArray[np.uint32], rows: pa.Table) -> pa.Array:
    """Return a filter for rows by their numbers, which is much faster than to take them."""
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[places] = True
    return pa.array(mask)


def _united(parts: Sequence[Positions]) -> Positions:
    """Return the positions in order, each once."""
    positions = np.sort(np.concatenate(parts), kind="stable")
    return positions[np.concatenate(([True], positions[1:] != positions[:-1]))]


def _there(part: IndexedFile, index: Index) -> dict[int, FileRecord]:
    """Return the files of a part that are in the table still, under the same numbers."""
    known = ((number, index.files.get(number), note.path) for number, note in part.files.items())
    return {number: found for number, found, path in known if found is not None and found.path == path}
