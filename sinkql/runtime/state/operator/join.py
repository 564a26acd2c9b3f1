"""Rows of two sides that come and go, and what is kept of both → changes of their join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.lowering.sides import SIDE, UNMATCHED, PreparedSide, SidesPreparation, prepare
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Multiset
from sinkql.runtime.state.crossed import Crossing, Spread, Whole
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.pairs import Joining, Shape, alone
from sinkql.runtime.state.run import ints
from sinkql.runtime.state.side import (
    Held,
    HeldAppended,
    HeldCounts,
    HeldLatest,
    HeldRows,
    appended_run,
    counted_run,
    multiset_run,
)


@keeps_state(physical.Join)
@dataclass(frozen=True, slots=True)
class JoinState:
    """A join of any kind; keeps both sides, but for rows that have no match whatever comes."""

    name: str
    preparation: SidesPreparation
    kind: physical.JoinKind
    arrangements: tuple[Arrangement, Arrangement]

    @classmethod
    def of(cls, join: physical.Join) -> JoinState:
        """Return the operator; raises ValueError for sides that no join can stand on."""
        left, right = (_arrangement(side) for side in (join.left, join.right))
        return cls(join.arrangement, prepare(join), join.kind, (left, right))

    def apply(self, rows: pa.Table, bucket: Bucket) -> Iterator[pa.Table]:
        """Put a batch's rows of both sides into what is kept and yield the changes."""
        where = f'join "{self.name}", bucket {bucket.number}'
        which = ints(rows.column(SIDE))
        parts = [rows.filter(pa.array(which == number)) for number in range(2 * UNMATCHED)]
        repeated = self.preparation.repeated
        if self.preparation.crossed and repeated is not None:
            yield from self._crossed(repeated, parts, bucket, where)
            return
        left, right = (self._held(side, parts[side.number], bucket, where) for side in self.preparation.sides)
        for side in self.preparation.sides:
            yield from self._unmatched(side, parts[side.number + UNMATCHED])
        yield from Joining(self.kind, (left, right), self._shape, where).run()
        left.put()
        right.put()

    @property
    def _shape(self) -> Shape:
        return Shape(self.preparation.output(), len(self.preparation.sides[0].kept))

    def _crossed(self, repeated: int, parts: Sequence[pa.Table], bucket: Bucket, where: str) -> Iterator[pa.Table]:
        """Yield the changes of all pairs; the side that every bucket has comes with the first part of a batch."""
        other = 1 - repeated
        if self.name not in bucket.kept:
            schema, multiset, run = self._run(repeated, parts[repeated], bucket, where)
            bucket.kept[self.name] = Whole(schema, multiset, run)
            multiset.put(run)
        schema, multiset, run = self._run(other, parts[other], bucket, where)
        spread = Spread(schema, multiset, run, bucket.low, bucket.high)
        yield from Crossing(self.kind, bucket.kept[self.name], spread, other, self._shape, where).run()
        multiset.put(run)

    def _run(self, number: int, rows: pa.Table, bucket: Bucket, where: str) -> tuple[pa.Schema, Multiset, pa.Table]:
        """Return the columns that a side gives, what it keeps, and its changes as a run."""
        arrangement, schema = self.arrangements[number], self._schema(self.preparation.sides[number], rows)
        multiset = bucket.multisets[arrangement.name]
        match arrangement.kind:
            case "appended":
                return schema, multiset, appended_run(rows, schema.names)
            case "counted":
                return schema, multiset, counted_run(rows)
            case _:
                held = HeldRows(schema, multiset, multiset_run(rows, schema.names))
                held.verify(where)
                return schema, multiset, held.table

    def _schema(self, side: PreparedSide, rows: pa.Table) -> pa.Schema:
        return pa.schema([rows.schema.field(each.name) for each in side.kept])

    def _held(self, side: PreparedSide, rows: pa.Table, bucket: Bucket, where: str) -> Held:
        arrangement = self.arrangements[side.number]
        schema = self._schema(side, rows)
        match arrangement.kind:
            case "values":
                values, below = bucket.values[arrangement.name], bucket.sides[side.number]
                held = HeldLatest(schema, values, rows, below.cleared, bucket.low, bucket.high)
                bucket.superseded.append(rows.num_rows - held.keys)
                return held
            case "appended":
                run = appended_run(rows, schema.names)
                return HeldAppended(schema, bucket.multisets[arrangement.name], run)
            case "counted":
                return HeldCounts(bucket.multisets[arrangement.name], counted_run(rows))
            case "multiset":
                found = HeldRows(schema, bucket.multisets[arrangement.name], multiset_run(rows, schema.names))
                found.verify(where)
                return found
            case "timed":
                raise AssertionError(arrangement.name)

    def _unmatched(self, side: PreparedSide, rows: pa.Table) -> Iterator[pa.Table]:
        names = [each.name for each in side.kept]
        run = (appended_run if side.change == "append" else multiset_run)(rows, names)
        diff = ints(run.column(DIFF)) if DIFF in run.column_names else np.ones(len(run), np.int64)
        yield from alone(self._shape, run.select(names), diff, side.number)


def _arrangement(side: physical.Side) -> Arrangement:
    match side.keeps:
        case "counts":
            return Arrangement(side.arrangement, "counted")
        case "latest":
            return Arrangement(side.arrangement, "values")
        case "rows":
            append = physical.change_of(side.input) == "append"
            return Arrangement(side.arrangement, "appended" if append else "multiset")
