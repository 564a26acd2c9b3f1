"""Window functions of a row's place in its key, and of the values of other rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.window.compute import CountError, over
from sinkql.runtime.state.window.frame import stretches
from sinkql.runtime.state.window.rows import Counted, Rows, counted


@over("lag")
def lag(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value of an earlier row, by a constant number of rows or by the column after the value.

    For a missing row it is the value of the next column, or NULL; and NULL if the number of rows is NULL.
    """
    return _beside(rows, call, -1)


@over("lead")
def lead(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value of a later row, like `lag`."""
    return _beside(rows, call, 1)


def _beside(rows: Rows, call: physical.WindowCall, sign: int) -> pa.Array:
    (value, *more), offset = map(rows.column, call.columns), counted(rows, call, 1)
    default = more if call.constants else more[1:]
    place = np.arange(len(rows)) + sign * offset.numbers
    there = (place >= rows.first) & (place < rows.last) & offset.valid
    moved = _take_there(value, place, there)
    if not default:
        return moved
    return pc.if_else(pa.array(there | ~offset.valid), moved, default[0].cast(value.type))


@over("first_value")
def first_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return _nth(rows, call, Counted(np.ones(len(rows), np.int64), np.ones(len(rows), np.bool_)))


@over("nth_value")
def nth_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value of the frame's n-th row, by a constant or the next column; NULL for fewer rows."""
    number = counted(rows, call, 1)
    if (number.numbers[number.valid] < 1).any():
        raise CountError
    return _nth(rows, call, number)


@over("last_value")
def last_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    place, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for begin, end in stretches(rows, call):
        some = begin < end
        place[some] = end[some] - 1
        there |= some
    return _take_there(rows.column(call.columns[0]), place, there)


def _nth(rows: Rows, call: physical.WindowCall, number: Counted) -> pa.Array:
    place, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    left = number.numbers.copy()
    for begin, end in stretches(rows, call):
        here = ~there & (left <= end - begin) & number.valid
        place[here] = (begin + left - 1)[here]
        there |= here
        left -= end - begin
    return _take_there(rows.column(call.columns[0]), place, there)


def _take_there(values: pa.Array, place: Ints, there: NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.where(there, place, 0), mask=~there))


@over("row_number")
def row_number(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return pa.array(_place(rows) + 1)


@over("rank")
def rank(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return pa.array(rows.peers_first - rows.first + 1)


@over("dense_rank")
def dense_rank(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return pa.array(rows.peer - rows.peer[rows.first] + 1)


@over("percent_rank")
def percent_rank(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return (rank - 1) / (rows - 1), 0 for a single row."""
    others = rows.last - rows.first - 1
    return pa.array((rows.peers_first - rows.first) / np.maximum(others, 1))


@over("cume_dist")
def cume_dist(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the share of the key's rows that precede the row or are its peers."""
    return pa.array((rows.peers_last - rows.first) / (rows.last - rows.first))


@over("ntile")
def ntile(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the number of a row's part; the first parts have one row more if necessary.

    The number of parts is a constant, or the first value of a column in the key that is not NULL. Rows before that one
    have no part.
    """
    number = counted(rows, call, 0)
    with_number = np.flatnonzero(number.valid)
    firsts = np.full(rows.count, len(rows))
    np.minimum.at(firsts, rows.owner[with_number], with_number)
    first = firsts[rows.owner]
    place = np.arange(len(rows)) - first
    there = place >= 0
    parts = np.where(there, number.numbers[np.where(there, first, 0)], 1)
    if (parts < 1).any():
        raise CountError
    size = rows.last - rows.first
    small, large = size // parts, size % parts
    ahead = large * (small + 1)
    behind = large + (place - ahead) // np.maximum(small, 1)
    return pa.array(np.where(place < ahead, place // (small + 1), behind) + 1, mask=~there)


def _place(rows: Rows) -> Ints:
    places: Ints = np.arange(len(rows)) - rows.first
    return places
