"""A range of indexes → the counter's rows; how far the clock lets it go → offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.errors import EndlessError
from sinkql.extension.stream import Limit, Offsets, Reader, Split, Tally

_BATCH_ROWS = 1 << 16
_SPLIT_ROWS = 1 << 20
_ROW_BYTES = 8


@dataclass(frozen=True, slots=True)
class CounterReader(Reader):
    """Read a counter. Offsets: `count`, the ticks that were read, and `since`, the ms at which the first one came.

    The row of tick i is first + i + 1. With a cardinality of m, tick i ≥ m takes back the row of tick i − m.
    """

    source: str
    tick_ms: int
    up_to: int | None
    rows_per_second: int | None
    max_cardinality: int | None
    first: int

    @classmethod
    def of(cls, read: physical.Read) -> CounterReader:
        """Return the reader of a planned source."""
        options: Any = read.options
        return cls(
            read.name,
            options["tick_ms"],
            options["up_to"],
            options["rows_per_second"],
            options["max_cardinality"],
            options["first"],
        )

    def initial(self, *, at_end: bool) -> Offsets:
        """Return no ticks yet, the first one now; a counter has no past, so its end is its beginning."""
        return {"count": 0, "since": _now_ms()}

    def target(self, start: Offsets) -> Offsets:
        """Return the last tick; raises SQ2405 for a counter that never ends."""
        if self.up_to is None:
            raise EndlessError(
                "SQ2405",
                f'source "{self.source}" never ends, so it cannot be read once',
                hint="Give the load generator an UP TO, or run without --once.",
            )
        return {**start, "count": self.up_to}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many ticks as the clock has made, within the limit; all up to `until` if that is given."""
        count: int = start["count"]
        due = until["count"] if until is not None else self._due(start["since"])
        most = min(limit.rows, limit.bytes // _ROW_BYTES) // (2 if self.max_cardinality else 1)
        return {**start, "count": max(count, min(due, count + max(1, most)))}

    def _due(self, since_ms: int) -> int:
        elapsed = max(0, _now_ms() - since_ms)
        ticks = elapsed * self.rows_per_second // 1000 if self.rows_per_second else elapsed // self.tick_ms
        return ticks if self.up_to is None else min(ticks, self.up_to)

    def extended(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the last tick that the clock has made, or `until`, for a counter that takes rows back."""
        return end if self.max_cardinality is None else self.latest(end, Limit(1 << 62, 1 << 62), until)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of ticks, a million each at most."""
        return [
            {
                "from": at,
                "to": min(at + _SPLIT_ROWS, end["count"]),
                "start": start["count"],
                "end": end["count"],
            }
            for at in range(start["count"], end["count"], _SPLIT_ROWS)
        ]

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of ticks, less those that come and go in the batch."""
        for at in range(split["from"], split["to"], _BATCH_ROWS):
            ticks = np.arange(at, min(at + _BATCH_ROWS, split["to"]), dtype=np.int64)
            tally.rows += len(ticks)
            tally.bytes += len(ticks) * _ROW_BYTES
            yield self._rows(ticks, split["start"], split["end"])

    def _rows(self, ticks: np.ndarray[Any, Any], start: int, end: int) -> pa.RecordBatch:
        first, most = self.first + 1, self.max_cardinality
        if most is None:
            return pa.record_batch([pa.array(ticks + first)], names=["counter"])
        come = ticks[ticks + most >= end] + first
        go = ticks[(ticks >= most) & (ticks - most < start)] - most + first
        diff = np.concatenate([np.ones(len(come), np.int64), np.full(len(go), -1, np.int64)])
        return pa.record_batch([pa.array(np.concatenate([come, go])), pa.array(diff)], names=["counter", "$diff"])

    def lag(self, offsets: Offsets) -> float:
        """Return how long ago the first tick that was not read came."""
        count: int = offsets["count"]
        if self._due(offsets["since"]) <= count:
            return 0.0
        ms: int = count * 1000 // self.rows_per_second if self.rows_per_second else (count + 1) * self.tick_ms
        since: int = offsets["since"]
        return max(0.0, (_now_ms() - since - ms) / 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
