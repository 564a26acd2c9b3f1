"""LOAD GENERATOR sources: rows that are a pure function of their position. Each generator is a source kind.

* `options`: Define the options of the generators, and their texts for the reference.
* `schema`: Define the columns and keys of the generators' tables.
* `plan`: Plan CREATE SOURCE … FROM LOAD GENERATOR.
* `reader`: Read a generated table by ranges of positions, at the pace of its ticks.
* `table`: Define a generated table, its pace, and the turnover of rows.
* `columns`: Compute random values by position, and Arrow columns of them.
* `counter`: Generate COUNTER and CLOCK.
* `key_value`: Generate KEY VALUE.
* `auction`: Generate AUCTION.
* `marketing`: Generate MARKETING.
* `tpch`: Generate TPCH.
"""

from __future__ import annotations

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
from sinkql.machine import clock

First = Callable[[Offsets, int], Offsets]


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.generator.reader import GeneratorReader  # imports numpy and pyarrow

    return GeneratorReader.of(read)


def _first(start: Offsets, rows: int) -> Offsets:
    return {**start, "count": start["count"] + rows}


def _first_of_sparse(start: Offsets, rows: int) -> Offsets:
    """Return more positions than rows: not every tick has a row in each table."""
    return {**start, "count": start["count"] + 1000 + 100 * rows}


def _begin(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """Return the time of the source's creation: all readers of its tables see the same times."""
    return {"since": clock.time_ms()}


def _kind(name: str, planned: PlanSource, options: type, about: str, first: First = _first) -> SourceKind:
    return SourceKind(
        f"LOAD GENERATOR {name}",
        planned,
        _open_reader,
        options,
        facts=_begin,
        first=first,
        about=about,
        has_common_positions=lambda planned: True,
    )


connector = Connector(
    "generator",
    sources=(
        _kind("AUCTION", plan.plan_auction, TickOptions, options.AUCTION, _first_of_sparse),
        _kind("CLOCK", plan.plan_clock, TickOptions, options.CLOCK),
        SourceKind(
            "LOAD GENERATOR COUNTER",
            plan.plan_counter,
            _open_reader,
            CounterOptions,
            first=_first,
            has_common_positions=lambda planned: True,
        ),
        _kind("KEY VALUE", plan.plan_key_value, KeyValueOptions, options.KEY_VALUE),
        _kind("MARKETING", plan.plan_marketing, TickOptions, options.MARKETING, _first_of_sparse),
        _kind("TPCH", plan.plan_tpch, TpchOptions, options.TPCH),
    ),
    later=(UnsupportedKind("SOURCE", "LOAD GENERATOR DATUMS", TickOptions),),
    tasks=("sinkql.connectors.generator.reader",),
)
