"""Rows of one bucket that come and go, and the multiset of those before → at most one row a key, and a new run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.runtime import arithmetic
from sinkql.runtime.arrangement import Ints, Multiset, add_up
from sinkql.runtime.engine import Arrangements
from sinkql.runtime.multiset import changed, lying
from sinkql.runtime.preparation import prepare
from sinkql.runtime.run import ints, unsigned
from sinkql.runtime.stateful import ROWS, StatefulTask, known_runs

_CONFLICTS = "conflicts"


@dataclass(frozen=True, slots=True)
class PickTask(StatefulTask):
    """Pick of the live rows of each key the one with the greatest row hash, in one bucket; picklable.

    A call takes the columns that `Preparation` names and yields its `output()`: of keys whose picked row is another
    now, the old one (−1) and the new one (+1). The last run's entry says how many keys have several rows. Raises as
    `AggregateTask` does, but for sums.
    """

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self.delivered(bucket, batches)
        multiset = Multiset(*self.place(self.name, bucket, attempt))
        changes = self._pick(bucket, rows, multiset)
        self.report(bucket, attempt, {self.name: multiset.entries})
        yield from changes.to_batches(max_chunksize=ROWS)

    def _pick(self, bucket: int, rows: pa.Table, multiset: Multiset) -> pa.Table:
        groups = arithmetic.group(unsigned(rows.column("$h1")), ints(rows.column("$h2")))
        change = changed(rows.drop_columns(["$h1", "$h2"]), np.arange(len(rows)), groups, multiset)
        if len(wrong := np.flatnonzero(change.after < 0)):
            row = tuple(change.payload.slice(int(wrong[0]), 1).to_pylist()[0].values())
            raise lying(f'the rows by key "{self.name}", bucket {bucket}', f"row {row!r}")
        run = change.run()
        owner, before = multiset.rows_of(groups.keys, groups.hashes, run.slice(0, 0))
        after = add_up(pa.concat_tables([before, run.append_column("$owner", pa.array(change.group))]))
        known = _conflicts(multiset.entries)
        multiset.put(run)
        if multiset.entries:
            gained = _crowded(ints(after.column("$owner"))) - _crowded(owner)
            multiset.entries[-1] = {**multiset.entries[-1], _CONFLICTS: known + gained}
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
            taken = table.take(pa.array(place))
            columns = [taken.column(f"$k{index}") for index in range(len(self.preparation.keys))]
            parts.append(pa.table([*columns, pa.array(np.full(len(place), diff, np.int64))], schema=schema))
        return pa.concat_tables(parts)


def pick_task(pick: physical.Pick, arrangements: Arrangements) -> PickTask:
    """Return the task of a pick for one attempt at a batch."""
    runs = known_runs(arrangements, {pick.arrangement})
    return PickTask(pick.arrangement, prepare(pick), arrangements.folder, arrangements.epoch, arrangements.commit, runs)


def conflicts(manifest: Mapping[str, Any]) -> int:
    """Return how many keys have several rows, of which one was picked, in the state that a manifest names."""
    arrangements = manifest["arrangements"].values()
    return sum(_conflicts(entries) for buckets in arrangements for entries in buckets.values())


def _conflicts(entries: Any) -> int:
    return int(entries[-1].get(_CONFLICTS, 0)) if entries else 0


def _crowded(owner: Ints) -> int:
    return int(np.count_nonzero(np.bincount(owner) > 1))


def _picked(rows: pa.Table, count: int) -> Ints:
    """Return where each key's row with the greatest hash stands, −1 for a key without rows."""
    owner = ints(rows.column("$owner"))
    order = np.lexsort((ints(rows.column("$r")), owner))
    found = np.full(count, -1, np.int64)
    last = np.append(owner[order][1:] != owner[order][:-1], np.ones(min(1, len(order)), np.bool_))
    found[owner[order[last]]] = order[last]
    return found
