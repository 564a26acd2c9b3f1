"""Window functions that give the value of another row of the key or the frame."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.window.frame import stretches
from sinkql.runtime.state.window.registry import over
from sinkql.runtime.state.window.rows import Rows

_FAR = 1 << 40


@over("lag")
def lag(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value so many rows before, as its constant says; its second column, or NULL, where none is."""
    return _beside(rows, call, -_offset(call))


@over("lead")
def lead(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value so many rows behind, as `lag` does."""
    return _beside(rows, call, _offset(call))


def _offset(call: physical.WindowCall) -> int:
    return max(-_FAR, min(int(call.constants[0]), _FAR))


def _beside(rows: Rows, call: physical.WindowCall, offset: int) -> pa.Array:
    value, *default = (rows.column(name) for name in call.columns)
    place = np.arange(len(rows)) + offset
    there = (place >= rows.first) & (place < rows.last)
    found = _taken(value, place, there)
    return pc.if_else(pa.array(there), found, default[0].cast(value.type)) if default else found


@over("first_value")
def first_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    return _nth(rows, call, 1)


@over("nth_value")
def nth_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the value of the row of the frame whose number is the constant; NULL where there are fewer."""
    return _nth(rows, call, min(int(call.constants[0]), _FAR))


@over("last_value")
def last_value(rows: Rows, call: physical.WindowCall) -> pa.Array:
    place, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for begin, end in stretches(rows, call):
        some = begin < end
        place[some] = end[some] - 1
        there |= some
    return _taken(rows.column(call.columns[0]), place, there)


def _nth(rows: Rows, call: physical.WindowCall, number: int) -> pa.Array:
    place, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    left = np.full(len(rows), number)
    for begin, end in stretches(rows, call):
        here = ~there & (left <= end - begin)
        place[here] = (begin + left - 1)[here]
        there |= here
        left -= end - begin
    return _taken(rows.column(call.columns[0]), place, there)


def _taken(values: pa.Array, place: Ints, there: NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.where(there, place, 0), mask=~there))
