"""The rows of both sides of a join → what goes into its tasks, as `lowering.sides` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.lowering.join_input import AT, PreparedSide, SidesPreparation
from sinkql.runtime.local.task_input import as_is, hashed, normal


def prepared_sides(preparation: SidesPreparation, inputs: Sequence[pa.Table], buckets: int) -> pa.Table:
    """Return the rows of all sides, with those of a replicated one once for each bucket."""
    parts = [_prepared(preparation, side, rows, buckets) for side, rows in zip(preparation.sides, inputs, strict=True)]
    return pa.concat_tables(parts)


def _prepared(preparation: SidesPreparation, side: PreparedSide, rows: pa.Table, buckets: int) -> pa.Table:
    schema = preparation.delivered()
    own = {each.name: each for each in side.given}
    hashed_values = {value.name: value for hash_ in side.hashes for value in hash_.values}
    values = {name: normal(value, rows) for name, value in hashed_values.items()}
    first, mark = (hashed(side.hashes[number], values, len(rows)) for number in (0, 2))
    nothing = np.zeros(len(rows), np.int64)
    loose = np.zeros(len(rows), np.bool_)
    for value in side.unsafe:
        loose |= rows.column(value.column).is_null().to_numpy()
    columns: dict[str, Any] = {
        "$side": np.where(loose, side.number + preparation.unmatched, side.number),
        "$h1": np.where(loose, np.array(mark, np.int64), np.array(first, np.int64)),
        "$h2": nothing,
        "$r": nothing,
        physical.DIFF: np.ones(len(rows), np.int64) if side.change == "append" else rows.column(physical.DIFF),
    }
    if preparation.latest:
        columns[physical.SEQ] = rows.column(physical.SEQ) if side.latest else pa.nulls(len(rows), pa.int64())
    for each in preparation.values:
        kept = own.get(each.name)
        shown = as_is if side.latest else normal
        columns[each.name] = pa.nulls(len(rows), schema.field(each.name).type) if kept is None else shown(kept, rows)
    if preparation.place == AT:
        columns[AT], schema = pa.array(mark, pa.int64()), schema.append(pa.field(AT, pa.int64()))
    found = pa.table([_array(columns[each.name], each.type) for each in schema], schema=schema)
    if not side.preserved:
        found = found.filter(pa.array(~loose))
    return _everywhere(found, buckets, preparation.place) if side.replicated else found


def _array(values: Any, type_: pa.DataType) -> Any:  # Any: an array of pyarrow's, which publishes no types
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, type_)


def _everywhere(rows: pa.Table, buckets: int, column: str) -> pa.Table:
    """Return the rows once for each bucket; the number of a bucket is a hash that leads there."""
    place = rows.column_names.index(column)
    parts = [rows.set_column(place, column, pa.array(np.full(len(rows), bucket))) for bucket in range(buckets)]
    return pa.concat_tables(parts)
