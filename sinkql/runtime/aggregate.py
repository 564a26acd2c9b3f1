"""Pre-aggregated rows of one bucket, and its arrangements → the groups' old rows (−1), new rows (+1), and new runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime import arithmetic
from sinkql.runtime.arrangement import Multiset, Place, Values, bucket_folder
from sinkql.runtime.engine import Arrangements
from sinkql.runtime.grouping import Grouping, Held
from sinkql.runtime.preparation import Preparation, prepare
from sinkql.runtime.report import Runs, write_report
from sinkql.runtime.run import Entry

_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class AggregateTask:
    """Run one aggregate in one bucket; picklable.

    A call takes the columns that `Preparation` names and yields its `output()`. New runs are durable and reported
    before the first batch comes out. SQ3401: a group is left with fewer rows than none; SQ3211: a sum does not fit
    its type; SQ3407: a row of another bucket; SQ3404: a run is missing; SQ3409: the attempt was there before.
    """

    name: str
    preparation: Preparation
    folder: Path
    epoch: int
    commit: str
    runs: Runs

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self._delivered(bucket, batches)
        held = self._open(bucket, attempt)
        changes = Grouping(self.name, self.preparation, bucket, rows, held).run() if rows.num_rows else None
        write_report(
            self.folder,
            epoch=self.epoch,
            commit=self.commit,
            operator=self.name,
            bucket=bucket,
            attempt=attempt,
            runs=held.entries(),
        )
        if changes is not None:
            yield from changes.to_batches(max_chunksize=_ROWS)

    def _delivered(self, bucket: int, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        schema = self.preparation.delivered()
        tables = [self._checked(bucket, batch, schema) for batch in batches if batch.num_rows]
        if not tables and self.preparation.global_:
            # an aggregate without GROUP BY has its row even of no rows
            return pa.table([_nothing(each) for each in schema], schema=schema)
        return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()

    def _checked(self, bucket: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        if "$b" in batch.schema.names and not pc.all(pc.equal(batch.column("$b"), bucket)).as_py():
            others = sorted(pc.unique(batch.column("$b")).to_pylist())
            raise SinkqlError("SQ3407", f'aggregate "{self.name}" gets rows of buckets {others} in bucket {bucket}')
        return pa.table([_typed(batch.column(each.name), each.type) for each in schema], schema=schema)

    def _open(self, bucket: int, attempt: str) -> Held:
        prefix = f"{self.epoch}-{self.commit}-{attempt}"

        def place(name: str) -> tuple[Place, list[Entry]]:
            entries = list(self.runs.get(name, {}).get(str(bucket), ()))
            return Place(bucket_folder(self.folder, name, bucket), bucket, prefix), entries

        followed = [each.index for each in self.preparation.arguments if each.multiset]
        sets = {index: Multiset(*place(_multiset(self.name, index))) for index in followed}
        return Held(self.name, Values(*place(self.name), keeps_empty=self.preparation.global_), sets)


def aggregate_task(aggregate: physical.Aggregate, arrangements: Arrangements) -> AggregateTask:
    """Return the task of an aggregate for one attempt at a batch."""
    preparation, name = prepare(aggregate), aggregate.arrangement
    own = {name, *(_multiset(name, each.index) for each in preparation.arguments)}
    known = arrangements.manifest.get("arrangements", {})
    runs = {each: known[each] for each in own & set(known)}
    return AggregateTask(name, preparation, arrangements.folder, arrangements.epoch, arrangements.commit, runs)


def _multiset(name: str, index: int) -> str:
    return f"{name}-v{index}"


def _nothing(column: pa.Field) -> pa.Array:
    zero = column.name[1] in "hcnsr"
    return arithmetic.zeros(column.type, 1) if zero else pa.nulls(1, column.type)


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values in the declared type; an unsigned hash keeps its bits."""
    if values.type == pa.uint64() and type_ == pa.int64():
        return values.view(type_)
    return values if values.type == type_ else values.cast(type_)
