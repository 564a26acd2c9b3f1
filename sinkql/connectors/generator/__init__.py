"""LOAD GENERATOR sources: rows that are a pure function of their place. A generator is a source kind of its own.

* `options`, `schema`, `options`: the words of the generators, the columns of their tables, and what is said of them.
* `plan`: a statement → the reader's options, and columns.
* `reader`: offsets and splits of a table, by the pace of its ticks; `reader` finds the table.
* `counter`, `key_value`, `auction`, `marketing`, `tpch`: what the rows are; `table` is what they have in common.
* `columns`, `columns`: random values by place, and Arrow columns of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import (
    Connector,
    OutsideAccess,
    PlanningContext,
    PlanSource,
    SourceKind,
    UnsupportedKind,
)
from sinkql.connector_api.stream import Context, Offsets, Reader
from sinkql.connectors.generator import options, plan
from sinkql.connectors.generator.options import CounterOptions, KeyValueOptions, TickOptions, TpchOptions

First = Callable[[Offsets, int], Offsets]


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.generator.reader import GeneratorReader  # numpy and pyarrow, only where a job runs

    return GeneratorReader.of(read)


def _first(start: Offsets, rows: int) -> Offsets:
    return {**start, "count": start["count"] + rows}


def _first_of_some(start: Offsets, rows: int) -> Offsets:
    """Look further: not every tick has a row in each table."""
    return {**start, "count": start["count"] + 1000 + 100 * rows}


def _begin(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """Return when the source begins to tick: its tables have the same times wherever they are read."""
    return {"since": time.time_ns() // 1_000_000}


def _kind(name: str, planned: PlanSource, options: type, told: str, first: First = _first) -> SourceKind:
    return SourceKind(
        f"LOAD GENERATOR {name}",
        planned,
        _open_reader,
        options,
        facts=_begin,
        first=first,
        about=told,
        common=lambda planned: True,
    )


connector = Connector(
    "generator",
    sources=(
        _kind("AUCTION", plan.plan_auction, TickOptions, options.AUCTION, _first_of_some),
        _kind("CLOCK", plan.plan_clock, TickOptions, options.CLOCK),
        SourceKind(
            "LOAD GENERATOR COUNTER",
            plan.plan_counter,
            _open_reader,
            CounterOptions,
            first=_first,
            common=lambda planned: True,
        ),
        _kind("KEY VALUE", plan.plan_key_value, KeyValueOptions, options.KEY_VALUE),
        _kind("MARKETING", plan.plan_marketing, TickOptions, options.MARKETING, _first_of_some),
        _kind("TPCH", plan.plan_tpch, TpchOptions, options.TPCH),
    ),
    later=(UnsupportedKind("SOURCE", "LOAD GENERATOR DATUMS", TickOptions),),
    tasks=("sinkql.connectors.generator.reader",),
)
