"""The changes of two sides of which every bucket has one whole → the changes of all pairs, in slices.

The other side is spread over the buckets, and over the parts of a batch: each has its rows with hashes from `low` to
`high`. As in `pairs`, each row that comes is one of the new result, and each row that goes one of the old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Ints, MultisetRuns
from sinkql.runtime.state.lookup import LookupResult, consolidate, taken
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.pairs import ROWS, JoinShape, unmatched_changes
from sinkql.runtime.state.run import ints, unsigned
from sinkql.storage.spill import LAST


@dataclass(slots=True)
class BroadcastSide:
    """All rows of one side, from before (`multiset`) and as they change (`table`, a run that is added up)."""

    schema: pa.Schema
    multiset: MultisetRuns
    table: pa.Table
    delta: LookupResult = field(init=False)
    counts: tuple[int, int] = field(init=False)
    """How many rows there are before and after."""

    def __post_init__(self) -> None:
        self.delta = _found([self.table], self.schema)
        before = sum(_size(run.between(0, LAST)) for run in self.multiset.runs)
        self.counts = before, before + int(self.delta.diff.sum())

    def old(self) -> LookupResult:
        """Return the rows from before."""
        return _found([run.between(0, LAST) for run in self.multiset.runs], self.schema)

    def new(self) -> LookupResult:
        """Return the rows after the batch."""
        return _found([*(run.between(0, LAST) for run in self.multiset.runs), self.table], self.schema)


@dataclass(slots=True)
class StreamedSide:
    """Some rows of the other side."""

    schema: pa.Schema
    multiset: MultisetRuns
    table: pa.Table
    low: int
    high: int

    def delta(self) -> LookupResult:
        """Return its changes."""
        return _found([self.table], self.schema)

    def went(self) -> pa.Table:
        """Return the changes of rows that go, as a run."""
        if DIFF not in self.table.column_names:
            return self.table.slice(0, 0)
        return self.table.filter(pa.array(ints(self.table.column(DIFF)) < 0)).combine_chunks()

    def rows(self, changes: pa.Table) -> Iterator[LookupResult]:
        """Yield the rows from before with some of the changes, a number at once."""
        for low, high in self._ranges():
            tables = [run.between(low, high) for run in self.multiset.runs]
            own = _between(changes, low, high)
            found = _found([*tables, own], self.schema)
            if len(found):
                yield found

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of keys, which cut no upper half of one."""
        rows = sum(int(entry["rows"]) for entry in self.multiset.entries) + self.table.num_rows
        share = (self.high - self.low) / LAST
        count = max(1, min(int(rows * share) // ROWS, (self.high - self.low) >> 32))
        first, last = self.low >> 32, (self.high >> 32) + 1
        bounds = [first + (last - first) * number // count for number in range(count + 1)]
        for begin, end in pairwise(bounds):
            yield begin << 32, (end << 32) - 1


@dataclass(frozen=True, slots=True)
class BroadcastJoin:
    """Join all rows of both sides; `side` is the number of the one that is spread."""

    kind: physical.JoinKind
    whole: BroadcastSide
    spread: StreamedSide
    side: int
    shape: JoinShape
    where: str

    def join(self) -> Iterator[pa.Table]:
        """Yield the changes; raises SQ3401 where there are fewer rows than none."""
        if self.whole.counts[1] < 0:
            raise negative_multiplicity(self.where, "there are fewer rows than none")
        if self.kind not in ("semi", "anti"):
            yield from self._pairs()
        if self.kind == "semi":
            yield from self._alone(lambda count: count > 0)
        elif self.kind != "inner":
            yield from self._alone(lambda count: count == 0)

    def _pairs(self) -> Iterator[pa.Table]:
        delta = self.spread.delta()
        came, went = delta.some(delta.diff > 0), delta.some(delta.diff < 0)
        if len(came):
            yield from self._crossed(came, self.whole.new())
        if len(went):
            yield from self._crossed(went, self.whole.old())
        if len(self.whole.delta):
            for stayed in self.spread.rows(self.spread.went()):
                yield from self._crossed(stayed, self.whole.delta)

    def _crossed(self, spread: LookupResult, whole: LookupResult) -> Iterator[pa.Table]:
        many = len(whole)
        for start in range(0, len(spread) * many, ROWS):
            place = np.arange(start, min(start + ROWS, len(spread) * many))
            mine, other = place // many, place % many
            both = taken(spread.rows, mine), taken(whole.rows, other)
            yield self.shape.pairs(*(both[::-1] if self.side else both), spread.diff[mine] * whole.diff[other])

    def _alone(self, wanted: Callable[[int], bool]) -> Iterator[pa.Table]:
        """Yield rows of the side that is spread by how many rows of the other one there are."""
        was, now = map(wanted, self.whole.counts)
        if was and now:
            yield from self._given(iter([self.spread.delta()]), 1)
        elif was:
            yield from self._given(self.spread.rows(self.spread.table.slice(0, 0)), -1)
        elif now:
            yield from self._given(self.spread.rows(self.spread.table), 1)

    def _given(self, parts: Iterator[LookupResult], sign: int) -> Iterator[pa.Table]:
        for found in parts:
            yield from unmatched_changes(self.shape, found.rows, found.diff * sign, self.side)


def _size(table: pa.Table) -> int:
    return int(ints(table.column(DIFF)).sum()) if DIFF in table.column_names else int(table.num_rows)


def _between(table: pa.Table, low: int, high: int) -> pa.Table:
    """Return the rows of a run with keys from `low` to `high`."""
    keys = unsigned(table.column("$p"))
    begin = int(np.searchsorted(keys, np.uint64(low), "left"))
    return table.slice(begin, int(np.searchsorted(keys, np.uint64(high), "right")) - begin)


def _found(tables: list[pa.Table], schema: pa.Schema) -> LookupResult:
    """Return the rows of parts of runs; where some take others back, they are added up."""
    diffs = [ints(each.column(DIFF)) if DIFF in each.column_names else np.ones(len(each), np.int64) for each in tables]
    diff: Ints = np.concatenate([np.zeros(0, np.int64), *diffs])
    rows = pa.concat_tables([schema.empty_table(), *(each.select(schema.names) for each in tables)]).combine_chunks()
    found = LookupResult(np.zeros(len(diff), np.int64), rows, diff)
    if len(tables) < 2 or not (diff < 0).any() or "$r" not in tables[0].column_names:
        return found
    return consolidate(found, np.concatenate([ints(each.column("$r")) for each in tables]))
