"""LOAD GENERATOR sources: rows that are a pure function of their place. A generator is a source kind of its own.

* `option`, `shape`: the words of the generators, and the columns of their tables.
* `plan`: a statement → the reader's options, and columns.
* `reader`: offsets and splits of a table, by the pace of its ticks; `kind` finds the table.
* `counter`, `key_value`, `auction`, `marketing`, `tpch`: what the rows are; `table` is what they have in common.
* `noise`, `column`: random values by place, and Arrow columns of them.
"""

from __future__ import annotations

import time

from sinkql import ast, logical, physical
from sinkql.connectors.generator import plan
from sinkql.connectors.generator.option import CounterOptions, KeyValueOptions, TickOptions, TpchOptions
from sinkql.extension.plan import Access, Connector, Later, Planning, SourceKind
from sinkql.extension.stream import Context, Offsets, Reader


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.generator.reader import GeneratorReader  # numpy and pyarrow, only where a job runs

    return GeneratorReader.of(read)


def _first(start: Offsets, rows: int) -> Offsets:
    return {**start, "count": start["count"] + rows}


def _first_of_some(start: Offsets, rows: int) -> Offsets:
    """Look further: not every tick has a row in each table."""
    return {**start, "count": start["count"] + 1000 + 100 * rows}


def _begin(statement: ast.CreateSource, planning: Planning, access: Access) -> logical.Facts:
    """Return when the source begins to tick: its tables have the same times wherever they are read."""
    return {"since": time.time_ns() // 1_000_000}


connector = Connector(
    "generator",
    sources=(
        SourceKind(
            "LOAD GENERATOR AUCTION",
            plan.plan_auction,
            _open_reader,
            TickOptions,
            facts=_begin,
            first=_first_of_some,
        ),
        SourceKind("LOAD GENERATOR CLOCK", plan.plan_clock, _open_reader, TickOptions, facts=_begin, first=_first),
        SourceKind("LOAD GENERATOR COUNTER", plan.plan_counter, _open_reader, CounterOptions, first=_first),
        SourceKind(
            "LOAD GENERATOR KEY VALUE",
            plan.plan_key_value,
            _open_reader,
            KeyValueOptions,
            facts=_begin,
            first=_first,
        ),
        SourceKind(
            "LOAD GENERATOR MARKETING",
            plan.plan_marketing,
            _open_reader,
            TickOptions,
            facts=_begin,
            first=_first_of_some,
        ),
        SourceKind("LOAD GENERATOR TPCH", plan.plan_tpch, _open_reader, TpchOptions, facts=_begin, first=_first),
    ),
    later=(Later("SOURCE", "LOAD GENERATOR DATUMS", TickOptions),),
    tasks=("sinkql.connectors.generator.reader",),
)
