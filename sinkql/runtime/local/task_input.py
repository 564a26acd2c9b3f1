"""Prepare the input of stateful operators in Python, as `lowering.task_input` defines it: the rows of a batch, and both
sides of a join.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.evaluate import comparable
from sinkql.evaluate.number import EXACT
from sinkql.logical import Type
from sinkql.logical.numeric_type import FLOATS
from sinkql.lowering.join_input import AT, PreparedSide, SidesPreparation
from sinkql.lowering.task_input import Hash, Measure, TaskInput, Value
from sinkql.runtime.local.map import python_rows

_SIGNED = 1 << 63
_NEEDED = 1 << 64


def prepared(preparation: TaskInput, rows: pa.Table) -> pa.Table:
    """Return the rows of a batch in groups with their sums, or one by one if their order matters."""
    values = {value.name: normal(value, rows) for value in preparation.values}
    columns: dict[str, Sequence[Any]] = {
        hash_.name: hashed(hash_, values, len(rows)) if preparation.spreads(hash_) else [0] * len(rows)
        for hash_ in preparation.hashes
    }
    if preparation.ordered:
        columns |= {value.name: as_is(value, rows) for value in preparation.values}
        internal = {name: rows.column(name) for name in (physical.DIFF, physical.SEQ)}
        every: dict[str, Any] = {**columns, **internal}
        schema = preparation.delivered()
        return pa.table([_array(every[field.name], field.type) for field in schema], schema=schema)
    columns |= values
    diffs = [1] * len(rows) if preparation.append else rows.column("$diff").to_pylist()
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(zip(*(map(comparable, columns[name]) for name in preparation.group), strict=True)):
        groups.setdefault(key, []).append(place)
    firsts = [places[0] for places in groups.values()]
    aggregated = [[columns[name][place] for place in firsts] for name in preparation.group]
    for sum_ in preparation.measures:
        measure = _measure(sum_)
        inputs = columns[sum_.value] if sum_.value else diffs
        aggregated.append([measure([(inputs[place], diffs[place]) for place in places]) for places in groups.values()])
    schema = preparation.delivered()
    try:
        arrays = [pa.array(column, kind.type) for column, kind in zip(aggregated, schema, strict=True)]
    except (OverflowError, pa.ArrowInvalid) as error:
        raise SinkqlError("SQ3201", "a sum is out of range") from error
    return pa.table(arrays, schema=schema)


def _array(values: Any, type_: pa.DataType) -> Any:  # Any: pyarrow publishes no types
    return values if isinstance(values, pa.ChunkedArray) else pa.array(values, type_)


def as_is(value: Value, rows: pa.Table) -> list[Any]:
    """Return a column unchanged: rows outside of all groups keep their values."""
    return [cell for (cell,) in python_rows(rows.select([value.column]))]


def normal(value: Value, rows: pa.Table) -> list[Any]:
    """Return a column with -0 as 0 and a single NaN, also inside arrays and records."""
    column = as_is(value, rows)
    return list(map(_one, column)) if _has_floats(value.type) else column


def _has_floats(type_: Type) -> bool:
    if type_.element is not None:
        return _has_floats(type_.element)
    return str(type_) in FLOATS or any(_has_floats(field.type) for field in type_.fields)


def _one(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_one, value))
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def hashed(hash_: Hash, values: dict[str, list[Any]], count: int) -> list[int]:
    """Return a hash for each of `count` rows, of columns by name."""
    columns = [values[value.name] for value in hash_.values]
    rows = zip(*columns, strict=True) if columns else [()] * count
    return [_signed(hash_of(row, hash_.domain)) for row in rows]


def hash_of(row: tuple[Any, ...], seed: int = 0) -> int:
    """Return a 64-bit hash of values of known types."""
    return xxhash.xxh64_intdigest(repr(row).encode(), seed)


def _signed(number: int) -> int:
    return number - _NEEDED if number >= _SIGNED else number


Changed = Sequence[tuple[Any, int]]
"""The values of a group, each with its diff."""


def _measure(measure: Measure) -> Callable[[Changed], Any]:
    match measure.kind:
        case "rows":
            return lambda changes: sum(diff for _, diff in changes)
        case "present":
            return lambda changes: sum(diff for value, diff in changes if value is not None)
        case "sum":
            return _sum(measure.type)
        case "least":
            return lambda changes: min(_there(changes), key=comparable, default=None)
        case "greatest":
            return lambda changes: max(_there(changes), key=comparable, default=None)


def _there(changes: Changed) -> list[Any]:
    return [value for value, _ in changes if value is not None]


def _sum(type_: Type) -> Callable[[Changed], Any]:
    if type_.name in FLOATS:
        return _float_sum
    zero: Any = Decimal(0) if type_.name == "numeric" else 0
    return lambda changes: reduce(_plus, ((value, diff) for value, diff in changes if value is not None), zero)


def _plus(total: Any, change: tuple[Any, int]) -> Any:
    value, diff = change
    return EXACT.fma(value, diff, total) if isinstance(value, Decimal) else total + value * diff


def _float_sum(changes: Changed) -> float:
    values = _there(changes)
    with np.errstate(all="ignore"):
        total = float(reduce(float.__add__, map(float, values), 0.0))
    if math.isinf(total) and not any(map(math.isinf, values)):
        raise SinkqlError("SQ3201", "value out of range: overflow")
    return total


def prepared_sides(preparation: SidesPreparation, inputs: Sequence[pa.Table], buckets: int) -> pa.Table:
    """Return the rows of all sides; the rows of a replicated side once for each bucket."""
    parts = [_prepared(preparation, side, rows, buckets) for side, rows in zip(preparation.sides, inputs, strict=True)]
    return pa.concat_tables(parts)


def _prepared(preparation: SidesPreparation, side: PreparedSide, rows: pa.Table, buckets: int) -> pa.Table:
    schema = preparation.delivered()
    by_name = {delivered.name: delivered for delivered in side.delivered}
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
    for wanted in preparation.values:
        source_value = by_name.get(wanted.name)
        shown = as_is if side.latest else normal
        columns[wanted.name] = (
            pa.nulls(len(rows), schema.field(wanted.name).type) if source_value is None else shown(source_value, rows)
        )
    if preparation.place == AT:
        columns[AT], schema = pa.array(mark, pa.int64()), schema.append(pa.field(AT, pa.int64()))
    table = pa.table([_sides_array(columns[field.name], field.type) for field in schema], schema=schema)
    if not side.preserved:
        table = table.filter(pa.array(~loose))
    return _everywhere(table, buckets, preparation.place) if side.replicated else table


def _sides_array(values: Any, type_: pa.DataType) -> Any:  # Any: pyarrow publishes no types
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, type_)


def _everywhere(rows: pa.Table, buckets: int, column: str) -> pa.Table:
    """Return the rows once for each bucket; a bucket's number is a hash that leads to it."""
    place = rows.column_names.index(column)
    parts = [rows.set_column(place, column, pa.array(np.full(len(rows), bucket))) for bucket in range(buckets)]
    return pa.concat_tables(parts)
