"""Runs in the order of their keys' rows, and a batch → the first rows of keys, without reading the others.

`$p` of such a run is the high half of the key's `$h1` and 32 bits that sort like the first term of an order: the first
rows of a key are the beginning of its range in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql.runtime.state.arrangement import Ints, expand_ranges, grouped
from sinkql.runtime.state.run import HIGH, LOW, Keys, Piece, Run, ints, unsigned

_MOST, _LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_AHEAD = 4
_TOGETHER = 1 << 17
"""Rows that are looked at at once, unless a key has more."""


@dataclass(frozen=True, slots=True)
class RankedRows:
    """Rows of keys, each once: the number of its key, its hash, its multiplicity before the batch and after."""

    owner: Ints
    hashes: Ints
    before: Ints
    after: Ints
    table: pa.Table

    def some(self, chosen: NDArray[np.bool_] | Ints) -> RankedRows:
        """Return some of them."""
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return RankedRows(
            self.owner[places],
            self.hashes[places],
            self.before[places],
            self.after[places],
            self.table.take(pa.array(places)),
        )


Enough = Callable[[RankedRows, int], NDArray[np.bool_]]
"""Rows of so many keys that come before all others of them → which keys need no more."""


def key_slices(runs: Sequence[Run], keys: Keys, reach: int | None) -> Iterator[slice]:
    """Yield sorted keys in slices of which few rows are to be looked at: at most `reach` of a key in each run."""
    most = np.zeros(len(keys), np.int64)
    for run in runs:
        for piece, some in run.asked(keys):
            low, high = _range(piece, keys[some])
            most[some] += high - low if reach is None else np.minimum(high - low, reach)
    number = (np.cumsum(most) - most) // _TOGETHER
    cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(keys)]
    for begin, end in pairwise(cuts):
        if begin < end:
            yield slice(begin, end)


def first_rows(
    runs: Sequence[Run], batch: Run, keys: Keys, hashes: Ints, reach: int | None, *, exact: bool, enough: Enough
) -> RankedRows:
    """Return the rows of sorted keys with which each has enough, or all of them; of the last run the batch's own.

    At first `reach` rows of a key are read of each run, then four times as many. `exact`: rows that agree in `$p` come
    in the order of their hashes; otherwise all that agree are read.
    """
    found: list[RankedRows] = []
    open_ = np.arange(len(keys))
    while len(open_):
        reading = _Reading(keys[open_], hashes[open_], reach, exact=exact)
        for run in runs:
            reading.read(run, new=False)
        reading.read(batch, new=True)
        rows = reading.rows()
        done = reading.whole | enough(rows, len(open_))
        some = rows.some(done[rows.owner])
        found.append(RankedRows(open_[some.owner], some.hashes, some.before, some.after, some.table))
        open_ = open_[~done]
        reach = None if reach is None else reach * _AHEAD
    if len(found) == 1:
        return found[0]
    return RankedRows(
        np.concatenate([each.owner for each in found]),
        np.concatenate([each.hashes for each in found]),
        np.concatenate([each.before for each in found]),
        np.concatenate([each.after for each in found]),
        pa.concat_tables([each.table for each in found]).combine_chunks(),
    )


class _Reading:
    """One look at the runs: what was read of them, and up to where that is all there is."""

    def __init__(self, keys: Keys, hashes: Ints, reach: int | None, *, exact: bool) -> None:
        self._keys, self._hashes, self._reach, self._exact = keys, hashes, reach, exact
        self.whole = np.ones(len(keys), np.bool_)
        self._limit = np.full(len(keys), np.iinfo(np.uint64).max, np.uint64)
        self._limit_row = np.full(len(keys), _MOST, np.int64)
        self._owners: list[Ints] = []
        self._parts: list[pa.Table] = []
        self._new: list[NDArray[np.bool_]] = []

    def read(self, run: Run, *, new: bool) -> None:
        for piece, some in run.asked(self._keys):
            low, high = _range(piece, self._keys[some])
            end = high if self._reach is None else np.minimum(high, low + self._reach)
            self._cut(piece, some, end, high)
            asked, position = expand_ranges(low, end)
            own = piece.ints("$h2")[position] == self._hashes[some][asked]
            self._owners.append(some.start + asked[own])
            self._parts.append(piece.table.take(pa.array(position[own])))
            self._new.append(np.full(int(own.sum()), new))

    def _cut(self, piece: Piece, some: slice, end: Ints, high: Ints) -> None:
        cut = end < high
        if not cut.any():
            return
        where = np.flatnonzero(cut)
        owner, at = some.start + where, end[where]
        limit, row = piece.keys[at], np.full(len(at), _LEAST, np.int64)
        if self._exact:
            hashes, own = piece.ints("$h2")[at], self._hashes[owner]
            row = np.where(hashes == own, piece.ints("$r")[at], np.where(hashes > own, _MOST, _LEAST))
        sooner = (limit < self._limit[owner]) | ((limit == self._limit[owner]) & (row < self._limit_row[owner]))
        self._limit[owner[sooner]], self._limit_row[owner[sooner]] = limit[sooner], row[sooner]
        self.whole[owner] = False

    def rows(self) -> RankedRows:
        """Return the rows before every cut, each once."""
        table = pa.concat_tables(self._parts)
        owner, new = np.concatenate(self._owners), np.concatenate(self._new)
        packed, row = unsigned(table.column("$p")), ints(table.column("$r"))
        limit = self._limit[owner]
        kept = np.flatnonzero(
            self.whole[owner] | (packed < limit) | ((packed == limit) & (row < self._limit_row[owner]))
        )
        owner, new, row, diff = owner[kept], new[kept], row[kept], ints(table.column("$diff"))[kept]
        order, starts = grouped(row, owner)  # few rows have the same hash
        if not len(starts):
            return RankedRows(owner, row, diff, diff, table.slice(0, 0))
        before = np.add.reduceat(np.where(new, 0, diff)[order], starts)
        after = np.add.reduceat(diff[order], starts)
        there = (before != 0) | (after != 0)
        first = order[starts][there]
        return RankedRows(owner[first], row[first], before[there], after[there], table.take(pa.array(kept[first])))


def counts(runs: Sequence[Run], packed: Keys, hashes: Ints, rows: Ints) -> Ints:
    """Return the multiplicity of each asked row, sorted; many rows may agree in `$p`."""
    found = np.zeros(len(packed), np.int64)
    for run in runs:
        for piece, some in run.asked(packed):
            asked = packed[some]
            low, high = (np.searchsorted(piece.keys, asked, side) for side in ("left", "right"))
            seconds, thirds = piece.ints("$h2"), piece.ints("$r")
            low = _bisect(low, high, seconds, thirds, hashes[some], rows[some])
            open_ = np.flatnonzero(low < high)
            at = low[open_]
            same = (seconds[at] == hashes[some][open_]) & (thirds[at] == rows[some][open_])
            found[some.start + open_[same]] += piece.ints("$diff")[at[same]]
    return found


def _bisect(low: Ints, high: Ints, seconds: Ints, thirds: Ints, hashes: Ints, rows: Ints) -> Ints:
    """Return the first place from `low` to `high` that is not before a row, in the order of two columns."""
    low, high = low.copy(), high.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) // 2
        second = seconds[middle]
        before = (second < hashes[open_]) | ((second == hashes[open_]) & (thirds[middle] < rows[open_]))
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
    return low


def _range(piece: Piece, keys: Keys) -> tuple[Ints, Ints]:
    """Return where the rows of keys begin and end."""
    return np.searchsorted(piece.keys, keys & HIGH, "left"), np.searchsorted(piece.keys, keys | LOW, "right")
