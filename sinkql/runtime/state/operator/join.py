"""Rows of two sides that come and go, and what is kept of both → changes of their join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.lowering.sides import SIDE, UNMATCHED, PreparedSide, SidesPreparation, prepare
from sinkql.physical import DIFF
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.pairs import Joining, Shape, unmatched
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
        if join.left.replicated or join.right.replicated:
            raise ValueError(f'join "{join.arrangement}" has a side that is replicated')
        left, right = (_arrangement(side) for side in (join.left, join.right))
        return cls(join.arrangement, prepare(join), join.kind, (left, right))

    def apply(self, rows: pa.Table, bucket: Bucket) -> Iterator[pa.Table]:
        """Put a batch's rows of both sides into what is kept and yield the changes."""
        where = f'join "{self.name}", bucket {bucket.number}'
        which = ints(rows.column(SIDE))
        parts = [rows.filter(pa.array(which == number)) for number in range(2 * UNMATCHED)]
        left, right = (self._held(side, parts[side.number], bucket, where) for side in self.preparation.sides)
        for side in self.preparation.sides:
            yield from self._unmatched(side, parts[side.number + UNMATCHED])
        yield from Joining(self.kind, (left, right), self._shape, where).run()
        left.put()
        right.put()

    @property
    def _shape(self) -> Shape:
        return Shape(self.preparation.output(), len(self.preparation.sides[0].kept))

    def _held(self, side: PreparedSide, rows: pa.Table, bucket: Bucket, where: str) -> Held:
        arrangement = self.arrangements[side.number]
        schema = pa.schema([rows.schema.field(each.name) for each in side.kept])
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
        yield from unmatched(self._shape, run.select(names), diff, side.number)


def _arrangement(side: physical.Side) -> Arrangement:
    match side.keeps:
        case "counts":
            return Arrangement(side.arrangement, "counted")
        case "latest":
            return Arrangement(side.arrangement, "values")
        case "rows":
            append = physical.change_of(side.input) == "append"
            return Arrangement(side.arrangement, "appended" if append else "multiset")
