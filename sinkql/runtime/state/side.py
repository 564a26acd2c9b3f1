"""One side of a join in one bucket: its stored rows and a batch's changes, and its rows before and after.

A side stores a multiset of rows, rows that are only inserted, or the number of rows of each key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql.connector_api.types import arrow_type
from sinkql.lowering.join_input import PreparedSide, SidesPreparation
from sinkql.lowering.task_input import COUNT
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arrangement import Ints, KeyedRuns, MultisetRuns, consolidate, grouped
from sinkql.runtime.state.lookup import (
    KeyQuery,
    LookupResult,
    counts_of,
    joined,
    keys_of,
    latest_of,
    rows_of,
    take_rows,
)
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.run import HIGH, LOW, Keys, Run, in_memory, ints, one_chunk, unsigned
from sinkql.storage.sorted_run import duplicates_mask, find, sort_indices

Mask = NDArray[np.bool_]


class JoinSide(Protocol):
    """A side; rows have the columns of `schema`.

    `delta` are its changes, added up: no row is both inserted and deleted in them.
    """

    schema: pa.Schema
    delta: SideChanges

    def old(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before."""

    def stayed(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before that are not deleted."""

    def new(self, keys: KeyQuery) -> LookupResult:
        """Return the rows after the batch."""

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return the number of rows of each key before."""

    def put(self) -> None:
        """Store the changes."""


@dataclass(frozen=True, slots=True)
class SideChanges:
    """Changes of rows, sorted by key."""

    keys: Keys
    hashes: Ints
    rows: pa.Table
    diff: Ints

    def some(self, which: Mask) -> SideChanges:
        """Return some of the changes."""
        if which.all():
            return self
        return SideChanges(
            self.keys[which], self.hashes[which], take_rows(self.rows, np.flatnonzero(which)), self.diff[which]
        )

    def changes_of(self, keys: KeyQuery) -> LookupResult:
        """Return the changes of some keys."""
        return rows_of([self.as_run()], keys, self.rows.schema)

    def counts(self, keys: KeyQuery) -> Ints:
        """Return the change of each key's number of rows."""
        return counts_of([self.as_run()], keys)

    def as_run(self) -> Run:
        """Return the changes as a run without a file."""
        columns = {"$p": pa.array(self.keys), "$h2": pa.array(self.hashes), DIFF: pa.array(self.diff)}
        payload = dict(zip(self.rows.column_names, self.rows.columns, strict=True))
        return in_memory(pa.table(columns | payload))

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(slots=True)
class _RowSide:
    """A side that stores its rows; `table` has the batch's changes as a run of `multiset`."""

    schema: pa.Schema
    multiset: MultisetRuns
    table: pa.Table
    delta: SideChanges = field(init=False)

    def old(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before."""
        return rows_of(self.multiset.runs, keys, self.schema)

    def new(self, keys: KeyQuery) -> LookupResult:
        """Return the rows after the batch."""
        return rows_of([*self.multiset.runs, in_memory(self.table)], keys, self.schema)

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return the number of rows of each key before."""
        return counts_of(self.multiset.runs, keys)

    def put(self) -> None:
        """Store the changes."""
        self.multiset.put(self.table)


@dataclass(slots=True)
class MultisetSide(_RowSide):
    """A side that stores rows with their multiplicities."""

    _went: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        keys, hashes = keys_of(self.table)
        diff = ints(self.table.column(DIFF))
        self.delta = SideChanges(keys, hashes, self.table.select(self.schema.names), diff)
        went = diff < 0
        self._went = self.table if went.all() else self.table.filter(pa.array(went)).combine_chunks()

    def stayed(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before that are not deleted."""
        return rows_of([*self.multiset.runs, in_memory(self._went)], keys, self.schema)

    def verify(self, where: str) -> None:
        """Raise SQ3401 for the deletion of a row that never existed."""
        deleted = self._went
        if not deleted.num_rows:
            return
        before = self.multiset.count(
            unsigned(deleted.column("$p")), ints(deleted.column("$h2")), ints(deleted.column("$r"))
        )
        if len(wrong := np.flatnonzero(before + ints(deleted.column(DIFF)) < 0)):
            row = tuple(deleted.column(name)[int(wrong[0])].as_py() for name in self.schema.names)
            raise negative_multiplicity(where, f"row {row!r}")


def stored_columns(preparation: SidesPreparation, side: PreparedSide, rows: pa.Table) -> pa.Table:
    """Return rows of a side with its stored columns as `$v0`, `$v1`, so that several readers can share them."""
    stored = [column.name for column in side.stored]
    shared = {value.name for value in preparation.values}
    names = [name for name in rows.column_names if name not in shared]
    return rows.select([*names, *stored]).rename_columns([*names, *kept_schema(side).names])


def kept_schema(side: PreparedSide) -> pa.Schema:
    """Return the stored columns of a side."""
    return pa.schema([(f"$v{place}", arrow_type(column.type)) for place, column in enumerate(side.stored)])


def multiset_run(rows: pa.Table, names: list[str]) -> pa.Table:
    """Return a batch's rows of a side as a multiset's run, added up."""
    marks = ints(rows.column("$r"))
    packed = (unsigned(rows.column("$h1")) & HIGH) | (marks.view(np.uint64) & LOW)
    columns = {"$p": pa.array(packed), "$h2": rows.column("$h2"), "$r": rows.column("$r"), DIFF: rows.column(DIFF)}
    return consolidate(pa.table(columns | {name: rows.column(name) for name in names}).combine_chunks())


def appended_run(rows: pa.Table, names: list[str]) -> pa.Table:
    """Return a batch's rows of an append-only side as a run, in a deterministic order."""
    keys, hashes = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
    order = sort_indices(keys, hashes, ints(rows.column("$r")))
    columns = {"$p": pa.array(keys), "$h2": rows.column("$h2")}
    return pa.table(columns | {name: rows.column(name) for name in names}).take(pa.array(order)).combine_chunks()


@dataclass(slots=True)
class AppendOnlySide(_RowSide):
    """A side whose rows are only inserted, each separately."""

    def __post_init__(self) -> None:
        keys, hashes = keys_of(self.table)
        self.delta = SideChanges(keys, hashes, self.table.select(self.schema.names), np.ones(len(keys), np.int64))

    def stayed(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before that are not deleted: all of them."""
        return self.old(keys)


def counted_run(rows: pa.Table) -> pa.Table:
    """Return the changes of the keys' numbers of rows as a run of counts."""
    keys = unsigned(rows.column("$h1")) & HIGH
    columns = {"$p": pa.array(keys), "$h2": rows.column("$h2"), DIFF: rows.column(DIFF)}
    return added_up(pa.table(columns).combine_chunks())


@dataclass(slots=True)
class CountSide:
    """A side that stores the number of rows of each key: `table` has the changes of these numbers."""

    multiset: MultisetRuns
    table: pa.Table
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    delta: SideChanges = field(init=False)

    def __post_init__(self) -> None:
        keys, hashes = keys_of(self.table)
        self.delta = SideChanges(keys, hashes, self.table.select([]), ints(self.table.column(DIFF)))

    def old(self, keys: KeyQuery) -> LookupResult:
        """Raise AssertionError: this side has no rows."""
        raise AssertionError(keys)

    stayed = new = old

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return the number of rows of each key before."""
        return counts_of(self.multiset.runs, keys)

    def put(self) -> None:
        """Store the counts."""
        self.multiset.put(self.table)


@dataclass(slots=True)
class IndexedSide:
    """A side whose rows are in an index, in their state after the batch: `table` has its changes as a run.

    `runs` is None if the changes are all rows. `places` are the places of the columns of `schema` in the index. If rows
    are only inserted, `each` counts separately.
    """

    schema: pa.Schema
    runs: Sequence[Run] | None
    places: Sequence[int]
    table: pa.Table
    expanded: bool
    delta: SideChanges = field(init=False)
    _now: Sequence[Run] = field(init=False)

    def __post_init__(self) -> None:
        keys, hashes = keys_of(self.table)
        diff = ints(self.table.column(DIFF))
        self.delta = SideChanges(keys, hashes, self.table.select(self.schema.names), diff)
        if self.expanded:
            rows = repeated(LookupResult(np.arange(len(diff)), self.delta.rows, diff))
            self.delta = SideChanges(keys[rows.owner], hashes[rows.owner], rows.rows, rows.diff)
        self._now = [self._changes(1)] if self.runs is None else self.runs

    def old(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before."""
        return self._lookup([*self._now, self._changes(-1)], keys)

    def stayed(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before that are not deleted."""
        return self._lookup([*self._now, self._changes(-1, ints(self.table.column(DIFF)) > 0)], keys)

    def new(self, keys: KeyQuery) -> LookupResult:
        """Return the rows after the batch."""
        return self._lookup(self._now, keys)

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return the number of rows of each key before."""
        return counts_of(self._now, keys) - self.delta.counts(keys)

    def put(self) -> None:
        """Store nothing."""

    def _lookup(self, runs: Sequence[Run], keys: KeyQuery) -> LookupResult:
        names = [f"$v{place}" for place in self.places]
        types = dict(zip(names, self.schema.types, strict=True))
        stored = rows_of(runs, keys, pa.schema(list(types.items())))
        rows = stored.rows
        if names:
            rows = pa.table([rows.column(name) for name in names], schema=self.schema)
        stored = LookupResult(stored.owner, rows, stored.diff)
        return repeated(stored) if self.expanded else stored

    def _changes(self, sign: int, which: Mask | None = None) -> Run:
        """Return some of the changes, or their inverse, as a run of the index."""
        table = self.table if which is None else self.table.filter(pa.array(which)).combine_chunks()
        columns = {name: table.column(name) for name in table.column_names if name not in self.schema.names}
        columns[DIFF] = pa.array(sign * ints(table.column(DIFF)))
        stored = zip(self.places, self.schema.names, strict=True)
        return in_memory(pa.table(columns | {f"$v{place}": table.column(name) for place, name in stored}))


def repeated(lookup: LookupResult) -> LookupResult:
    """Return rows repeated by their multiplicity, each separately."""
    places = np.repeat(np.arange(len(lookup)), lookup.diff)
    return LookupResult(lookup.owner[places], take_rows(lookup.rows, places), np.ones(len(places), np.int64))


@dataclass(slots=True)
class UpsertSide:
    """A side that stores the present row of each key, of rows that overwrite each other.

    `rows` are the batch's, with hashes from `low` to `high`, and `keys` key columns. If `cleared`, the rows from before
    are deleted.
    """

    schema: pa.Schema
    values: KeyedRuns
    rows: pa.Table
    cleared: bool
    low: int
    high: int
    delta: SideChanges = field(init=False)
    keys: int = field(init=False)
    _run: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        names = self.schema.names
        keys, hashes = unsigned(self.rows.column("$h1")), ints(self.rows.column("$h2"))
        order = sort_indices(keys, hashes, ints(self.rows.column(SEQ)))
        again = duplicates_mask(keys[order], hashes[order])
        last = order[np.append(~again[1:], np.ones(min(1, len(again)), np.bool_))]
        keys, hashes, self.keys = keys[last], hashes[last], len(last)
        now = ints(self.rows.column(DIFF))[last] > 0
        rows = take_rows(self.rows.select(names), last).combine_chunks()
        stored = self.values.find(keys, hashes)
        old = [stored.column(name, rows.schema.field(name).type) for name in names]
        was = stored.column(COUNT, pa.int8()).fill_null(0).to_numpy(zero_copy_only=False) > 0
        changed = was != now
        for before, after in zip(old, rows.columns, strict=True):
            changed |= was & now & arithmetic.unlike(before, one_chunk(after))
        before = pa.table(old, schema=self.schema)
        parts = [
            _some(keys, hashes, before, was & changed, -1),
            _some(keys, hashes, rows, now & changed, 1),
        ]
        if self.cleared:
            parts.append(self._others(keys, hashes))
        self.delta = _sorted(parts)
        columns = {
            "$h1": pa.array(keys), "$h2": pa.array(hashes), COUNT: pa.array(now.astype(np.int8)),
            **dict(zip(names, rows.columns, strict=True)),
        }  # fmt: skip
        self._run = pa.table(columns).filter(pa.array(now if self.cleared else changed)).combine_chunks()

    def _others(self, keys: Keys, hashes: Ints) -> SideChanges:
        """Delete all rows except those whose keys are in the batch."""
        rows = self.values.live(self.low, self.high)
        if rows is None:
            return _some(keys[:0], hashes[:0], self.schema.empty_table(), np.zeros(0, np.bool_), -1)
        stored_keys, halves = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
        absent = find(keys, hashes, stored_keys, halves) < 0
        return _some(stored_keys, halves, rows.select(self.schema.names), absent, -1)

    def old(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before."""
        return latest_of(self.values.runs, keys, self.schema)

    def stayed(self, keys: KeyQuery) -> LookupResult:
        """Return the rows from before that are not deleted."""
        old = self.old(keys)
        return old.some(self.delta.some(self.delta.diff < 0).counts(keys)[old.owner] == 0)

    def new(self, keys: KeyQuery) -> LookupResult:
        """Return the rows after the batch."""
        return joined([self.stayed(keys), self.delta.some(self.delta.diff > 0).changes_of(keys)])

    def old_counts(self, keys: KeyQuery) -> Ints:
        """Return the number of rows of each key before: one or none."""
        counts = np.zeros(len(keys), np.int64)
        counts[latest_of(self.values.runs, keys, pa.schema([])).owner] = 1
        return counts

    def put(self) -> None:
        """Store the changed rows."""
        if self.cleared:
            self.values.clear()
        self.values.put(self._run)


def _some(keys: Keys, hashes: Ints, rows: pa.Table, which: Mask, diff: int) -> SideChanges:
    chosen = keys[which] & HIGH
    return SideChanges(
        chosen, hashes[which], take_rows(rows, np.flatnonzero(which)), np.full(len(chosen), diff, np.int64)
    )


def _sorted(parts: list[SideChanges]) -> SideChanges:
    keys, hashes, diff = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "hashes", "diff")
    )
    rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
    order = np.lexsort((diff, hashes, keys))
    return SideChanges(keys[order], hashes[order], take_rows(rows, order).combine_chunks(), diff[order])


class AppendedRuns(MultisetRuns):
    """Rows that are only inserted, each separately: `$p` (the key's `$h1`, sorted), `$h2`, then a payload."""

    __slots__ = ()
    grows: ClassVar[bool] = True

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        return sorted_rows(pa.concat_tables(tables).combine_chunks())


class CountRuns(MultisetRuns):
    """The number of rows of each key: `$p` (the upper half of its `$h1`, sorted), `$h2`, `$diff`."""

    __slots__ = ()

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        return added_up(pa.concat_tables(tables).combine_chunks())


def sorted_rows(table: pa.Table) -> pa.Table:
    """Return rows in the order of their keys; equal keys keep their order."""
    return table.take(pa.array(_order(table))).combine_chunks()


def _order(table: pa.Table) -> Ints:
    return np.lexsort((ints(table.column("$h2")), unsigned(table.column("$p"))))


def added_up(table: pa.Table) -> pa.Table:
    """Return each key once, sorted, with the sum of its counts; zeros are omitted."""
    order, starts = grouped(unsigned(table.column("$p")), ints(table.column("$h2")))
    if not len(starts):
        return table
    diff = np.add.reduceat(ints(table.column("$diff"))[order], starts)
    distinct = table.take(pa.array(order[starts][diff != 0]))
    return distinct.set_column(2, "$diff", pa.array(diff[diff != 0])).combine_chunks()
