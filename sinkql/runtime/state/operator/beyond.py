"""Rows that come and go, and a value of one row that moves → the rows that come to show beyond it, or show no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.lowering.join_input import SIDE, PreparedSide, SidesPreparation, prepare
from sinkql.runtime.state.crossed import BroadcastSide
from sinkql.runtime.state.multiset import negative_multiplicity
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket
from sinkql.runtime.state.operator.threshold import Threshold, ThresholdColumn, ThresholdMove, sorted_run
from sinkql.runtime.state.ordered_run import OrderedRuns
from sinkql.runtime.state.pairs import JoinShape
from sinkql.runtime.state.run import ints
from sinkql.runtime.state.side import MultisetSide, appended_run, kept_schema, multiset_run, stored_columns


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """A semi join that is compared; keeps its rows in the order of what is compared, and in every bucket the value."""

    name: str
    preparation: SidesPreparation
    compared: physical.Compared
    arrangements: tuple[Arrangement, Arrangement]

    @classmethod
    def of(cls, join: physical.Join, compared: physical.Compared) -> ThresholdState:
        """Return the operator; raises ValueError for sides that none can stand on."""
        append = physical.change_of(join.right.input) == "append"
        value = Arrangement(join.right.arrangement, "appended" if append else "multiset")
        return cls(join.arrangement, prepare(join), compared, (Arrangement(join.left.arrangement, "sorted"), value))

    def apply(self, rows: pa.Table, bucket: Bucket) -> Iterator[pa.Table]:
        """Put a batch's rows into what is kept, and go from the value before it to the one after."""
        where = f'bound "{self.name}", bucket {bucket.number}'
        which = ints(rows.column(SIDE))
        left, right = self.preparation.sides
        mine, values = (
            stored_columns(self.preparation, side, rows.filter(pa.array(which == side.number)))
            for side in (left, right)
        )
        whole = self._whole(right, values, bucket, where)
        if not all(count in (0, 1) for count in whole.counts):
            raise negative_multiplicity(where, "there are several rows where one is, or fewer than none")
        limit = _slot(right, self.compared.right)
        before, after = (Threshold.of(found.rows.column(limit)) for found in (whole.old(), whole.new()))
        column, names = _slot(left, self.compared.left), tuple(kept_schema(left).names)
        run, exact = sorted_run(mine, column, names)
        held = bucket.multisets[self.arrangements[0].name]
        assert isinstance(held, OrderedRuns)
        shape = JoinShape(self.preparation.output(), len(names))
        comparison = ThresholdColumn(self.compared.comparison, exact)
        crossed = ThresholdMove(comparison, column, held, run, shape, names, bucket.low, bucket.high, where)
        yield from crossed.changes(before, after)
        held.put(run)

    def _whole(self, side: PreparedSide, rows: pa.Table, bucket: Bucket, where: str) -> BroadcastSide:
        """Return all of the side of the value, which comes with the first part of a batch."""
        if self.name not in bucket.kept:
            schema = kept_schema(side)
            multiset = bucket.multisets[self.arrangements[1].name]
            if self.arrangements[1].kind == "appended":
                run = appended_run(rows, schema.names)
            else:
                held = MultisetSide(schema, multiset, multiset_run(rows, schema.names))
                held.verify(where)
                run = held.table
            bucket.kept[self.name] = BroadcastSide(schema, multiset, run)
            multiset.put(run)
        found: BroadcastSide = bucket.kept[self.name]
        return found


def _slot(side: PreparedSide, column: str) -> str:
    """Return what a column that a side keeps is called there."""
    names: list[str] = kept_schema(side).names
    return next(name for name, each in zip(names, side.kept, strict=True) if each.column == column)
