"""Rows of one bucket that come and go, in the order of each partition → its first rows as they come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.lowering.task_input import COUNT, TaskInput, whole_rows
from sinkql.runtime.state import sort_key
from sinkql.runtime.state.arithmetic import RowGroups, group
from sinkql.runtime.state.arrangement import Ints, grouped
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.operator import head
from sinkql.runtime.state.operator.head import RankedRows
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import HIGH, LOW, in_memory, ints, unsigned
from sinkql.storage.sorted_run import sort_indices

Function = Literal["row_number", "rank", "dense_rank"]
_PARTS = np.uint64(0xFF << 56)
"""Where a hash says in which of the parts of a bucket a row is ranked alone."""


@keeps_state(physical.Rank)
@dataclass(frozen=True, slots=True)
class RankState:
    """The rows of each partition whose number is from `first` to `last`.

    It keeps all rows, sorted by partition and order; of rows that only come, those up to `last` alone.
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
        """Return the operator; raises ValueError for an input that it cannot stand on."""
        columns = physical.columns_of(rank.input)
        places = {column.name: place for place, column in enumerate(columns)}
        terms = tuple((each, f"$k{places[each.column]}") for each in rank.order)
        exact = sort_key.exact_bits(terms, [columns[places[each.column]] for each in rank.order])
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
        """Rank the partitions that have changes before and after them."""
        groups = self._groups(rows)
        batch = self._batch(rows, groups)
        state = bucket.multisets[self.name]
        if not self.preparation.append:
            self._check(batch, bucket)
            state.put(batch)
        reach = None if self.last is None else 2 * self.last + 2
        delta = in_memory(batch)
        found, kept = [self.preparation.output().empty_table()], [batch.slice(0, 0)]
        for some in head.key_slices([*state.runs, delta], groups.keys, reach):
            first = head.first_rows(
                state.runs, delta, groups.keys[some], groups.hashes[some], reach, exact=self.exact, enough=self._enough
            )
            ranked = _Ranked.of(first, self.terms)
            found.append(self._changes(ranked))
            if self.preparation.append:
                kept.append(self._kept(ranked))
        if self.preparation.append:
            state.put(_sorted(pa.concat_tables(kept)))
        return pa.concat_tables(found)

    def _groups(self, rows: pa.Table) -> RowGroups:
        keys, hashes = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
        if self.parts:
            keys, hashes = keys & _PARTS, np.zeros(len(keys), np.int64)
        return group(keys, hashes)

    def _batch(self, rows: pa.Table, groups: RowGroups) -> pa.Table:
        """Return what the batch's rows come to as a run: sorted, each row once."""
        row = ints(rows.column("$r"))
        bits = sort_key.first_bits(rows, self.terms, row)
        packed = (groups.keys[groups.index] & HIGH) | bits
        hashes = groups.hashes[groups.index]
        places, starts = grouped(packed, hashes, row)
        diff = ints(rows.column(COUNT))[places]
        diff = np.add.reduceat(diff, starts) if len(starts) else np.zeros(0, np.int64)
        kept = places[starts][diff != 0]
        found = {"$p": packed[kept], "$h2": hashes[kept], "$r": row[kept], "$diff": diff[diff != 0]}
        payload = rows.select([each.name for each in self.preparation.values]).take(pa.array(kept))
        return pa.table(found | dict(zip(payload.column_names, payload.columns, strict=True))).combine_chunks()

    def _check(self, batch: pa.Table, bucket: Bucket) -> None:
        """Raise SQ3401 where more is taken back than there is."""
        gone = batch.filter(pa.array(ints(batch.column("$diff")) < 0)).combine_chunks()
        packed, hashes, rows = unsigned(gone.column("$p")), ints(gone.column("$h2")), ints(gone.column("$r"))
        left = head.counts(bucket.multisets[self.name].runs, packed, hashes, rows) + ints(gone.column("$diff"))
        if len(wrong := np.flatnonzero(left < 0)):
            row = gone.select([each.name for each in self.preparation.values]).slice(int(wrong[0]), 1)
            where = f'the rows ranked by "{self.name}", bucket {bucket.number}'
            raise negative_multiplicity(where, f"row {tuple(row.to_pylist()[0].values())!r}")

    def _enough(self, rows: RankedRows, count: int) -> NDArray[np.bool_]:
        """Tell which keys have `last` rows, or values, before and after: all others have later numbers."""
        if self.last is None:
            return np.zeros(count, np.bool_)
        if self.function == "dense_rank":
            ranked = _Ranked.of(rows, self.terms)
            owner = ranked.rows.owner[ranked.starts]
            counted: list[NDArray[np.int_] | NDArray[np.float64]] = [
                np.bincount(owner[there], minlength=count) for there in ranked.live()
            ]
        else:
            counted = [np.bincount(rows.owner, each, count) for each in (rows.before, rows.after)]
        return np.minimum(*counted) >= self.last

    def _changes(self, ranked: _Ranked) -> pa.Table:
        sides = [self._numbered(ranked, each) for each in (ranked.rows.before, ranked.rows.after)]
        if not self.shown:
            (_, was), (_, now) = sides
            places = np.flatnonzero(was != now)
            return self._table(ranked, places, None, (now - was)[places])
        old, new = (self._each(numbers, copies) for numbers, copies in sides)
        place, number = (np.concatenate(pair) for pair in zip(old[:2], new[:2], strict=True))
        diff = np.concatenate((-old[2], new[2]))
        sorted_, starts = grouped(place, number)
        diff = np.add.reduceat(diff[sorted_], starts) if len(starts) else np.zeros(0, np.int64)
        kept = sorted_[starts][diff != 0]
        return self._table(ranked, place[kept], number[kept], diff[diff != 0])

    def _numbered(self, ranked: _Ranked, counts: Ints) -> tuple[Ints, Ints]:
        """Return the number of each row, of its first copy that shows, and how many copies show."""
        last = _MOST if self.last is None else self.last
        if self.function == "row_number":
            ahead = ranked.ahead(counts)
            begin = np.maximum(ahead, self.first - 1)
            return begin + 1, np.maximum(np.minimum(ahead + counts, last) - begin, 0)
        numbers = ranked.ranks(counts) if self.function == "rank" else ranked.dense_ranks(counts)
        return numbers, np.where((numbers >= self.first) & (numbers <= last), counts, 0)

    def _each(self, numbers: Ints, copies: Ints) -> tuple[Ints, Ints, Ints]:
        """Return places, numbers and copies, where row_number gives each copy one of its own."""
        place = np.flatnonzero(copies)
        numbers, copies = numbers[place], copies[place]
        if self.function != "row_number":
            return place, numbers, copies
        again = np.repeat(np.arange(len(place)), copies)
        behind = np.arange(len(again)) - np.repeat(np.cumsum(copies) - copies, copies)
        return place[again], numbers[again] + behind, np.ones(len(again), np.int64)

    def _table(self, ranked: _Ranked, places: Ints, numbers: Ints | None, diff: Ints) -> pa.Table:
        names = [each.name for each in self.preparation.values]
        columns = ranked.rows.table.select(names).take(pa.array(places)).columns
        number = () if numbers is None else (pa.array(numbers),)
        return pa.table([*columns, *number, pa.array(diff)], schema=self.preparation.output())

    def _kept(self, ranked: _Ranked) -> pa.Table:
        """Return by how much rows are kept more or less often, as a run: no later row gets a number up to `last`."""
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
    """Rows in their order, key by key; where rows begin that are equal in all terms, and where a key's."""

    rows: RankedRows
    starts: NDArray[np.bool_]
    firsts: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: RankedRows, terms: sort_key.Terms) -> _Ranked:
        keys = sort_key.sort_keys(rows.table, terms)
        # few rows of a key agree in the lower half of `$p`, which sorts like the first term
        first = (rows.owner.view(np.uint64) << np.uint64(32)) | (unsigned(rows.table.column("$p")) & LOW)
        places = sort_indices(first, *keys, rows.hashes)
        rows = rows.some(places)
        return cls(
            rows, sort_key.starts_of(rows.owner, [key[places] for key in keys]), sort_key.starts_of(rows.owner, ())
        )

    def ahead(self, counts: Ints) -> Ints:
        """Return how many rows of its key are before each."""
        return _since(np.cumsum(counts) - counts, self.firsts)

    def ranks(self, counts: Ints) -> Ints:
        """Return one more than the number of rows of its key that are before each and not equal."""
        ahead = self.ahead(counts)
        return ahead[_begin(self.starts)] + 1

    def dense_ranks(self, counts: Ints) -> Ints:
        """Return which of its key's values each row has, from 1."""
        live = np.zeros(len(counts), np.int64)
        live[self.starts] = _any(counts, self.starts)
        return _since(np.cumsum(live) - live, self.firsts)[_begin(self.starts)] + 1

    def live(self) -> Sequence[NDArray[np.bool_]]:
        """Tell which of the values are there before and after."""
        return [_any(counts, self.starts) for counts in (self.rows.before, self.rows.after)]


def _begin(starts: NDArray[np.bool_]) -> Ints:
    """Return for each row where the last start is."""
    return np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0)) if len(starts) else np.zeros(0, np.int64)


def _since(running: Ints, starts: NDArray[np.bool_]) -> Ints:
    """Return a running total less what it is at the last start."""
    return running - running[_begin(starts)]


def _any(counts: Ints, starts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell for each stretch between starts whether a row of it is there."""
    if not len(counts):
        return np.zeros(0, np.bool_)
    found: NDArray[np.bool_] = np.add.reduceat(counts, np.flatnonzero(starts)) > 0
    return found


def _by(rank: physical.Rank) -> Sequence[str]:
    """Return what rows go to buckets by: where parts are ranked alone, by all that they have."""
    return [each.name for each in physical.columns_of(rank.input)] if rank.parts else rank.partition
