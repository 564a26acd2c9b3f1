"""Files of an upsert sink with their dead rows → fewer without them, and where the rows are now.

Which rows live is the key index's to say: each row's key is looked up, and the row lives if the index names its place.
Delete files are never asked. They leave the table with the last file that they name; many small ones become one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from sinkql import faults
from sinkql.connectors.iceberg.commit.conflict import delete_manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.choose import FAN, due, target_size
from sinkql.connectors.iceberg.compact.job import Compaction, Footprint, remove
from sinkql.connectors.iceberg.file.data import DataFileWriter, FileEntry, TaskTable, cast, for_tasks, target_schema
from sinkql.connectors.iceberg.file.delete import read_position_deletes, write_position_deletes
from sinkql.connectors.iceberg.file.name import has_rows_of, rewritten_name
from sinkql.connectors.iceberg.file.read import read_rows
from sinkql.connectors.iceberg.keyindex.fold import fold, fold_due
from sinkql.connectors.iceberg.keyindex.index import Index, MergedDeletes, Rewrite, Run
from sinkql.connectors.iceberg.keyindex.key import key_schema
from sinkql.connectors.iceberg.keyindex.keyhash import Hashes, hash_keys
from sinkql.connectors.iceberg.keyindex.layer import FileNote, Home
from sinkql.connectors.iceberg.keyindex.run import Entries, open_run, probe, write_run
from sinkql.runs import Tiers, sort_places

_FILES = Tiers(fan=FAN, small=128 << 10)
_DELETES = Tiers(fan=FAN, small=1 << 12)
"""Delete files are merged by their rows."""
_AS_WELL = 4
"""Files of like size that are enough once a compaction is due anyhow."""
_DEAD_SHARE = 5
_DEAD_ROWS = 1 << 12
"""A file is written again where one row in five is dead, and so many in all that it is worth a commit."""
_ROWS = 1 << 20
"""Rows in one compaction, unless a single file has more: it takes about a second, and no batch begins meanwhile."""


@dataclass(frozen=True, slots=True)
class Part:
    """Files that become one: of the keys of one bucket, or of any, and all of rows of this sink, or none."""

    files: Mapping[int, FileNote]
    home: Home | None
    foreign: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be written again: data files in parts, and pools of delete files, each to become one or one a file."""

    parts: Sequence[Part]
    pools: Sequence[Sequence[int]]


def choose(index: Index, properties: Mapping[str, str]) -> Choice | None:
    """Return what is due, and what then goes along; None where nothing is."""
    groups: dict[tuple[bool, Home | None], dict[int, FileNote]] = defaultdict(dict)
    for number, note in index.files.items():
        groups[not has_rows_of(note.path, index.sink), note.home][number] = note
    target = target_size(properties)
    by_file = properties.get("write.delete.granularity") == "file"
    pools = _pools(index, frozenset(), by_file=by_file)
    now = any(_due_deletes(index, pool, _DELETES) for pool in pools)
    if not now and not any(_due_files(files, target, _FILES) or _many_dead(files) for files in groups.values()):
        return None
    parts: list[Part] = []
    rows = 0
    for (foreign, home), files in groups.items():
        for each in _parts(files, target):
            size = sum(files[number].rows for number in each)
            if not parts or rows + size <= _ROWS:
                parts.append(Part({number: files[number] for number in each}, home, foreign))
                rows += size
    removed = frozenset(number for part in parts for number in part.files)
    tiers = replace(_DELETES, fan=_AS_WELL)
    left = (_due_deletes(index, pool, tiers) for pool in _pools(index, removed, by_file=by_file))
    chosen = Choice(parts, [pool for pool in left if pool])
    return chosen if chosen.parts or chosen.pools else None


def _parts(files: Mapping[int, FileNote], target: int) -> Iterator[list[int]]:
    """Yield files to become one: a large one with many dead rows alone, the small ones together."""
    dirty = {number for number, note in files.items() if note.dead * _DEAD_SHARE > note.rows}
    large = [number for number in sorted(dirty) if _large(files[number], target)]
    yield from ([number] for number in large)
    small = {*_due_files(files, target, replace(_FILES, fan=_AS_WELL)), *dirty.difference(large)}
    chosen: list[int] = []
    rows = 0
    for number in sorted(small, key=lambda number: files[number].rows):
        rows += files[number].rows
        if chosen and rows > _ROWS:
            break
        chosen.append(number)
    if len(chosen) > 1 or dirty.intersection(chosen):
        yield sorted(chosen)


def _due_files(files: Mapping[int, FileNote], target: int, tiers: Tiers) -> list[int]:
    small = [number for number, note in files.items() if not _large(note, target)]
    return due(small, lambda number: files[number].size, target=target, tiers=tiers)


def _large(note: FileNote, target: int) -> bool:
    return 2 * note.size >= target or 2 * note.rows > _ROWS


def _many_dead(files: Mapping[int, FileNote]) -> bool:
    return sum(note.dead for note in files.values() if note.dead * _DEAD_SHARE > note.rows) >= _DEAD_ROWS


def _pools(index: Index, removed: frozenset[int], *, by_file: bool) -> Iterable[list[int]]:
    """Return delete files that may become one: all that name a file that stays, or those of each file."""
    naming: dict[int, list[int]] = defaultdict(list)
    for number, note in index.files.items():
        if number not in removed:
            naming[number] += note.deletes
    if by_file:
        return [[each for each in numbers if index.deletes[each].targets == 1] for numbers in naming.values()]
    return [sorted({each for numbers in naming.values() for each in numbers})]


def _due_deletes(index: Index, pool: list[int], tiers: Tiers) -> list[int]:
    return due(pool, lambda number: index.deletes[number].rows, target=1 << 62, tiers=tiers)


class Rewriting:
    """One compaction of a table that the index is true of."""

    def __init__(self, index: Index, folder: Path, table: Table, *, epoch: int, attempt: str) -> None:
        self._index, self._folder, self._table = index, folder, table
        self._epoch, self._attempt = epoch, attempt
        self._files: TaskTable = for_tasks(table)
        self._key = tuple(column.name for column in index.key)
        self._next_id = index.next_file_id
        self._written: list[FileEntry] = []

    def run(self, choice: Choice) -> tuple[Compaction, Index]:
        """Write the files, runs and the index's manifest; return what is to be committed, and the index after it.

        Raises ValueError where the files do not hold what the index says; then nothing written stays in the table's
        folder.
        """
        try:
            return self._run(choice)
        except BaseException:
            remove(self._table, self._written)
            raise

    def _run(self, choice: Choice) -> tuple[Compaction, Index]:
        faults.point("compaction-read")
        notes: dict[int, FileNote] = {}
        runs: list[Run] = []
        for part in choice.parts:
            self._rewrite(part, notes, runs)
        faults.point("compaction-file")
        removed = frozenset(number for part in choice.parts for number in part.files)
        merged = frozenset(number for pool in choice.pools for number in pool)
        deletes = [each for pool in choice.pools for each in self._merge(pool, removed)]
        rewrite = Rewrite(removed, notes, tuple(runs), merged, tuple(deletes))
        index = self._index.rewritten(rewrite, epoch=self._epoch, commit=self._attempt)
        if fold_due(index):
            index = replace(index, runs=fold(index, self._folder, f"base-{index.sink}-{self._epoch}-{self._attempt}"))
        faults.point("compaction-run")
        change = FileChange(tuple(self._written), index.leaving, Operation.REPLACE)
        gone = [note for part in choice.parts for note in part.files.values()]
        before = Footprint(len(gone) + len(merged), sum(note.size for note in gone))
        after = Footprint(len(self._written), sum(each.size for each in self._written if each.content == "data"))
        return Compaction(change, delete_manifests(self._table), before, after, index.save(self._folder)), index

    def _rewrite(self, part: Part, notes: dict[int, FileNote], runs: list[Run]) -> None:
        id_, place = self._next_id, len(notes)
        name = rewritten_name(self._index.sink, self._epoch, self._attempt, place, foreign=part.foreign)
        writer = DataFileWriter(self._files, name)
        try:
            entries = list(self._live(part, writer, id_))
            file = writer.close()
        except BaseException:
            writer.discard()
            raise
        if file is None:
            return
        self._next_id += 1
        self._written.append(file)
        notes[id_] = FileNote(file.path, file.rows, size=file.size, home=part.home)
        whole = Entries._make(np.concatenate(columns) for columns in zip(*entries, strict=True))
        run = f"c{place}-{self._index.sink}-{self._epoch}-{self._attempt}.run"
        write_run(self._folder / run, whole.rows, [whole.take(sort_places(whole.h1, whole.h2))])
        home = (part.home.bucket, part.home.buckets, part.home.bucketing) if part.home else ()
        runs.append(Run(run, whole.rows, *home))

    def _live(self, part: Part, writer: DataFileWriter, id_: int) -> Iterator[Entries]:
        """Write the live rows of a part's files, and yield where they are then."""
        asked = [open_run(self._folder / run.name) for run in self._probed(part.home)]
        position = 0
        for number, note in part.files.items():
            start = alive = 0
            for rows in read_rows(self._files, note.path):
                h1, h2 = self._hashes(rows)
                files, places = probe(asked, h1, h2)
                live = (files == number) & (places == np.arange(start, start + rows.num_rows, dtype=np.uint32))
                count = int(np.count_nonzero(live))
                writer.write(rows if count == rows.num_rows else rows.filter(pa.array(live)))
                to = np.arange(position, position + count, dtype=np.uint32)
                yield Entries(h1[live], h2[live], np.full(count, id_, np.uint32), to)
                start, alive, position = start + rows.num_rows, alive + count, position + count
            if (start, alive) != (note.rows, note.rows - note.dead):
                raise ValueError(f"{note.path} has {alive} live rows of {start}, the index says {note}")

    def _probed(self, home: Home | None) -> Sequence[Run]:
        if home is None:
            return self._index.runs
        return self._index.probed(home.bucket, buckets=home.buckets, bucketing=home.bucketing)

    def _hashes(self, rows: pa.Table) -> tuple[Hashes, Hashes]:
        keys = cast(rows, target_schema(key_schema(self._table.schema(), self._key), rows.schema))
        return hash_keys([keys.column(name) for name in self._key])

    def _merge(self, pool: Sequence[int], removed: frozenset[int]) -> Iterator[MergedDeletes]:
        """Write what a pool of delete files says of the files that stay."""
        found = read_position_deletes(self._table.io, [self._index.deletes[number].path for number in pool])
        named = {note.path: number for number, note in self._index.files.items() if number not in removed}
        dead = {path: positions for path, positions in found.items() if path in named}
        if not dead:
            return
        name = f"c{len(self._written)}-{self._index.sink}-{self._epoch}-{self._attempt}-deletes.parquet"
        entry = write_position_deletes(self._files, name, dead)
        self._written.append(entry)
        yield MergedDeletes(entry.path, entry.rows, tuple(named[path] for path in sorted(dead)))
