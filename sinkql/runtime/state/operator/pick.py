"""Pick at most one row per key from the insertions and deletions of one bucket and the stored rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.lowering.task_input import TaskInput, whole_rows
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arrangement import Ints, consolidate
from sinkql.runtime.state.manifest import note_of
from sinkql.runtime.state.multiset import apply_changes, negative_multiplicity
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import ints, unsigned

CONFLICTS = "conflicts"
"""The note with the number of keys with several rows, from which one was picked."""


@keeps_state(physical.Pick)
@dataclass(frozen=True, slots=True)
class PickState:
    """Of the present rows of each key, the row with the greatest row hash; all rows are stored.

    A key whose picked row is another one changes: its old row is deleted (−1), its new row inserted (+1). The note
    `conflicts` has the number of keys with several rows.
    """

    name: str
    preparation: TaskInput

    @classmethod
    def of(cls, pick: physical.Pick) -> PickState:
        """Return the operator; raises ValueError for an unsupported input."""
        return cls(pick.arrangement, whole_rows(pick, pick.key))

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of rows."""
        return (Arrangement(self.name, "multiset"),)

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Apply the changes, and pick again for changed keys."""
        multiset = bucket.multisets[self.name]
        groups = arithmetic.group(unsigned(rows.column("$h1")), ints(rows.column("$h2")))
        change = apply_changes(rows.drop_columns(["$h1", "$h2"]), np.arange(len(rows)), groups, multiset)
        if len(wrong := np.flatnonzero(change.after < 0)):
            row = tuple(change.payload.slice(int(wrong[0]), 1).to_pylist()[0].values())
            raise negative_multiplicity(f'the rows by key "{self.name}", bucket {bucket.number}', f"row {row!r}")
        run = change.as_run()
        owner, before = multiset.rows_of(groups.keys, groups.hashes, run.slice(0, 0))
        after = consolidate(pa.concat_tables([before, run.append_column("$owner", pa.array(change.group))]))
        multiset.put(run)
        notes = bucket.notes.setdefault(self.name, {CONFLICTS: note_of(multiset.entries, CONFLICTS)})
        notes[CONFLICTS] += _crowded(ints(after.column("$owner"))) - _crowded(owner)
        return self._changes(before, after, groups.count)

    def _changes(self, before: pa.Table, after: pa.Table, count: int) -> pa.Table:
        schema = self.preparation.output()
        old, new = _picked(before, count), _picked(after, count)
        was, now = old >= 0, new >= 0
        both = np.flatnonzero(was & now)
        same = np.zeros(count, np.bool_)
        same[both] = ints(before.column("$r"))[old[both]] == ints(after.column("$r"))[new[both]]
        parts = []
        for table, place, diff in ((before, old[was & ~same], -1), (after, new[now & ~same], 1)):
            picked = table.take(pa.array(place))
            columns = [picked.column(f"$k{index}") for index in range(len(self.preparation.columns))]
            parts.append(pa.table([*columns, pa.array(np.full(len(place), diff, np.int64))], schema=schema))
        return pa.concat_tables(parts)


def _crowded(owner: Ints) -> int:
    return int(np.count_nonzero(np.bincount(owner) > 1))


def _picked(rows: pa.Table, count: int) -> Ints:
    """Return the place of each key's row with the greatest hash, −1 for a key without rows."""
    owner = ints(rows.column("$owner"))
    order = np.lexsort((ints(rows.column("$r")), owner))
    places = np.full(count, -1, np.int64)
    last = np.append(owner[order][1:] != owner[order][:-1], np.ones(min(1, len(order)), np.bool_))
    places[owner[order[last]]] = order[last]
    return places
