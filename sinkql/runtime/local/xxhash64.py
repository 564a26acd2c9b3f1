"""Hash the columns of a batch like Spark's `xxhash64`.

It hashes one column after another, with the previous hash as the seed; NULL leaves the hash unchanged. Numbers are
hashed for all rows together; texts, bytes and numerics of more than 18 digits one by one. Floats have -0 as 0
and a single NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from sinkql.evaluate.number import EXACT
from sinkql.logical.numeric_type import FLOATS
from sinkql.logical.type import BIGINT, BOOLEAN, Type
from sinkql.lowering.join_input import PreparedSide, SidesPreparation
from sinkql.lowering.task_input import Hash, Measure, TaskInput, Value, sum_arrow_type
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.local.murmur3 import INTS, TEXTS, is_hashable, numbers, unscaled

Hashes = NDArray[np.uint64]
_BYTES = frozenset({"bytea", "jsonb", "interval"})
"""The types that are bytes or texts."""
_SEED = 42
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)


def hashable(preparation: TaskInput) -> bool:
    """Return whether this module can compute all hashes, and the order of rows decides no sum."""
    if isinstance(preparation, SidesPreparation):
        hashes = [hash_ for side in preparation.sides for hash_ in side.hashes]
        values = [value for side in preparation.sides for value in side.delivered]
        return preparation.repeated is None and all(map(_hashable, [*_values(hashes), *values]))
    sums = any(measure.kind == "sum" and measure.type.name in FLOATS for measure in preparation.measures)
    return not sums and all(map(_hashable, _values(preparation.hashes)))


def _values(hashes: Iterable[Hash]) -> list[Value]:
    return [value for hash_ in hashes for value in hash_.values]


def _hashable(value: Value) -> bool:
    return value.type.name in {*FLOATS} | _BYTES or is_hashable(value.type)


def prepared(preparation: TaskInput, rows: pa.Table) -> pa.Table:
    """Return rows as an operator's tasks receive them, one by one: the rows of a group are added in its task.

    Raises ArrowInvalid for a summand that does not fit.
    """
    nothing = np.zeros(len(rows), np.int64)
    arrays: dict[str, Any] = {
        hash_.name: pa.array(_hash(hash_, rows).view(np.int64) if preparation.spreads(hash_) else nothing)
        for hash_ in preparation.hashes
    }
    if preparation.ordered:
        arrays |= {value.name: rows.column(value.column) for value in preparation.values}
        arrays |= {name: rows.column(name) for name in (DIFF, SEQ)}
    else:
        columns = {value.name: rows.column(value.column) for value in preparation.values}
        arrays |= {
            value.name: _normal(columns[value.name]) for value in preparation.values if value.type.name in FLOATS
        }
        arrays = columns | arrays
        diff = pa.array(np.ones(len(rows), np.int64)) if preparation.append else rows.column(DIFF)
        arrays |= {
            measure.name: _measured(measure, arrays.get(measure.value), diff) for measure in preparation.measures
        }
    schema = preparation.delivered()
    return pa.table([arrays[name] for name in schema.names], schema=schema)


def _measured(measure: Measure, value: Any, diff: Any) -> Any:
    """Return each row's contribution to a measure."""
    match measure.kind:
        case "rows":
            return diff
        case "present":
            return pc.if_else(pc.is_valid(value), diff, 0)
        case "sum":
            return _multiples(value, diff, sum_arrow_type(measure.type))
        case "least" | "greatest":
            return value


def _multiples(value: Any, diff: Any, type_: pa.DataType) -> Any:
    values = pc.fill_null(value.cast(type_), pa.scalar(0, type_))
    if pc.all(pc.equal(diff, 1)).as_py():
        return values
    if not pa.types.is_decimal(type_):
        return pc.multiply_checked(values, diff)
    pairs = zip(values.to_pylist(), diff.to_pylist(), strict=True)
    return pa.array([EXACT.multiply(number, times) for number, times in pairs], type_)


def prepared_sides(preparation: SidesPreparation, inputs: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all sides of a join as its tasks receive them."""
    parts = [_side(preparation, side, rows) for side, rows in zip(preparation.sides, inputs, strict=True)]
    return pa.concat_tables(parts).combine_chunks()


def _side(preparation: SidesPreparation, side: PreparedSide, rows: pa.Table) -> pa.Table:
    schema, count = preparation.delivered(), len(rows)
    nothing = pa.array(np.zeros(count, np.int64))
    place = _hash(side.hashes[0], rows).view(np.int64)
    loose = np.zeros(count, np.bool_)
    for value in side.unsafe:
        loose |= rows.column(value.column).is_null().to_numpy()
    if side.preserved and loose.any():
        place = np.where(loose, _hash(side.hashes[2], rows).view(np.int64), place)
    by_name: dict[str, Any] = {
        "$side": pa.array(np.where(loose, side.number + preparation.unmatched, side.number)),
        "$h1": pa.array(place),
        "$h2": nothing,
        "$r": nothing,
        DIFF: pa.array(np.ones(count, np.int64)) if side.change == "append" else rows.column(DIFF),
    }
    if preparation.latest:
        by_name[SEQ] = rows.column(SEQ) if side.latest else pa.nulls(count, pa.int64())
    for side_value in side.delivered:
        column = rows.column(side_value.column)
        by_name[side_value.name] = column if side.latest or side_value.type.name not in FLOATS else _normal(column)
    arrays = [by_name.get(field.name) for field in schema]
    filled = [pa.nulls(count, of.type) if array is None else array for array, of in zip(arrays, schema, strict=True)]
    table = pa.table(filled, schema=schema)
    return table if side.preserved or not loose.any() else table.filter(pa.array(~loose))


def _normal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats with -0 as 0 and a single NaN."""
    one_zero = pc.if_else(pc.equal(column, 0), pa.scalar(0, column.type), column)
    return pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), column.type), one_zero)


def _hash(hash_: Hash, rows: pa.Table) -> Hashes:
    columns: list[pa.Array] = [pa.array(np.full(len(rows), hash_.domain, np.int64))]
    types = [BIGINT]
    for value in hash_.values:
        column = rows.column(value.column).combine_chunks()
        columns += [column.is_null(), column]
        types += [BOOLEAN, value.type]
    return xxhash64(columns, types)


def xxhash64(columns: Sequence[pa.Array], types: Sequence[Type]) -> Hashes:
    """Return the hash of each row of arrays with these types."""
    hashes = np.full(len(columns[0]), _SEED, np.uint64)
    with np.errstate(over="ignore"):
        for column, type_ in zip(columns, types, strict=True):
            null = column.is_null().to_numpy(zero_copy_only=False)
            hashes = np.where(null, hashes, _hashed(column, type_, hashes))
    return hashes


def _hashed(column: pa.Array, type_: Type, seed: Hashes) -> Hashes:
    if type_.name in TEXTS | _BYTES:
        return _bytes(column.cast(pa.binary()).to_pylist(), seed)
    if type_.name in FLOATS:
        return _float(column, seed)
    if pa.types.is_decimal(column.type):
        digits = unscaled(column)
        return _bytes(digits, seed) if isinstance(digits, list) else _long(digits, seed)
    if type_.name in INTS:
        return _int(numbers(column, pa.int32()).view(np.uint32), seed)
    return _long(numbers(column, pa.int64()).view(np.uint64), seed)


def _bytes(values: Sequence[bytes | None], seed: Hashes) -> Hashes:
    digests = map(xxhash.xxh64_intdigest, (value or b"" for value in values), seed.tolist())
    return np.fromiter(digests, np.uint64, len(values))


def _int(value: NDArray[np.uint32], seed: Hashes) -> Hashes:
    return _end(_rotated(seed + _P5 + np.uint64(4) ^ value.astype(np.uint64) * _P1, 23) * _P2 + _P3)


def _long(value: NDArray[np.uint64], seed: Hashes) -> Hashes:
    return _end(_rotated(seed + _P5 + np.uint64(8) ^ _rotated(value * _P2, 31) * _P1, 27) * _P1 + _P4)


def _float(column: pa.Array, seed: Hashes) -> Hashes:
    values = np.ascontiguousarray(pc.fill_null(_normal(column), 0).to_numpy(zero_copy_only=False))
    if column.type == pa.float32():
        return _int(values.view(np.uint32), seed)
    return _long(values.view(np.uint64), seed)


def _end(hash_: Hashes) -> Hashes:
    hash_ = (hash_ ^ hash_ >> np.uint64(33)) * _P2
    hash_ = (hash_ ^ hash_ >> np.uint64(29)) * _P3
    return hash_ ^ hash_ >> np.uint64(32)


def _rotated(values: Hashes, by: int) -> Hashes:
    return values << np.uint64(by) | values >> np.uint64(64 - by)
