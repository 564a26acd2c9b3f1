"""Prepare the input of stateful operators in Arrow and numpy, as `lowering.task_input` defines it, with Spark's hashes.

Rows are passed on one by one: the rows of a group are added in its task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.errors import SinkqlError
from sinkql.logical.numeric_type import FLOATS
from sinkql.lowering.join_input import AT, SIDE, PreparedSide, SidesPreparation
from sinkql.lowering.task_input import Measure, TaskInput, sum_arrow_type
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.local.murmur3 import hashes_of
from sinkql.runtime.local.nested_hash import array_lengths
from sinkql.runtime.local.xxhash64 import row_hashes
from sinkql.runtime.state import arithmetic
from sinkql.storage.consolidate import row_codes

Column = TypeVar("Column", pa.Array, pa.ChunkedArray)


def prepared(preparation: TaskInput, rows: pa.Table, *, hashed: bool = True) -> pa.Table:
    """Return rows as an operator's tasks receive them; raises SQ3201 for a summand or a sum that does not fit.

    Unless `hashed`, something else decides the buckets of the rows.
    """
    nothing = np.zeros(len(rows), np.int64)
    arrays: dict[str, Any] = {
        hash_.name: pa.array(
            row_hashes(hash_, rows).view(np.int64) if hashed and preparation.spreads(hash_) else nothing
        )
        for hash_ in preparation.hashes
    }
    if preparation.ordered:
        arrays |= {value.name: rows.column(value.column) for value in preparation.values}
        arrays |= {name: rows.column(name) for name in (DIFF, SEQ)}
    else:
        arrays |= {value.name: _normal_inside(rows.column(value.column)) for value in preparation.values}
        diff = pa.array(np.ones(len(rows), np.int64)) if preparation.append else rows.column(DIFF)
        arrays |= {
            measure.name: _measured(measure, arrays.get(measure.value), diff) for measure in preparation.measures
        }
    schema = preparation.delivered()
    delivered = pa.table([arrays[name] for name in schema.names], schema=schema)
    for measure in preparation.measures:
        if measure.kind == "sum" and measure.type.name in FLOATS:
            _check_float_sums(delivered.column(measure.name), delivered.select(list(preparation.group)))
    return delivered


def _measured(measure: Measure, value: Any, diff: Any) -> Any:  # columns
    """Return each row's contribution to a measure."""
    match measure.kind:
        case "rows":
            return diff
        case "present":
            return pc.if_else(pc.is_valid(value), diff, 0)
        case "sum":
            try:
                return _multiples(value, diff, sum_arrow_type(measure.type))
            except pa.ArrowInvalid as error:
                raise SinkqlError("SQ3201", "a sum is out of range") from error
        case "least" | "greatest":
            return value


def _multiples(value: Any, diff: Any, type_: pa.DataType) -> Any:
    values = pc.fill_null(value.cast(type_), pa.scalar(0, type_))
    if pc.all(pc.equal(diff, 1)).as_py():
        return values
    if not pa.types.is_decimal(type_):
        return pc.multiply_checked(values, diff)
    wide = values.cast(pa.decimal256(type_.precision, type_.scale))
    return pc.multiply(wide, diff.cast(pa.decimal256(_DIFF_DIGITS, 0))).cast(type_)


_DIFF_DIGITS = 19


def _check_float_sums(values: pa.ChunkedArray, groups: pa.Table) -> None:
    """Raise SQ3201 if the finite values of a group add up to infinity."""
    numbers = values.combine_chunks().to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        if np.isfinite(np.abs(numbers[np.isfinite(numbers)]).sum()):
            return
        codes = row_codes(groups)
        try:
            arithmetic.total(pa.array(numbers), codes, int(codes.max()) + 1)
        except arithmetic.SumOverflowError:
            raise SinkqlError("SQ3201", "value out of range: overflow") from None


def prepared_sides(preparation: SidesPreparation, inputs: Sequence[pa.Table], buckets: int) -> pa.Table:
    """Return the rows of all sides of a join as its tasks receive them; those of a replicated side for each bucket."""
    parts = [
        prepared_side(preparation, side, rows, buckets) for side, rows in zip(preparation.sides, inputs, strict=True)
    ]
    return pa.concat_tables(parts).combine_chunks()


def prepared_side(preparation: SidesPreparation, side: PreparedSide, rows: pa.Table, buckets: int) -> pa.Table:
    """Return the rows of one side of a join as its tasks receive them."""
    schema, count = preparation.delivered(), len(rows)
    nothing = pa.array(np.zeros(count, np.int64))
    place = row_hashes(side.hashes[0], rows).view(np.int64)
    loose = np.zeros(count, np.bool_)
    for value in side.unsafe:
        loose |= rows.column(value.column).is_null().to_numpy()
    if side.preserved and loose.any():
        place = np.where(loose, row_hashes(side.hashes[2], rows).view(np.int64), place)
    by_name: dict[str, Any] = {
        SIDE: pa.array(np.where(loose, side.number + preparation.unmatched, side.number)),
        "$h1": pa.array(place),
        "$h2": nothing,
        "$r": nothing,
        DIFF: pa.array(np.ones(count, np.int64)) if side.change == "append" else rows.column(DIFF),
    }
    if preparation.latest:
        by_name[SEQ] = rows.column(SEQ) if side.latest else pa.nulls(count, pa.int64())
    for side_value in side.delivered:
        column = rows.column(side_value.column)
        by_name[side_value.name] = column if side.latest else _normal(column)
    if preparation.place == AT:
        by_name[AT] = pa.array(row_hashes(side.hashes[2], rows).view(np.int64))
        schema = schema.append(pa.field(AT, pa.int64()))
    arrays = [by_name.get(field.name) for field in schema]
    filled = [pa.nulls(count, of.type) if array is None else array for array, of in zip(arrays, schema, strict=True)]
    table = pa.table(filled, schema=schema)
    if not side.preserved and loose.any():
        table = table.filter(pa.array(~loose))
    return _for_each_bucket(table, preparation.place, buckets) if side.replicated else table


def _for_each_bucket(rows: pa.Table, place: str, buckets: int) -> pa.Table:
    index, count = rows.column_names.index(place), len(rows)
    hashes = (pa.array(np.full(count, hash_, np.int64)) for hash_ in hashes_of(buckets))
    return pa.concat_tables([rows.set_column(index, place, column) for column in hashes])


def _normal(column: Column) -> Column:
    """Return floats with -0 as 0 and a single NaN, and other columns unchanged."""
    if not pa.types.is_floating(column.type):
        return column
    one_zero = pc.if_else(pc.equal(column, 0), pa.scalar(0, column.type), column)
    return pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), column.type), one_zero)


def _normal_inside(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Do the same inside arrays and records, which Spark compares by their contents when it groups rows."""
    return _normal_nested(column.combine_chunks()) if pa.types.is_nested(column.type) else _normal(column)


def _normal_nested(column: pa.Array) -> pa.Array:
    if pa.types.is_struct(column.type) and column.type.num_fields:
        fields = [_normal_nested(child) for child in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=column.is_null())
    if pa.types.is_list(column.type):
        ends = np.cumsum(array_lengths(column), dtype=np.int32)
        offsets = pa.array(np.concatenate([np.zeros(1, np.int32), ends]))
        elements = _normal_nested(column.flatten())
        return pa.ListArray.from_arrays(offsets, elements, type=column.type, mask=column.is_null())
    return _normal(column)
