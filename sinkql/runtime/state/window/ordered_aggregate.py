"""Aggregates over all rows of a key in an order: one value per key."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.evaluate.json import object_text
from sinkql.runtime.state.window import aggregate
from sinkql.runtime.state.window.compute import collects
from sinkql.runtime.state.window.rows import Rows

_ALL = physical.Frame("rows", physical.FrameBound(None), physical.FrameBound(None))


@collects("count")
def count(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the number of rows; with a column, of rows whose value is not NULL."""
    return _whole(rows, call, aggregate.count).fill_null(0)


@collects("sum")
def total(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the sum, NULL if all values are NULL; raises SumOverflowError."""
    return _whole(rows, call, aggregate.total)


@collects("min")
def least(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the least value, NULL if all are NULL."""
    return _whole(rows, call, aggregate.least)


@collects("max")
def greatest(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the greatest value, NULL if all are NULL."""
    return _whole(rows, call, aggregate.greatest)


@collects("string_agg")
def joined(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the texts joined by the constant, without NULLs; NULL if all are NULL."""
    (between,) = call.constants
    texts = _of_keys(rows, call)
    some = ([text for text in each if text is not None] for each in texts)
    return pa.array([between.join(each) if each else None for each in some], pa.string())


@collects("array_agg")
def listed(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the values, including NULLs, of rows that pass the condition, if any; NULL for no rows."""
    name, *condition = call.columns
    type_ = rows.column(name).type
    if condition:
        rows = rows.where(rows.column(condition[0]).fill_null(False))
    return pa.array([key or None for key in _of_keys(rows, call)], pa.list_(type_))


@collects("jsonb_agg")
def elements(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return an array of the texts of values, without NULLs; NULL if all are NULL."""
    some = ([text for text in key if text is not None] for key in _of_keys(rows, call))
    return pa.array([f"[{', '.join(each)}]" if each else None for each in some], pa.string())


@collects("jsonb_object_agg")
def members(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return an object of the texts of values by key, the last one for each key; NULL if no row has a key."""
    keys, values = (_of_keys(rows, call, place) for place in (0, 1))
    pairs = (
        {key: text for key, text in zip(*each, strict=True) if key is not None}
        for each in zip(keys, values, strict=True)
    )
    return pa.array([object_text(pair) if pair else None for pair in pairs], pa.string())


@collects("percentile_cont")
def between(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the interpolated value at a fraction between the first and the last, in order; NULL for no values."""
    return _at_fractions(rows, call, _between)


@collects("percentile_disc")
def reached(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the first value, in order, at or above a fraction of all values; NULL for no values."""
    return _at_fractions(rows, call, lambda fraction, values: values[max(1, math.ceil(fraction * len(values))) - 1])


@collects("mode")
def most_frequent(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the most frequent value, the first of several in order; NULL for no values."""
    rows = rows.where(rows.column(call.columns[0]).is_valid())
    values = rows.column(call.columns[0])
    begins, ends = rows.peers
    owners = rows.owner[begins]
    order = np.lexsort((begins, begins - ends, owners))
    first = order[np.flatnonzero(np.diff(owners[order], prepend=-1))]
    places = np.zeros(rows.count, np.int64)
    places[owners[first]] = begins[first]
    if not len(rows):
        return pa.nulls(rows.count, values.type)
    return values.take(pa.array(places, mask=rows.begins == rows.ends))


def _at_fractions(rows: Rows, call: physical.WindowCall, at: Callable[[float, list[Any]], Any]) -> pa.Array:
    fractions = [*map(float, call.constants)]
    several = rows.column(call.columns[0]).type != arrow_type(call.type)
    rows = rows.where(rows.column(call.columns[0]).is_valid())
    found: list[Any] = []
    for values in _of_keys(rows, call):
        of_each = [at(fraction, values) for fraction in fractions] if values else None
        found.append(of_each if several or of_each is None else of_each[0])
    return pa.array(found, arrow_type(call.type))


def _between(fraction: float, values: list[float]) -> float:
    place = fraction * (len(values) - 1)
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return low if place == math.floor(place) else low + (place - math.floor(place)) * (high - low)


@collects("bit_and")
def in_all(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the bits that are set in all values, NULL if all are NULL."""
    return _of_bits(rows, call, operator.and_)


@collects("bit_or")
def in_any(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the bits that are set in any value, NULL if all are NULL."""
    return _of_bits(rows, call, operator.or_)


@collects("bit_xor")
def in_odd(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the bits that are set in an odd number of values, NULL if all are NULL."""
    return _of_bits(rows, call, operator.xor)


def _of_bits(rows: Rows, call: physical.WindowCall, of: Callable[[int, int], int]) -> pa.Array:
    some = ([value for value in key if value is not None] for key in _of_keys(rows, call))
    return pa.array([functools.reduce(of, each) if each else None for each in some], pa.int64())


def _of_keys(rows: Rows, call: physical.WindowCall, place: int = 0) -> list[list[Any]]:
    values = rows.column(call.columns[place]).to_pylist()
    return [values[begin:end] for begin, end in zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)]


def _whole(rows: Rows, call: physical.WindowCall, over: Callable[[Rows, physical.WindowCall], pa.Array]) -> pa.Array:
    """Return a window function's result over all rows of each key, NULL for a key without rows."""
    values = over(rows, msgspec.structs.replace(call, frame=_ALL))
    empty = rows.begins == rows.ends
    if not len(rows):
        return pa.nulls(rows.count, values.type)
    return values.take(pa.array(np.where(empty, 0, rows.begins), pa.int64(), mask=empty))
