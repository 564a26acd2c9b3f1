"""Rows that are visible from one time to another: the changes of a batch and of a step of the clock.

Rows that appear or disappear by time are slices of the state, which is sorted by time; removing a row writes nothing. A
row that is past when it arrives is not stored.
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
    """The rows that are visible at the time of a commit; future and visible rows are stored.

    `later` has the future rows by the time at which they appear, `here` the visible rows by the time at which they
    disappear.
    """

    name: str
    preparation: TaskInput
    begins: bool
    ends: bool

    @classmethod
    def of(cls, bound: physical.Bound) -> BoundState:
        """Return the operator; raises ValueError for an unsupported input."""
        return cls(bound.arrangement, _prepare(bound), bound.begin is not None, bound.end is not None)

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangements of future and of visible rows."""
        later = (Arrangement(self.later, "timed"),) if self.begins else ()
        return (*later, *((Arrangement(self.here, "timed"),) if self.ends else ()))

    @property
    def later(self) -> str:
        """Return the name of the arrangement of future rows."""
        return f"{self.name}.later"

    @property
    def here(self) -> str:
        """Return the name of the arrangement of visible rows."""
        return f"{self.name}.here"

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Move from one time to the other, with the insertions and deletions in between."""
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
        """Return the batch's rows as rows of the state; `$p` is the time at which each disappears."""
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
        """Return the rows of an arrangement that are due in the batch, within the part's hashes; SQ3401."""
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
    """Return the input of the tasks: `$k<i>` (all stored columns), `$begin`, `$end`, `$h1`, `$h2` (row hashes)."""
    times = [(_BEGIN, bound.begin), (_END, bound.end)]
    values = (
        *value_columns("k", bound.columns),
        *(Value(name, column, BIGINT) for name, column in times if column is not None),
    )
    return TaskInput(
        hashes=identity(values),
        values=values,
        group=("$h1", "$h2", *(value.name for value in values)),
        measures=(Measure(COUNT, "rows", "", BIGINT),),
        append=appends(bound),
        columns=bound.columns,
    )


def _times(rows: pa.Table, name: str, unbounded: int) -> Ints:
    if name not in rows.column_names:
        return np.full(rows.num_rows, unbounded, np.int64)
    return ints(rows.column(name).fill_null(unbounded))


def _keyed(rows: pa.Table) -> pa.Table:
    """Return rows whose `$p` is a time in the form of a run."""
    return rows.set_column(0, "$p", pa.array(keys_of(ints(rows.column("$p")))))


def _some(rows: pa.Table, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Table:
    return rows.filter(pa.array(mask))
