"""The options of a planned source → the table that makes its rows, and the pace of its ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql.connectors.generator import auction, marketing, tpch
from sinkql.connectors.generator.counter import Clock, Counter
from sinkql.connectors.generator.key_value import KeyValue
from sinkql.connectors.generator.table import Pace, Table

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
