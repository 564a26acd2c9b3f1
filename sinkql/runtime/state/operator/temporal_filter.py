"""Rows of one bucket with a time to come and one to go, and the clock's step → rows that come and go, and new runs.

What comes and what goes by itself are slices of the state, which is sorted by time; nothing is written to take a row
out. A row that is past when it comes is not kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.logical.type import BIGINT
from sinkql.lowering.task_input import COUNT, Measure, TaskInput, Value, appends, identity, value_columns
from sinkql.runtime.state.arrangement import Ints, consolidate
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.ordered_run import TimedRuns, keys_of
from sinkql.runtime.state.run import ints, one_chunk

_EVER = (1 << 63) - 1
_BEGIN, _END = "$begin", "$end"


@keeps_state(physical.Bound)
@dataclass(frozen=True, slots=True)
class BoundState:
    """The rows that show at the time of a commit: it keeps those that are to come, and those that are to go.

    `later` has the former by the time at which they come, `here` the latter by the time at which they go.
    """

    name: str
    preparation: TaskInput
    begins: bool
    ends: bool

    @classmethod
    def of(cls, bound: physical.Bound) -> BoundState:
        """Return the operator; raises ValueError for an input that it cannot stand on."""
        return cls(bound.arrangement, _prepare(bound), bound.begin is not None, bound.end is not None)

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return those of the rows to come and of the rows to go."""
        later = (Arrangement(self.later, "timed"),) if self.begins else ()
        return (*later, *((Arrangement(self.here, "timed"),) if self.ends else ()))

    @property
    def later(self) -> str:
        """Return the name of the arrangement of rows to come."""
        return f"{self.name}.later"

    @property
    def here(self) -> str:
        """Return the name of the arrangement of rows to go."""
        return f"{self.name}.here"

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Go from one time to the other, with the rows that come and go in between."""
        now = bucket.below.now
        begin, end = _times(rows, _BEGIN, -_EVER), _times(rows, _END, _EVER)
        delta = self._delta(rows, end)
        there, alive = begin <= now, end > now
        shown = [_some(delta, there & alive)]
        gone = self._slice(bucket, self.here)
        if (moved := self._slice(bucket, self.later)) is not None:
            ends = _times(moved, _END, _EVER)
            shown.append(_some(moved.set_column(0, "$p", pa.array(ends)), ends > now))
        came = consolidate(pa.concat_tables(shown).combine_chunks())
        if self.begins:
            later = bucket.multiset(self.later, TimedRuns)
            later.past = now
            later.put(_keyed(_some(delta.set_column(0, "$p", pa.array(begin)), ~there & (end > begin))))
        if self.ends:
            here = bucket.multiset(self.here, TimedRuns)
            here.past = now
            here.put(_keyed(_some(came, ints(came.column("$p")) < _EVER).drop_columns([_END])))
        changes = [self._changes(came, 1), *([] if gone is None else [self._changes(gone, -1)])]
        return pa.concat_tables(changes)

    def _delta(self, rows: pa.Table, end: Ints) -> pa.Table:
        """Return the batch's rows as those of the state, `$p` the time at which each goes."""
        columns = {
            "$p": pa.array(end),
            "$h2": rows.column("$h2"),
            "$r": rows.column("$h1"),
            "$diff": rows.column(COUNT),
            **({_END: pa.array(end)} if self.ends else {}),
        }
        return pa.table(columns | {name: rows.column(name) for name in self._columns})

    @property
    def _columns(self) -> list[str]:
        return [f"$k{place}" for place in range(len(self.preparation.columns))]

    def _slice(self, bucket: Bucket, name: str) -> pa.Table | None:
        """Return the rows of an arrangement that are due in the batch, of the part whose hashes come; SQ3401."""
        below = bucket.below
        if name not in bucket.multisets or below.since >= below.now:
            return None
        found = bucket.multiset(name, TimedRuns).between(below.since, below.now)
        if found is None:
            return None
        hashes = ints(found.column("$r")).view(np.uint64)
        found = found.filter(pa.array((hashes >= np.uint64(bucket.low)) & (hashes <= np.uint64(bucket.high))))
        if len(wrong := np.flatnonzero(ints(found.column("$diff")) < 0)):
            row = tuple(found.select(self._columns).slice(int(wrong[0]), 1).to_pylist()[0].values())
            raise negative_multiplicity(f'the rows by time "{self.name}", bucket {bucket.number}', f"row {row!r}")
        return found

    def _changes(self, rows: pa.Table, sign: int) -> pa.Table:
        columns = [one_chunk(rows.column(name)) for name in self._columns]
        diffs = pa.array(ints(rows.column("$diff")) * sign)
        return pa.table([*columns, diffs], schema=self.preparation.output())


def _prepare(bound: physical.Bound) -> TaskInput:
    """Return what goes in: `$k<i>` (all kept columns), `$begin`, `$end`, `$h1`, `$h2` (hashes of the whole row)."""
    times = [(_BEGIN, bound.begin), (_END, bound.end)]
    values = (
        *value_columns("k", bound.columns),
        *(Value(name, column, BIGINT) for name, column in times if column is not None),
    )
    return TaskInput(
        hashes=identity(values),
        values=values,
        group=("$h1", "$h2", *(each.name for each in values)),
        measures=(Measure(COUNT, "rows", "", BIGINT),),
        append=appends(bound),
        columns=bound.columns,
    )


def _times(rows: pa.Table, name: str, unbounded: int) -> Ints:
    if name not in rows.column_names:
        return np.full(rows.num_rows, unbounded, np.int64)
    return ints(rows.column(name).fill_null(unbounded))


def _keyed(rows: pa.Table) -> pa.Table:
    """Return rows whose `$p` is a time as a run has them."""
    return rows.set_column(0, "$p", pa.array(keys_of(ints(rows.column("$p")))))


def _some(rows: pa.Table, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Table:
    return rows.filter(pa.array(mask))
