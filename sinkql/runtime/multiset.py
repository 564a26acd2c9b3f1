"""A batch's rows, or values of one argument → a multiset's new run, and distinct counts and extremes of the groups."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.runtime import arithmetic
from sinkql.runtime.arithmetic import Groups
from sinkql.runtime.arrangement import HIGH, LOW, Found, Ints, Keys, Multiset, sort_identity
from sinkql.runtime.preparation import Argument, sum_arrow_type
from sinkql.runtime.run import ints, one_chunk


@dataclass(slots=True)
class Followed:
    """Hold state columns of the groups before and after the batch."""

    old: dict[str, pa.Array] = field(default_factory=dict)
    new: dict[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changed:
    """Hold the rows whose multiplicity changed, sorted as in a run, with the group and both multiplicities."""

    packed: Keys
    hashes: Ints
    rows: Ints
    group: Ints
    payload: pa.Table
    before: Ints
    after: Ints

    @property
    def values(self) -> pa.Array:
        """Return the column `$v` of the payload."""
        return one_chunk(self.payload.column("$v"))

    def appeared(self) -> Ints:
        """Return which came to be there."""
        return np.flatnonzero((self.before == 0) & (self.after > 0))

    def vanished(self) -> Ints:
        """Return which are there no more."""
        return np.flatnonzero((self.before > 0) & (self.after == 0))

    def run(self, *, held: bool = True) -> pa.Table:
        """Return the changes as a multiset's run, with the payload if it is held."""
        columns = {
            "$p": pa.array(self.packed),
            "$h2": pa.array(self.hashes),
            "$r": pa.array(self.rows),
            "$diff": pa.array(self.after - self.before),
        }
        payload = dict(zip(self.payload.column_names, self.payload.columns, strict=True)) if held else {}
        return pa.table(columns | payload)


def follow(
    argument: Argument, rows: pa.Table, groups: Groups, found: Found, multiset: Multiset, *, where: str
) -> Followed:
    """Add the batch's values to the multiset and return what they make of the groups; SQ3401 for one below zero."""
    values = arithmetic.ordered(one_chunk(rows.column(f"$v{argument.index}")))
    given = pa.table({"$r": rows.column(f"$r{argument.index}"), "$count": rows.column("$count"), "$v": values})
    change = changed(given, np.flatnonzero(np.asarray(values.is_valid())), groups, multiset)
    if len(wrong := np.flatnonzero(change.after < 0)):
        sample = arithmetic.restored(change.values, arrow_type(argument.type))[int(wrong[0])]
        raise lying(where, f'column "{argument.column}", value {sample.as_py()!r}')
    run = change.run(held=argument.held)
    state = Followed()
    if argument.distinct:
        _count(argument, change, groups, found, state)
    for name, low in ((f"$l{argument.index}", True), (f"$u{argument.index}", False)):
        if argument.low if low else argument.high:
            state.old[name] = found.column(name, change.values.type)
            state.new[name] = _extreme(state.old[name], change, groups, multiset, run, low=low)
    multiset.put(run)
    return state


def lying(where: str, detail: str) -> SinkqlError:
    """Return the error for something taken back that was never there."""
    return SinkqlError(
        "SQ3401",
        f"a row is taken back that was never there, in {where}",
        detail=detail,
        hint="A source deletes or changes rows that it never sent; check that it was read from its beginning.",
    )


def changed(rows: pa.Table, present: Ints, groups: Groups, multiset: Multiset) -> Changed:
    """Return what the `present` ones of a batch's rows change: `$r` (row hash), `$count` (±n), and a payload."""
    row_hashes = ints(rows.column("$r"))[present]
    group = groups.index[present]
    hashes = groups.hashes[group]
    packed = (groups.keys[group] & HIGH) | (row_hashes.view(np.uint64) & LOW)
    order, starts = sort_identity(packed, hashes, row_hashes)
    counts = ints(rows.column("$count"))[present][order]
    diff = np.add.reduceat(counts, starts) if len(starts) else np.zeros(0, np.int64)
    kept = order[starts][diff != 0]
    packed, hashes, row_hashes = packed[kept], hashes[kept], row_hashes[kept]
    before = multiset.count(packed, hashes, row_hashes)
    payload = rows.drop_columns(["$r", "$count"]).take(pa.array(present[kept]))
    return Changed(packed, hashes, row_hashes, group[kept], payload, before, before + diff[diff != 0])


def _count(argument: Argument, changed: Changed, groups: Groups, found: Found, state: Followed) -> None:
    appeared, vanished = changed.appeared(), changed.vanished()
    name, count = f"$d{argument.index}", groups.count
    gained = np.bincount(changed.group[appeared], minlength=count)
    lost = np.bincount(changed.group[vanished], minlength=count)
    state.old[name] = pc.coalesce(found.column(name, pa.int64()), arithmetic.zeros(pa.int64(), count))
    state.new[name] = arithmetic.add(state.old[name], pa.array((gained - lost).astype(np.int64)))
    if argument.distinct_sum is None:
        return
    name, type_ = f"$t{argument.index}", sum_arrow_type(argument.distinct_sum)
    values = arithmetic.restored(changed.values, arrow_type(argument.type)).cast(type_)
    state.old[name] = pc.coalesce(found.column(name, type_), arithmetic.zeros(type_, count))
    gains = arithmetic.total(values.take(pa.array(appeared)), changed.group[appeared], count)
    losses = arithmetic.total(values.take(pa.array(vanished)), changed.group[vanished], count)
    state.new[name] = arithmetic.add(arithmetic.subtract(state.old[name], losses), gains)


def _extreme(
    old: pa.Array, changed: Changed, groups: Groups, multiset: Multiset, run: pa.Table, *, low: bool
) -> pa.Array:
    """Return the groups' new extremes; only where the extreme itself went are all values of a group read."""
    appeared, vanished = changed.appeared(), changed.vanished()
    best = arithmetic.extreme(changed.values.take(pa.array(appeared)), changed.group[appeared], groups.count, low=low)
    new = arithmetic.better(old, best, low=low)
    gone = changed.values.take(pa.array(vanished))
    was = new.take(pa.array(changed.group[vanished]))
    # the new extreme is one that vanished: nothing that came is as good
    lost = np.unique(changed.group[vanished][np.asarray(pc.fill_null(pc.equal(gone, was), False))])
    if not len(lost):
        return new
    owner, rows = multiset.rows_of(groups.keys[lost], groups.hashes[lost], run)
    again = arithmetic.extreme(one_chunk(rows.column("$v")), owner, len(lost), low=low)
    mask = np.zeros(groups.count, np.bool_)
    mask[lost] = True
    return pc.replace_with_mask(new, pa.array(mask), again)
