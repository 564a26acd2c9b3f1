"""Add up rows of an operator's input before an exchange, if many of them belong to the same groups.

The tasks behind the exchange add up the remaining rows, so any part of the rows may be added up here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql.hash_key import HashKey
from sinkql.lowering.task_input import Measure, TaskInput
from sinkql.row_hash import hash_rows
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arithmetic import RowGroups, SumOverflowError
from sinkql.runtime.state.run import one_chunk

_SAMPLE = 2048
_FEWER = 2
"""Rows are added up if a sample of them has this many times fewer groups."""


@dataclass(frozen=True, slots=True)
class PreAggregation:
    """Adds up rows with equal `group` columns; the rows have no hashes yet."""

    group: tuple[str, ...]
    measures: tuple[Measure, ...]
    hash_key: HashKey

    @classmethod
    def from_input(cls, preparation: TaskInput, hash_key: HashKey) -> PreAggregation | None:
        """Return the pre-aggregation of an operator's input; None if each of its rows is needed."""
        if preparation.ordered or not preparation.measures:
            return None
        hashes = {hash_.name for hash_ in preparation.hashes}
        group = tuple(name for name in preparation.group if name not in hashes)
        return cls(group, preparation.measures, hash_key)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Return the rows added up, or unchanged if that would leave too many, or if a sum does not fit its type."""
        sample = rows.slice(0, _SAMPLE)
        if self._groups(sample).count * _FEWER > sample.num_rows:
            return rows
        groups = self._groups(rows)
        columns = {name: one_chunk(rows.column(name)).take(pa.array(groups.first)) for name in self.group}
        try:
            columns |= {measure.name: _measured(measure, rows, groups) for measure in self.measures}
        except SumOverflowError:  # other rows of the group may make it fit
            return rows
        return pa.table([columns[name] for name in rows.column_names], schema=rows.schema)

    def _groups(self, rows: pa.Table) -> RowGroups:
        first, second = hash_rows(self.hash_key, [rows.column(name) for name in self.group], count=rows.num_rows)
        return arithmetic.group(first, second.view(np.int64))


def _measured(measure: Measure, rows: pa.Table, groups: RowGroups) -> pa.Array:
    values = one_chunk(rows.column(measure.name))
    if measure.kind in ("least", "greatest"):
        ordered = arithmetic.ordered(values)
        extreme = arithmetic.extreme(ordered, groups.index, groups.count, low=measure.kind == "least")
        return arithmetic.restored(extreme, values.type)
    return arithmetic.total(values, groups.index, groups.count)
