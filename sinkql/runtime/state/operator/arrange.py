"""Write the insertions and deletions of one bucket as a run of an index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.lowering.index_input import prepare
from sinkql.lowering.task_input import COUNT, TaskInput
from sinkql.physical import DIFF
from sinkql.runtime.state.operator.protocol import Arrangement, Bucket, keeps_state
from sinkql.runtime.state.run import ints
from sinkql.runtime.state.side import AppendOnlySide, CountSide, MultisetSide, appended_run, counted_run, multiset_run


@keeps_state(physical.Arrange)
@dataclass(frozen=True, slots=True)
class ArrangeState:
    """Rows by a key, for joins to look up, stored like a side of a join."""

    name: str
    preparation: TaskInput
    schema: pa.Schema
    comes: bool

    @classmethod
    def of(cls, arrange: physical.Arrange) -> ArrangeState:
        """Return the operator."""
        types = {column.name: column.type for column in physical.columns_of(arrange.input)}
        fields = [(f"$v{place}", arrow_type(types[name])) for place, name in enumerate(arrange.kept)]
        comes = physical.change_of(arrange.input) == "append"
        return cls(arrange.arrangement, prepare(arrange), pa.schema(fields), comes)

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Return the arrangement of rows, or of the number of rows of each key."""
        if not self.schema.names:
            return (Arrangement(self.name, "counted"),)
        return (Arrangement(self.name, "appended" if self.comes else "multiset"),)

    def apply(self, rows: pa.Table, bucket: Bucket) -> pa.Table:
        """Store the rows; raises SQ3401 for the deletion of a row that never existed."""
        multiset = bucket.multisets[self.name]
        changes = rows.rename_columns([DIFF if name == COUNT else name for name in rows.column_names])
        if self.schema.names and self.comes:
            places = np.repeat(np.arange(len(rows)), ints(changes.column(DIFF)))
            AppendOnlySide(self.schema, multiset, appended_run(changes.take(pa.array(places)), self.schema.names)).put()
        elif self.schema.names:
            held = MultisetSide(self.schema, multiset, multiset_run(changes, self.schema.names))
            held.verify(f'index "{self.name}", bucket {bucket.number}')
            held.put()
        else:
            CountSide(multiset, counted_run(changes)).put()
        return self.preparation.output().empty_table()
