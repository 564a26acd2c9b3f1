"""Sums, extremes and comparisons of Arrow columns and of groups of rows, exact for every type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql.runtime.state.arrangement import Ints, grouped
from sinkql.runtime.state.run import Keys, ints, one_chunk

_SAFE = float(1 << 62)


class SumOverflowError(ArithmeticError):
    """A sum does not fit its type."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The groups of a table's rows, sorted by hash: each group's `first` row, and every row's group (`index`)."""

    keys: Keys
    hashes: Ints
    first: Ints
    index: Ints

    @property
    def count(self) -> int:
        return len(self.first)

    @property
    def single(self) -> bool:
        """Return whether every group has exactly one row."""
        return len(self.first) == len(self.index)


def group(keys: Keys, hashes: Ints) -> RowGroups:
    """Return the groups of rows with these hashes."""
    order, starts = grouped(keys, hashes)
    begins = np.zeros(len(order), np.int64)
    begins[starts[1:]] = 1
    index = np.empty(len(order), np.int64)
    index[order] = np.cumsum(begins)
    first = order[starts]
    return RowGroups(keys[first], hashes[first], first, index)


def total(values: pa.Array, index: Ints, count: int) -> pa.Array:
    """Return the sum of the values of each of `count` groups, 0 for a group without rows; no value may be NULL."""
    if pa.types.is_decimal(values.type):
        return _decimal_total(values, index, count)
    if pa.types.is_floating(values.type):
        return _float_total(values.to_numpy(zero_copy_only=False), index, count)
    summands = ints(values)
    # wraps silently if the sum of magnitudes is too great, so that the exact way below is needed
    if len(summands) and np.bincount(index, np.abs(summands.astype(np.float64))).max() > _SAFE:
        wide = _decimal_total(values.cast(pa.decimal128(19, 0)), index, count)
        return _cast(wide, pa.int64())
    sums = np.zeros(count, np.int64)
    np.add.at(sums, index, summands)
    return pa.array(sums)


def _float_total(values: NDArray[np.float64], index: Ints, count: int) -> pa.Array:
    sums = np.bincount(index, values, count).astype(np.float64)
    infinite = np.bincount(index, np.isinf(values), count) > 0
    if bool((np.isinf(sums) & ~infinite).any()):
        raise SumOverflowError
    return pa.array(sums)


def _decimal_total(values: pa.Array, index: Ints, count: int) -> pa.Array:
    scale = values.type.scale
    wide = pa.decimal256(76, scale)
    table = pa.table({"group": pa.array(index), "value": values.cast(wide)})
    sums = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
    scattered = _scatter(sums.column("value_sum"), ints(sums.column("group")), count)
    return _cast(pc.fill_null(scattered, _zero(sums.column("value_sum").type)), pa.decimal128(38, scale))


def add(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the sums in the operands' common type; raises SumOverflowError."""
    return _combine(left, right, pc.add_checked)


def subtract(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the differences in the operands' common type; raises SumOverflowError."""
    return _combine(left, right, pc.subtract_checked)


def _combine(left: pa.Array, right: pa.Array, function: Callable[[pa.Array, pa.Array], pa.Array]) -> pa.Array:
    try:
        if pa.types.is_decimal(left.type):
            # the sum of two numbers of 38 digits may have 39: the cast back reports it
            wide = pa.decimal256(39, left.type.scale)
            return _cast(function(left.cast(wide), right.cast(wide)), left.type)
        result = function(left, right)
    except pa.ArrowInvalid as error:
        raise SumOverflowError from error
    if pa.types.is_floating(left.type):
        overflowed = pc.and_(pc.is_inf(result), pc.and_(pc.is_finite(left), pc.is_finite(right)))
        if pc.any(overflowed).as_py():
            raise SumOverflowError
    return result


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise SumOverflowError from error


def zeros(type_: pa.DataType, count: int) -> pa.Array:
    """Return `count` zeros of a numeric type."""
    return pa.repeat(_zero(type_), count)


def _zero(type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(type_) else 0, type_)


def unlike(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    """Return for each row whether two columns differ; NULL equals NULL, and NaN equals NaN."""
    if pa.types.is_nested(left.type):
        return _unlike_nested(left, right)
    nulls = pc.xor(pc.is_null(left), pc.is_null(right))
    differ = pc.not_equal(left, right)
    if pa.types.is_floating(left.type):
        differ = pc.and_not(differ, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    mask: NDArray[np.bool_] = np.asarray(pc.or_(nulls, pc.fill_null(differ, False)))
    return mask


def _unlike_nested(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    """Compare arrays and records by their contents."""
    mask: NDArray[np.bool_] = np.asarray(pc.xor(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_struct(left.type):
        for before, after in zip(left.flatten(), right.flatten(), strict=True):
            mask |= unlike(before, after)
        return mask
    mask |= unlike(pc.list_value_length(left), pc.list_value_length(right))
    open_ = np.flatnonzero(~mask & np.asarray(pc.is_valid(left)))
    sides = [one_chunk(side.take(pa.array(open_))) for side in (left, right)]
    elements = unlike(*(side.flatten() for side in sides))
    owner = np.repeat(open_, pc.list_value_length(sides[0]).to_numpy(zero_copy_only=False).astype(np.int64))
    mask[owner[elements]] = True
    return mask


def ordered(values: pa.Array) -> pa.Array:
    """Return floats as integers of the same order, NaN greatest; other types unchanged. Zeros must be positive.

    On integers the function is its own inverse; see `restored`.
    """
    if not pa.types.is_floating(values.type):
        return values
    return _flip(values.view(ordered_type(values.type)))


def restored(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the argument of `ordered`, which had this type."""
    return _flip(values).view(type_) if pa.types.is_floating(type_) else values


def ordered_type(type_: pa.DataType) -> pa.DataType:
    """Return the result type of `ordered`."""
    if not pa.types.is_floating(type_):
        return type_
    return pa.int64() if type_ == pa.float64() else pa.int32()


def _flip(bits: pa.Array) -> pa.Array:
    magnitude = pa.scalar((1 << (bits.type.bit_width - 1)) - 1, bits.type)
    return pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, magnitude), bits)


def extreme(values: pa.Array, index: Ints, count: int, *, low: bool) -> pa.Array:
    """Return the least or greatest value of each of `count` groups, NULL for a group without values."""
    if pa.types.is_integer(values.type):
        return _integer_extreme(values, index, count, low=low)
    if (bits := _INTEGERS.get(values.type.id)) is not None:
        return _integer_extreme(values.view(bits), index, count, low=low).view(values.type)
    function = "min" if low else "max"
    table = pa.table({"group": pa.array(index), "value": values})
    extremes = table.group_by("group", use_threads=False).aggregate([("value", function)])
    return _scatter(extremes.column(f"value_{function}"), ints(extremes.column("group")), count)


_INTEGERS = {
    pa.date32().id: pa.int32(),
    pa.time64("us").id: pa.int64(),
    pa.timestamp("us").id: pa.int64(),
}
"""The types whose values are ordered like the integers that store them."""


def _integer_extreme(values: pa.Array, index: Ints, count: int, *, low: bool) -> pa.Array:
    """Return the same as `extreme` for integers, without a hash table of the groups."""
    if values.null_count:
        present = np.flatnonzero(values.is_valid())
        index, numbers = index[present], values.drop_null().to_numpy()
    else:
        numbers = values.to_numpy()
    limits = np.iinfo(numbers.dtype)
    extremes = np.full(count, limits.max if low else limits.min, numbers.dtype)
    (np.minimum if low else np.maximum).at(extremes, index, numbers)
    missing = np.ones(count, np.bool_)
    missing[index] = False
    return pa.array(extremes, values.type, mask=missing)


def better(left: pa.Array, right: pa.Array, *, low: bool) -> pa.Array:
    """Return the lesser or greater of two columns row by row; any value wins over NULL."""
    wins = (pc.less_equal if low else pc.greater_equal)(left, right)
    return pc.if_else(pc.fill_null(wins, pc.is_null(right)), left, right)


def _scatter(values: pa.ChunkedArray, places: Ints, count: int) -> pa.Array:
    position = np.zeros(count, np.int64)
    missing = np.ones(count, np.bool_)
    position[places] = np.arange(len(places))
    missing[places] = False
    return one_chunk(values).take(pa.array(position, mask=missing))
