"""A join that is done in the tasks of the join above it → one of its sides, which keeps nothing itself.

Its rows are joined again from those of its sides where they are asked for. Of rows that stay, those are told that are
made of rows that stay, as `JoinChanges` tells its changes: what it gives and `stayed` fit together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Ints, expand_ranges
from sinkql.runtime.state.lookup import KeyQuery, LookupResult, joined, taken
from sinkql.runtime.state.pairs import JoinChanges, JoinShape, RowKeys
from sinkql.runtime.state.run import ints, unsigned
from sinkql.runtime.state.side import JoinSide, SideChanges

Mask = NDArray[np.bool_]
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
"""By how many rows of the other side a key has, whether rows of a side show alone."""


@dataclass(frozen=True, slots=True)
class JoinProjection(JoinShape):
    """What a join gives to the one above it: `given` are the places of its columns of which each is the first that is.

    `types` are those of the columns that are given. Rows have `$p` and `$h2`, the key, and `$diff`.
    """

    given: tuple[tuple[int, ...], ...]
    types: pa.Schema

    keyed: ClassVar[bool] = True

    def _table(self, columns: list[pa.ChunkedArray], diff: Ints, keys: RowKeys | None) -> pa.Table:
        halves, hashes = keys if keys is not None else (np.zeros(len(diff), np.uint64), np.zeros(len(diff), np.int64))
        own = {"$p": pa.array(halves), "$h2": pa.array(hashes), DIFF: pa.array(diff)}
        chosen = [[columns[place] for place in places] for places in self.given]
        values = [each[0] if len(each) == 1 else pc.coalesce(*each) for each in chosen]
        return pa.table(own | dict(zip(self.types.names, values, strict=True)))


@dataclass(slots=True)
class NestedJoinSide:
    """A side that is the join of two others, of the keys that are `touched` in the batch."""

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
        nothing = pa.table(none | {each.name: pa.array([], each.type) for each in self.schema})
        found = JoinChanges(self.kind, self.sides, self.shape, self.where, self.touched).changes()
        rows = pa.concat_tables([nothing, *found]).combine_chunks()
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
        """Return the rows from before that do not go."""
        left, right = self.sides
        return self._rows(keys, left.stayed, right.stayed, *self._alone(keys, (0, 1)))

    def new(self, keys: KeyQuery) -> LookupResult:
        """Return the rows after the batch."""
        left, right = self.sides
        return self._rows(keys, left.new, right.new, *self._alone(keys, (1,)))

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return how many rows keys had before."""
        if keys is self.touched and self._counts is not None:
            return self._counts
        left, right = (each.old_counts(keys) for each in self.sides)
        found: Ints = np.zeros(len(keys), np.int64) if self.kind in ("semi", "anti") else left * right
        for mine, other, alone in ((left, right, _LEFT_ALONE), (right, left, _RIGHT_ALONE)):
            if self.kind in alone:
                found += np.where(alone[self.kind](other), mine, 0)
        if keys is self.touched:
            self._counts = found
        return found

    def put(self) -> None:
        """Keep the changes of the sides."""
        for each in self.sides:
            each.put()

    def _alone(self, keys: KeyQuery, times: tuple[int, ...]) -> tuple[Mask, Mask]:
        """Return of which keys rows of the left side show alone, and of the right one, at some times: 0 old, 1 new."""
        found = [np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)]
        for number, alone in enumerate((_LEFT_ALONE, _RIGHT_ALONE)):
            if self.kind in alone:
                other = self.sides[1 - number]
                before = other.old_counts(keys)
                counts = (before, before + other.delta.counts(keys) if 1 in times else before)
                found[number] = np.logical_and.reduce([alone[self.kind](counts[time]) for time in times])
        return found[0], found[1]

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
                found = rows_of(keys.some(places))
                rows = self.shape.one(found.rows, found.diff, side=number)
                parts.append(self._found(places[found.owner], rows, found.diff))
        return (
            joined(parts)
            if parts
            else LookupResult(np.zeros(0, np.int64), self.schema.empty_table(), np.zeros(0, np.int64))
        )

    def _pairs(self, keys: KeyQuery, left: LookupResult, right: LookupResult) -> LookupResult:
        by = np.argsort(right.owner, kind="stable")
        many = np.bincount(right.owner, minlength=len(keys))
        first = np.cumsum(many) - many
        own, at = expand_ranges(first[left.owner], (first + many)[left.owner])
        other, diff = by[at], left.diff[own] * right.diff[by[at]]
        rows = taken(left.rows.combine_chunks(), own), taken(right.rows.combine_chunks(), other)
        return self._found(left.owner[own], self.shape.pairs(*rows, diff), diff)

    def _found(self, owner: Ints, rows: pa.Table, diff: Ints) -> LookupResult:
        return LookupResult(owner, rows.select(self.schema.names), diff)
