"""Joins in the tasks of one bucket: by key, of all rows with all rows, and nested in another join.

A nested join is a side of the join above it, and stores nothing: its rows are joined again from its sides on request.
Its unchanged rows are pairs of unchanged rows, consistent with the changes of `JoinChanges`.

A join without keys has one side that every bucket has whole (broadcast). The other side is distributed over the
buckets, and over the parts of a batch: each part has the rows with hashes from `low` to `high`.

The changes come in slices. Each inserted pair is in the new result, and each deleted pair was in the old one, so no
expression above sees a pair that never existed. With L and R the rows from before, and Δ⁺ and Δ⁻ the inserted and the
deleted rows, the pairs are ΔL⁺ ⋈ R_new + ΔL⁻ ⋈ R_old + (L_old + ΔL⁻) ⋈ ΔR, diffs multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Ints, MultisetRuns, expand_ranges
from sinkql.runtime.state.lookup import KeyQuery, LookupResult, consolidate, distinct_keys, joined, take_rows
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.run import Keys, ints, unsigned
from sinkql.runtime.state.side import JoinSide, SideChanges
from sinkql.storage.spill import LAST

ROWS = 65_536
"""The approximate number of pairs in a slice."""

Mask = NDArray[np.bool_]
RowKeys = tuple[Keys, Ints]
"""The keys of rows: upper halves and `$h2`."""


@dataclass(frozen=True, slots=True)
class JoinShape:
    """The result of a join: its schema, and the number of columns of the left side."""

    schema: pa.Schema
    left: int

    keyed: ClassVar[bool] = False
    """Whether rows contain their keys."""

    def pairs(self, left: pa.Table, right: pa.Table, diff: Ints, keys: RowKeys | None = None) -> pa.Table:
        """Return pairs of rows."""
        return self._table([*left.columns, *right.columns], diff, keys)

    def one(self, rows: pa.Table, diff: Ints, keys: RowKeys | None = None, *, side: int) -> pa.Table:
        """Return rows of a side with NULLs for the columns of the other side."""
        types = [schema_field.type for schema_field in self.schema if schema_field.name != DIFF]
        others = types[: self.left] if side else types[self.left :]
        nulls = [pa.nulls(len(diff), type_) for type_ in others]
        return self._table([*nulls, *rows.columns] if side else [*rows.columns, *nulls], diff, keys)

    def _table(self, columns: list[pa.ChunkedArray], diff: Ints, keys: RowKeys | None) -> pa.Table:
        if self.schema.names[-1:] == [DIFF]:
            columns = [*columns, pa.array(diff)]
        elif not columns:
            raise AssertionError(self.schema)
        return pa.table(columns, schema=self.schema)


@dataclass(frozen=True, slots=True)
class JoinChanges:
    """Joins two sides by key: `sides` are left and right. All changed keys are in `touched`."""

    kind: physical.JoinKind
    sides: tuple[JoinSide, JoinSide]
    shape: JoinShape
    where: str
    touched: KeyQuery

    def changes(self) -> Iterator[pa.Table]:
        """Yield the changes."""
        if not any(len(side.delta) for side in self.sides):
            return
        if self.kind not in ("semi", "anti"):
            yield from self._pairs()
        if self.kind in ("left", "full", "anti"):
            yield from self._alone(0, lambda count: count == 0)
        if self.kind in ("right", "full"):
            yield from self._alone(1, lambda count: count == 0)
        if self.kind == "semi":
            yield from self._alone(0, lambda count: count > 0)

    def _pairs(self) -> Iterator[pa.Table]:
        left, right = self.sides
        inserted, went = left.delta.some(left.delta.diff > 0), left.delta.some(left.delta.diff < 0)
        yield from self._matched(inserted, right.new, 0)
        yield from self._matched(went, right.old, 0)
        yield from self._matched(right.delta, left.stayed, 1)

    def _matched(self, delta: SideChanges, others: Callable[[KeyQuery], LookupResult], side: int) -> Iterator[pa.Table]:
        """Yield pairs of the changes of a side and the other side's rows."""
        if not len(delta):
            return
        keys = distinct_keys((delta.keys, delta.hashes))
        matches = others(keys)
        if not len(matches):
            return
        by = np.argsort(matches.owner, kind="stable")
        many = np.bincount(matches.owner, minlength=len(keys))
        first = np.cumsum(many) - many
        which = keys.of(delta.keys, delta.hashes)
        low, count = first[which], many[which]
        rows = matches.rows.combine_chunks()
        for begin, end in _cuts(count):
            changed, at = expand_ranges(low[begin:end], low[begin:end] + count[begin:end])
            for start in range(0, len(changed), ROWS):
                mine, other = changed[start : start + ROWS] + begin, by[at[start : start + ROWS]]
                diff = delta.diff[mine] * matches.diff[other]
                both = take_rows(delta.rows, mine), take_rows(rows, other)
                own_keys = (delta.keys[mine], delta.hashes[mine]) if self.shape.keyed else None
                yield self.shape.pairs(*(both[::-1] if side else both), diff, own_keys)

    def _alone(self, side: int, wanted: Callable[[Ints], Mask]) -> Iterator[pa.Table]:
        """Yield changes of a side's rows that show by the other side's number of rows, before and after."""
        mine, other, touched = self.sides[side], self.sides[1 - side], self.touched
        before = other.old_counts(touched)
        after = before + other.delta.counts(touched)
        if (after < 0).any():
            raise negative_multiplicity(self.where, "there are fewer rows of a key than none")
        was, now = wanted(before), wanted(after)
        steps = ((was & ~now, mine.old, -1), (~was & now, mine.new, 1), (was & now, mine.delta.changes_of, 1))
        for which, rows_of, sign in steps:
            if which.any():
                some = touched.some(which)
                rows = rows_of(some)
                keys = (some.keys[rows.owner], some.hashes[rows.owner]) if self.shape.keyed else None
                yield from unmatched_changes(self.shape, rows.rows, rows.diff * sign, side, keys)


def unmatched_changes(
    shape: JoinShape, rows: pa.Table, diff: Ints, side: int, keys: RowKeys | None = None
) -> Iterator[pa.Table]:
    """Yield changes of a side's rows without a match."""
    for start in range(0, len(diff), ROWS):
        part = slice(start, start + ROWS)
        part_keys = None if keys is None else (keys[0][part], keys[1][part])
        yield shape.one(rows.slice(start, ROWS), diff[part], part_keys, side=side)


def _cuts(counts: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about `ROWS` pairs, or of one row with more."""
    steps = np.cumsum(counts) // ROWS
    cuts = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(counts)]
    yield from pairwise(cuts)


_LEFT_ALONE: dict[physical.JoinKind, Callable[[Ints], Mask]] = {
    "left": lambda count: count == 0,
    "full": lambda count: count == 0,
    "anti": lambda count: count == 0,
    "semi": lambda count: count > 0,
}
_RIGHT_ALONE: dict[physical.JoinKind, Callable[[Ints], Mask]] = {
    "right": lambda count: count == 0,
    "full": lambda count: count == 0,
}
"""Returns whether the rows of a side show alone, by the number of rows of the other side for their key."""


@dataclass(frozen=True, slots=True)
class JoinProjection(JoinShape):
    """The result of a nested join for the join above: `given` are the places of its columns, of duplicates the first.

    `types` are the types of these columns. Rows have the key as `$p` and `$h2`, and `$diff`.
    """

    sources: tuple[tuple[int, ...], ...]
    types: pa.Schema

    keyed: ClassVar[bool] = True

    def _table(self, columns: list[pa.ChunkedArray], diff: Ints, keys: RowKeys | None) -> pa.Table:
        halves, hashes = keys if keys is not None else (np.zeros(len(diff), np.uint64), np.zeros(len(diff), np.int64))
        internal = {"$p": pa.array(halves), "$h2": pa.array(hashes), DIFF: pa.array(diff)}
        chosen = [[columns[place] for place in places] for places in self.sources]
        values = [sources[0] if len(sources) == 1 else pc.coalesce(*sources) for sources in chosen]
        return pa.table(internal | dict(zip(self.types.names, values, strict=True)))


@dataclass(slots=True)
class NestedJoinSide:
    """A side that is the join of two others, for the keys that are `touched` in the batch."""

    kind: physical.JoinKind
    sides: tuple[JoinSide, JoinSide]
    shape: JoinProjection
    where: str
    touched: KeyQuery
    schema: pa.Schema = field(init=False)
    delta: SideChanges = field(init=False)
    _counts: Ints | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.schema = self.shape.types
        none = {"$p": pa.array([], pa.uint64()), "$h2": pa.array([], pa.int64()), DIFF: pa.array([], pa.int64())}
        nothing = pa.table(none | {schema_field.name: pa.array([], schema_field.type) for schema_field in self.schema})
        changes = JoinChanges(self.kind, self.sides, self.shape, self.where, self.touched).changes()
        rows = pa.concat_tables([nothing, *changes]).combine_chunks()
        keys = unsigned(rows.column("$p"))
        order = np.argsort(keys, kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        hashes, diff = (ints(rows.column(name)) for name in ("$h2", DIFF))
        self.delta = SideChanges(keys[order], hashes, rows.select(self.schema.names), diff)

    def old(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before."""
        left, right = self.sides
        return self._rows(keys, left.old, right.old, *self._alone(keys, (0,)))

    def stayed(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before that are not deleted."""
        left, right = self.sides
        return self._rows(keys, left.stayed, right.stayed, *self._alone(keys, (0, 1)))

    def new(self, keys: KeyQuery) -> LookupResult:
        """Return the rows after the batch."""
        left, right = self.sides
        return self._rows(keys, left.new, right.new, *self._alone(keys, (1,)))

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return the number of rows of each key before."""
        if keys is self.touched and self._counts is not None:
            return self._counts
        left, right = (side.old_counts(keys) for side in self.sides)
        counts: Ints = np.zeros(len(keys), np.int64) if self.kind in ("semi", "anti") else left * right
        for mine, other, alone in ((left, right, _LEFT_ALONE), (right, left, _RIGHT_ALONE)):
            if self.kind in alone:
                counts += np.where(alone[self.kind](other), mine, 0)
        if keys is self.touched:
            self._counts = counts
        return counts

    def put(self) -> None:
        """Store the changes of the sides."""
        for side in self.sides:
            side.put()

    def _alone(self, keys: KeyQuery, times: tuple[int, ...]) -> tuple[Mask, Mask]:
        """Return the keys whose left rows, and whose right rows, show alone at some times: 0 before, 1 after."""
        masks = [np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)]
        for number, alone in enumerate((_LEFT_ALONE, _RIGHT_ALONE)):
            if self.kind in alone:
                other = self.sides[1 - number]
                before = other.old_counts(keys)
                counts = (before, before + other.delta.counts(keys) if 1 in times else before)
                masks[number] = np.logical_and.reduce([alone[self.kind](counts[time]) for time in times])
        return masks[0], masks[1]

    def _rows(
        self,
        keys: KeyQuery,
        left: Callable[[KeyQuery], LookupResult],
        right: Callable[[KeyQuery], LookupResult],
        left_alone: Mask,
        right_alone: Mask,
    ) -> LookupResult:
        parts = []
        if self.kind not in ("semi", "anti"):
            parts.append(self._pairs(keys, left(keys), right(keys)))
        for number, rows_of, which in ((0, left, left_alone), (1, right, right_alone)):
            if which.any():
                places = np.flatnonzero(which)
                matches = rows_of(keys.some(places))
                rows = self.shape.one(matches.rows, matches.diff, side=number)
                parts.append(self._result(places[matches.owner], rows, matches.diff))
        return (
            joined(parts)
            if parts
            else LookupResult(np.zeros(0, np.int64), self.schema.empty_table(), np.zeros(0, np.int64))
        )

    def _pairs(self, keys: KeyQuery, left: LookupResult, right: LookupResult) -> LookupResult:
        by = np.argsort(right.owner, kind="stable")
        many = np.bincount(right.owner, minlength=len(keys))
        first = np.cumsum(many) - many
        mine, at = expand_ranges(first[left.owner], (first + many)[left.owner])
        other, diff = by[at], left.diff[mine] * right.diff[by[at]]
        rows = take_rows(left.rows.combine_chunks(), mine), take_rows(right.rows.combine_chunks(), other)
        return self._result(left.owner[mine], self.shape.pairs(*rows, diff), diff)

    def _result(self, owner: Ints, rows: pa.Table, diff: Ints) -> LookupResult:
        return LookupResult(owner, rows.select(self.schema.names), diff)


@dataclass(slots=True)
class BroadcastSide:
    """All rows of one side, from before (`multiset`) and their changes (`table`, a consolidated run)."""

    schema: pa.Schema
    multiset: MultisetRuns
    table: pa.Table
    delta: LookupResult = field(init=False)
    counts: tuple[int, int] = field(init=False)
    """The number of rows before and after."""

    def __post_init__(self) -> None:
        self.delta = _combined([self.table], self.schema)
        before = sum(_size(run.between(0, LAST)) for run in self.multiset.runs)
        self.counts = before, before + int(self.delta.diff.sum())

    def old(self) -> LookupResult:
        """Return the rows from before."""
        return _combined([run.between(0, LAST) for run in self.multiset.runs], self.schema)

    def new(self) -> LookupResult:
        """Return the rows after the batch."""
        return _combined([*(run.between(0, LAST) for run in self.multiset.runs), self.table], self.schema)


@dataclass(slots=True)
class StreamedSide:
    """A part of the rows of the other side."""

    schema: pa.Schema
    multiset: MultisetRuns
    table: pa.Table
    low: int
    high: int

    def delta(self) -> LookupResult:
        """Return its changes."""
        return _combined([self.table], self.schema)

    def went(self) -> pa.Table:
        """Return the changes of deleted rows, as a run."""
        if DIFF not in self.table.column_names:
            return self.table.slice(0, 0)
        return self.table.filter(pa.array(ints(self.table.column(DIFF)) < 0)).combine_chunks()

    def rows(self, changes: pa.Table) -> Iterator[LookupResult]:
        """Yield the rows from before with some of the changes, in slices."""
        for low, high in self._ranges():
            tables = [run.between(low, high) for run in self.multiset.runs]
            changed = _between(changes, low, high)
            result = _combined([*tables, changed], self.schema)
            if len(result):
                yield result

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of keys; rows of an upper half stay together."""
        rows = sum(int(entry["rows"]) for entry in self.multiset.entries) + self.table.num_rows
        share = (self.high - self.low) / LAST
        count = max(1, min(int(rows * share) // ROWS, (self.high - self.low) >> 32))
        first, last = self.low >> 32, (self.high >> 32) + 1
        bounds = [first + (last - first) * number // count for number in range(count + 1)]
        for begin, end in pairwise(bounds):
            yield begin << 32, (end << 32) - 1


@dataclass(frozen=True, slots=True)
class BroadcastJoin:
    """Joins all rows of both sides; `side` is the number of the distributed side."""

    kind: physical.JoinKind
    whole: BroadcastSide
    spread: StreamedSide
    side: int
    shape: JoinShape
    where: str

    def join(self) -> Iterator[pa.Table]:
        """Yield the changes; raises SQ3401 for a negative number of rows."""
        if self.whole.counts[1] < 0:
            raise negative_multiplicity(self.where, "the number of rows is negative")
        if self.kind not in ("semi", "anti"):
            yield from self._pairs()
        if self.kind == "semi":
            yield from self._alone(lambda count: count > 0)
        elif self.kind != "inner":
            yield from self._alone(lambda count: count == 0)

    def _pairs(self) -> Iterator[pa.Table]:
        delta = self.spread.delta()
        inserted, went = delta.some(delta.diff > 0), delta.some(delta.diff < 0)
        if len(inserted):
            yield from self._all_pairs(inserted, self.whole.new())
        if len(went):
            yield from self._all_pairs(went, self.whole.old())
        if len(self.whole.delta):
            for stayed in self.spread.rows(self.spread.went()):
                yield from self._all_pairs(stayed, self.whole.delta)

    def _all_pairs(self, spread: LookupResult, whole: LookupResult) -> Iterator[pa.Table]:
        many = len(whole)
        for start in range(0, len(spread) * many, ROWS):
            place = np.arange(start, min(start + ROWS, len(spread) * many))
            mine, other = place // many, place % many
            both = take_rows(spread.rows, mine), take_rows(whole.rows, other)
            yield self.shape.pairs(*(both[::-1] if self.side else both), spread.diff[mine] * whole.diff[other])

    def _alone(self, wanted: Callable[[int], bool]) -> Iterator[pa.Table]:
        """Yield rows of the distributed side that show depending on the number of rows of the other side."""
        was, now = map(wanted, self.whole.counts)
        if was and now:
            yield from self._unmatched(iter([self.spread.delta()]), 1)
        elif was:
            yield from self._unmatched(self.spread.rows(self.spread.table.slice(0, 0)), -1)
        elif now:
            yield from self._unmatched(self.spread.rows(self.spread.table), 1)

    def _unmatched(self, parts: Iterator[LookupResult], sign: int) -> Iterator[pa.Table]:
        for part in parts:
            yield from unmatched_changes(self.shape, part.rows, part.diff * sign, self.side)


def _size(table: pa.Table) -> int:
    return int(ints(table.column(DIFF)).sum()) if DIFF in table.column_names else int(table.num_rows)


def _between(table: pa.Table, low: int, high: int) -> pa.Table:
    """Return the rows of a run with keys from `low` to `high`."""
    keys = unsigned(table.column("$p"))
    begin = int(np.searchsorted(keys, np.uint64(low), "left"))
    return table.slice(begin, int(np.searchsorted(keys, np.uint64(high), "right")) - begin)


def _combined(tables: list[pa.Table], schema: pa.Schema) -> LookupResult:
    """Return the rows of parts of runs, added up if some of them are deletions."""
    diffs = [
        ints(table.column(DIFF)) if DIFF in table.column_names else np.ones(len(table), np.int64) for table in tables
    ]
    diff: Ints = np.concatenate([np.zeros(0, np.int64), *diffs])
    rows = pa.concat_tables([schema.empty_table(), *(table.select(schema.names) for table in tables)]).combine_chunks()
    result = LookupResult(np.zeros(len(diff), np.int64), rows, diff)
    if len(tables) < 2 or not (diff < 0).any() or "$r" not in tables[0].column_names:
        return result
    return consolidate(result, np.concatenate([ints(table.column("$r")) for table in tables]))
