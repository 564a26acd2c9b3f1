"""COUNTER and CLOCK: one number or time for each tick, which may replace an older one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql.connectors.generator.columns import times
from sinkql.connectors.generator.table import Pace, Turnover, Window, batch


@dataclass(frozen=True, slots=True)
class Counter:
    """The row of tick i is `first` + i + 1. With a cardinality of m, tick i ≥ m deletes the row of tick i − m."""

    first: int
    max_cardinality: int | None
    initial: int = 0
    step: int = 1
    row_bytes: int = 8

    @property
    def weight(self) -> int:
        return 2 if self.retracts else 1

    @property
    def retracts(self) -> bool:
        return self.max_cardinality is not None

    def rows(self, window: Window) -> pa.RecordBatch:
        if self.max_cardinality is None:
            return batch({"counter": window.positions + self.first + 1})
        keys, versions, diff = Turnover(self.max_cardinality).changes(window)
        return batch({"counter": versions * self.max_cardinality + keys + self.first + 1}, diff)


@dataclass(frozen=True, slots=True)
class Clock:
    """One row with the time of the last tick, or of the source's creation before the first tick."""

    pace: Pace
    initial: int = 1
    step: int = 1
    weight: int = 2
    row_bytes: int = 8
    retracts: bool = True

    def rows(self, window: Window) -> pa.RecordBatch:
        _, ticks, diff = Turnover(1).changes(window)
        return batch({"time": times(self.pace.times(window.since_ms, ticks - np.int64(1)))}, diff)
