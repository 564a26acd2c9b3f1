"""The rows put by for a rebuild, and the table's own → files and an index with which the table has just the former.

Rows that are equal stay where they are. Others are deleted from their files, and written to new ones. Both sides are
sorted by the hashes of their keys on disk, the table's rows as hashes alone, and compared one range of hashes after the
other: neither the table nor the view has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.selection import target_size
from sinkql.connectors.iceberg.file.data_file import FileEntry, cast, for_tasks, rewritten_name, target_schema
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue, divide
from sinkql.connectors.iceberg.file.reader import read_rows
from sinkql.connectors.iceberg.file.sort_order import SortedWriter
from sinkql.connectors.iceberg.key_index.change import two_rows, write_dead
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange, Run
from sinkql.connectors.iceberg.key_index.key_hash import key_schema
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.key_index.run import Entries, Ids, map_run, open_run, probe, write_run
from sinkql.connectors.iceberg.write.refresh_collect import Part, cuts, digests, mapped, put_by
from sinkql.row_hash import Hashes, hash_rows
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import Column, Indices, duplicates_mask, find, sort_indices

_RANGE = 1 << 19
"""Rows of both sides that are compared at once, about."""
_PART = 1 << 20
"""Rows of the table whose hashes are sorted at once."""


class _There(NamedTuple):
    """Rows of the table: hashes of their keys and of all that is in them, and where they are."""

    h1: Hashes
    h2: Hashes
    d1: Hashes
    d2: Hashes
    file: Ids
    pos: Ids

    def take(self, places: Indices | npt.NDArray[np.bool_]) -> _There:
        return _There._make(column[places] for column in self)


class _Wanted(NamedTuple):
    """Rows that the table is to have, sorted by their keys: hashes, and the part and the place in it."""

    h1: Hashes
    h2: Hashes
    d1: Hashes
    d2: Hashes
    part: Indices
    place: Indices

    def take(self, places: Indices | npt.NDArray[np.bool_]) -> _Wanted:
        return _Wanted._make(column[places] for column in self)


@dataclass(slots=True)
class RefreshResult:
    """What is to be committed, the index after it, and how many rows come, with those that take another's place."""

    change: FileChange
    index: Index
    rows: int


@dataclass(slots=True)
class _New:
    """A new file of one partition, and the hashes of the keys of its rows as they came."""

    writer: SortedWriter
    keys: list[tuple[Hashes, Hashes]] = field(default_factory=list)
    bytes: int = 0


class RefreshDiff:
    """One comparison; `folder` is the index's, `aside` that of the rebuild. `between` is called with rows compared."""

    def __init__(
        self, table: Table, index: Index, folder: Path, aside: Path, *, attempt: str, epoch: int,
        between: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._table, self._index = table, index
        self._tasks = for_tasks(table, key=tuple(column.name for column in index.key))
        self._folder, self._aside = folder, aside
        self._attempt, self._epoch, self._between = attempt, epoch, between
        self._target = target_size(table.properties)
        self._open: dict[PartitionValue, _New] = {}
        self._dead: dict[int, npt.NDArray[np.bool_]] = {}
        self._notes: dict[int, FileRecord] = {}
        self._runs: list[Path] = []
        self._kept: list[Path] = []
        self._rows = self._names = self._compared = 0
        self.written: list[FileEntry] = []

    def compare(self, names: Sequence[str]) -> RefreshResult:
        """Compare with the parts of these names, and write what is missing; raises SQ3552 for two rows of one key."""
        self._aside.mkdir(parents=True, exist_ok=True)
        there = [mapped(path) for path in self._put_by_there()]
        parts = sorted((Part.open(self._aside, name) for name in names), key=lambda part: part.number)
        bounds = _bounds(sum(len(part.h1) for part in parts) + sum(len(each["h1"]) for each in there))
        wanted_cuts = [cuts(part.h1, bounds) for part in parts]
        there_cuts = [cuts(each["h1"], bounds) for each in there]
        try:
            for number in range(len(bounds) + 1):
                wanted = self._wanted(parts, [(each[number], each[number + 1]) for each in wanted_cuts])
                old = _range(there, [(each[number], each[number + 1]) for each in there_cuts])
                self._compare(parts, wanted, old)
                self._between(self._compared)
            for place in list(self._open):
                self._close(place)
        except BaseException:
            for new in self._open.values():
                new.writer.discard()
            raise
        failpoint.point("rebuild-files")
        return self._finish()

    def _wanted(self, parts: Sequence[Part], cut: Sequence[tuple[int, int]]) -> _Wanted:
        """Return the rows of a range of hashes that are left after all parts; SQ3552 for two rows of one key."""

        def column(name: str, kind: type) -> Column:
            slices = [getattr(part, name)[low:high] for part, (low, high) in zip(parts, cut, strict=True)]
            return np.concatenate([np.empty(0, kind), *slices])

        h1, h2, d1, d2 = (column(name, np.uint64) for name in ("h1", "h2", "d1", "d2"))
        comes, fresh = (column(name, np.uint8).astype(np.bool_) for name in ("comes", "fresh"))
        part = np.repeat(np.arange(len(parts)), [high - low for low, high in cut]).astype(np.int64)
        place = np.concatenate([np.empty(0, np.int64), *(np.arange(low, high) for low, high in cut)])
        order = sort_indices(h1, h2, np.array([each.number for each in parts], np.int64)[part])
        rows = _Wanted(h1, h2, d1, d2, part, place).take(order)
        again, comes, fresh = duplicates_mask(rows.h1, rows.h2), comes[order], fresh[order]
        crowded = np.flatnonzero(again & fresh & np.roll(comes, 1))
        if len(crowded):
            row = int(crowded[0])
            keys = parts[int(rows.part[row])].rows.select([column.name for column in self._index.key])
            raise two_rows(keys, int(parts[int(rows.part[row])].at[rows.place[row]]))
        last = np.ones(len(comes), np.bool_)
        last[:-1] = ~again[1:]
        return rows.take(last & comes)

    def _put_by_there(self) -> Iterator[Path]:
        """Yield files with the hashes of the table's rows, each sorted by key."""
        waiting: list[_There] = []
        for each in self._there():
            waiting.append(each)
            self._compared += len(each.h1)
            self._between(self._compared)
            if sum(len(part.h1) for part in waiting) >= _PART:
                yield self._there_file(waiting)
                waiting = []
        if waiting:
            yield self._there_file(waiting)

    def _there_file(self, parts: Sequence[_There]) -> Path:
        whole = _There._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        path = self._next("there")
        put_by(path, whole.take(sort_indices(whole.h1, whole.h2))._asdict())
        return path

    def _there(self) -> Iterator[_There]:
        """Yield the rows that live, as the index has it."""
        runs = [open_run(self._folder / run.name) for run in self._index.runs]
        names = tuple(column.name for column in self._index.key)
        for number, note in self._index.files.items():
            start = 0
            for read in read_rows(self._tasks, note.path):
                rows = cast(read, target_schema(self._tasks.schema(), read.schema))
                keys = cast(rows, target_schema(key_schema(self._tasks.schema(), names), rows.schema))
                h1, h2 = hash_rows(self._index.hash_key, [keys.column(name) for name in names])
                pos = np.arange(start, start + rows.num_rows, dtype=np.uint32)
                start += rows.num_rows
                files, places = probe(runs, h1, h2)
                live = (files == number) & (places == pos)
                d1, d2 = digests(rows.filter(pa.array(live)), self._index.hash_key)
                yield _There(h1[live], h2[live], d1, d2, files[live], pos[live])

    def _compare(self, parts: Sequence[Part], wanted: _Wanted, old: _There) -> None:
        found = find(old.h1, old.h2, wanted.h1, wanted.h2)
        known = np.flatnonzero(found >= 0)
        place = found[known]
        same = known[(old.d1[place] == wanted.d1[known]) & (old.d2[place] == wanted.d2[known])]
        stays = np.zeros(len(old.h1), np.bool_)
        stays[found[same]] = True
        self._keep(old.take(stays))
        self._bury(old.take(~stays))
        come = np.ones(len(wanted.h1), np.bool_)
        come[same] = False
        self._write(parts, wanted.take(come))
        self._compared += len(wanted.h1)

    def _keep(self, rows: _There) -> None:
        if len(rows.h1):
            path = self._next("kept")
            write_run(path, len(rows.h1), [Entries(rows.h1, rows.h2, rows.file, rows.pos)])
            self._kept.append(path)

    def _bury(self, rows: _There) -> None:
        for number in np.unique(rows.file).tolist():
            dead = self._dead.setdefault(number, np.zeros(self._index.file(number).rows, np.bool_))
            dead[rows.pos[rows.file == number]] = True

    def _write(self, parts: Sequence[Part], wanted: _Wanted) -> None:
        for number in np.unique(wanted.part).tolist():
            mine = wanted.take(wanted.part == number)
            rows = parts[number].taken(mine.place)
            for place, some in divide(rows, self._tasks.schema(), self._tasks.spec()):
                new = self._open.get(place)
                if new is None:
                    new = self._open[place] = _New(SortedWriter(self._tasks, self._name(), place))
                chosen = rows if len(some) == rows.num_rows else rows.take(pa.array(some))
                new.writer.write(chosen)
                new.keys.append((mine.h1[some], mine.h2[some]))
                new.bytes += chosen.nbytes
                if new.bytes >= self._target:
                    self._close(place)
        self._rows += len(wanted.h1)

    def _name(self) -> str:
        self._names += 1
        return rewritten_name(self._index.sink, self._epoch, self._attempt, self._names)

    def _close(self, place: PartitionValue) -> None:
        """Finish a file, and put by where its rows are."""
        new = self._open.pop(place)
        entry = new.writer.close()
        assert entry is not None
        self.written.append(entry)
        number = self._index.next_file_id + len(self._notes)
        self._notes[number] = FileRecord(entry.path, entry.rows, size=entry.size, place=place)
        h1, h2 = (np.concatenate(halves) for halves in zip(*new.keys, strict=True))
        if new.writer.order is not None:
            h1, h2 = h1[new.writer.order], h2[new.writer.order]
        order = sort_indices(h1, h2)
        files = np.full(len(h1), number, np.uint32)
        path = self._next("run")
        write_run(path, len(h1), [Entries(h1[order], h2[order], files, order.astype(np.uint32))])
        self._runs.append(path)

    def _finish(self) -> RefreshResult:
        dead = {number: np.flatnonzero(mask) for number, mask in self._dead.items()}
        name = f"c{self._names}-{self._index.sink}-{self._epoch}-{self._attempt}"
        named = write_dead(self._tasks, self._index, dead, name)
        self.written += [entry for entry, _ in named]
        change = IndexChange(
            self._index.name,
            self._notes,
            {entry.name: targets for entry, targets in named},
            {number: len(rows) for number, rows in dead.items()},
            self._base(),
            tuple(run.name for run in self._index.runs),
            whole=self._tasks.version >= VECTORS,
        )
        index = self._index.after([change], epoch=self._epoch, commit=self._attempt)
        return RefreshResult(FileChange(tuple(self.written), index.leaving), index, self._rows)

    def _base(self) -> Run | None:
        """Write one run of all rows that the table is to have."""
        kept = [map_run(path) for path in self._kept]
        runs = [map_run(path) for path in self._runs]
        rows = sum(each.rows for each in (*kept, *runs))
        if not rows:
            return None
        bounds = _bounds(rows)
        sides = [(each, cuts(each.h1, bounds)) for each in (*kept, *runs)]

        def merged() -> Iterator[Entries]:
            for number in range(len(bounds) + 1):
                some = [each.take(np.arange(cut[number], cut[number + 1])) for each, cut in sides]
                whole = Entries._make(np.concatenate(columns) for columns in zip(*some, strict=True))
                yield whole.take(sort_indices(whole.h1, whole.h2))

        name = f"base-{self._index.sink}-{self._epoch}-{self._attempt}.run"
        write_run(self._folder / name, rows, merged())
        return Run(name, rows)

    def _next(self, what: str) -> Path:
        self._names += 1
        return self._aside / f"{what}-{self._attempt}-{self._names}"


def _bounds(rows: int) -> Hashes:
    """Return where the ranges of hashes begin, but for the first, of which each has about as many rows."""
    ranges = max(1, -(-rows // _RANGE))
    return np.array([(number << 64) // ranges for number in range(1, ranges)], np.uint64)


def _range(there: Sequence[Mapping[str, np.ndarray]], cut: Sequence[tuple[int, int]]) -> _There:
    found = [
        _There(**{name: column[low:high] for name, column in each.items()})
        for each, (low, high) in zip(there, cut, strict=True)
    ]
    none, nowhere = np.empty(0, np.uint64), np.empty(0, np.uint32)
    empty = _There(none, none, none, none, nowhere, nowhere)
    whole = _There._make(np.concatenate(columns) for columns in zip(empty, *found, strict=True))
    return whole.take(sort_indices(whole.h1, whole.h2))
