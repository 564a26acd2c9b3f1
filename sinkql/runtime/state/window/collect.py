"""Aggregates over all rows of a key in an order: one value a key."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.runtime.state.window import aggregate
from sinkql.runtime.state.window.registry import collects
from sinkql.runtime.state.window.rows import Rows

_ALL = physical.Frame("rows", physical.FrameBound(None), physical.FrameBound(None))


@collects("count")
def count(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return how many rows there are, of those whose value is not NULL where it has a column."""
    return _whole(rows, call, aggregate.count).fill_null(0)


@collects("sum")
def total(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the sum, NULL where all are NULL; SumOverflowError where it does not fit."""
    return _whole(rows, call, aggregate.total)


@collects("min")
def least(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the least value, NULL where all are NULL."""
    return _whole(rows, call, aggregate.least)


@collects("max")
def greatest(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the greatest value, NULL where all are NULL."""
    return _whole(rows, call, aggregate.greatest)


@collects("string_agg")
def joined(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the texts with the constant between them, without those that are NULL; NULL where all are."""
    (between,) = call.constants
    texts = _of_keys(rows, call)
    some = ([text for text in each if text is not None] for each in texts)
    return pa.array([between.join(each) if each else None for each in some], pa.string())


@collects("array_agg")
def listed(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the values, NULLs among them; NULL where there are no rows."""
    values = rows.column(call.columns[0])
    return pa.array([each or None for each in _of_keys(rows, call)], pa.list_(values.type))


@collects("bit_and")
def in_all(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the bits that are set in all values, NULL where all are NULL."""
    return _of_bits(rows, call, operator.and_)


@collects("bit_or")
def in_any(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the bits that are set in any value, NULL where all are NULL."""
    return _of_bits(rows, call, operator.or_)


@collects("bit_xor")
def in_odd(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the bits that are set in an odd number of values, NULL where all are NULL."""
    return _of_bits(rows, call, operator.xor)


def _of_bits(rows: Rows, call: physical.WindowCall, of: Callable[[int, int], int]) -> pa.Array:
    some = ([value for value in each if value is not None] for each in _of_keys(rows, call))
    return pa.array([functools.reduce(of, each) if each else None for each in some], pa.int64())


def _of_keys(rows: Rows, call: physical.WindowCall) -> list[list[Any]]:
    values = rows.column(call.columns[0]).to_pylist()
    return [values[begin:end] for begin, end in zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)]


def _whole(rows: Rows, call: physical.WindowCall, over: Callable[[Rows, physical.WindowCall], pa.Array]) -> pa.Array:
    """Return what a window function gives over all rows of each key, NULL for one without rows."""
    values = over(rows, msgspec.structs.replace(call, frame=_ALL))
    empty = rows.begins == rows.ends
    if not len(rows):
        return pa.nulls(rows.count, values.type)
    return values.take(pa.array(np.where(empty, 0, rows.begins), pa.int64(), mask=empty))
