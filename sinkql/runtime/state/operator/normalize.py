"""Rows of one bucket that overwrite each other, and those that keys had → rows that come and go, and a new run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.lowering.preparation import COUNT, Preparation, identity, values_of
from sinkql.runs import find, repeats, sort_places
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arrangement import Ints, Keys, Values
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import ints, one_chunk, unsigned


@keeps_state(physical.Normalize)
@dataclass(frozen=True, slots=True)
class NormalizeState:
    """The row that each key has now; keeps all of them.

    Its changes are of keys whose row is another now, or is gone: the old one (−1) and the new one (+1).
    """

    name: str
    preparation: Preparation

    @classmethod
    def of(cls, normalize: physical.Normalize) -> NormalizeState:
        """Return the operator; raises ValueError for an input that it cannot stand on."""
        return cls(normalize.arrangement, _prepare(normalize))

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of rows."""
        return (Arrangement(self.name, "values"),)

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Put the last row of each key in the place of the one from before."""
        last = _last(rows)
        state = bucket.values[self.name]
        found = state.find(last.keys, last.hashes)
        came = rows.take(pa.array(last.row))
        names = [each.name for each in self.preparation.values]
        new = [one_chunk(came.column(name)) for name in names]
        old = [found.column(name, column.type) for name, column in zip(names, new, strict=True)]
        was = ints(found.column(COUNT, pa.int64()).fill_null(0)) > 0
        now = ints(came.column(physical.DIFF)) > 0
        changed = was != now
        for before, after in zip(old, new, strict=True):
            changed |= was & now & arithmetic.unlike(before, after)
        gone = self._others(state, last) if bucket.cleared else self.preparation.output().empty_table()
        columns = {"$h1": pa.array(last.keys), "$h2": pa.array(last.hashes), COUNT: pa.array(now.astype(np.int64))}
        run = pa.table(columns | dict(zip(names, new, strict=True)))
        if bucket.cleared:
            state.clear()
        state.put(run.filter(pa.array(now if bucket.cleared else changed)).combine_chunks())
        return pa.concat_tables([gone, self._changes(old, was & changed, -1), self._changes(new, now & changed, 1)])

    def _others(self, state: Values, last: _Last) -> pa.Table:
        """Take back all rows but those whose keys come in the batch."""
        rows = state.live()
        if rows is None:
            return self.preparation.output().empty_table()
        there = find(last.keys, last.hashes, unsigned(rows.column("$h1")), ints(rows.column("$h2"))) >= 0
        columns = [one_chunk(rows.column(each.name)) for each in self.preparation.values]
        return self._changes(columns, ~there, -1)

    def _changes(self, columns: list[pa.Array], some: NDArray[np.bool_], diff: int) -> pa.Table:
        diffs = pa.array(np.full(len(some), diff, np.int64))
        return pa.table([*columns, diffs], schema=self.preparation.output()).filter(pa.array(some))


@dataclass(frozen=True, slots=True)
class _Last:
    """The keys of a batch, sorted by hash, and where the last row of each stands."""

    keys: Keys
    hashes: Ints
    row: Ints


def _last(rows: pa.Table) -> _Last:
    keys, hashes = unsigned(rows.column("$h1")), ints(rows.column("$h2"))
    order = sort_places(keys, hashes, ints(rows.column(physical.SEQ)))
    again = repeats(keys[order], hashes[order])
    chosen = order[np.append(~again[1:], np.ones(min(1, len(again)), np.bool_))]
    return _Last(keys[chosen], hashes[chosen], chosen)


def _prepare(normalize: physical.Normalize) -> Preparation:
    """Return what goes in: `$k<i>` (all columns), `$h1`, `$h2` (hashes of the key)."""
    if physical.change_of(normalize.input) != "upsert":
        raise ValueError(f'normalize "{normalize.arrangement}" does not stand on an upsert relation')
    values = values_of("k", normalize.columns)
    by_column = {each.column: each for each in values}
    return Preparation(
        hashes=identity(tuple(by_column[name] for name in normalize.key)),
        values=values,
        group=("$h1", "$h2", *(each.name for each in values)),
        measures=(),
        append=False,
        columns=normalize.columns,
        ordered=True,
    )
