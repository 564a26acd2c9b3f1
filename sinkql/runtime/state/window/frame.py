"""A frame → the rows that each row has in it, as stretches of places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.window.distance import moved
from sinkql.runtime.state.window.rows import Rows

Stretch = tuple[Ints, Ints]
"""For each row where a stretch begins, and where it ends: behind its last place, or where it begins if it is empty."""

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
    begin, end = (None if each.offset is None else _whole(each.offset) for each in (frame.start, frame.end))
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
    """Return the bound of the peers that are so many groups on; where there are none the end of the key's rows."""
    if not len(rows):
        return np.zeros(0, np.int64)
    group = rows.peer + offset
    lowest, highest = rows.peer[rows.first], rows.peer[rows.last - 1]
    found = bounds[np.clip(group, lowest, highest)]
    return np.where(group < lowest, rows.first, np.where(group > highest, rows.last, found))


def _by_range(rows: Rows, frame: physical.Frame, order: Sequence[physical.Order]) -> Stretch:
    begin, end = rows.first, rows.last
    if frame.start.offset is not None:
        begin = moved(rows, order, frame.start.offset, end=False) if frame.start.offset else rows.peers_first
    if frame.end.offset is not None:
        end = moved(rows, order, frame.end.offset, end=True) if frame.end.offset else rows.peers_last
    return begin, end


def _whole(offset: int | str) -> int:
    # a number of rows beyond all there can be, so that no sum is out of range
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
    found = []
    for low, high in gap:
        found.append((begin, np.clip(low, begin, end)))
        begin = np.clip(high, begin, end)
    return [*found, (begin, end)]
