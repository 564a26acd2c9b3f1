"""The changes of two sides and what they keep → the changes of their join, in slices, by key or of all with all.

Each row that comes is one of the new result, and each row that goes one of the old: no expression above meets a pair
that was never there. With L and R the rows from before, and Δ⁺ and Δ⁻ those that come and go, the pairs are
ΔL⁺ ⋈ R_new + ΔL⁻ ⋈ R_old + (L_old + ΔL⁻) ⋈ ΔR, diffs multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Ints, expand_ranges
from sinkql.runtime.state.lookup import KeyQuery, LookupResult, distinct_keys, taken
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.run import Keys
from sinkql.runtime.state.side import JoinSide, SideChanges

ROWS = 65_536
"""About how many pairs are made at once."""

Mask = NDArray[np.bool_]
RowKeys = tuple[Keys, Ints]
"""The key of each of some rows: upper halves and `$h2`."""


@dataclass(frozen=True, slots=True)
class JoinShape:
    """What the join gives: its schema, and how many columns the left side has."""

    schema: pa.Schema
    left: int

    keyed: ClassVar[bool] = False
    """Whether rows come with their keys."""

    def pairs(self, left: pa.Table, right: pa.Table, diff: Ints, keys: RowKeys | None = None) -> pa.Table:
        """Return pairs of rows."""
        return self._table([*left.columns, *right.columns], diff, keys)

    def one(self, rows: pa.Table, diff: Ints, keys: RowKeys | None = None, *, side: int) -> pa.Table:
        """Return rows of a side with NULLs for the other one, if that has columns."""
        types = [each.type for each in self.schema if each.name != DIFF]
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
    """Join two sides by key: `sides` are the left and the right one. Keys that change are among the `touched` ones."""

    kind: physical.JoinKind
    sides: tuple[JoinSide, JoinSide]
    shape: JoinShape
    where: str
    touched: KeyQuery

    def changes(self) -> Iterator[pa.Table]:
        """Yield the changes."""
        if not any(len(each.delta) for each in self.sides):
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
        came, went = left.delta.some(left.delta.diff > 0), left.delta.some(left.delta.diff < 0)
        yield from self._matched(came, right.new, 0)
        yield from self._matched(went, right.old, 0)
        yield from self._matched(right.delta, left.stayed, 1)

    def _matched(self, delta: SideChanges, others: Callable[[KeyQuery], LookupResult], side: int) -> Iterator[pa.Table]:
        """Yield pairs of the changes of a side and the other side's rows."""
        if not len(delta):
            return
        keys = distinct_keys((delta.keys, delta.hashes))
        found = others(keys)
        if not len(found):
            return
        by = np.argsort(found.owner, kind="stable")
        many = np.bincount(found.owner, minlength=len(keys))
        first = np.cumsum(many) - many
        which = keys.of(delta.keys, delta.hashes)
        low, count = first[which], many[which]
        rows = found.rows.combine_chunks()
        for begin, end in _cuts(count):
            own, at = expand_ranges(low[begin:end], low[begin:end] + count[begin:end])
            for start in range(0, len(own), ROWS):
                mine, other = own[start : start + ROWS] + begin, by[at[start : start + ROWS]]
                diff = delta.diff[mine] * found.diff[other]
                both = taken(delta.rows, mine), taken(rows, other)
                own_keys = (delta.keys[mine], delta.hashes[mine]) if self.shape.keyed else None
                yield self.shape.pairs(*(both[::-1] if side else both), diff, own_keys)

    def _alone(self, side: int, wanted: Callable[[Ints], Mask]) -> Iterator[pa.Table]:
        """Yield rows of a side by how many rows of the other one there are: those now, less those from before."""
        mine, other, touched = self.sides[side], self.sides[1 - side], self.touched
        before = other.old_counts(touched)
        after = before + other.delta.counts(touched)
        if (after < 0).any():
            raise negative_multiplicity(self.where, "there are fewer rows of a key than none")
        was, now = wanted(before), wanted(after)
        steps = ((was & ~now, mine.old, -1), (~was & now, mine.new, 1), (was & now, mine.delta.found, 1))
        for which, rows_of, sign in steps:
            if which.any():
                some = touched.some(which)
                found = rows_of(some)
                keys = (some.keys[found.owner], some.hashes[found.owner]) if self.shape.keyed else None
                yield from unmatched_changes(self.shape, found.rows, found.diff * sign, side, keys)


def unmatched_changes(
    shape: JoinShape, rows: pa.Table, diff: Ints, side: int, keys: RowKeys | None = None
) -> Iterator[pa.Table]:
    """Yield changes of a side's rows without a match."""
    for start in range(0, len(diff), ROWS):
        part = slice(start, start + ROWS)
        own = None if keys is None else (keys[0][part], keys[1][part])
        yield shape.one(rows.slice(start, ROWS), diff[part], own, side=side)


def _cuts(counts: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that have about `ROWS` pairs, or of one row that has more."""
    steps = np.cumsum(counts) // ROWS
    cuts = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(counts)]
    yield from pairwise(cuts)
