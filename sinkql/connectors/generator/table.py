"""What the rows of one table of a generator are: a function of places, and of the time at which the source began.

A table's rows come at *places*, counted from 0: first those that are there from the beginning, then so many a tick.
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
    """How often ticks come: `ticks` of them in `micros` microseconds. The first `as_of` are there from the beginning.

    None come after `up_to`.
    """

    micros: int
    ticks: int
    as_of: int
    up_to: int | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Pace:
        """Return the pace that a source was planned with."""
        return cls(options["micros"], options["ticks"], options["as_of"], options["up_to"])

    def due(self, elapsed_ms: int) -> int:
        """Return how many ticks there are after so long."""
        ticks = self.as_of + max(0, elapsed_ms) * 1000 * self.ticks // self.micros
        return ticks if self.up_to is None else min(ticks, self.up_to)

    def micros_of(self, ticks: int) -> int:
        """Return how long after the source's beginning so many ticks are there; below 0 for those of before."""
        return (ticks - self.as_of) * self.micros // self.ticks

    def times(self, since_ms: int, ticks: Ints) -> Ints:
        """Return when ticks come, the first of which is number 0, in microseconds since 1970."""
        return since_ms * 1000 + (ticks + 1 - self.as_of) * self.micros // self.ticks


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a batch, from place `at` to before `to`; the batch is from `start` to before `end`."""

    at: int
    to: int
    start: int
    end: int
    since_ms: int

    @property
    def places(self) -> Ints:
        """Return the part's places."""
        return np.arange(self.at, self.to, dtype=np.int64)


class Table(Protocol):
    """The rows of one table: `initial` places from the beginning, then `step` places a tick.

    A place has `weight` rows at most, with those that it takes back, of about `row_bytes` each.
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
        """Return the rows of a part; those of a table that takes rows back have `$diff`, but for what the batch ends.

        A row that comes and goes in the batch is not there.
        """


@dataclass(frozen=True, slots=True)
class Made:
    """A table whose rows a function makes; without a `step` it is all there from the beginning."""

    make: Callable[[Window], pa.RecordBatch]
    initial: int = 0
    step: int = 1
    weight: int = 1
    row_bytes: int = 40
    retracts: bool = False

    def rows(self, window: Window) -> pa.RecordBatch:
        return self.make(window)


def batch(columns: Mapping[str, Any], diff: Ints | None = None) -> pa.RecordBatch:
    """Return columns as a batch, with `$diff` last if it is given."""
    given = {**columns, "$diff": diff} if diff is not None else columns
    return pa.record_batch([pa.array(each) for each in given.values()], names=list(given))


@dataclass(frozen=True, slots=True)
class Turnover:
    """Rows of `keys` keys, numbered from 0, of which each place from then on gives one another version.

    The first `keys` places make the rows, in the order of the keys. Then the keys take turns: that of turn i is
    i × `stride` modulo `keys`, which have no common divisor.
    """

    keys: int
    stride: int = 1

    def changes(self, window: Window) -> tuple[Ints, Ints, Ints]:
        """Return keys, versions from 0, and +1 or −1 for each row that comes or goes in the part."""
        places, count = window.places, self.keys
        first = places < count
        keys = np.where(first, places, (places - count) % count * self.stride % count)
        versions = np.where(first, 0, (places - count) // count + 1)
        back = pow(self.stride, -1, count) if count > 1 else 0
        following = np.where(first, count + places * back % count, places + count)
        before = np.where(versions > 1, places - count, keys)
        come, go = following >= window.end, ~first & (before < window.start)
        return (
            np.concatenate([keys[come], keys[go]]),
            np.concatenate([versions[come], versions[go] - 1]),
            np.concatenate([np.ones(come.sum(), np.int64), np.full(go.sum(), -1, np.int64)]),
        )
