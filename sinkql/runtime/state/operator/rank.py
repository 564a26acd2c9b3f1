"""The first rows of each partition in an order, and their changes in a batch.

Each run has the rows of a key in their order, so that only the first rows are read. `$p` of the run is the high half of
the key's `$h1` and 32 bits that sort like the first term of the order. The first rows of a key are the
beginning of its range in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.lowering.task_input import COUNT, TaskInput, whole_rows
from sinkql.runtime.state import sort_key
from sinkql.runtime.state.arithmetic import RowGroups, group
from sinkql.runtime.state.arrangement import Ints, expand_ranges, grouped
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import HIGH, LOW, Keys, Piece, Run, in_memory, ints, unsigned
from sinkql.storage.sorted_run import sort_indices

_HEAD_MOST, _LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_AHEAD = 4
_TOGETHER = 1 << 17
"""The number of rows that are processed together, unless a key has more."""


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
"""Returns which of `count` keys need no further rows, given the rows of the keys that come before all others."""


def key_slices(runs: Sequence[Run], keys: Keys, reach: int | None) -> Iterator[slice]:
    """Yield sorted keys in slices with a limited number of rows: at most `reach` rows of a key in each run."""
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
    """Return the first rows of sorted keys that are enough for each, or all its rows; the last run is the batch's.

    First `reach` rows of a key are read from each run, then four times as many. `exact`: rows with equal `$p` come in
    the order of their hashes; otherwise all of them are read.
    """
    parts: list[RankedRows] = []
    open_ = np.arange(len(keys))
    while len(open_):
        reading = _Reading(keys[open_], hashes[open_], reach, exact=exact)
        for run in runs:
            reading.read(run, new=False)
        reading.read(batch, new=True)
        rows = reading.rows()
        done = reading.whole | enough(rows, len(open_))
        some = rows.some(done[rows.owner])
        parts.append(RankedRows(open_[some.owner], some.hashes, some.before, some.after, some.table))
        open_ = open_[~done]
        reach = None if reach is None else reach * _AHEAD
    if len(parts) == 1:
        return parts[0]
    return RankedRows(
        np.concatenate([part.owner for part in parts]),
        np.concatenate([part.hashes for part in parts]),
        np.concatenate([part.before for part in parts]),
        np.concatenate([part.after for part in parts]),
        pa.concat_tables([part.table for part in parts]).combine_chunks(),
    )


class _Reading:
    """One read of the runs: its rows, and the key up to which they are complete."""

    def __init__(self, keys: Keys, hashes: Ints, reach: int | None, *, exact: bool) -> None:
        self._keys, self._hashes, self._reach, self._exact = keys, hashes, reach, exact
        self.whole = np.ones(len(keys), np.bool_)
        self._limit = np.full(len(keys), np.iinfo(np.uint64).max, np.uint64)
        self._limit_row = np.full(len(keys), _HEAD_MOST, np.int64)
        self._owners: list[Ints] = []
        self._parts: list[pa.Table] = []
        self._new: list[NDArray[np.bool_]] = []

    def read(self, run: Run, *, new: bool) -> None:
        for piece, some in run.asked(self._keys):
            low, high = _range(piece, self._keys[some])
            end = high if self._reach is None else np.minimum(high, low + self._reach)
            self._cut(piece, some, end, high)
            asked, position = expand_ranges(low, end)
            same = piece.ints("$h2")[position] == self._hashes[some][asked]
            self._owners.append(some.start + asked[same])
            self._parts.append(piece.table.take(pa.array(position[same])))
            self._new.append(np.full(int(same.sum()), new))

    def _cut(self, piece: Piece, some: slice, end: Ints, high: Ints) -> None:
        cut = end < high
        if not cut.any():
            return
        where = np.flatnonzero(cut)
        owner, at = some.start + where, end[where]
        limit, row = piece.keys[at], np.full(len(at), _LEAST, np.int64)
        if self._exact:
            hashes, searched = piece.ints("$h2")[at], self._hashes[owner]
            row = np.where(hashes == searched, piece.ints("$r")[at], np.where(hashes > searched, _HEAD_MOST, _LEAST))
        sooner = (limit < self._limit[owner]) | ((limit == self._limit[owner]) & (row < self._limit_row[owner]))
        self._limit[owner[sooner]], self._limit_row[owner[sooner]] = limit[sooner], row[sooner]
        self.whole[owner] = False

    def rows(self) -> RankedRows:
        """Return the rows before every cut, each once."""
        table = pa.concat_tables(self._parts)
        owner, new = np.concatenate(self._owners), np.concatenate(self._new)
        packed, row = unsigned(table.column("$p")), ints(table.column("$r"))
        limit = self._limit[owner]
        places = np.flatnonzero(
            self.whole[owner] | (packed < limit) | ((packed == limit) & (row < self._limit_row[owner]))
        )
        owner, new, row, diff = owner[places], new[places], row[places], ints(table.column("$diff"))[places]
        order, starts = grouped(row, owner)  # few rows have equal hashes
        if not len(starts):
            return RankedRows(owner, row, diff, diff, table.slice(0, 0))
        before = np.add.reduceat(np.where(new, 0, diff)[order], starts)
        after = np.add.reduceat(diff[order], starts)
        there = (before != 0) | (after != 0)
        first = order[starts][there]
        return RankedRows(owner[first], row[first], before[there], after[there], table.take(pa.array(places[first])))


def counts(runs: Sequence[Run], packed: Keys, hashes: Ints, rows: Ints) -> Ints:
    """Return the multiplicity of each given row, sorted; many rows may have an equal `$p`."""
    multiplicities = np.zeros(len(packed), np.int64)
    for run in runs:
        for piece, some in run.asked(packed):
            asked = packed[some]
            low, high = (np.searchsorted(piece.keys, asked, side) for side in ("left", "right"))
            seconds, thirds = piece.ints("$h2"), piece.ints("$r")
            low = _bisect(low, high, seconds, thirds, hashes[some], rows[some])
            open_ = np.flatnonzero(low < high)
            at = low[open_]
            same = (seconds[at] == hashes[some][open_]) & (thirds[at] == rows[some][open_])
            multiplicities[some.start + open_[same]] += piece.ints("$diff")[at[same]]
    return multiplicities


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
    """Return the start and the end of the rows of keys."""
    return np.searchsorted(piece.keys, keys & HIGH, "left"), np.searchsorted(piece.keys, keys | LOW, "right")


Function = Literal["row_number", "rank", "dense_rank"]
_PARTS = np.uint64(0xFF << 56)
"""The column whose hash decides in which part of a bucket a row is ranked alone."""


@keeps_state(physical.Rank)
@dataclass(frozen=True, slots=True)
class RankState:
    """The rows of each partition with numbers from `first` to `last`.

    All rows are stored, sorted by partition and order; of an append-only input only the rows up to `last`.
    """

    name: str
    preparation: TaskInput
    terms: tuple[tuple[physical.Order, str], ...]
    exact: bool
    function: Function
    first: int
    last: int | None
    shown: bool
    parts: bool

    @classmethod
    def of(cls, rank: physical.Rank) -> RankState:
        """Return the operator; raises ValueError for an unsupported input."""
        columns = physical.columns_of(rank.input)
        places = {column.name: place for place, column in enumerate(columns)}
        terms = tuple((term, f"$k{places[term.column]}") for term in rank.order)
        exact = sort_key.exact_bits(terms, [columns[places[term.column]] for term in rank.order])
        return cls(
            rank.arrangement,
            whole_rows(rank, _by(rank)),
            terms,
            exact and rank.function == "row_number",
            rank.function,
            rank.first,
            rank.last,
            rank.number is not None,
            rank.parts,
        )

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of rows."""
        return (Arrangement(self.name, "multiset"),)

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Rank the partitions with changes, before and after the batch."""
        groups = self._groups(rows)
        batch = self._batch(rows, groups)
        state = bucket.multisets[self.name]
        if not self.preparation.append:
            self._check(batch, bucket)
            state.put(batch)
        reach = None if self.last is None else 2 * self.last + 2
        delta = in_memory(batch)
        changes, stored = [self.preparation.output().empty_table()], [batch.slice(0, 0)]
        for some in key_slices([*state.runs, delta], groups.keys, reach):
            first = first_rows(
                state.runs, delta, groups.keys[some], groups.hashes[some], reach, exact=self.exact, enough=self._enough
            )
            ranked = _Ranked.of(first, self.terms)
            changes.append(self._changes(ranked))
            if self.preparation.append:
                stored.append(self._stored_changes(ranked))
        if self.preparation.append:
            state.put(_sorted(pa.concat_tables(stored)))
        return pa.concat_tables(changes)

    def _groups(self, rows: pa.Table) -> RowGroups:
        keys, hashes = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
        if self.parts:
            keys, hashes = keys & _PARTS, np.zeros(len(keys), np.int64)
        return group(keys, hashes)

    def _batch(self, rows: pa.Table, groups: RowGroups) -> pa.Table:
        """Return the batch's rows as a run: sorted, each row once."""
        row = ints(rows.column("$r"))
        bits = sort_key.first_bits(rows, self.terms, row)
        packed = (groups.keys[groups.index] & HIGH) | bits
        hashes = groups.hashes[groups.index]
        places, starts = grouped(packed, hashes, row)
        diff = ints(rows.column(COUNT))[places]
        diff = np.add.reduceat(diff, starts) if len(starts) else np.zeros(0, np.int64)
        first = places[starts][diff != 0]
        columns = {"$p": packed[first], "$h2": hashes[first], "$r": row[first], "$diff": diff[diff != 0]}
        payload = rows.select([value.name for value in self.preparation.values]).take(pa.array(first))
        return pa.table(columns | dict(zip(payload.column_names, payload.columns, strict=True))).combine_chunks()

    def _check(self, batch: pa.Table, bucket: Bucket) -> None:
        """Raise SQ3401 for the deletion of rows that do not exist."""
        deleted = batch.filter(pa.array(ints(batch.column("$diff")) < 0)).combine_chunks()
        packed, hashes, rows = unsigned(deleted.column("$p")), ints(deleted.column("$h2")), ints(deleted.column("$r"))
        left = counts(bucket.multisets[self.name].runs, packed, hashes, rows) + ints(deleted.column("$diff"))
        if len(wrong := np.flatnonzero(left < 0)):
            row = deleted.select([value.name for value in self.preparation.values]).slice(int(wrong[0]), 1)
            where = f'the rows ranked by "{self.name}", bucket {bucket.number}'
            raise negative_multiplicity(where, f"row {tuple(row.to_pylist()[0].values())!r}")

    def _enough(self, rows: RankedRows, count: int) -> NDArray[np.bool_]:
        """Return which keys have `last` rows, or values, before and after: all further rows have later numbers."""
        if self.last is None:
            return np.zeros(count, np.bool_)
        if self.function == "dense_rank":
            ranked = _Ranked.of(rows, self.terms)
            owner = ranked.rows.owner[ranked.starts]
            counted: list[NDArray[np.int_] | NDArray[np.float64]] = [
                np.bincount(owner[there], minlength=count) for there in ranked.live()
            ]
        else:
            counted = [np.bincount(rows.owner, copies, count) for copies in (rows.before, rows.after)]
        return np.minimum(*counted) >= self.last

    def _changes(self, ranked: _Ranked) -> pa.Table:
        sides = [self._numbered(ranked, copies) for copies in (ranked.rows.before, ranked.rows.after)]
        if not self.shown:
            (_, was), (_, now) = sides
            places = np.flatnonzero(was != now)
            return self._table(ranked, places, None, (now - was)[places])
        old, new = (self._number_copies(numbers, copies) for numbers, copies in sides)
        place, number = (np.concatenate(pair) for pair in zip(old[:2], new[:2], strict=True))
        diff = np.concatenate((-old[2], new[2]))
        sorted_, starts = grouped(place, number)
        diff = np.add.reduceat(diff[sorted_], starts) if len(starts) else np.zeros(0, np.int64)
        first = sorted_[starts][diff != 0]
        return self._table(ranked, place[first], number[first], diff[diff != 0])

    def _numbered(self, ranked: _Ranked, counts: Ints) -> tuple[Ints, Ints]:
        """Return the number of each row, of its first visible copy, and the number of visible copies."""
        last = _MOST if self.last is None else self.last
        if self.function == "row_number":
            ahead = ranked.ahead(counts)
            begin = np.maximum(ahead, self.first - 1)
            return begin + 1, np.maximum(np.minimum(ahead + counts, last) - begin, 0)
        numbers = ranked.ranks(counts) if self.function == "rank" else ranked.dense_ranks(counts)
        return numbers, np.where((numbers >= self.first) & (numbers <= last), counts, 0)

    def _number_copies(self, numbers: Ints, copies: Ints) -> tuple[Ints, Ints, Ints]:
        """Return places, numbers and copies, with a separate number for each copy with row_number."""
        place = np.flatnonzero(copies)
        numbers, copies = numbers[place], copies[place]
        if self.function != "row_number":
            return place, numbers, copies
        again = np.repeat(np.arange(len(place)), copies)
        behind = np.arange(len(again)) - np.repeat(np.cumsum(copies) - copies, copies)
        return place[again], numbers[again] + behind, np.ones(len(again), np.int64)

    def _table(self, ranked: _Ranked, places: Ints, numbers: Ints | None, diff: Ints) -> pa.Table:
        names = [value.name for value in self.preparation.values]
        columns = ranked.rows.table.select(names).take(pa.array(places)).columns
        number = () if numbers is None else (pa.array(numbers),)
        return pa.table([*columns, *number, pa.array(diff)], schema=self.preparation.output())

    def _stored_changes(self, ranked: _Ranked) -> pa.Table:
        """Return the changes of the stored rows' multiplicities as a run: no later row gets a number up to `last`."""
        rows, last = ranked.rows, _MOST if self.last is None else self.last
        copies = []
        for counts in (rows.before, rows.after):
            if self.function == "row_number":
                copies.append(np.clip(last - ranked.ahead(counts), 0, counts))
            else:
                numbers = ranked.ranks(counts) if self.function == "rank" else ranked.dense_ranks(counts)
                copies.append(np.where(numbers <= last, counts, 0))
        diff = copies[1] - copies[0]
        places = np.flatnonzero(diff)
        table = rows.table.take(pa.array(places))
        return table.set_column(table.column_names.index("$diff"), "$diff", pa.array(diff[places]))


def _sorted(run: pa.Table) -> pa.Table:
    places, _ = grouped(unsigned(run.column("$p")), ints(run.column("$h2")), ints(run.column("$r")))
    return run.take(pa.array(places)).combine_chunks()


_MOST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Rows in their order, key by key; the starts of rows with equal terms, and the starts of keys."""

    rows: RankedRows
    starts: NDArray[np.bool_]
    firsts: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: RankedRows, terms: sort_key.Terms) -> _Ranked:
        keys = sort_key.sort_keys(rows.table, terms)
        # few rows of a key have an equal lower half of `$p`, which sorts like the first term
        first = (rows.owner.view(np.uint64) << np.uint64(32)) | (unsigned(rows.table.column("$p")) & LOW)
        places = sort_indices(first, *keys, rows.hashes)
        rows = rows.some(places)
        return cls(
            rows, sort_key.starts_of(rows.owner, [key[places] for key in keys]), sort_key.starts_of(rows.owner, ())
        )

    def ahead(self, counts: Ints) -> Ints:
        """Return the number of earlier rows of its key for each row."""
        return _since(np.cumsum(counts) - counts, self.firsts)

    def ranks(self, counts: Ints) -> Ints:
        """Return one plus the number of earlier, unequal rows of its key for each row."""
        ahead = self.ahead(counts)
        return ahead[_begin(self.starts)] + 1

    def dense_ranks(self, counts: Ints) -> Ints:
        """Return the number of each row's value among the values of its key, from 1."""
        live = np.zeros(len(counts), np.int64)
        live[self.starts] = _any(counts, self.starts)
        return _since(np.cumsum(live) - live, self.firsts)[_begin(self.starts)] + 1

    def live(self) -> Sequence[NDArray[np.bool_]]:
        """Return which of the values exist before and after."""
        return [_any(counts, self.starts) for counts in (self.rows.before, self.rows.after)]


def _begin(starts: NDArray[np.bool_]) -> Ints:
    """Return the last start for each row."""
    return np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0)) if len(starts) else np.zeros(0, np.int64)


def _since(running: Ints, starts: NDArray[np.bool_]) -> Ints:
    """Return a running total minus its value at the last start."""
    return running - running[_begin(starts)]


def _any(counts: Ints, starts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each stretch between starts whether one of its rows exists."""
    if not len(counts):
        return np.zeros(0, np.bool_)
    mask: NDArray[np.bool_] = np.add.reduceat(counts, np.flatnonzero(starts)) > 0
    return mask


def _by(rank: physical.Rank) -> Sequence[str]:
    """Return the columns that decide a row's bucket: all columns if parts are ranked separately."""
    return [column.name for column in physical.columns_of(rank.input)] if rank.parts else rank.partition
