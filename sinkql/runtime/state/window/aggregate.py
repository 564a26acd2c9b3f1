"""Aggregates over frames: exact for integers and decimals, and in a fixed order for floats."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arithmetic import SumOverflowError
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.sort_key import sort_keys
from sinkql.runtime.state.window.compute import over
from sinkql.runtime.state.window.frame import Stretch, stretches
from sinkql.runtime.state.window.rows import Mask, Rows

_SAFE = 1 << 62
_EXACT = Context(prec=100)


@over("count")
def count(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the number of rows in the frame; with a column, of rows whose value is not NULL."""
    return pa.array(_counted(_there(rows, call), stretches(rows, call)))


@over("sum")
def total(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the sum of the frame's values, NULL if all are NULL; raises SumOverflowError."""
    values, there, frame = rows.column(call.columns[0]), _there(rows, call), stretches(rows, call)
    none = _counted(there, frame) == 0
    if pa.types.is_floating(values.type):
        return pa.array(_float_sums(values, there, rows, frame), mask=none)
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    summed = _sums(_summands(values, scale), frame)
    if not pa.types.is_decimal(values.type) and summed.dtype != object:
        return pa.array(summed, mask=none)
    exact = [None if empty else int(each) for each, empty in zip(summed, none, strict=True)]
    try:
        if not pa.types.is_decimal(values.type):
            return pa.array(exact, pa.int64())
        decimals = [None if each is None else Decimal(each).scaleb(-scale, _EXACT) for each in exact]
        return pa.array(decimals, pa.decimal128(38, scale))
    except (OverflowError, pa.ArrowInvalid) as error:
        raise SumOverflowError from error


@over("min")
def least(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return _extreme(rows, call, low=True)


@over("max")
def greatest(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return _extreme(rows, call, low=False)


def _there(rows: Rows, call: physical.WindowCall) -> Mask:
    if not call.columns:
        return np.ones(len(rows), np.bool_)
    found: Mask = rows.column(call.columns[0]).is_valid().to_numpy(zero_copy_only=False)
    return found


def _counted(there: Mask, frame: Sequence[Stretch]) -> Ints:
    found: Ints = _sums(there.astype(np.int64), frame)
    return found


def _summands(values: pa.Array, scale: int) -> NDArray[Any]:
    """Return integers: int64, or Python's if their sum may not fit."""
    if not pa.types.is_decimal(values.type):
        found: NDArray[Any] = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        exact = [0 if value is None else int(value.scaleb(scale, _EXACT)) for value in values.to_pylist()]
        found = np.array(exact, object)
    if found.dtype == object:
        large = sum(map(abs, found.tolist())) >= _SAFE
        return found if large else found.astype(np.int64)
    large = bool(np.abs(found.astype(np.float64)).sum() >= _SAFE)
    return found.astype(object) if large else found


def _sums(summands: NDArray[Any], frame: Sequence[Stretch]) -> NDArray[Any]:
    running = np.append(np.zeros(1, summands.dtype), np.cumsum(summands)) if len(summands) else summands[:0]
    found = np.zeros(len(summands), summands.dtype)
    for begin, end in frame:
        if len(summands):
            found = found + running[end] - running[begin]
    return found


def _float_sums(values: pa.Array, there: Mask, rows: Rows, frame: Sequence[Stretch]) -> NDArray[np.float64]:
    """Return sums that depend only on the contents of a frame, unlike a difference of running sums."""
    numbers = np.where(there, values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False), 0.0)
    found = np.zeros(len(rows))
    with np.errstate(all="ignore"):
        ((begin, end), *more) = frame
        if not more and bool((begin == rows.first).all()):
            for low, high in zip(rows.begins.tolist(), rows.ends.tolist(), strict=True):
                running = np.append(0.0, np.cumsum(numbers[low:high]))
                found[low:high] = running[end[low:high] - low]
            return found
        for place in range(len(rows)):
            parts = [numbers[low[place] : high[place]] for low, high in frame]
            found[place] = np.concatenate(parts).cumsum()[-1] if any(map(len, parts)) else 0.0
    return found


def _extreme(rows: Rows, call: physical.WindowCall, *, low: bool) -> pa.Array:
    """Return the least or greatest value of each frame, by a table for stretches of 2, 4, 8 … rows."""
    name = call.columns[0]
    there = _there(rows, call)
    places = _places_in_order(rows, name, low=low)
    found = np.full(len(rows), len(rows), np.int64)
    best = np.where(there, places, len(rows))
    frame = stretches(rows, call)
    longest = max((int((end - begin).max(initial=0)) for begin, end in frame), default=0)
    width = 1
    while width <= longest:
        for begin, end in frame:
            some = np.flatnonzero((end - begin >= width) & (end - begin < 2 * width))
            pair = np.minimum(best[begin[some]], best[end[some] - width])
            found[some] = np.minimum(found[some], pair)
        best = np.minimum(best, np.append(best[width:], np.full(min(width, len(best)), len(rows))))
        width *= 2
    none = found == len(rows)
    by_place = np.zeros(len(rows), np.int64)
    by_place[places] = np.arange(len(rows))
    if not len(rows):
        return rows.column(name)
    return rows.column(name).take(pa.array(by_place[np.where(none, 0, found)], mask=none))


def _places_in_order(rows: Rows, name: str, *, low: bool) -> Ints:
    """Return each row's place among all rows by its value, the wanted extreme first."""
    keys = sort_keys(rows.table, [(physical.Order(name, descending=not low), name)])
    found = np.empty(len(rows), np.int64)
    found[np.lexsort((np.arange(len(rows)), *reversed(keys)))] = np.arange(len(rows))
    return found
