"""The two sides of a full refresh's comparison: the rows of the table, and the staged rows.

Both are hashes sorted by key and read in ranges of hashes, so that neither side has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sinkql.connectors.iceberg.file.data_file import TaskTable, cast, target_schema
from sinkql.connectors.iceberg.file.reader import read_rows
from sinkql.connectors.iceberg.key_index.change import two_rows
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.key_hash import key_schema
from sinkql.connectors.iceberg.key_index.run import Ids, open_run, probe
from sinkql.connectors.iceberg.write.refresh_collect import Part, digests, map_arrays, range_starts, write_arrays
from sinkql.row_hash import Hashes, hash_rows
from sinkql.storage.sorted_run import Column, Indices, duplicates_mask, sort_indices

_RANGE = 1 << 19
"""Rows of both sides in one range of hashes, about."""
_PART = 1 << 20
"""Rows of the table whose hashes are sorted together."""

_Selection = Indices | npt.NDArray[np.bool_]


class TableRows(NamedTuple):
    """Rows of the table: the hashes of their keys, their digests, and their files and positions."""

    h1: Hashes
    h2: Hashes
    d1: Hashes
    d2: Hashes
    file: Ids
    pos: Ids

    def take(self, places: _Selection) -> TableRows:
        return TableRows._make(column[places] for column in self)


class StagedRows(NamedTuple):
    """Staged rows, sorted by key: the hashes of their keys, their digests, and their parts and places in them."""

    h1: Hashes
    h2: Hashes
    d1: Hashes
    d2: Hashes
    part: Indices
    place: Indices

    def take(self, places: _Selection) -> StagedRows:
        return StagedRows._make(column[places] for column in self)


def range_bounds(rows: int) -> Hashes:
    """Return where the ranges of hashes begin, except the first; all have about the same number of rows."""
    ranges = max(1, -(-rows // _RANGE))
    return np.array([(number << 64) // ranges for number in range(1, ranges)], np.uint64)


class TableHashes:
    """The hashes of a table's live rows, in sorted files of `folder`; `runs_folder` has the runs of the index."""

    def __init__(self, table: TaskTable, index: Index, runs_folder: Path, folder: Path, *, attempt: str) -> None:
        self._table, self._index, self._runs_folder = table, index, runs_folder
        self._folder, self._attempt = folder, attempt
        self._files: list[dict[str, Column]] = []
        self._starts: list[Sequence[int]] = []
        self.rows = 0

    def write(self) -> Iterator[None]:
        """Write the files, a part of the table at a time, and count the `rows`."""
        parts: list[TableRows] = []
        for part in self._scan():
            parts.append(part)
            self.rows += len(part.h1)
            yield
            if sum(len(rows.h1) for rows in parts) >= _PART:
                self._write_file(parts)
                parts = []
        if parts:
            self._write_file(parts)

    def _write_file(self, parts: Sequence[TableRows]) -> None:
        rows = TableRows._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
        path = self._folder / f"there-{self._attempt}-{len(self._files)}"
        write_arrays(path, rows.take(sort_indices(rows.h1, rows.h2))._asdict())
        self._files.append(map_arrays(path))

    def _scan(self) -> Iterator[TableRows]:
        """Yield the live rows, according to the index."""
        runs = [open_run(self._runs_folder / run.name) for run in self._index.runs]
        names = tuple(column.name for column in self._index.key)
        schema, hash_key = self._table.schema(), self._index.hash_key
        for number, record in self._index.files.items():
            start = 0
            for read in read_rows(self._table, record.path):
                rows = cast(read, target_schema(schema, read.schema))
                keys = cast(rows, target_schema(key_schema(schema, names), rows.schema))
                h1, h2 = hash_rows(hash_key, [keys.column(name) for name in names])
                pos = np.arange(start, start + rows.num_rows, dtype=np.uint32)
                start += rows.num_rows
                files, positions = probe(runs, h1, h2)
                live = (files == number) & (positions == pos)
                d1, d2 = digests(rows.filter(pa.array(live)), hash_key)
                yield TableRows(h1[live], h2[live], d1, d2, files[live], pos[live])

    def divide(self, bounds: Hashes) -> None:
        """Divide the rows into ranges of hashes."""
        self._starts = [range_starts(file["h1"], bounds) for file in self._files]

    def read_range(self, number: int) -> TableRows:
        """Return the rows of one range, sorted by key."""
        parts = [
            TableRows(**{name: column[starts[number] : starts[number + 1]] for name, column in file.items()})
            for file, starts in zip(self._files, self._starts, strict=True)
        ]
        hashes, ids = np.empty(0, np.uint64), np.empty(0, np.uint32)
        empty = TableRows(hashes, hashes, hashes, hashes, ids, ids)
        rows = TableRows._make(np.concatenate(columns) for columns in zip(empty, *parts, strict=True))
        return rows.take(sort_indices(rows.h1, rows.h2))


class StagedParts:
    """The staged parts of a full refresh; `key` has the names of the key columns."""

    def __init__(self, folder: Path, names: Sequence[str], key: Sequence[str]) -> None:
        self._parts = sorted((Part.open(folder, name) for name in names), key=lambda part: part.number)
        self._key = list(key)
        self._starts: list[Sequence[int]] = []

    @property
    def rows(self) -> int:
        """Return the number of changed keys in all parts."""
        return sum(len(part.h1) for part in self._parts)

    def divide(self, bounds: Hashes) -> None:
        """Divide the rows into ranges of hashes."""
        self._starts = [range_starts(part.h1, bounds) for part in self._parts]

    def read_range(self, number: int) -> StagedRows:
        """Return the rows of one range that remain after all parts; raises SQ3552 for two rows of one key."""
        ranges = [(starts[number], starts[number + 1]) for starts in self._starts]

        def column(name: str, kind: type) -> Column:
            slices = [getattr(part, name)[low:high] for part, (low, high) in zip(self._parts, ranges, strict=True)]
            return np.concatenate([np.empty(0, kind), *slices])

        h1, h2, d1, d2 = (column(name, np.uint64) for name in ("h1", "h2", "d1", "d2"))
        upsert, fresh = (column(name, np.uint8).astype(np.bool_) for name in ("upsert", "fresh"))
        part = np.repeat(np.arange(len(self._parts)), [high - low for low, high in ranges]).astype(np.int64)
        place = np.concatenate([np.empty(0, np.int64), *(np.arange(low, high) for low, high in ranges)])
        order = sort_indices(h1, h2, np.array([part.number for part in self._parts], np.int64)[part])
        rows = StagedRows(h1, h2, d1, d2, part, place).take(order)
        repeated, upsert, fresh = duplicates_mask(rows.h1, rows.h2), upsert[order], fresh[order]
        conflicts = np.flatnonzero(repeated & fresh & np.roll(upsert, 1))
        if len(conflicts):
            raise self._two_rows_error(rows, int(conflicts[0]))
        last = np.ones(len(upsert), np.bool_)
        last[:-1] = ~repeated[1:]
        return rows.take(last & upsert)

    def _two_rows_error(self, rows: StagedRows, row: int) -> Exception:
        part = self._parts[int(rows.part[row])]
        return two_rows(part.rows.select(self._key), int(part.row[rows.place[row]]))

    def take(self, part: int, places: Indices) -> pa.Table:
        """Return rows of one part, by the places of their keys."""
        return self._parts[part].take(places)
