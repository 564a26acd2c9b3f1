"""Apply a batch's insertions and deletions to a multiset, and make its new run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql.errors import SinkqlError
from sinkql.runtime.state.arithmetic import RowGroups
from sinkql.runtime.state.arrangement import Ints, MultisetRuns, grouped
from sinkql.runtime.state.run import HIGH, LOW, Keys, ints, one_chunk


@dataclass(frozen=True, slots=True)
class MultiplicityChange:
    """The rows whose multiplicity changed, sorted as in a run, with the group and both multiplicities."""

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
        """Return the places of rows that were inserted."""
        return np.flatnonzero((self.before == 0) & (self.after > 0))

    def vanished(self) -> Ints:
        """Return the places of rows that no longer exist."""
        return np.flatnonzero((self.before > 0) & (self.after == 0))

    def as_run(self, *, held: bool = True) -> pa.Table:
        """Return the changes as a multiset's run, with the payload if it is stored."""
        columns = {
            "$p": pa.array(self.packed),
            "$h2": pa.array(self.hashes),
            "$r": pa.array(self.rows),
            "$diff": pa.array(self.after - self.before),
        }
        payload = dict(zip(self.payload.column_names, self.payload.columns, strict=True)) if held else {}
        return pa.table(columns | payload)


def negative_multiplicity(where: str, detail: str) -> SinkqlError:
    """Return the error for the deletion of a row that never existed."""
    return SinkqlError(
        "SQ3401",
        f"a row that was never added is removed, in {where}",
        detail=detail,
        hint="A source deletes or changes rows that it never sent; check that it was read from its beginning.",
    )


def apply_changes(rows: pa.Table, present: Ints, groups: RowGroups, multiset: MultisetRuns) -> MultiplicityChange:
    """Return the changes that the `present` rows of a batch make: `$r` (row hash), `$count` (±n), and a payload."""
    row_hashes = ints(rows.column("$r"))[present]
    group = groups.index[present]
    hashes = groups.hashes[group]
    packed = (groups.keys[group] & HIGH) | (row_hashes.view(np.uint64) & LOW)
    order, starts = grouped(packed, hashes, row_hashes)
    counts = ints(rows.column("$count"))[present][order]
    diff = np.add.reduceat(counts, starts) if len(starts) else np.zeros(0, np.int64)
    kept = order[starts][diff != 0]
    packed, hashes, row_hashes = packed[kept], hashes[kept], row_hashes[kept]
    before = multiset.count(packed, hashes, row_hashes)
    payload = rows.drop_columns(["$r", "$count"]).take(pa.array(present[kept]))
    return MultiplicityChange(packed, hashes, row_hashes, group[kept], payload, before, before + diff[diff != 0])
