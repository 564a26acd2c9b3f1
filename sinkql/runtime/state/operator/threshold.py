"""Rows in the order of a value, visible on one side of a moving value: the changes of a batch.

The rows that the moving value passes are a slice of the state; no other row is read. A key of 64 bits may stand for
several values; then rows at the ends of the slice are compared by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.logical import Comparison
from sinkql.lowering.join_input import SIDE, PreparedSide, SidesPreparation, prepare
from sinkql.runtime.state.arrangement import Ints, consolidate
from sinkql.runtime.state.join import BroadcastSide, JoinShape, unmatched_changes
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket
from sinkql.runtime.state.ordered_run import LAST, OrderedRuns
from sinkql.runtime.state.run import Keys, ints, one_chunk, unsigned
from sinkql.runtime.state.side import MultisetSide, appended_run, kept_schema, multiset_run, stored_columns
from sinkql.runtime.state.sort_key import wide_bits

Mask = NDArray[np.bool_]

_OF_KEYS: dict[Comparison, Callable[[Keys, Any], Mask]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_OF_VALUES: dict[Comparison, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Threshold:
    """The value that rows are compared with; None if the row is missing, and then no row is visible."""

    value: pa.Scalar | None = None
    key: int = 0

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> Threshold:
        """Return the threshold of one row, or of none."""
        present = one_chunk(values.drop_null())
        return cls(present[0], int(wide_bits(present)[0][0])) if len(present) else cls()


@dataclass(frozen=True, slots=True)
class ThresholdColumn:
    """A comparison of values with a limit; `exact`: different values have different keys."""

    comparison: Comparison
    exact: bool

    def shown(self, values: pa.Array, keys: Keys, limit: Threshold) -> Mask:
        """Return which values are visible."""
        if limit.value is None:
            return np.zeros(len(keys), np.bool_)
        if self.exact:
            return _OF_KEYS[self.comparison](keys, np.uint64(limit.key))
        mask: Mask = _OF_VALUES[self.comparison](values, limit.value).to_numpy(zero_copy_only=False)
        return mask

    def passed(self, before: Threshold, after: Threshold) -> tuple[int, int]:
        """Return the first and the last key of rows that may be visible with only one of two limits."""
        ends = sorted(map(self._end, (before, after)))
        if self.exact:  # one of the ends needs no comparison
            return (ends[0], ends[1] - 1) if self.comparison in (">", ">=") else (ends[0] + 1, ends[1])
        return max(ends[0], 0), min(ends[1], LAST)

    def _end(self, limit: Threshold) -> int:
        """Return the first visible key, or the last one; a key above all others if none is visible."""
        up = self.comparison in (">", ">=")
        if limit.value is None:
            return LAST + 1 if up else -1
        strict = self.exact and self.comparison in (">", "<")
        return limit.key + (strict if up else -strict)


@dataclass(frozen=True, slots=True)
class ThresholdMove:
    """Moves from one limit to another, for a bucket's rows with hashes `low` to `high`; `table` has the changes."""

    compared: ThresholdColumn
    column: str
    held: OrderedRuns
    table: pa.Table
    shape: JoinShape
    names: tuple[str, ...]
    low: int
    high: int
    where: str

    def changes(self, before: Threshold, after: Threshold) -> Iterator[pa.Table]:
        """Yield the changes: inserted rows are visible by the new limit, deleted rows were visible by the old one."""
        diff = ints(self.table.column("$diff"))
        was, now = self._shown(self.table, before), self._shown(self.table, after)
        yield from self._unmatched(self.table, np.where(diff > 0, now, was) * diff)
        if before.value == after.value:
            return
        went = self.table.filter(pa.array(diff < 0))
        low, high = self.compared.passed(before, after)
        for tables, first, last in self.held.slices(low, high) if low <= high else ():
            stayed = self._added(tables, went, first, last)
            turned = self._shown(stayed, after).astype(np.int64) - self._shown(stayed, before)
            yield from self._unmatched(stayed, turned * ints(stayed.column("$diff")))

    def _added(self, tables: list[pa.Table], went: pa.Table, first: int, last: int) -> pa.Table:
        """Return the rows from before without the deleted rows; raises SQ3401 for a row that did not exist."""
        keys = unsigned(went.column("$p"))
        deleted = went.filter(pa.array((keys >= np.uint64(first)) & (keys <= np.uint64(last))))
        all_rows = pa.concat_tables([deleted, *tables])
        hashes = unsigned(all_rows.column("$r"))
        mine = (hashes >= np.uint64(self.low)) & (hashes <= np.uint64(self.high))
        stayed = consolidate(all_rows.filter(pa.array(mine)).combine_chunks())
        if len(wrong := np.flatnonzero(ints(stayed.column("$diff")) < 0)):
            row = tuple(stayed.select(self.names).slice(int(wrong[0]), 1).to_pylist()[0].values())
            raise negative_multiplicity(self.where, f"row {row!r}")
        return stayed

    def _shown(self, rows: pa.Table, limit: Threshold) -> Mask:
        return self.compared.shown(one_chunk(rows.column(self.column)), unsigned(rows.column("$p")), limit)

    def _unmatched(self, rows: pa.Table, diff: Ints) -> Iterator[pa.Table]:
        some = np.flatnonzero(diff)
        if len(some):
            yield from unmatched_changes(self.shape, rows.select(self.names).take(pa.array(some)), diff[some], 0)


def sorted_run(rows: pa.Table, column: str, names: tuple[str, ...]) -> tuple[pa.Table, bool]:
    """Return a batch's rows as a run in the order of a column, added up, and whether its keys identify all values.

    Rows without a value are omitted: they are never visible.
    """
    rows = rows.filter(rows.column(column).is_valid())
    keys, exact = wide_bits(one_chunk(rows.column(column)))
    columns = {"$p": pa.array(keys), "$h2": rows.column("$h2"), "$r": rows.column("$h1"), "$diff": rows.column("$diff")}
    return consolidate(pa.table(columns | {name: rows.column(name) for name in names}).combine_chunks()), exact


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """A semi join with a comparison; stores its rows by the compared value, and the moving value in every bucket."""

    name: str
    preparation: SidesPreparation
    compared: physical.Compared
    arrangements: tuple[Arrangement, Arrangement]

    @classmethod
    def of(cls, join: physical.Join, compared: physical.Compared) -> ThresholdState:
        """Return the operator; raises ValueError for unsupported sides."""
        append = physical.change_of(join.right.input) == "append"
        value = Arrangement(join.right.arrangement, "appended" if append else "multiset")
        return cls(join.arrangement, prepare(join), compared, (Arrangement(join.left.arrangement, "sorted"), value))

    def apply(self, rows: pa.Table, bucket: Bucket) -> Iterator[pa.Table]:
        """Apply a batch's rows to the state, and move from the value before it to the value after it."""
        where = f'bound "{self.name}", bucket {bucket.number}'
        which = ints(rows.column(SIDE))
        left, right = self.preparation.sides
        mine, values = (
            stored_columns(self.preparation, side, rows.filter(pa.array(which == side.number)))
            for side in (left, right)
        )
        whole = self._whole(right, values, bucket, where)
        if not all(count in (0, 1) for count in whole.counts):
            raise negative_multiplicity(where, "the side of the value must have at most one row")
        limit = _slot(right, self.compared.right)
        before, after = (Threshold.of(side.rows.column(limit)) for side in (whole.old(), whole.new()))
        column, names = _slot(left, self.compared.left), tuple(kept_schema(left).names)
        run, exact = sorted_run(mine, column, names)
        held = bucket.multiset(self.arrangements[0].name, OrderedRuns)
        shape = JoinShape(self.preparation.output(), len(names))
        comparison = ThresholdColumn(self.compared.comparison, exact)
        moved_limit = ThresholdMove(comparison, column, held, run, shape, names, bucket.low, bucket.high, where)
        yield from moved_limit.changes(before, after)
        held.put(run)

    def _whole(self, side: PreparedSide, rows: pa.Table, bucket: Bucket, where: str) -> BroadcastSide:
        """Return the whole side of the value, which comes with the first part of a batch."""
        if self.name not in bucket.cached:
            schema = kept_schema(side)
            multiset = bucket.multisets[self.arrangements[1].name]
            if self.arrangements[1].kind == "appended":
                run = appended_run(rows, schema.names)
            else:
                held = MultisetSide(schema, multiset, multiset_run(rows, schema.names))
                held.verify(where)
                run = held.table
            bucket.cached[self.name] = BroadcastSide(schema, multiset, run)
            multiset.put(run)
        side_: BroadcastSide = bucket.cached[self.name]
        return side_


def _slot(side: PreparedSide, column: str) -> str:
    """Return the stored name of a side's column."""
    names: list[str] = kept_schema(side).names
    return next(name for name, stored in zip(names, side.stored, strict=True) if stored.column == column)
