"""A table of a generator → its rows in splits, as far as the clock lets it go.

The options of a planned source → the table that makes its rows, and the pace of its ticks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Limit, Measure, Offsets, Reader, Split, Tally
from sinkql.connectors.generator import auction, marketing, tpch
from sinkql.connectors.generator.counter import Clock, Counter
from sinkql.connectors.generator.key_value import KeyValue
from sinkql.connectors.generator.table import Pace, Table, Window
from sinkql.errors import EndlessError

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 1 << 25
_SPLIT_ROWS = 1 << 20
_SMALL_ROWS = 5000
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class GeneratorReader(Reader):
    """Read a table of a generator. Offsets: `count`, the places that were read, and `since`, when the source began."""

    source: str
    kind: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, read: physical.Read) -> GeneratorReader:
        """Return the reader of a planned source."""
        return cls(read.name, read.connector, dict(read.options))

    @property
    def pace(self) -> Pace:
        """Return how often ticks come."""
        return open_pace(self.kind, self.options)

    @property
    def table(self) -> Table:
        """Return what makes the rows."""
        return open_table(self.kind, self.options)

    def initial(self, *, at_end: bool) -> Offsets:
        """Return no rows yet, of a source that began when it was created, or begins now if nobody knows when."""
        since = self.options["tuning"]["since"] if "tuning" in self.options else _now_ms()
        return {"count": self._due(since) if at_end else 0, "since": since}

    def target(self, start: Offsets) -> Offsets:
        """Return the last place; raises SQ2405 for a source that never ends."""
        table, up_to = self.table, self.pace.up_to
        if up_to is None and table.step:
            raise EndlessError(
                "SQ2405",
                f'source "{self.source}" never ends, so it cannot be read once',
                hint="Give the load generator an UP TO, or run without --once.",
            )
        return {**start, "count": table.initial + table.step * (up_to or 0)}

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether all places up to a target were read: when the source began says nothing of them."""
        return bool(offsets["count"] >= target["count"])

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return how many places were read."""
        return {"count": offsets["count"]}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many places as the clock has made, within the limit; all up to `until` if that is given."""
        count: int = start["count"]
        due = until["count"] if until is not None else self._due(start["since"])
        table = self.table
        most = min(limit.rows, limit.bytes // table.row_bytes) // table.weight
        return {**start, "count": max(count, min(due, count + max(1, most)))}

    def _due(self, since_ms: int) -> int:
        table = self.table
        return table.initial + table.step * self.pace.due(_now_ms() - since_ms)

    def extended(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the last place that the clock has made, or `until`, for a table that takes rows back."""
        return self.latest(end, Limit(1 << 62, 1 << 62), until) if self.table.retracts else end

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of places, of a million rows each at most."""
        step = max(1, _SPLIT_ROWS // self.table.weight)
        return [
            {
                "from": at,
                "to": min(at + step, end["count"]),
                "start": start["count"],
                "end": end["count"],
                "since": start["since"],
            }
            for at in range(start["count"], end["count"], step)
        ]

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell by the number of places."""
        places: int = sum(split["to"] - split["from"] for split in splits)
        rows = places * self.table.weight
        return rows <= _SMALL_ROWS and rows * self.table.row_bytes <= _SMALL_BYTES

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of places, less those that come and go in the batch."""
        table = self.table
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // table.row_bytes) // table.weight)
        for at in range(split["from"], split["to"], step):
            to = min(at + step, split["to"])
            rows = table.rows(Window(at, to, split["start"], split["end"], split["since"]))
            tally.rows += rows.num_rows
            tally.bytes += rows.nbytes
            yield rows

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many places of the table the clock has made."""
        return Measure(self._due(offsets["since"]), offsets["count"], "rows")

    def lag(self, offsets: Offsets) -> float:
        """Return how long ago the first rows that were not read came."""
        count, since, table = offsets["count"], offsets["since"], self.table
        if self._due(since) <= count:
            return 0.0
        tick = (count - table.initial) // table.step + 1 if table.step and count >= table.initial else 0
        due_ms = since + max(0, self.pace.micros_of(tick)) // 1000
        late_ms: int = _now_ms() - due_ms
        return max(0.0, late_ms / 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_COUNTER = "LOAD GENERATOR COUNTER"


def open_table(kind: str, options: Mapping[str, Any]) -> Table:
    """Return the table that a source of that kind was planned to read."""
    match kind.removeprefix("LOAD GENERATOR "):
        case "COUNTER":
            return Counter(options["first"], options["max_cardinality"])
        case "CLOCK":
            return Clock(Pace.of(options["pace"]))
        case "KEY VALUE":
            return KeyValue.of(options)
        case "AUCTION":
            return auction.table(options)
        case "MARKETING":
            return marketing.table(options)
        case "TPCH":
            return tpch.table(options)
        case other:
            raise LookupError(other)


def open_pace(kind: str, options: Mapping[str, Any]) -> Pace:
    """Return how often a source ticks."""
    if kind != _COUNTER:
        return Pace.of(options["pace"])
    rate = options["rows_per_second"]
    return Pace(1_000_000 if rate else options["tick_ms"] * 1000, rate or 1, 0, options["up_to"])
