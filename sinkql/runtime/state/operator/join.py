"""Joins of two or more inputs: apply the changes of all sides to the state, and compute the changes of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.lowering.fused_join import columns_within
from sinkql.lowering.join_input import SIDE, PreparedSide, SidesPreparation, prepare
from sinkql.physical import DIFF
from sinkql.runtime.state.arrangement import Ints, MultisetRuns
from sinkql.runtime.state.join import (
    BroadcastJoin,
    BroadcastSide,
    JoinChanges,
    JoinProjection,
    JoinShape,
    NestedJoinSide,
    StreamedSide,
    unmatched_changes,
)
from sinkql.runtime.state.lookup import KeyQuery, distinct_keys
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, StatefulOperator, keeps_state
from sinkql.runtime.state.operator.threshold import ThresholdState
from sinkql.runtime.state.run import ints
from sinkql.runtime.state.side import (
    AppendOnlySide,
    CountSide,
    IndexedSide,
    JoinSide,
    MultisetSide,
    UpsertSide,
    appended_run,
    counted_run,
    kept_schema,
    multiset_run,
    stored_columns,
)

_Changes = tuple[pa.Table, Ints]
"""Rows, and the multiplicity of each."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A join in a task: its sides are inputs by their number, or nested joins with their projections."""

    kind: physical.JoinKind
    sides: tuple[int | NestedSteps, int | NestedSteps]

    def loose(self, rows: Mapping[int, _Changes], shape: JoinShape) -> Iterator[pa.Table]:
        """Yield the changes of rows without a match, of sides by their number."""
        for number, side in enumerate(self.sides):
            for changed, diff in side.loose(rows) if isinstance(side, NestedSteps) else [rows[side]]:
                yield from unmatched_changes(shape, changed, diff, number)

    def held(self, leaves: Sequence[JoinSide], where: str, touched: KeyQuery) -> tuple[JoinSide, JoinSide]:
        """Return both sides; `leaves` are the sides with input rows."""
        left, right = (
            side.held(leaves, where, touched) if isinstance(side, NestedSteps) else leaves[side] for side in self.sides
        )
        return left, right


@dataclass(frozen=True, slots=True)
class NestedSteps:
    """A join that runs in the tasks of the join above it."""

    steps: Steps
    shape: JoinProjection

    def loose(self, rows: Mapping[int, _Changes]) -> Iterator[_Changes]:
        """Yield the changes of rows without a match in it."""
        for table in self.steps.loose(rows, self.shape):
            yield table.select(self.shape.types.names), ints(table.column(DIFF))

    def held(self, leaves: Sequence[JoinSide], where: str, touched: KeyQuery) -> JoinSide:
        """Return it as a side."""
        return NestedJoinSide(self.steps.kind, self.steps.held(leaves, where, touched), self.shape, where, touched)


@keeps_state(physical.Join)
@dataclass(frozen=True, slots=True)
class JoinState:
    """A join of any kind, with the joins nested in its tasks; stores all sides, except rows that can never match."""

    name: str
    preparation: SidesPreparation
    steps: Steps
    left: int
    arrangements: tuple[Arrangement, ...]
    indexes: tuple[physical.Index | None, ...]

    @classmethod
    def of(cls, join: physical.Join) -> StatefulOperator:
        """Return the operator; raises ValueError for unsupported sides."""
        if join.compared is not None:
            return ThresholdState.of(join, join.compared)
        arrangements = tuple(map(_arrangement, join.leaves))
        indexes = tuple(leaf.index for leaf in join.leaves)
        return cls(join.arrangement, prepare(join), _steps(join, count()), len(join.left.kept), arrangements, indexes)

    def apply(self, rows: pa.Table, bucket: Bucket) -> Iterator[pa.Table]:
        """Apply a batch's rows of all sides to the state, and yield the changes."""
        where = f'join "{self.name}", bucket {bucket.number}'
        which, unmatched = ints(rows.column(SIDE)), self.preparation.unmatched
        parts = [
            stored_columns(
                self.preparation, self.preparation.sides[number % unmatched], rows.filter(pa.array(which == number))
            )
            for number in range(2 * unmatched)
        ]
        repeated = self.preparation.repeated
        if self.preparation.is_broadcast and repeated is not None:
            yield from self._all_pairs(repeated, parts, bucket, where)
            return
        leaves = [self._held(side, parts[side.number], bucket, where) for side in self.preparation.sides]
        loose = {side.number: self._loose(side, parts[side.number + unmatched]) for side in self.preparation.sides}
        yield from self.steps.loose(loose, self._shape)
        touched = distinct_keys(*((leaf.delta.keys, leaf.delta.hashes) for leaf in leaves))
        if len(touched):
            sides = self.steps.held(leaves, where, touched)
            yield from JoinChanges(self.steps.kind, sides, self._shape, where, touched).changes()
        for leaf, arrangement in zip(leaves, self.arrangements, strict=True):
            if not arrangement.reads:
                leaf.put()

    @property
    def _shape(self) -> JoinShape:
        return JoinShape(self.preparation.output(), self.left)

    def _all_pairs(self, repeated: int, parts: Sequence[pa.Table], bucket: Bucket, where: str) -> Iterator[pa.Table]:
        """Yield the changes of all pairs; the broadcast side comes with the first part of a batch."""
        other = 1 - repeated
        if self.name not in bucket.cached:
            schema, multiset, run = self._side_changes(repeated, parts[repeated], bucket, where)
            bucket.cached[self.name] = BroadcastSide(schema, multiset, run)
            multiset.put(run)
        schema, multiset, run = self._side_changes(other, parts[other], bucket, where)
        spread = StreamedSide(schema, multiset, run, bucket.low, bucket.high)
        yield from BroadcastJoin(self.steps.kind, bucket.cached[self.name], spread, other, self._shape, where).join()
        multiset.put(run)

    def _side_changes(
        self, number: int, rows: pa.Table, bucket: Bucket, where: str
    ) -> tuple[pa.Schema, MultisetRuns, pa.Table]:
        """Return the columns of a side, its stored rows, and its changes as a run."""
        arrangement, schema = self.arrangements[number], kept_schema(self.preparation.sides[number])
        multiset = bucket.multisets[arrangement.name]
        match arrangement.kind:
            case "appended":
                return schema, multiset, appended_run(rows, schema.names)
            case "counted":
                return schema, multiset, counted_run(rows)
            case _:
                held = MultisetSide(schema, multiset, multiset_run(rows, schema.names))
                held.verify(where)
                return schema, multiset, held.table

    def _loose(self, side: PreparedSide, rows: pa.Table) -> _Changes:
        names = kept_schema(side).names
        run = (appended_run if side.change == "append" else multiset_run)(rows, names)
        diff = ints(run.column(DIFF)) if DIFF in run.column_names else np.ones(len(run), np.int64)
        return run.select(names), diff

    def _held(self, side: PreparedSide, rows: pa.Table, bucket: Bucket, where: str) -> JoinSide:
        arrangement, index = self.arrangements[side.number], self.indexes[side.number]
        schema = kept_schema(side)
        if index is not None:
            counts = arrangement.kind == "counted"
            run = counted_run(rows) if counts else multiset_run(rows, schema.names)
            places = [index.places[column.column] for column in side.stored]
            return IndexedSide(schema, bucket.indexes[arrangement.name], places, run, side.change == "append")
        match arrangement.kind:
            case "values":
                values, below = bucket.values[arrangement.name], bucket.sides[side.number]
                held = UpsertSide(schema, values, rows, below.cleared, bucket.low, bucket.high)
                bucket.superseded.append(rows.num_rows - held.keys)
                return held
            case "appended":
                run = appended_run(rows, schema.names)
                return AppendOnlySide(schema, bucket.multisets[arrangement.name], run)
            case "counted":
                return CountSide(bucket.multisets[arrangement.name], counted_run(rows))
            case "multiset":
                multiset = MultisetSide(schema, bucket.multisets[arrangement.name], multiset_run(rows, schema.names))
                multiset.verify(where)
                return multiset
            case "timed" | "sorted":
                raise AssertionError(arrangement.name)


def _steps(join: physical.Join, numbers: Iterator[int]) -> Steps:
    left, right = (_within(side, numbers) if side.within else next(numbers) for side in (join.left, join.right))
    return Steps(join.kind, (left, right))


def _within(side: physical.Side, numbers: Iterator[int]) -> NestedSteps:
    join = physical.joined_in(side)
    shape = JoinProjection(_schema(join.columns), len(join.left.kept), columns_within(side), _schema(side.columns))
    return NestedSteps(_steps(join, numbers), shape)


def _schema(columns: Sequence[physical.Column]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def _arrangement(side: physical.Side) -> Arrangement:
    if side.index is not None:
        kind: Literal["counted", "multiset"] = "counted" if side.keeps == "counts" else "multiset"
        return Arrangement(side.arrangement, kind, reads=True, index=True)
    match side.keeps:
        case "counts":
            return Arrangement(side.arrangement, "counted", reads=side.reads)
        case "latest":
            return Arrangement(side.arrangement, "values", reads=side.reads)
        case "rows":
            append = physical.change_of(side.input) == "append"
            return Arrangement(side.arrangement, "appended" if append else "multiset", reads=side.reads)
