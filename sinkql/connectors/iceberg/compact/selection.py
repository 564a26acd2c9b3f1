"""Select the files that a compaction rewrites: by size, and for upsert sinks by the cost of reading the table.

Compaction limits the extra cost of a full scan, compared with the live rows alone. The costs are microseconds of CPU in
DuckDB 1.5; `bench/README.md` has the measurements. Other engines have similar costs.
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
"""The number of files of similar size that makes a compaction due."""
_TIERS = MergePolicy(fan=FAN, small=128 << 10)
"""Opening a file of up to 128 KB costs more than reading it."""
ALL = MergePolicy(fan=2, small=1 << 62)
"""For the fewest files possible."""

File = TypeVar("File")


def target_size(properties: Mapping[str, str]) -> int:
    """Return the target size of a table's files, in bytes."""
    try:
        return max(1, int(properties.get(_PROPERTY, _TARGET)))
    except ValueError:
        return _TARGET


def due(
    files: Iterable[File], size: Callable[[File], int], *, target: int, tiers: MergePolicy | None = None
) -> list[File]:
    """Return the small files to combine into one file of at most the target size; none if they are few.

    A file is included if all smaller ones together are at least as large, so the new file is at least twice its size.
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
"""Rows in one compaction, unless a single file has more: one step writes all their new positions."""
_SMALL = 1 << 16
"""Rows of a file that may be rewritten without a pause."""
_FEW_POSITIONS = 1 << 15
"""A delete file with at most this many positions is always combined with others."""
_HALF_DEAD = 2
"""A file is always rewritten if more than one in this number of its rows is dead."""
_EASED = 0.75
"""Once dead rows cost too much, they are reduced to this share of the limit."""


@dataclass(frozen=True, slots=True)
class _Thresholds:
    """The thresholds that make a compaction due: data files of similar size, delete files, or dead rows.

    If it is due for another reason, the numbers of data and delete files in `as_well` suffice.
    """

    files: MergePolicy
    deletes: MergePolicy
    as_well: tuple[int, int]
    dead_rows: int


_LEAST = _Thresholds(
    MergePolicy(FAN, small=128 << 10), MergePolicy(FAN, small=_FEW_POSITIONS), as_well=(4, 2), dead_rows=1 << 12
)
_ALL = _Thresholds(ALL, ALL, as_well=(ALL.fan, ALL.fan), dead_rows=1)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition to combine: of one bucket or none, and all of them of this sink or all of others."""

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
) -> list[FileGroup] | None:
    """Return the groups of data files to rewrite; None if no files are due, no group if only delete files are due.

    Files in `failed` are skipped. With a `scope`, all its files whose compaction improves the table are due. A
    compaction `beside` one of these paths selects only other files, which are small.
    """
    groups: dict[tuple[bool, IndexLocation | None, PartitionValue], dict[int, FileRecord]] = defaultdict(dict)
    for number, record in index.files.items():
        is_free = beside is None or (record.rows <= _SMALL and record.path not in beside)
        if is_free and record.path not in failed and (scope is None or record.path in scope):
            groups[not has_rows_of(record.path, index.sink), record.home, record.place][number] = record
    candidates = CompactionCandidates(index, table, failed, scope)
    worn = candidates.worn({number: record for files in groups.values() for number, record in files.items()})
    if not worn and not candidates.are_due(groups.values()):
        return None
    parts: list[FileGroup] = []
    rows = 0
    for (foreign, home, place), files in groups.items():
        for numbers in candidates.parts(files, worn):
            size = sum(files[number].rows for number in numbers)
            if not parts or rows + size <= _ROWS:
                parts.append(FileGroup({number: files[number] for number in numbers}, home, place, foreign))
                rows += size
    return parts if parts or candidates.pools() else None


class CompactionCandidates:
    """The files of a table that may be rewritten, according to its index."""

    def __init__(self, index: Index, table: Table, failed: Container[str], scope: Scope | None) -> None:
        self._index, self._failed, self._scope = index, failed, scope
        self._least = _LEAST if scope is None else _ALL
        self._cost = ReadCost(len(table.schema().column_names))
        self._target = target_size(table.properties)
        self._table = table

    def worn(self, files: Mapping[int, FileRecord]) -> frozenset[int]:
        """Return the files to rewrite because of dead rows, as few as suffice, those with the greatest share first.

        So the files of a table are rewritten in turn, and new files last.
        """
        if self._scope is not None:
            return frozenset(number for number, record in files.items() if record.dead)
        if sum(record.dead for record in files.values()) < self._least.dead_rows:
            return frozenset()
        cost, limit = self._cost.of_dead(files.values()), self._cost.tolerable_dead(self._index.files.values())
        limit *= _EASED if cost > limit else 1
        worn = []
        for number in sorted(files, key=lambda number: files[number].dead / files[number].rows, reverse=True):
            record = files[number]
            if cost <= limit and record.dead * _HALF_DEAD <= record.rows:
                break
            worn.append(number)
            cost -= self._cost.of_dead([record])
        return frozenset(worn)

    def are_due(self, groups: Collection[Mapping[int, FileRecord]]) -> bool:
        """Return whether a compaction is due because of the number of files."""
        least = self._least
        return (
            self._are_scattered(groups)
            or any(self._due_deletes(pool, least.deletes) for pool in self._present_pools)
            or any(_due_files(files, self._target, least.files) for files in groups)
        )

    def parts(self, files: Mapping[int, FileRecord], worn: frozenset[int]) -> Iterator[list[int]]:
        """Yield files to combine: each large worn file alone, and the small files together."""
        worn &= files.keys()
        large = [number for number in sorted(worn) if _is_large(files[number], self._target)]
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
        """Return groups of delete files to combine after data files are `removed`, with the delete files of these."""
        tiers = replace(self._least.deletes, fan=self._least.as_well[1])
        named: Counter[int] = Counter()
        for record in map(self._index.file, removed):
            named.update(dict.fromkeys(record.deletes, record.dead))
        deletes = self._index.deletes
        outdated = {number for number, dead in named.items() if deletes[number].rows <= max(2 * dead, _FEW_POSITIONS)}
        groups = []
        for pool in self._all_pools(removed) if removed else self._present_pools:
            due = {*self._due_deletes(pool, tiers), *outdated.intersection(pool)}
            if due:
                groups.append(sorted(due))
        return groups

    @cached_property
    def _present_pools(self) -> list[list[int]]:
        return self._all_pools(frozenset())

    def _all_pools(self, removed: frozenset[int]) -> list[list[int]]:
        """Return groups of delete files that may be combined.

        According to the table's granularity, a group has the delete files of one data file, or all delete files of a
        partition that name remaining data files. Failed files are skipped. Tables with deletion vectors have no
        groups: they have one vector for each data file, and no longer get delete files.
        """
        if self._table.metadata.format_version >= VECTORS:
            return []
        deletes = {number: record for number, record in self._index.deletes.items() if record.path not in self._failed}
        remaining = [record for number, record in self._index.files.items() if number not in removed]
        if self._table.properties.get("write.delete.granularity") == "file":
            single = {number for number, record in deletes.items() if record.targets == 1}
            return [[number for number in record.deletes if number in single] for record in remaining]
        naming: dict[PartitionValue, set[int]] = defaultdict(set)
        for record in remaining:
            naming[record.place].update(deletes.keys() & record.deletes)
        return [sorted(numbers) for numbers in naming.values()]

    def _are_scattered(self, groups: Collection[Mapping[int, FileRecord]]) -> bool:
        excess = sum(max(0, len(files) - 1) for files in groups)
        deletes = sum(max(0, len(pool) - 1) for pool in self._present_pools)
        return self._cost.is_scattered(self._index.files.values(), excess, deletes)

    def _due_deletes(self, pool: list[int], tiers: MergePolicy) -> list[int]:
        deletes = self._index.deletes
        in_scope = [number for number in pool if self._scope is None or deletes[number].path in self._scope]
        return due(in_scope, lambda number: deletes[number].rows, target=1 << 62, tiers=tiers)


def _due_files(files: Mapping[int, FileRecord], target: int, tiers: MergePolicy) -> list[int]:
    small = [number for number, record in files.items() if not _is_large(record, target)]
    return due(small, lambda number: files[number].size, target=target, tiers=tiers)


def _is_large(record: FileRecord, target: int) -> bool:
    return 2 * record.size >= target or 2 * record.rows > _ROWS


_VALUE, _POSITION, _FILE, _DELETES = 0.018, 0.2, 150.0, 750.0
"""The costs of a value, a position in a delete file, a data file, and a delete file."""
_DEAD, _SCATTERED = 0.04, 0.04
"""The extra cost of dead rows, and of files, as shares of the cost of the live rows."""
_FEW = 0.02
"""This share of the rows may always be dead; otherwise tables with few columns would be rewritten constantly."""
_READING_LEAST = 100_000.0
"""The least cost of a table: for cheaper tables other costs dominate."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """The cost of reading rows with a number of columns, including nested ones."""

    columns: int

    def of_dead(self, files: Iterable[FileRecord]) -> float:
        """Return the cost of the dead rows of files."""
        return (self._row + _POSITION) * sum(record.dead for record in files)

    def tolerable_dead(self, files: Iterable[FileRecord]) -> float:
        """Return the acceptable cost of dead rows in a table of these files, which is never zero."""
        records = list(files)
        few = _FEW * (self._row + _POSITION) * sum(record.rows for record in records)
        return max(few, _DEAD * self._of_live(records))

    def is_scattered(self, files: Iterable[FileRecord], excess: int, excess_deletes: int) -> bool:
        """Return whether excess data and delete files cost too much for a table of these files."""
        return excess * _FILE + excess_deletes * _DELETES > _SCATTERED * self._of_live(files)

    @property
    def _row(self) -> float:
        return _VALUE * self.columns

    def _of_live(self, files: Iterable[FileRecord]) -> float:
        return max(_READING_LEAST, self._row * sum(record.rows - record.dead for record in files))
