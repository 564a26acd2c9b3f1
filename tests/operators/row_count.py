"""A test-only stateful operator in a single file: it counts the rows of each key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.logical.type import BIGINT
from sinkql.lowering.task_input import COUNT, Measure, TaskInput, identity, value_columns
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import ints, one_chunk, unsigned


class RowTally(physical.OneInput, frozen=True, tag="row read_counts"):
    """The number of rows of each key."""

    key: tuple[physical.Column, ...]

    @property
    def columns(self) -> tuple[physical.Column, ...]:
        return (*self.key, physical.Column("rows", BIGINT, False))


@keeps_state(RowTally)
@dataclass(frozen=True, slots=True)
class RowTallyState:
    name: str
    preparation: TaskInput

    @classmethod
    def of(cls, read_counts: RowTally) -> RowTallyState:
        keys = value_columns("k", read_counts.key)
        return cls(
            read_counts.arrangement,
            TaskInput(
                hashes=identity(keys),
                values=keys,
                group=("$h1", "$h2", *(each.name for each in keys)),
                measures=(Measure(COUNT, "rows", "", BIGINT),),
                append=physical.change_of(read_counts.input) == "append",
                columns=read_counts.columns,
            ),
        )

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        return (Arrangement(self.name, "values"),)

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        groups = arithmetic.group(unsigned(rows.column("$h1")), ints(rows.column("$h2")))
        known = bucket.values[self.name].find(groups.keys, groups.hashes)
        before = ints(pc.fill_null(known.column(COUNT, pa.int64()), 0))
        after = before + np.bincount(groups.index, ints(rows.column(COUNT)), groups.count).astype(np.int64)
        stored = {"$h1": pa.array(groups.keys), "$h2": pa.array(groups.hashes), COUNT: pa.array(after)}
        bucket.values[self.name].put(pa.table(stored))
        first = pa.array(groups.first)
        keys = [one_chunk(rows.column(each.name)).take(first) for each in self.preparation.values]
        schema = self.preparation.output()
        parts = [
            pa.table([*keys, pa.array(counts), pa.array(np.full(len(counts), diff))], schema=schema).filter(
                pa.array((before != after) & (counts > 0))
            )
            for counts, diff in ((before, -1), (after, 1))
        ]
        return pa.concat_tables(parts)
