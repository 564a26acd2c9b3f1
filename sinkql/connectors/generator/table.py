"""A generated table: its rows are a function of positions and of the time of the source's creation.

Positions are counted from 0: first the initial ones, then a fixed number for each tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import Ints


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of ticks: `ticks` of them in `micros` microseconds. The first `as_of` ticks exist at the start.

    `up_to` is the last tick.
    """

    micros: int
    ticks: int
    as_of: int
    up_to: int | None

    def due(self, elapsed_ms: int) -> int:
        """Return the number of ticks after a time."""
        ticks = self.as_of + max(0, elapsed_ms) * 1000 * self.ticks // self.micros
        return ticks if self.up_to is None else min(ticks, self.up_to)

    def micros_of(self, ticks: int) -> int:
        """Return the time from the source's creation until a number of ticks exist; negative for earlier ticks."""
        return (ticks - self.as_of) * self.micros // self.ticks

    def times(self, since_ms: int, ticks: Ints) -> Ints:
        """Return the times of ticks, numbered from 0, in microseconds since 1970."""
        return since_ms * 1000 + (ticks + 1 - self.as_of) * self.micros // self.ticks


@dataclass(frozen=True, slots=True)
class PlannedTicks:
    """The planned options of AUCTION, CLOCK and MARKETING; `table` is the name of the table, if there are several."""

    pace: Pace
    seed: int
    table: str = ""


@dataclass(frozen=True, slots=True)
class PlannedTpch:
    """The planned options of TPCH."""

    pace: Pace
    seed: int
    table: str
    scale_factor: str
    changes: bool


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a batch, from position `at` to before `to`; the batch is from `start` to before `end`."""

    at: int
    to: int
    start: int
    end: int
    since_ms: int

    @property
    def positions(self) -> Ints:
        """The positions of the part."""
        return np.arange(self.at, self.to, dtype=np.int64)


class Table(Protocol):
    """The rows of one table: `initial` positions at the start, then `step` positions for each tick.

    A position has at most `weight` rows, including deletions, of about `row_bytes` each.
    """

    @property
    def initial(self) -> int: ...

    @property
    def step(self) -> int: ...

    @property
    def weight(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    @property
    def retracts(self) -> bool: ...

    def rows(self, window: Window) -> pa.RecordBatch:
        """Return the rows of a part; if the table `retracts`, they end with `$diff`.

        Rows that are inserted and deleted in the same batch are left out.
        """


@dataclass(frozen=True, slots=True)
class GeneratedTable:
    """A table whose rows a function computes; without a `step`, all rows exist at the start."""

    make: Callable[[Window], pa.RecordBatch]
    initial: int = 0
    step: int = 1
    weight: int = 1
    row_bytes: int = 40
    retracts: bool = False

    def rows(self, window: Window) -> pa.RecordBatch:
        return self.make(window)


def batch(columns: Mapping[str, Any], diff: Ints | None = None) -> pa.RecordBatch:
    """Return columns as a batch, followed by `$diff` if it is not None."""
    all_columns = {**columns, "$diff": diff} if diff is not None else columns
    return pa.record_batch([pa.array(values) for values in all_columns.values()], names=list(all_columns))


@dataclass(frozen=True, slots=True)
class Turnover:
    """A table with one row for each of `keys` keys, numbered from 0, in which each position replaces one row.

    The first `keys` positions insert the rows in the order of the keys. Then turn i replaces the row of the key
    i × `stride` modulo `keys`. The two numbers have no common divisor.
    """

    keys: int
    stride: int = 1

    def changes(self, window: Window) -> tuple[Ints, Ints, Ints]:
        """Return the key, the version from 0, and +1 or −1 for each row that is inserted or deleted in the part."""
        positions, count = window.positions, self.keys
        first = positions < count
        keys = np.where(first, positions, (positions - count) % count * self.stride % count)
        versions = np.where(first, 0, (positions - count) // count + 1)
        back = pow(self.stride, -1, count) if count > 1 else 0
        following = np.where(first, count + positions * back % count, positions + count)
        before = np.where(versions > 1, positions - count, keys)
        inserted, deleted = following >= window.end, ~first & (before < window.start)
        return (
            np.concatenate([keys[inserted], keys[deleted]]),
            np.concatenate([versions[inserted], versions[deleted] - 1]),
            np.concatenate([np.ones(inserted.sum(), np.int64), np.full(deleted.sum(), -1, np.int64)]),
        )
