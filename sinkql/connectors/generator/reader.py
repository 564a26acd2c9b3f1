"""Read a generated table in splits, up to the position that the clock has reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sinkql import codec, physical
from sinkql.connector_api.stream import Limit, Measure, Offsets, ReadCounts, Reader, Size, Split
from sinkql.connectors.generator import auction, marketing, tpch
from sinkql.connectors.generator.counter import Clock, Counter
from sinkql.connectors.generator.key_value import KeyValue
from sinkql.connectors.generator.table import Pace, PlannedTicks, PlannedTpch, Table, Window
from sinkql.errors import EndlessError
from sinkql.machine import clock

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 1 << 25
_SPLIT_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class GeneratorReader(Reader):
    """The reader of a generated table.

    Offsets have `count`, the number of positions that were read, and `since`, the time of the source's creation.
    """

    source: str
    table: Table
    pace: Pace
    since: int | None = None

    @classmethod
    def of(cls, read: physical.Read) -> GeneratorReader:
        """Return the reader of a planned source."""
        return cls.from_options(read.name, read.connector, read.options)

    @classmethod
    def from_options(cls, source: str, kind: str, options: Mapping[str, Any]) -> GeneratorReader:
        """Return the reader of a kind of source with its planned options."""
        tuning = codec.convert(options, _Tuned).tuning
        return cls(source, *_open_table(kind, options), None if tuning is None else tuning.since)

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the offsets of a new sink; without the time of the source's creation, ticks start now."""
        since = _now_ms() if self.since is None else self.since
        return {"count": self._due(since) if at_end else 0, "since": since}

    def target(self, start: Offsets) -> Offsets:
        """Return the last position. Raise SQ2405 for a source that never ends."""
        table, up_to = self.table, self.pace.up_to
        if up_to is None and table.step:
            raise EndlessError(
                "SQ2405",
                f'source "{self.source}" never ends, so it cannot be read once',
                hint="Add UP TO to the load generator, or run without --once.",
            )
        return {**start, "count": table.initial + table.step * (up_to or 0)}

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether all positions up to a target were read; the time of creation does not matter."""
        return bool(offsets["count"] >= target["count"])

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the number of positions that were read."""
        return {"count": offsets["count"]}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the position that the clock has reached, or `until`, within the limit."""
        count: int = start["count"]
        due = until["count"] if until is not None else self._due(start["since"])
        table = self.table
        most = min(limit.rows, limit.bytes // table.row_bytes) // table.weight
        return {**start, "count": max(count, min(due, count + max(1, most)))}

    def _due(self, since_ms: int) -> int:
        table = self.table
        return table.initial + table.step * self.pace.due(_now_ms() - since_ms)

    def extend(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the position that the clock has reached, or `until`, if the table retracts rows."""
        return self.latest(end, Limit(1 << 62, 1 << 62), until) if self.table.retracts else end

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of positions with at most `_SPLIT_ROWS` rows each."""
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

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the rows of the positions at their usual width."""
        rows = self.table.weight * sum(split["to"] - split["from"] for split in splits)
        return Size(rows, rows * self.table.row_bytes)

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of positions, without rows that are inserted and deleted in the same batch."""
        table = self.table
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // table.row_bytes) // table.weight)
        for at in range(split["from"], split["to"], step):
            to = min(at + step, split["to"])
            rows = table.rows(Window(at, to, split["start"], split["end"], split["since"]))
            read_counts.rows += rows.num_rows
            read_counts.bytes += rows.nbytes
            yield rows

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many positions the clock has reached, and how many were read."""
        return Measure(self._due(offsets["since"]), offsets["count"], "rows")

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the first unread rows, in seconds."""
        count, since, table = offsets["count"], offsets["since"], self.table
        if self._due(since) <= count:
            return 0.0
        tick = (count - table.initial) // table.step + 1 if table.step and count >= table.initial else 0
        due_ms = since + max(0, self.pace.micros_of(tick)) // 1000
        late_ms: int = _now_ms() - due_ms
        return max(0.0, late_ms / 1000)


def _now_ms() -> int:
    return clock.time_ms()


@dataclass(frozen=True, slots=True)
class _Tuning:
    since: int


@dataclass(frozen=True, slots=True)
class _Tuned:
    """The planned options of a source under `tuning`: the time of its creation, in milliseconds."""

    tuning: _Tuning | None = None


@dataclass(frozen=True, slots=True)
class _PlannedCounter:
    """The planned options of COUNTER."""

    first: int
    max_cardinality: int | None
    tick_ms: int
    rows_per_second: int | None
    up_to: int | None

    @property
    def pace(self) -> Pace:
        rate = self.rows_per_second
        return Pace(1_000_000 if rate else self.tick_ms * 1000, rate or 1, 0, self.up_to)


def _open_table(kind: str, options: Mapping[str, Any]) -> tuple[Table, Pace]:
    """Return the table of a kind of source, and its pace."""
    if kind == "LOAD GENERATOR COUNTER":
        counter = codec.convert(options, _PlannedCounter)
        return Counter(counter.first, counter.max_cardinality), counter.pace
    if kind == "LOAD GENERATOR TPCH":
        planned = codec.convert(options, PlannedTpch)
        return tpch.table(planned), planned.pace
    ticks = codec.convert(options, PlannedTicks)
    match kind.removeprefix("LOAD GENERATOR "):
        case "CLOCK":
            return Clock(ticks.pace), ticks.pace
        case "KEY VALUE":
            return KeyValue.from_plan(options), ticks.pace
        case "AUCTION":
            return auction.table(ticks), ticks.pace
        case "MARKETING":
            return marketing.table(ticks), ticks.pace
        case other:
            raise LookupError(other)
