"""Recompute functions of all rows of a key for the keys with changes in a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.lowering.task_input import COUNT, TaskInput, whole_rows
from sinkql.runtime.state.arithmetic import RowGroups, group, unlike
from sinkql.runtime.state.arrangement import Ints, consolidate, grouped
from sinkql.runtime.state.manifest import note_of
from sinkql.runtime.state.multiset import apply_changes, negative_multiplicity
from sinkql.runtime.state.operator import rank
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import in_memory, ints, one_chunk, unsigned
from sinkql.runtime.state.window.compute import computed
from sinkql.runtime.state.window.rows import told_apart

WIDEST = "widest"
"""The note with the number of rows of the widest key that was computed."""
_TOLD = "-told"


@keeps_state(physical.Recompute)
@dataclass(frozen=True, slots=True)
class RecomputeState:
    """All rows of each key, and functions of them, for keys with changes: before and after the batch.

    One row per key if `grouped`, and always one row without a key; otherwise each row with the results of the calls.
    The note `widest` has the number of rows of the widest key.
    """

    name: str
    preparation: TaskInput
    names: tuple[str, ...]
    key: tuple[str, ...]
    calls: tuple[physical.WindowCall, ...]
    grouped: bool

    @classmethod
    def of(cls, recompute: physical.Recompute) -> RecomputeState:
        """Return the operator; raises ValueError for an unsupported input."""
        columns = tuple(column.name for column in physical.columns_of(recompute.input))
        return cls(
            recompute.arrangement,
            whole_rows(recompute, recompute.key),
            columns,
            recompute.key,
            recompute.calls,
            recompute.grouped,
        )

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of rows; without a key, also an arrangement that records that its row was emitted."""
        emitted = (Arrangement(self.name + _TOLD, "values", keeps_empty=True),) if self._always else ()
        return (Arrangement(self.name, "multiset"), *emitted)

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Compute the keys with changes again. Raises SQ3401 and SQ3211."""
        groups = self._groups(rows)
        multiset = bucket.multisets[self.name]
        change = apply_changes(rows.drop_columns(["$h1", "$h2"]), np.arange(len(rows)), groups, multiset)
        if len(wrong := np.flatnonzero(change.after < 0)):
            row = tuple(change.payload.slice(int(wrong[0]), 1).to_pylist()[0].values())
            raise negative_multiplicity(f'the rows of keys of "{self.name}", bucket {bucket.number}', f"row {row!r}")
        run = change.as_run()
        notes = bucket.notes.setdefault(self.name, {WIDEST: note_of(multiset.entries, WIDEST)})
        emitted = not self._always or self._tell(bucket)
        changes = [self.preparation.output().empty_table()]
        delta = in_memory(run)
        for some in rank.key_slices([*multiset.runs, delta], groups.keys, None):
            keys, hashes = groups.keys[some], groups.hashes[some]
            changed = run.filter(pa.array((change.group >= some.start) & (change.group < some.stop)))
            _, before = multiset.rows_of(keys, hashes, run.slice(0, 0))
            mine = pa.array(change.group[(change.group >= some.start) & (change.group < some.stop)] - some.start)
            after = consolidate(pa.concat_tables([before, changed.append_column("$owner", mine)]).combine_chunks())
            sides = [self._side(side_rows, len(keys)) for side_rows in (before, after)]
            notes[WIDEST] = max(notes[WIDEST], *(side.widest for side in sides))
            changes.append(self._collected(*sides, emitted=emitted) if self.grouped else self._changes(*sides))
        multiset.put(run)
        return pa.concat_tables(changes)

    @property
    def _always(self) -> bool:
        return self.grouped and not self.key

    def _groups(self, rows: pa.Table) -> RowGroups:
        keys, hashes = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
        if not self._always:
            return group(keys, hashes)
        nothing = np.zeros(1, np.int64)
        return RowGroups(nothing.view(np.uint64), nothing, nothing, np.zeros(len(rows), np.int64))

    def _tell(self, bucket: Bucket) -> bool:
        """Return whether the row without a key was emitted before, and record that it was."""
        state = bucket.values[self.name + _TOLD]
        nothing = np.zeros(1, np.uint64)
        emitted = bool(state.find(nothing, nothing.view(np.int64)).mask[0])
        if not emitted:
            columns = {"$h1": pa.array(nothing), "$h2": pa.array(nothing.view(np.int64)), COUNT: pa.array([1])}
            state.put(pa.table(columns))
        return emitted

    def _side(self, rows: pa.Table, count: int) -> _Side:
        copies = ints(rows.column("$diff"))
        places = pa.array(np.repeat(np.arange(len(copies)), copies))
        rows = rows.take(places).combine_chunks()
        owner, hashes = ints(rows.column("$owner")), ints(rows.column("$r"))
        columns = rows.select([f"$k{place}" for place in range(len(self.names))]).rename_columns(self.names)
        values = computed(columns, owner, hashes, count, self.calls, collected=self.grouped)
        return _Side(columns, owner, hashes, values, count)

    def _changes(self, before: _Side, after: _Side) -> pa.Table:
        """Return the rows with other values than before, and the inserted and deleted rows."""
        columns = [
            pa.chunked_array([one_chunk(left), one_chunk(right)])
            for left, right in zip(before.columns, after.columns, strict=True)
        ]
        values = [one_chunk(column) for column in columns[len(self.names) :]]
        owner, hashes = np.concatenate([before.owner, after.owner]), np.concatenate([before.hashes, after.hashes])
        diff = np.concatenate([np.full(len(before.owner), -1), np.full(len(after.owner), 1)])
        order, starts = grouped(hashes, owner, *map(told_apart, values))
        total = np.add.reduceat(diff[order], starts) if len(starts) else np.zeros(0, np.int64)
        places = pa.array(order[starts][total != 0])
        changed = [one_chunk(column).take(places) for column in columns]
        return pa.table([*changed, pa.array(total[total != 0])], schema=self.preparation.output())

    def _collected(self, before: _Side, after: _Side, *, emitted: bool) -> pa.Table:
        """Return the changed rows of keys; without a key the first one is emitted even for no rows."""
        was, now = (np.bincount(side.owner, minlength=side.count) > 0 for side in (before, after))
        if self._always:
            was, now = np.full(1, emitted), np.ones(1, np.bool_)
        differ = was != now
        for left, right in zip(before.values, after.values, strict=True):
            differ |= was & now & unlike(left, right)
        tables = []
        for side, there, diff in ((before, was, -1), (after, now, 1)):
            places = np.flatnonzero(there & differ)
            first = pa.array(np.searchsorted(side.owner, places))
            keys = [one_chunk(side.table.column(name)).take(first) for name in self.key]
            values = [value.take(pa.array(places)) for value in side.values]
            diffs = pa.array(np.full(len(places), diff, np.int64))
            tables.append(pa.table([*keys, *values, diffs], schema=self.preparation.output()))
        return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows of keys before a batch or after it, with the results of their calls."""

    table: pa.Table
    owner: Ints
    hashes: Ints
    values: list[pa.Array]
    count: int

    @property
    def columns(self) -> list[pa.Array]:
        """Return the columns of the input and the calls."""
        return [*self.table.columns, *self.values]

    @property
    def widest(self) -> int:
        """Return the number of rows of the widest key."""
        return int(np.bincount(self.owner, minlength=1).max())
