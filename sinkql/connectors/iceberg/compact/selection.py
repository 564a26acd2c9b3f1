"""The files of an upsert table, as its key index has them → those to write again now.

Sizes of files → those to write again now.

What a table's files cost who reads all of it, beside its live rows: what compaction is to keep small.

Microseconds of CPU as DuckDB 1.5 takes them; `bench/README.md` has the measurements. Other engines pay for the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from pyiceberg.table import Table

from sinkql.connectors.iceberg.compact.compaction import Scope
from sinkql.connectors.iceberg.file.data_file import has_rows_of
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.layer import FileRecord, IndexLocation
from sinkql.storage.sorted_run import MergePolicy

_TARGET = 512 << 20
_PROPERTY = "write.target-file-size-bytes"
FAN = 16
"""Files of like size that are one too many."""
_TIERS = MergePolicy(fan=FAN, small=128 << 10)
"""A file up to 128 KB costs a reader more to open than to read."""
ALL = MergePolicy(fan=2, small=1 << 62)
"""For who wants as few files as there can be."""

File = TypeVar("File")


def target_size(properties: Mapping[str, str]) -> int:
    """Return how large a table's files should be, in bytes."""
    try:
        return max(1, int(properties.get(_PROPERTY, _TARGET)))
    except ValueError:
        return _TARGET


def due(
    files: Iterable[File], size: Callable[[File], int], *, target: int, tiers: MergePolicy | None = None
) -> list[File]:
    """Return the small files that are to become one of up to the target size; none while there are few of them.

    A file joins while all smaller ones together are as large: it comes into one at least twice its size.
    """
    small = sorted((file for file in files if 2 * size(file) < target), key=size)
    chosen: list[File] = []
    total = 0
    for file in small[: (tiers or _TIERS).due(map(size, small))]:
        total += size(file)
        if total > target:
            break
        chosen.append(file)
    return chosen if len(chosen) > 1 else []


_ROWS = 1 << 20
"""Rows in one compaction, unless a single file has more: where they are then is written in one step."""
_SMALL = 1 << 16
"""Rows of a file that may be written again in one go."""
_FEW_POSITIONS = 1 << 15
"""Positions in a delete file that always become one with others."""
_HALF_DEAD = 2
"""A file with more dead rows than this part of them is written again whatever the table holds."""
_EASED = 0.75
"""Once there is too much that is dead, this part of what is too much may stay."""


@dataclass(frozen=True, slots=True)
class _Least:
    """What makes a compaction due by itself: files of like size, delete files of like rows, or so many dead rows.

    Once one is due anyhow, as many files and delete files of a kind are enough as `as_well` says.
    """

    files: MergePolicy
    deletes: MergePolicy
    as_well: tuple[int, int]
    dead_rows: int


_LEAST = _Least(
    MergePolicy(FAN, small=128 << 10), MergePolicy(FAN, small=_FEW_POSITIONS), as_well=(4, 2), dead_rows=1 << 12
)
_ALL = _Least(ALL, ALL, as_well=(ALL.fan, ALL.fan), dead_rows=1)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """Files of one partition that become one: of one bucket's keys, or any; all of rows of this sink, or none."""

    files: Mapping[int, FileRecord]
    home: IndexLocation | None
    place: PartitionValue
    foreign: bool


def choose(
    index: Index,
    table: Table,
    failed: Container[str] = (),
    scope: Scope | None = None,
    beside: Container[str] | None = None,
) -> list[IndexedFile] | None:
    """Return the data files to write again, if any files are due, and what then goes along; None where none are.

    No part where only delete files are due. Files on which others `failed` stay as they are. With a `scope` due is what
    makes the table better at all, of its files. What goes `beside` a compaction of these paths is none of them, and
    small.
    """
    groups: dict[tuple[bool, IndexLocation | None, PartitionValue], dict[int, FileRecord]] = defaultdict(dict)
    for number, note in index.files.items():
        apart = beside is None or (note.rows <= _SMALL and note.path not in beside)
        if apart and note.path not in failed and (scope is None or note.path in scope):
            groups[not has_rows_of(note.path, index.sink), note.home, note.place][number] = note
    choice = CompactionCandidates(index, table, failed, scope)
    worn = choice.worn({number: note for files in groups.values() for number, note in files.items()})
    if not worn and not choice.due(groups.values()):
        return None
    parts: list[IndexedFile] = []
    rows = 0
    for (foreign, home, place), files in groups.items():
        for each in choice.parts(files, worn):
            size = sum(files[number].rows for number in each)
            if not parts or rows + size <= _ROWS:
                parts.append(IndexedFile({number: files[number] for number in each}, home, place, foreign))
                rows += size
    return parts if parts or choice.pools() else None


class CompactionCandidates:
    """What is due in a table as its index has it."""

    def __init__(self, index: Index, table: Table, failed: Container[str], scope: Scope | None) -> None:
        self._index, self._failed, self._scope = index, failed, scope
        self._least = _LEAST if scope is None else _ALL
        self._reading = ReadCost(len(table.schema().column_names))
        self._target = target_size(table.properties)
        self._table = table

    def worn(self, files: Mapping[int, FileRecord]) -> frozenset[int]:
        """Return the files to write again for their dead rows: the largest parts first, until all cost little.

        So the files of a table get there one after the other, and those that have just been written wait.
        """
        if self._scope is not None:
            return frozenset(number for number, note in files.items() if note.dead)
        if sum(note.dead for note in files.values()) < self._least.dead_rows:
            return frozenset()
        left, most = self._reading.dead(files.values()), self._reading.tolerable_dead(self._index.files.values())
        most *= _EASED if left > most else 1
        found = []
        for number in sorted(files, key=lambda number: files[number].dead / files[number].rows, reverse=True):
            note = files[number]
            if left <= most and note.dead * _HALF_DEAD <= note.rows:
                break
            found.append(number)
            left -= self._reading.dead([note])
        return frozenset(found)

    def due(self, groups: Collection[Mapping[int, FileRecord]]) -> bool:
        """Tell whether files are due for their number."""
        least = self._least
        return (
            self._scattered(groups)
            or any(self._due_deletes(pool, least.deletes) for pool in self._pools_now)
            or any(_due_files(files, self._target, least.files) for files in groups)
        )

    def parts(self, files: Mapping[int, FileRecord], worn: frozenset[int]) -> Iterator[list[int]]:
        """Yield files to become one: a large one that is worn alone, the small ones together."""
        worn &= files.keys()
        large = [number for number in sorted(worn) if _large(files[number], self._target)]
        yield from ([number] for number in large)
        tiers = replace(self._least.files, fan=self._least.as_well[0])
        small = {*_due_files(files, self._target, tiers), *worn.difference(large)}
        chosen: list[int] = []
        rows = size = 0
        for number in sorted(small, key=lambda number: files[number].rows):
            rows, size = rows + files[number].rows, size + files[number].size
            if chosen and (rows > _ROWS or size > self._target):
                break
            chosen.append(number)
        if len(chosen) > 1 or worn.intersection(chosen):
            yield sorted(chosen)

    def pools(self, removed: frozenset[int] = frozenset()) -> list[list[int]]:
        """Return delete files to become one each, once data files are `removed`: those that named them go along."""
        tiers = replace(self._least.deletes, fan=self._least.as_well[1])
        named: Counter[int] = Counter()
        for note in map(self._index.file, removed):
            named.update(dict.fromkeys(note.deletes, note.dead))
        deletes = self._index.deletes
        left = {each for each, dead in named.items() if deletes[each].rows <= max(2 * dead, _FEW_POSITIONS)}
        found = []
        for pool in self._all_pools(removed) if removed else self._pools_now:
            due = {*self._due_deletes(pool, tiers), *left.intersection(pool)}
            if due:
                found.append(sorted(due))
        return found

    @cached_property
    def _pools_now(self) -> list[list[int]]:
        return self._all_pools(frozenset())

    def _all_pools(self, removed: frozenset[int]) -> list[list[int]]:
        """Return delete files that may become one: all of a partition that name a file that stays, or those of each.

        Files that failed stay as they are. No deletion vectors: they are one a data file anyhow, and a table that may
        have them gets no delete file any more.
        """
        if self._table.metadata.format_version >= VECTORS:
            return []
        deletes = {number: note for number, note in self._index.deletes.items() if note.path not in self._failed}
        left = {number: note for number, note in self._index.files.items() if number not in removed}
        if self._table.properties.get("write.delete.granularity") == "file":
            alone = {number for number, note in deletes.items() if note.targets == 1}
            return [[each for each in note.deletes if each in alone] for note in left.values()]
        naming: dict[PartitionValue, set[int]] = defaultdict(set)
        for note in left.values():
            naming[note.place].update(deletes.keys() & note.deletes)
        return [sorted(numbers) for numbers in naming.values()]

    def _scattered(self, groups: Collection[Mapping[int, FileRecord]]) -> bool:
        excess = sum(max(0, len(files) - 1) for files in groups)
        deletes = sum(max(0, len(pool) - 1) for pool in self._pools_now)
        return self._reading.scattered(self._index.files.values(), excess, deletes)

    def _due_deletes(self, pool: list[int], tiers: MergePolicy) -> list[int]:
        deletes = self._index.deletes
        some = [number for number in pool if self._scope is None or deletes[number].path in self._scope]
        return due(some, lambda number: deletes[number].rows, target=1 << 62, tiers=tiers)


def _due_files(files: Mapping[int, FileRecord], target: int, tiers: MergePolicy) -> list[int]:
    small = [number for number, note in files.items() if not _large(note, target)]
    return due(small, lambda number: files[number].size, target=target, tiers=tiers)


def _large(note: FileRecord, target: int) -> bool:
    return 2 * note.size >= target or 2 * note.rows > _ROWS


_VALUE, _POSITION, _FILE, _DELETES = 0.018, 0.2, 150.0, 750.0
"""A value; a position in a delete file; a data file; a delete file."""
_DEAD, _SCATTERED = 0.04, 0.04
"""Of what the live rows of a table cost: what its dead rows, and its files, may cost more."""
_FEW = 0.02
"""As large a part of the rows may be dead, or tables of few columns would be written again all the time."""
_READING_LEAST = 100_000.0
"""Who reads a table smaller than this waits for other things."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """The cost of rows with so many columns, those of nested ones counted."""

    columns: int

    def dead(self, files: Iterable[FileRecord]) -> float:
        """Return what the dead rows of files cost."""
        return (self._row + _POSITION) * sum(note.dead for note in files)

    def tolerable_dead(self, files: Iterable[FileRecord]) -> float:
        """Return what the dead rows of a table of these files may cost; few may stay in narrow tables too."""
        there = list(files)
        few = _FEW * (self._row + _POSITION) * sum(note.rows for note in there)
        return max(few, _DEAD * self._whole(there))

    def scattered(self, files: Iterable[FileRecord], excess: int, excess_deletes: int) -> bool:
        """Tell whether so many data and delete files more than a table of these needs cost too much."""
        return excess * _FILE + excess_deletes * _DELETES > _SCATTERED * self._whole(files)

    @property
    def _row(self) -> float:
        return _VALUE * self.columns

    def _whole(self, files: Iterable[FileRecord]) -> float:
        return max(_READING_LEAST, self._row * sum(note.rows - note.dead for note in files))
