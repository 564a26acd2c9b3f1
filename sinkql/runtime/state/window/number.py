"""Window functions that tell where a row is among those of its key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.window.registry import CountError, over
from sinkql.runtime.state.window.rows import Rows, counted


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
    """Return (rank - 1) / (rows - 1), 0 for a row alone."""
    others = rows.last - rows.first - 1
    return pa.array((rows.peers_first - rows.first) / np.maximum(others, 1))


@over("cume_dist")
def cume_dist(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the share of the rows that are before the row or its peers."""
    return pa.array((rows.peers_last - rows.first) / (rows.last - rows.first))


@over("ntile")
def ntile(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return in which of some parts a row is; the first ones are larger by one, at most.

    How many there are a constant says, or a column: of the first row of a key where it is not NULL. Rows before that
    one are in none.
    """
    number = counted(rows, call, 0)
    known = np.flatnonzero(number.known)
    firsts = np.full(rows.count, len(rows))
    np.minimum.at(firsts, rows.owner[known], known)
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
    found: Ints = np.arange(len(rows)) - rows.first
    return found
