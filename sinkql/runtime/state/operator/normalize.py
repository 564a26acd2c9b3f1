"""Turn rows of one bucket that overwrite each other into insertions and deletions, by the stored rows of their keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.lowering.task_input import COUNT, Hash, TaskInput, Value, identity, value_columns
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arrangement import Ints, KeyedRuns, LookUp
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import Keys, ints, one_chunk, unsigned
from sinkql.runtime.state.unchanged_values import UnchangedValues, UnknownValueError, key_histories
from sinkql.storage.sorted_run import duplicates_mask, find, sort_indices


@keeps_state(physical.Normalize)
@dataclass(frozen=True, slots=True)
class NormalizeState:
    """The present row of each key; all of them are stored.

    A key whose row was replaced or deleted changes: its old row is deleted (−1), its new row inserted (+1).
    """

    name: str
    preparation: TaskInput
    key: tuple[str, ...]
    source: str
    holes: tuple[int, ...]
    """The places of the stored columns in the source, if changes may lack unchanged values."""

    @classmethod
    def of(cls, normalize: physical.Normalize) -> NormalizeState:
        """Return the operator; raises ValueError for an unsupported input."""
        read = next(operator for operator in physical.walk(normalize) if isinstance(operator, physical.Read))
        columns = [column.name for column in read.columns]
        holes = tuple(columns.index(column.name) for column in normalize.columns) if read.holes else ()
        return cls(normalize.arrangement, _prepare(normalize), normalize.key, read.name, holes)

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of rows."""
        return (Arrangement(self.name, "values"),)

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns in tasks and in the state."""
        return [f"$k{place}" for place in range(len(self.preparation.columns))]

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Replace each key's row by its last one in the batch; SQ3417 for a missing value that is not stored."""
        state, cleared = bucket.values[self.name], bucket.below.cleared
        last = self._last(rows, bucket)
        bucket.superseded.append(rows.num_rows - len(last.keys))
        stored = last.stored
        old = [stored.column(name, column.type) for name, column in zip(self.columns, last.columns, strict=True)]
        was, now = _there(stored), last.alive
        changed = was != now
        for before, after in zip(old, last.columns, strict=True):
            changed |= was & now & arithmetic.unlike(before, after)
        deleted = self._others(state, last, bucket) if cleared else self.preparation.output().empty_table()
        columns = {"$h1": pa.array(last.keys), "$h2": pa.array(last.hashes), COUNT: pa.array(now.astype(np.int64))}
        run = pa.table(columns | dict(zip(self.columns, last.columns, strict=True)))
        if cleared:
            state.clear()
        state.put(_some(run, now if cleared else changed).combine_chunks())
        changes = (self._changes(old, was & changed, -1), self._changes(last.columns, now & changed, 1))
        return pa.concat_tables([deleted, *changes])

    def _last(self, rows: pa.Table, bucket: Bucket) -> _Last:
        """Return the last change of each key, with all values."""
        keys, hashes = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
        order = sort_indices(keys, hashes, ints(rows.column(physical.SEQ)))
        while True:
            again = duplicates_mask(keys[order], hashes[order])
            places = np.flatnonzero(np.append(~again[1:], np.ones(min(1, len(again)), np.bool_)))
            chosen = order[places]
            stored = bucket.values[self.name].find(keys[chosen], hashes[chosen])
            try:
                columns = self._whole(rows, bucket, order, places, stored)
            except UnknownValueError as unknown:
                if not bucket.below.snapshotting:
                    raise self._unknown(rows, order, unknown) from unknown
                # its complete row comes with the snapshot, or a later change replaces or deletes it
                order = np.delete(order, unknown.places)
                continue
            return _Last(keys[chosen], hashes[chosen], ints(rows.column(physical.DIFF))[chosen] > 0, columns, stored)

    def _whole(self, rows: pa.Table, bucket: Bucket, order: Ints, places: Ints, stored: LookUp) -> list[pa.Array]:
        if not self.holes:
            last_rows = rows.take(pa.array(order[places]))
            return [one_chunk(last_rows.column(name)) for name in self.columns]
        chains = key_histories(rows, order)
        cleared = bucket.below.cleared
        others = (list) if cleared else (lambda: bucket.others(self.name))
        return UnchangedValues(rows, self.columns, self.holes, chains, others).fill(
            places, stored, _there(stored) & (not cleared)
        )

    def _unknown(self, rows: pa.Table, order: Ints, unknown: UnknownValueError) -> SinkqlError:
        columns, row = self.preparation.columns, int(order[unknown.places[0]])
        by_column = dict(zip((column.name for column in columns), self.columns, strict=True))
        key = ", ".join(f"{name} = {rows.column(by_column[name])[row].as_py()!r}" for name in self.key)
        return SinkqlError(
            "SQ3417",
            f'a change of source "{self.source}" has no value in column "{columns[unknown.column].name}", and its row '
            "is unknown",
            detail=f"the key is {key}",
            hint="Drop the sink and create it again with a new table. With REPLICA IDENTITY FULL the server sends all "
            "values.",
        )

    def _others(self, state: KeyedRuns, last: _Last, bucket: Bucket) -> pa.Table:
        """Delete all rows except those whose keys are in the batch."""
        rows = state.live(bucket.low, bucket.high)
        if rows is None:
            return self.preparation.output().empty_table()
        there = find(last.keys, last.hashes, unsigned(rows.column("$h1")), ints(rows.column("$h2"))) >= 0
        return self._changes([one_chunk(rows.column(name)) for name in self.columns], ~there, -1)

    def _changes(self, columns: list[pa.Array], some: NDArray[np.bool_], diff: int) -> pa.Table:
        diffs = pa.array(np.full(len(some), diff, np.int64))
        return _some(pa.table([*columns, diffs], schema=self.preparation.output()), some)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last change of each key in a batch, sorted by hash: whether it is a row, and the stored row of its key."""

    keys: Keys
    hashes: Ints
    alive: NDArray[np.bool_]
    columns: list[pa.Array]
    stored: LookUp


def _some(rows: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
    """Return some of the rows; all of them without a copy, which would double millions of new rows."""
    return rows if mask.all() else rows.filter(pa.array(mask))


def _there(stored: LookUp) -> NDArray[np.bool_]:
    return ints(stored.column(COUNT, pa.int64()).fill_null(0)) > 0


def _prepare(normalize: physical.Normalize) -> TaskInput:
    """Return the input of the tasks: `$k<i>` (all stored columns), `$h1`, `$h2` (hashes of the key).

    If values may be missing, also `$hole`, `$o<i>` (the key before the change), `$f1`, `$f2` (its hashes).
    """
    below = normalize.input
    if physical.change_of(below) != "upsert":
        raise ValueError(f'normalize "{normalize.arrangement}" does not read an upsert relation')
    values = value_columns("k", normalize.columns)
    by_column = {value.column: value for value in values}
    hashes: tuple[Hash, ...] = identity(tuple(by_column[name] for name in normalize.key))
    if isinstance(below, physical.Read) and below.holes:
        omitted, *before = physical.unchanged_value_columns(below)
        had = value_columns("o", before)
        values = (*values, Value("$hole", omitted.name, omitted.type), *had)
        first, second = identity(had)
        hashes = (*hashes, replace(first, name="$f1"), replace(second, name="$f2"))
    return TaskInput(
        hashes=hashes,
        values=values,
        group=(*(hash_.name for hash_ in hashes), *(value.name for value in values)),
        measures=(),
        append=False,
        columns=normalize.columns,
        ordered=True,
    )
