"""The rows in each row's frame, as stretches of places, including the offsets of RANGE frames.

An offset is a number, or an interval as its months, days and microseconds, separated by spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arithmetic import ordered
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.window.rows import Rows

Stretch = tuple[Ints, Ints]
"""For each row, the start of a stretch and its end (exclusive); they are equal if the stretch is empty."""

DEFAULT = physical.Frame()


def stretches(rows: Rows, call: physical.WindowCall) -> Sequence[Stretch]:
    """Return the stretches of a call's frame, in their order; without EXCLUDE there is one."""
    frame = call.frame or DEFAULT
    first, last = rows.first, rows.last
    match frame.unit:
        case "rows":
            begin, end = _by_rows(rows, frame)
        case "groups":
            begin, end = _by_groups(rows, frame)
        case "range":
            begin, end = _by_range(rows, frame, call.order)
    begin = np.clip(begin, first, last)
    end = np.maximum(np.clip(end, first, last), begin)
    return _without(rows, frame.exclude, begin, end)


def _by_rows(rows: Rows, frame: physical.Frame) -> Stretch:
    place = np.arange(len(rows))
    begin, end = (None if bound.offset is None else _whole(bound.offset) for bound in (frame.start, frame.end))
    return rows.first if begin is None else place + begin, rows.last if end is None else place + end + 1


def _by_groups(rows: Rows, frame: physical.Frame) -> Stretch:
    begins, ends = rows.peers
    begin, end = rows.first, rows.last
    if frame.start.offset is not None:
        begin = _at(rows, _whole(frame.start.offset), begins)
    if frame.end.offset is not None:
        end = _at(rows, _whole(frame.end.offset), ends)
    return begin, end


def _at(rows: Rows, offset: int, bounds: Ints) -> Ints:
    """Return the bound of the peers `offset` groups away; if they do not exist, the end of the key's rows."""
    if not len(rows):
        return np.zeros(0, np.int64)
    group = rows.peer + offset
    lowest, highest = rows.peer[rows.first], rows.peer[rows.last - 1]
    at_bound = bounds[np.clip(group, lowest, highest)]
    return np.where(group < lowest, rows.first, np.where(group > highest, rows.last, at_bound))


def _by_range(rows: Rows, frame: physical.Frame, order: Sequence[physical.Order]) -> Stretch:
    begin, end = rows.first, rows.last
    if frame.start.offset is not None:
        begin = moved(rows, order, frame.start.offset, end=False) if frame.start.offset else rows.peers_first
    if frame.end.offset is not None:
        end = moved(rows, order, frame.end.offset, end=True) if frame.end.offset else rows.peers_last
    return begin, end


def _whole(offset: int | str) -> int:
    # a number of rows above all possible ones, so that no sum is out of range
    return max(-(1 << 40), min(int(offset), 1 << 40))


def _without(rows: Rows, exclude: str, begin: Ints, end: Ints) -> Sequence[Stretch]:
    place = np.arange(len(rows))
    match exclude:
        case "current row":
            gap = [(place, place + 1)]
        case "group":
            gap = [(rows.peers_first, rows.peers_last)]
        case "ties":
            gap = [(rows.peers_first, place), (place + 1, rows.peers_last)]
        case _:
            return [(begin, end)]
    parts = []
    for low, high in gap:
        parts.append((begin, np.clip(low, begin, end)))
        begin = np.clip(high, begin, end)
    return [*parts, (begin, end)]


_DAY = 86_400_000_000
_SAFE = 1 << 62
_EXACT = Context(prec=200)
Numbers = NDArray[Any]
"""Integers: int64, or Python's if int64 is too small."""


def moved(rows: Rows, order: Sequence[physical.Order], offset: int | str, *, end: bool) -> Ints:
    """Return the start or end of the frame that extends `offset` from each row's value, backwards for < 0.

    The frame of a row with a NULL value is its peers.
    """
    (term,) = order
    values = rows.column(term.column)
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    here, there = _numbers(values, str(offset), end=end, back=term.descending)
    if term.descending:
        here, there = _backwards(here), _backwards(there)
    low, high = rows.first, rows.last
    missing = np.bincount(rows.owner, nulls, rows.count).astype(np.int64)[rows.owner]
    low, high = (low + missing, high) if term.nulls_first else (low, high - missing)
    at_value = _search(here, there, low, high, behind=end)
    return np.where(nulls, rows.peers_last if end else rows.peers_first, at_value)


def _numbers(values: pa.Array, offset: str, *, end: bool, back: bool) -> tuple[Numbers, Numbers]:
    """Return integers that sort like the values, and like the values `offset` away; upward if `back`."""
    type_ = values.type
    if pa.types.is_floating(type_):
        return _floats(values.cast(pa.float64()), -float(offset) if back else float(offset))
    if pa.types.is_temporal(type_):
        return _instants(values, offset, back=back)
    numbers = _integers(values)
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    distance = Decimal(offset).scaleb(scale, _EXACT)
    whole = int(distance.to_integral_value(ROUND_FLOOR if end else ROUND_CEILING))
    if numbers.dtype != object and _large(numbers, whole):
        numbers = numbers.astype(object)
    return numbers, numbers + (-whole if back else whole)


def _integers(values: pa.Array) -> Numbers:
    if not pa.types.is_decimal(values.type):
        numbers: Numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers
    scale = values.type.scale
    exact = [0 if value is None else int(value.scaleb(scale, _EXACT)) for value in values.to_pylist()]
    large = max(map(abs, exact), default=0) >= _SAFE
    return np.array(exact, object if large else np.int64)


def _large(numbers: Numbers, offset: int) -> bool:
    most = max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0
    return most + abs(offset) >= _SAFE


def _floats(values: pa.Array, offset: float) -> tuple[Numbers, Numbers]:
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        pair = (numbers + 0.0, numbers + offset + 0.0)
    here, there = (ordered(pa.array(side)).to_numpy(zero_copy_only=False) for side in pair)
    return here, there


def _backwards(numbers: Numbers) -> Numbers:
    """Return integers in reverse order; unlike negation, ~ works for each of them."""
    return -numbers if numbers.dtype == object else ~numbers


def _instants(values: pa.Array, offset: str, *, back: bool) -> tuple[Numbers, Numbers]:
    """Return microseconds."""
    months, days, micros = (-int(part) if back else int(part) for part in offset.split())
    if pa.types.is_date(values.type):
        here = values.view(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) * _DAY
    else:
        here = values.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_time(values.type):
        return here, here + micros
    return here, _in_months(here, months) + days * _DAY + micros


def _in_months(micros: Ints, months: int) -> Ints:
    """Return the same days of other months, or their last days."""
    if not months:
        return micros
    day, time = np.divmod(micros, _DAY)
    month = day.astype("datetime64[D]").astype("datetime64[M]")
    later = month + np.timedelta64(months, "M")
    begin = later.astype("datetime64[D]").astype(np.int64)
    length = (later + np.timedelta64(1, "M")).astype("datetime64[D]").astype(np.int64) - begin
    of_month = day - month.astype("datetime64[D]").astype(np.int64)
    shifted: Ints = (begin + np.minimum(of_month, length - 1)) * _DAY + time
    return shifted


def _search(here: Numbers, there: Numbers, low: Ints, high: Ints, *, behind: bool) -> Ints:
    """Return the first place from `low` to `high` not below a row's number in `there`, or above it if `behind`."""
    low, high = low.copy(), high.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) // 2
        wanted = there[open_]
        before = (here[middle] <= wanted if behind else here[middle] < wanted).astype(np.bool_)
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
    return low
