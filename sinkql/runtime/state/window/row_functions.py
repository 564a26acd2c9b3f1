"""Window functions that give the value of another row of the key or the frame."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.window.frame import stretches
from sinkql.runtime.state.window.registry import CountError, over
from sinkql.runtime.state.window.rows import Counted, Rows, counted


@over("lag")
def lag(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value so many rows before, as a constant says, or the column behind that of the value.

    Where no row is it is the next column's, or NULL; and NULL for a number of rows that is NULL.
    """
    return _beside(rows, call, -1)


@over("lead")
def lead(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value so many rows behind, as `lag` does."""
    return _beside(rows, call, 1)


def _beside(rows: Rows, call: physical.WindowCall, sign: int) -> pa.Array:
    (value, *more), offset = map(rows.column, call.columns), counted(rows, call, 1)
    default = more if call.constants else more[1:]
    place = np.arange(len(rows)) + sign * offset.numbers
    there = (place >= rows.first) & (place < rows.last) & offset.known
    found = _taken(value, place, there)
    if not default:
        return found
    return pc.if_else(pa.array(there | ~offset.known), found, default[0].cast(value.type))


@over("first_value")
def first_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return _nth(rows, call, Counted(np.ones(len(rows), np.int64), np.ones(len(rows), np.bool_)))


@over("nth_value")
def nth_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value of the row of the frame of a number, a constant or the column behind; NULL for fewer rows."""
    number = counted(rows, call, 1)
    if (number.numbers[number.known] < 1).any():
        raise CountError
    return _nth(rows, call, number)


@over("last_value")
def last_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    place, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for begin, end in stretches(rows, call):
        some = begin < end
        place[some] = end[some] - 1
        there |= some
    return _taken(rows.column(call.columns[0]), place, there)


def _nth(rows: Rows, call: physical.WindowCall, number: Counted) -> pa.Array:
    place, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    left = number.numbers.copy()
    for begin, end in stretches(rows, call):
        here = ~there & (left <= end - begin) & number.known
        place[here] = (begin + left - 1)[here]
        there |= here
        left -= end - begin
    return _taken(rows.column(call.columns[0]), place, there)


def _taken(values: pa.Array, place: Ints, there: NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.where(there, place, 0), mask=~there))
