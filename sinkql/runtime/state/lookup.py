"""Look up the rows of sorted keys in runs, or the number of rows, for joins.

A key is the upper half of its `$h1` and its `$h2`; keys are sorted by the upper half, and distinct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql.lowering.task_input import COUNT
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Ints, expand_ranges, grouped
from sinkql.runtime.state.run import HIGH, LOW, Keys, Piece, Run, one_chunk, unsigned

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Distinct keys: their upper halves, sorted, and their `$h2`."""

    keys: Keys
    hashes: Ints

    def some(self, which: Mask | Ints) -> KeyQuery:
        """Return some of them, in their order."""
        return KeyQuery(self.keys[which], self.hashes[which])

    def of(self, keys: Keys, hashes: Ints) -> Ints:
        """Return the index of each of these keys, which must all be among the distinct keys."""
        at = np.searchsorted(self.keys, keys, "left")
        wrong = np.flatnonzero(self.hashes[at] != hashes)
        while len(wrong):  # keys with the same upper half are neighbours
            at[wrong] += 1
            wrong = wrong[self.hashes[at[wrong]] != hashes[wrong]]
        return at

    def __len__(self) -> int:
        return len(self.keys)


def distinct_keys(*sides: tuple[Keys, Ints]) -> KeyQuery:
    """Return the distinct keys of some rows."""
    keys = np.concatenate([keys for keys, _ in sides]) & HIGH
    hashes = np.concatenate([hashes for _, hashes in sides])
    order, starts = grouped(keys, hashes)
    first = order[starts]
    return KeyQuery(keys[first], hashes[first])


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Rows with the number of each row's key (`owner`), and their multiplicities."""

    owner: Ints
    rows: pa.Table
    diff: Ints

    def some(self, which: Mask) -> LookupResult:
        """Return some of the rows."""
        return LookupResult(self.owner[which], take_rows(self.rows, np.flatnonzero(which)), self.diff[which])

    def __len__(self) -> int:
        return len(self.owner)


def joined(parts: Sequence[LookupResult]) -> LookupResult:
    """Return the rows of all parts."""
    return LookupResult(
        np.concatenate([part.owner for part in parts]),
        pa.concat_tables([part.rows for part in parts]),
        np.concatenate([part.diff for part in parts]),
    )


def rows_of(runs: Iterable[Run], keys: KeyQuery, schema: pa.Schema) -> LookupResult:
    """Return the rows of keys, with the columns of this schema.

    If some are deletions, the rows are added up, and rows with multiplicity 0 are omitted.
    """
    parts, places = [schema.empty_table()], []
    owners, diffs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for piece, owner, position in _places(runs, keys):
        parts.append(take_rows(piece.table.select(schema.names), position))
        owners.append(owner)
        diffs.append(_diffs(piece, position))
        if "$r" in piece.table.column_names:
            places.append((piece, position))
    rows = LookupResult(np.concatenate(owners), pa.concat_tables(parts), np.concatenate(diffs))
    if not (rows.diff < 0).any():
        return rows
    return consolidate(rows, np.concatenate([np.zeros(0, np.int64), *(piece.ints("$r")[at] for piece, at in places)]))


def consolidate(rows: LookupResult, marks: Ints) -> LookupResult:
    """Return rows, each once by owner and mark, with the sum of its multiplicities; zeros are omitted."""
    order, starts = grouped(marks, rows.owner)
    if not len(starts):
        return rows
    diff = np.add.reduceat(rows.diff[order], starts)
    places = order[starts][diff != 0]
    return LookupResult(rows.owner[places], take_rows(rows.rows.combine_chunks(), places), diff[diff != 0])


def latest_of(runs: Sequence[Run], keys: KeyQuery, schema: pa.Schema) -> LookupResult:
    """Return the row of each key; the newest run wins."""
    parts, owners = [schema.empty_table()], [np.zeros(0, np.int64)]
    left = np.arange(len(keys))
    for run in runs[::-1]:
        mask = np.zeros(len(keys), np.bool_)
        for piece, owner, position in _places([run], keys.some(left)):
            mask[left[owner]] = True
            there = one_chunk(piece.table.column(COUNT)).to_numpy(zero_copy_only=False)[position] > 0
            parts.append(take_rows(piece.table.select(schema.names), position[there]))
            owners.append(left[owner[there]])
        left = left[~mask[left]]
    owner = np.concatenate(owners)
    return LookupResult(owner, pa.concat_tables(parts), np.ones(len(owner), np.int64))


def counts_of(runs: Iterable[Run], keys: KeyQuery) -> Ints:
    """Return the number of rows of each key."""
    counts = np.zeros(len(keys), np.int64)
    for piece, owner, position in _places(runs, keys):
        np.add.at(counts, owner, _diffs(piece, position))
    return counts


def _places(runs: Iterable[Run], keys: KeyQuery) -> Iterator[tuple[Piece, Ints, Ints]]:
    """Yield pieces with rows of the keys: the number of each row's key, and its place."""
    for run in runs:
        for piece, some in run.asked(keys.keys):
            asked_keys = keys.keys[some]
            low = np.searchsorted(piece.keys, asked_keys, "left")
            owner, position = expand_ranges(low, np.searchsorted(piece.keys, asked_keys | LOW, "right"))
            if not len(owner):
                continue
            equal = piece.ints("$h2")[position] == keys.hashes[some][owner]
            if not equal.all():
                owner, position = owner[equal], position[equal]
            if len(owner):
                yield piece, some.start + owner, position


def _diffs(piece: Piece, position: Ints) -> Ints:
    if DIFF not in piece.table.column_names:
        return np.ones(len(position), np.int64)
    return piece.ints(DIFF)[position]


def keys_of(table: pa.Table) -> tuple[Keys, Ints]:
    """Return the keys of a run's rows."""
    keys: Keys = unsigned(table.column(0)) & HIGH
    return keys, one_chunk(table.column("$h2")).to_numpy(zero_copy_only=False)


def take_rows(rows: pa.Table, places: Ints) -> pa.Table:
    """Return the rows at some places; a table without columns unchanged, since it has no number of rows."""
    return rows.take(pa.array(places)) if rows.num_columns else rows
