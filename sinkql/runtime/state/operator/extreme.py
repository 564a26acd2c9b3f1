"""Values of one argument of an aggregate, kept whole → distinct counts, their sums, and extremes that may go again."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.types import arrow_type
from sinkql.lowering.task_input import sum_arrow_type
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arithmetic import RowGroups
from sinkql.runtime.state.arrangement import LookUp, MultisetRuns
from sinkql.runtime.state.multiset import MultiplicityChange, apply_changes, negative_multiplicity
from sinkql.runtime.state.operator.argument import Argument
from sinkql.runtime.state.run import one_chunk


@dataclass(slots=True)
class TrackedValues:
    """State columns of the groups before and after the batch."""

    old: dict[str, pa.Array] = field(default_factory=dict)
    new: dict[str, pa.Array] = field(default_factory=dict)


def track(
    argument: Argument, rows: pa.Table, groups: RowGroups, found: LookUp, multiset: MultisetRuns, *, where: str
) -> TrackedValues:
    """Add the batch's values to the multiset and return what they make of the groups; SQ3401 for one below zero."""
    values = arithmetic.ordered(one_chunk(rows.column(f"$v{argument.index}")))
    given = pa.table({"$r": rows.column(f"$r{argument.index}"), "$count": rows.column("$count"), "$v": values})
    change = apply_changes(given, np.flatnonzero(np.asarray(values.is_valid())), groups, multiset)
    if len(wrong := np.flatnonzero(change.after < 0)):
        sample = arithmetic.restored(change.values, arrow_type(argument.type))[int(wrong[0])]
        raise negative_multiplicity(where, f'column "{argument.column}", value {sample.as_py()!r}')
    run = change.as_run(held=argument.held)
    state = TrackedValues()
    if argument.distinct:
        _count(argument, change, groups, found, state)
    for name, low in ((f"$l{argument.index}", True), (f"$u{argument.index}", False)):
        if argument.low if low else argument.high:
            state.old[name] = found.column(name, change.values.type)
            state.new[name] = _extreme(state.old[name], change, groups, multiset, run, low=low)
    multiset.put(run)
    return state


def _count(
    argument: Argument, changed: MultiplicityChange, groups: RowGroups, found: LookUp, state: TrackedValues
) -> None:
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
    old: pa.Array, changed: MultiplicityChange, groups: RowGroups, multiset: MultisetRuns, run: pa.Table, *, low: bool
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
