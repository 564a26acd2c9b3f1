"""Files of an upsert sink with their dead rows → fewer without them, and where the rows are now.

Which rows live is the key index's to say: each row's key is looked up, and the row lives if the index names its place.
Delete files are never asked. They leave the table with the last file that they name; many small ones become one.

Rows are copied a part at a time, with batches in between. What batches meanwhile did to rows that were copied is found
in the end, by looking the keys up again: such a row is dead in the new file from its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from sinkql import faults
from sinkql.connectors.iceberg.commit.conflict import delete_manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.choose import ALL, FAN, due, target_size
from sinkql.connectors.iceberg.compact.job import (
    Attempt,
    Compaction,
    Footprint,
    Scope,
    UnreadableFileError,
    WrongIndexError,
    readable,
    remove,
)
from sinkql.connectors.iceberg.file.data import FileEntry, cast, for_tasks, target_schema
from sinkql.connectors.iceberg.file.delete import Positions, read_position_deletes, write_position_deletes
from sinkql.connectors.iceberg.file.name import has_rows_of, rewritten_name
from sinkql.connectors.iceberg.file.order import SortedWriter
from sinkql.connectors.iceberg.file.place import Place
from sinkql.connectors.iceberg.file.read import read_rows
from sinkql.connectors.iceberg.keyindex.fold import folded
from sinkql.connectors.iceberg.keyindex.index import Index, MergedDeletes, Rewrite, Run
from sinkql.connectors.iceberg.keyindex.key import key_schema
from sinkql.connectors.iceberg.keyindex.keyhash import Hashes, hash_keys
from sinkql.connectors.iceberg.keyindex.layer import FileNote, Home
from sinkql.connectors.iceberg.keyindex.run import Entries, open_run, probe, write_run
from sinkql.runs import Tiers, sort_places

_ROWS = 1 << 20
"""Rows in one compaction, unless a single file has more: where they are then is written in one step."""
_AT_ONCE, _BYTES_AT_ONCE = 1 << 16, 64 << 20
"""Rows of small files that are copied at once, at most, and their bytes in memory."""


@dataclass(frozen=True, slots=True)
class _Least:
    """What makes a compaction due: files of like size, or delete files of like rows, or dead rows.

    A file is written again where one row in `dead_share` is dead, and `dead_rows` in all. Once a compaction is due
    anyhow, `as_well` files of like size are enough.
    """

    files: Tiers
    deletes: Tiers
    as_well: int
    dead_share: int
    dead_rows: int


_LEAST = _Least(Tiers(FAN, small=128 << 10), Tiers(FAN, small=1 << 12), as_well=4, dead_share=5, dead_rows=1 << 12)
_ALL = _Least(ALL, ALL, as_well=ALL.fan, dead_share=1 << 62, dead_rows=1)


def _least(scope: Scope | None) -> _Least:
    return _LEAST if scope is None else _ALL


@dataclass(frozen=True, slots=True)
class Part:
    """Files of one partition that become one: of one bucket's keys, or any; all of rows of this sink, or none."""

    files: Mapping[int, FileNote]
    home: Home | None
    place: Place
    foreign: bool


def choose(
    index: Index, properties: Mapping[str, str], failed: Container[str] = (), scope: Scope | None = None
) -> list[Part] | None:
    """Return the data files to write again, if any files are due, and what then goes along; None where none are.

    No part where only delete files are due. Files on which others `failed` stay as they are. With a `scope` due is what
    makes the table better at all, of its files.
    """
    least = _least(scope)
    groups: dict[tuple[bool, Home | None, Place], dict[int, FileNote]] = defaultdict(dict)
    for number, note in index.files.items():
        if note.path not in failed and (scope is None or note.path in scope):
            groups[not has_rows_of(note.path, index.sink), note.home, note.place][number] = note
    target = target_size(properties)
    now = any(_due_deletes(index, pool, least.deletes, scope) for pool in _pools(index, frozenset(), properties))
    if not now and not any(
        _due_files(files, target, least.files) or _many_dead(files, least) for files in groups.values()
    ):
        return None
    parts: list[Part] = []
    rows = 0
    for (foreign, home, place), files in groups.items():
        for each in _parts(files, target, least):
            size = sum(files[number].rows for number in each)
            if not parts or rows + size <= _ROWS:
                parts.append(Part({number: files[number] for number in each}, home, place, foreign))
                rows += size
    return parts


def _parts(files: Mapping[int, FileNote], target: int, least: _Least) -> Iterator[list[int]]:
    """Yield files to become one: a large one with many dead rows alone, the small ones together."""
    dirty = {number for number, note in files.items() if note.dead * least.dead_share > note.rows}
    large = [number for number in sorted(dirty) if _large(files[number], target)]
    yield from ([number] for number in large)
    small = {*_due_files(files, target, replace(least.files, fan=least.as_well)), *dirty.difference(large)}
    chosen: list[int] = []
    rows = size = 0
    for number in sorted(small, key=lambda number: files[number].rows):
        rows, size = rows + files[number].rows, size + files[number].size
        if chosen and (rows > _ROWS or size > target):
            break
        chosen.append(number)
    if len(chosen) > 1 or dirty.intersection(chosen):
        yield sorted(chosen)


def _due_files(files: Mapping[int, FileNote], target: int, tiers: Tiers) -> list[int]:
    small = [number for number, note in files.items() if not _large(note, target)]
    return due(small, lambda number: files[number].size, target=target, tiers=tiers)


def _large(note: FileNote, target: int) -> bool:
    return 2 * note.size >= target or 2 * note.rows > _ROWS


def _many_dead(files: Mapping[int, FileNote], least: _Least) -> bool:
    dead = sum(note.dead for note in files.values() if note.dead * least.dead_share > note.rows)
    return dead >= least.dead_rows


def _pools(index: Index, removed: frozenset[int], properties: Mapping[str, str]) -> Iterable[list[int]]:
    """Return delete files that may become one: all of a partition that name a file that stays, or those of each."""
    left = {number: note for number, note in index.files.items() if number not in removed}
    if properties.get("write.delete.granularity") == "file":
        return [[each for each in note.deletes if index.deletes[each].targets == 1] for note in left.values()]
    naming: dict[Place, set[int]] = defaultdict(set)
    for note in left.values():
        naming[note.place].update(note.deletes)
    return [sorted(numbers) for numbers in naming.values()]


def _due_deletes(index: Index, pool: list[int], tiers: Tiers, scope: Scope | None) -> list[int]:
    some = [number for number in pool if scope is None or index.deletes[number].path in scope]
    return due(some, lambda number: index.deletes[number].rows, target=1 << 62, tiers=tiers)


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows of a file from a position on."""

    file: int
    start: int
    rows: pa.Table


@dataclass(slots=True)
class _Copy:
    """A part's live rows in a new file, in order: their keys, and where each was (`file` and `pos`)."""

    part: Part
    number: int
    entries: list[Entries] = field(default_factory=list)
    written: FileEntry | None = None

    def whole(self) -> Entries:
        """Return all entries as one."""
        return Entries._make(np.concatenate(columns) for columns in zip(Entries.none(), *self.entries, strict=True))


class Rewriting:
    """One compaction of a table. `index` gives the key index as it is now, None while it is not true of the table."""

    def __init__(
        self, index: Callable[[], Index | None], folder: Path, attempt: Attempt, *, sink: str, key: tuple[str, ...],
        epoch: int,
    ) -> None:  # fmt: skip
        self._now, self._folder, self._attempt = index, folder, attempt
        self._sink, self._key, self._epoch = sink, key, epoch
        self._table = attempt.table()
        self._written: list[FileEntry] = []
        self._deletes = 0

    def run(self, parts: Sequence[Part]) -> Generator[bool, None, tuple[Compaction, Index] | None]:
        """Write the files, runs and the index's manifest; return what is to be committed, and the index after it.

        Raises WrongIndexError where the files do not hold what the index says, UnreadableFileError where they cannot be
        read; then nothing written stays in the table's folder.
        """
        try:
            return (yield from self._run(parts))
        except BaseException:  # the end of a sink is one
            remove(self._table, self._written)
            raise

    def _run(self, parts: Sequence[Part]) -> Generator[bool, None, tuple[Compaction, Index] | None]:
        faults.point("compaction-read")
        copies: list[_Copy] = []
        for number, part in enumerate(parts):
            copies.append((yield from self._copy(part, number)))
        faults.point("compaction-file")
        return self._finish(copies, (yield from self._index()))

    def _copy(self, part: Part, number: int) -> Generator[bool, None, _Copy]:
        name = rewritten_name(self._sink, self._epoch, self._attempt.id, number, foreign=part.foreign)
        writer = SortedWriter(for_tasks(self._table), name, part.place)
        copy = _Copy(part, number)
        read: list[_Read] = []
        try:
            for file in part.files:
                if not (yield from self._stays(part, file)):
                    continue
                try:
                    yield from self._copy_file(copy, writer, file, read)
                except UnreadableFileError:
                    if (yield from self._stays(part, file)):
                        raise
                    # It left the table meanwhile, and was deleted: what was read of it is dead.
            if read:
                yield from self._copy_live(copy, writer, read)
            copy.written = writer.close()
            if writer.order is not None:
                copy.entries = [copy.whole().take(writer.order)]
        except BaseException:
            writer.discard()
            raise
        if copy.written is not None:
            self._written.append(copy.written)
        return copy

    def _copy_file(
        self, copy: _Copy, writer: SortedWriter, file: int, read: list[_Read]
    ) -> Generator[bool, None, None]:
        """Read a file; what was read before is copied when it is much: looking up the rows of small files is slow."""
        note = copy.part.files[file]
        start = 0
        for rows in readable(note.path, read_rows(for_tasks(self._table), note.path)):
            if read and not _fits(read, rows):
                yield from self._copy_live(copy, writer, read)
            read.append(_Read(file, start, rows))
            start += rows.num_rows
            if not self._attempt.late():
                yield True
        if start != note.rows:
            raise UnreadableFileError(note.path, f"it has {start} rows, its manifest says {note.rows}")

    def _copy_live(self, copy: _Copy, writer: SortedWriter, read: list[_Read]) -> Generator[bool, None, None]:
        """Copy those of the rows that live, and forget that they were read."""
        index = yield from self._index()
        rows = pa.concat_tables(each.rows for each in read)
        h1, h2 = self._hashes(rows)
        files = np.repeat(np.array([each.file for each in read], np.uint32), [each.rows.num_rows for each in read])
        places = [np.arange(each.start, each.start + each.rows.num_rows, dtype=np.uint32) for each in read]
        entries = Entries(h1, h2, files, np.concatenate(places))
        live = self._lives(index, copy.part, entries)
        copy.entries.append(entries.take(live))
        writer.write(rows if live.all() else rows.filter(pa.array(live)))
        read.clear()

    def _index(self) -> Generator[bool, None, Index]:
        """Return the index once it is true of the table."""
        while (index := self._now()) is None:
            yield False
        return index

    def _stays(self, part: Part, file: int) -> Generator[bool, None, bool]:
        """Tell whether a file is in the table still: others are deleted once their snapshots expire."""
        return file in _there(part, (yield from self._index()))

    def _finish(self, copies: Sequence[_Copy], index: Index) -> tuple[Compaction, Index] | None:
        index.save(self._folder)
        table = self._attempt.table()
        notes: dict[int, FileNote] = {}
        runs: list[Run] = []
        deletes: list[MergedDeletes] = []
        removed = frozenset(number for copy in copies for number in _there(copy.part, index))
        for copy in copies:
            self._place(copy, index, notes, runs, deletes)
        scope = self._attempt.scope
        least = _least(scope)
        tiers = replace(least.deletes, fan=least.as_well)
        pools = [
            pool
            for each in _pools(index, removed, table.properties)
            if (pool := _due_deletes(index, each, tiers, scope))
        ]
        merged = frozenset(number for pool in pools for number in pool)
        if not removed and not merged:
            remove(table, self._written)
            return None
        deletes += [each for pool in pools for each in self._merge(index, pool, removed)]
        rewrite = Rewrite(removed, notes, tuple(runs), merged, tuple(deletes))
        after = index.rewritten(rewrite, epoch=self._epoch, commit=self._attempt.id)
        try:
            after = folded(after, self._folder, f"base-{self._sink}-{self._epoch}-{self._attempt.id}")
        except ValueError as error:
            raise WrongIndexError(index.name, str(error)) from error
        faults.point("compaction-run")
        change = FileChange(tuple(self._written), after.leaving, Operation.REPLACE)
        gone = [index.file(number) for number in removed]
        before = Footprint(len(gone) + len(merged), sum(note.size for note in gone))
        told = Footprint(len(self._written), sum(each.size for each in self._written if each.content == "data"))
        return Compaction(change, delete_manifests(table), before, told, after.save(self._folder)), after

    def _place(
        self, copy: _Copy, index: Index, notes: dict[int, FileNote], runs: list[Run], deletes: list[MergedDeletes]
    ) -> None:
        """Note where a copy's rows are that live by now; delete the others in the new file."""
        entries, file = copy.whole(), copy.written
        live = self._lives(index, copy.part, entries)
        for number, note in _there(copy.part, index).items():
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
        dead = np.flatnonzero(~live)
        home, place = copy.part.home, copy.part.place
        notes[id_] = FileNote(file.path, file.rows, len(dead), size=file.size, home=home, place=place)
        if len(dead):
            deletes.append(self._delete({file.path: dead}, {file.path: id_}, place))
        places = np.arange(entries.rows, dtype=np.uint32)
        moved = Entries(entries.h1, entries.h2, np.full(entries.rows, id_, np.uint32), places).take(live)
        run = f"c{copy.number}-{self._sink}-{self._epoch}-{self._attempt.id}.run"
        write_run(self._folder / run, moved.rows, [moved.take(sort_places(moved.h1, moved.h2))])
        runs.append(Run(run, moved.rows, *((home.bucket, home.buckets, home.bucketing) if home else ())))

    def _lives(self, index: Index, part: Part, entries: Entries) -> npt.NDArray[np.bool_]:
        """Tell which rows live at their places."""
        home = part.home
        known = (
            index.runs if home is None else index.probed(home.bucket, buckets=home.buckets, bucketing=home.bucketing)
        )
        files, places = probe([open_run(self._folder / run.name) for run in known], entries.h1, entries.h2)
        there = np.isin(entries.file, np.fromiter(_there(part, index), np.uint32))
        live: npt.NDArray[np.bool_] = there & (files == entries.file) & (places == entries.pos)
        return live

    def _hashes(self, rows: pa.Table) -> tuple[Hashes, Hashes]:
        keys = cast(rows, target_schema(key_schema(self._table.schema(), self._key), rows.schema))
        return hash_keys([keys.column(name) for name in self._key])

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

    def _delete(self, dead: Mapping[str, Positions], named: Mapping[str, int], place: Place) -> MergedDeletes:
        name = f"c{self._deletes}-{self._sink}-{self._epoch}-{self._attempt.id}-deletes.parquet"
        self._deletes += 1  # `_written` may lose files: no name is given twice
        entry = write_position_deletes(for_tasks(self._table), name, dead, place)
        self._written.append(entry)
        return MergedDeletes(entry.path, entry.rows, tuple(named[path] for path in sorted(dead)))


def _fits(read: Sequence[_Read], rows: pa.Table) -> bool:
    """Tell whether rows may be copied together with those before them."""
    total = rows.num_rows + sum(each.rows.num_rows for each in read)
    size = rows.nbytes + sum(each.rows.nbytes for each in read)
    alike: bool = rows.schema.equals(read[0].rows.schema)
    return total <= _AT_ONCE and size <= _BYTES_AT_ONCE and alike


def _united(parts: Sequence[Positions]) -> Positions:
    """Return the positions in order, each once."""
    positions = np.sort(np.concatenate(parts), kind="stable")
    return positions[np.concatenate(([True], positions[1:] != positions[:-1]))]


def _there(part: Part, index: Index) -> dict[int, FileNote]:
    """Return the files of a part that are in the table still, under the same numbers."""
    known = ((number, index.files.get(number), note.path) for number, note in part.files.items())
    return {number: found for number, found, path in known if found is not None and found.path == path}
