"""Pre-aggregated rows of one bucket, and its arrangements → the groups' old rows (−1), new rows (+1), and new runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.runtime import arithmetic
from sinkql.runtime.arrangement import Multiset, Values
from sinkql.runtime.engine import Arrangements
from sinkql.runtime.grouping import Grouping, Held
from sinkql.runtime.preparation import prepare
from sinkql.runtime.stateful import ROWS, StatefulTask, known_runs


@dataclass(frozen=True, slots=True)
class AggregateTask(StatefulTask):
    """Run one aggregate in one bucket; picklable.

    A call takes the columns that `Preparation` names and yields its `output()`. New runs are durable and reported
    before the first batch comes out. SQ3401: a group is left with fewer rows than none; SQ3211: a sum does not fit
    its type; SQ3407: a row of another bucket; SQ3404: a run is missing; SQ3409: the attempt was there before.
    """

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self.delivered(bucket, batches)
        if not rows.num_rows and self.preparation.global_:
            # an aggregate without GROUP BY has its row even of no rows
            rows = pa.table([_nothing(each) for each in rows.schema], schema=rows.schema)
        held = self._open(bucket, attempt)
        changes = Grouping(self.name, self.preparation, bucket, rows, held).run() if rows.num_rows else None
        self.report(bucket, attempt, held.entries())
        if changes is not None:
            yield from changes.to_batches(max_chunksize=ROWS)

    def _open(self, bucket: int, attempt: str) -> Held:
        followed = [each.index for each in self.preparation.arguments if each.multiset]
        sets = {index: Multiset(*self.place(_multiset(self.name, index), bucket, attempt)) for index in followed}
        groups = Values(*self.place(self.name, bucket, attempt), keeps_empty=self.preparation.global_)
        return Held(self.name, groups, sets)


def aggregate_task(aggregate: physical.Aggregate, arrangements: Arrangements) -> AggregateTask:
    """Return the task of an aggregate for one attempt at a batch."""
    preparation, name = prepare(aggregate), aggregate.arrangement
    runs = known_runs(arrangements, {name, *(_multiset(name, each.index) for each in preparation.arguments)})
    return AggregateTask(name, preparation, arrangements.folder, arrangements.epoch, arrangements.commit, runs)


def _multiset(name: str, index: int) -> str:
    return f"{name}-v{index}"


def _nothing(column: pa.Field) -> pa.Array:
    zero = column.name[1] in "hcnsr"
    return arithmetic.zeros(column.type, 1) if zero else pa.nulls(1, column.type)
