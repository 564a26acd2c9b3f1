"""Plan CREATE SOURCE … FROM LOAD GENERATOR: columns, kinds of changes, and the reader's options."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.options import bind, option_span
from sinkql.connector_api.planning import PlanningContext, SourcePlan
from sinkql.connectors.generator.options import (
    CounterOptions,
    KeyValueOptions,
    Options,
    TickOptions,
    TpchOptions,
)
from sinkql.connectors.generator.schema import columns, shapes
from sinkql.errors import SinkqlError, Span

_SMALLEST_SCALE, _GREATEST_SCALE = 0.001, 1000.0
_MOST_BYTES = 1 << 20
_MOST_KEYS = 1 << 40


def plan_counter(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a COUNTER: one column `counter`; with MAX CARDINALITY, a new row deletes the oldest one."""
    _check_clauses(statement)
    options = bind(statement.options, CounterOptions, owner="counter load generators", span=statement.kind_span)
    _check_ticks(statement, options)
    _check_counts(statement, MAX_CARDINALITY=options.max_cardinality)
    change = logical.Change.APPEND if options.max_cardinality is None else logical.Change.RETRACT
    return SourcePlan(
        {
            "tick_ms": options.tick_interval // timedelta(milliseconds=1),
            "up_to": options.up_to,
            "rows_per_second": options.rows_per_second,
            "max_cardinality": options.max_cardinality,
            "first": options.as_of,
        },
        logical.Shape(columns("counter bigint"), (frozenset({"counter"}),), change),
    )


def plan_clock(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a CLOCK: one row with the time of the last tick."""
    _check_clauses(statement)
    options = bind(statement.options, TickOptions, owner="clock load generators", span=statement.kind_span)
    shape = logical.Shape(columns("time timestamptz"), (frozenset({"time"}),), logical.Change.RETRACT)
    return SourcePlan(_plan_ticks(statement, options, facts), shape)


def plan_auction(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan an AUCTION: five append-only tables."""
    _check_clauses(statement)
    options = bind(statement.options, TickOptions, owner="auction load generators", span=statement.kind_span)
    return _plan_tables("auction", _plan_ticks(statement, options, facts))


def plan_marketing(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a MARKETING: six tables; rows of `leads` change."""
    _check_clauses(statement)
    options = bind(statement.options, TickOptions, owner="marketing load generators", span=statement.kind_span)
    return _plan_tables("marketing", _plan_ticks(statement, options, facts))


def plan_tpch(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a TPCH: eight tables; with ticks, rows of `orders` and `lineitem` change."""
    _check_clauses(statement)
    options = bind(statement.options, TpchOptions, owner="tpch load generators", span=statement.kind_span)
    if not _SMALLEST_SCALE <= options.scale_factor <= _GREATEST_SCALE:
        raise SinkqlError(
            "SQ2402",
            f"SCALE FACTOR must be from {_SMALLEST_SCALE:g} to {_GREATEST_SCALE:g}",
            option_span(statement.options, "SCALE FACTOR", statement.kind_span),
            hint="Write SCALE FACTOR 0.01 for 60,000 order items, or 1 for six million.",
        )
    ticks = _plan_ticks(statement, options, facts)
    changes = ticks["pace"]["up_to"] != 0
    planned = {**ticks, "scale_factor": str(options.scale_factor), "changes": changes}
    return _plan_tables("tpch", planned, changes=changes)


def plan_key_value(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a KEY VALUE: with ENVELOPE UPSERT one row for each key, otherwise one for each value."""
    _check_clauses(statement, included=("KEY", "OFFSET"), envelopes=("NONE", "UPSERT"))
    options = bind(statement.options, KeyValueOptions, owner="key value load generators", span=statement.kind_span)
    _check_key_value(statement, options)
    upsert = statement.envelope == "UPSERT"
    names = {
        include.name: include.alias.value if include.alias else include.name.lower() for include in statement.include
    }
    if upsert:
        names.setdefault("KEY", "key")
    columns_by_part = {
        "key": names.get("KEY"),
        "partition": "partition",
        "value": "value",
        "offset": names.get("OFFSET"),
    }
    present = {part: name for part, name in columns_by_part.items() if name is not None}
    _check_names(statement, list(present.values()))
    types = {"key": "bigint", "partition": "bigint", "value": "bytea", "offset": "bigint"}
    generated = tuple(
        logical.Column(name, column.type, nullable=False)
        for part, name in present.items()
        for column in columns(f"{part} {types[part]}")
    )
    key = (frozenset({present["key"]}),) if upsert else ()
    change = logical.Change.RETRACT if upsert else logical.Change.APPEND
    planned = {
        **_plan_ticks(statement, options, facts),
        "seed": options.seed,
        "keys": options.keys,
        "rounds": options.snapshot_rounds,
        "value_size": options.value_size,
        "partitions": options.partitions,
        "batch_size": options.batch_size,
        "transactional": options.transactional_snapshot,
        "upsert": upsert,
        "columns": present,
    }
    return SourcePlan(planned, logical.Shape(generated, key, change))


def _plan_tables(generator: str, options: dict[str, Any], *, changes: bool = True) -> SourcePlan:
    tables = tuple(
        logical.SourceTable((generator, name), {**options, "table": name}, shape)
        for name, shape in shapes(generator, changes=changes).items()
    )
    return SourcePlan(options, logical.Shape(()), tables)


def _plan_ticks(
    statement: ast.CreateSource, options: TickOptions | TpchOptions | KeyValueOptions, facts: logical.Facts
) -> dict[str, Any]:
    """Return the options that all generators share. Without options of the pace, nothing follows the initial rows."""
    _check_ticks(statement, options)
    up_to, rate = options.up_to, options.rows_per_second
    if options.tick_interval is None and rate is None and up_to is None:
        up_to = options.as_of
    interval = options.tick_interval or timedelta(seconds=1)
    planned: dict[str, Any] = {
        "pace": {
            "micros": 1_000_000 if rate else interval // timedelta(microseconds=1),
            "ticks": rate or 1,
            "as_of": options.as_of,
            "up_to": up_to,
        },
        "seed": options.seed,
    }
    return {**planned, "tuning": {"since": facts["since"]}} if "since" in facts else planned


def _check_clauses(
    statement: ast.CreateSource, *, included: tuple[str, ...] = (), envelopes: tuple[str, ...] = ("NONE",)
) -> None:
    include = tuple(item for item in statement.include if item.name not in included)
    for written, word in ((statement.columns, "columns"), ((statement.format,), "FORMAT"), (include, "INCLUDE")):
        for part in written:
            if part is not None:
                clause = f"INCLUDE {part.name}" if isinstance(part, ast.Include) and included else word
                message = f"this load generator source cannot have {clause}"
                raise SinkqlError("SQ2401", message, part.span, hint=f"Leave out {clause}.")
    if statement.envelope not in (None, *envelopes):
        hint = "Leave out ENVELOPE." if "UPSERT" not in envelopes else "Write ENVELOPE UPSERT, or leave it out."
        clause = f"ENVELOPE {statement.envelope}"
        raise SinkqlError("SQ2401", f"this load generator source cannot have {clause}", statement.kind_span, hint=hint)


def _check_ticks(statement: ast.CreateSource, options: Options) -> None:
    interval = options.tick_interval
    if interval is not None and interval < timedelta(milliseconds=1):
        raise SinkqlError(
            "SQ2309",
            "TICK INTERVAL must be at least 1 millisecond",
            _span(statement, "TICK INTERVAL"),
            hint="Use ROWS PER SECOND for shorter intervals.",
        )
    _check_counts(statement, ROWS_PER_SECOND=options.rows_per_second)
    if isinstance(options, CounterOptions):
        return
    if options.up_to is not None and options.up_to < options.as_of:
        raise SinkqlError(
            "SQ2403",
            "UP TO is less than AS OF",
            _span(statement, "UP TO"),
            hint=f"Write UP TO {options.as_of} or more.",
        )


def _check_key_value(statement: ast.CreateSource, options: KeyValueOptions) -> None:
    _check_counts(
        statement,
        KEYS=options.keys,
        SNAPSHOT_ROUNDS=options.snapshot_rounds,
        VALUE_SIZE=options.value_size,
        PARTITIONS=options.partitions,
        BATCH_SIZE=options.batch_size,
    )
    for name, value, most in (("KEYS", options.keys, _MOST_KEYS), ("VALUE SIZE", options.value_size, _MOST_BYTES)):
        if value > most:
            hint = f"Write {name} {most} or less."
            raise SinkqlError("SQ2402", f"{name} must be at most {most}", _span(statement, name), hint=hint)
    multiple = options.partitions * options.batch_size
    if options.keys % multiple:
        raise SinkqlError(
            "SQ2403",
            "KEYS is not a multiple of PARTITIONS × BATCH SIZE",
            _span(statement, "KEYS"),
            hint=f"Write KEYS {(options.keys // multiple + 1) * multiple}.",
        )


def _check_counts(statement: ast.CreateSource, **counts: int | None) -> None:
    for name, value in counts.items():
        if value == 0:
            written = name.replace("_", " ")
            raise SinkqlError(
                "SQ2326",
                f"{written} must be at least 1",
                _span(statement, written),
                hint=f"Write {written} 1 or more.",
            )


def _check_names(statement: ast.CreateSource, names: list[str]) -> None:
    for include in statement.include:
        name = include.alias.value if include.alias else include.name.lower()
        if names.count(name) > 1:
            raise SinkqlError(
                "SQ2008",
                f'column "{name}" is specified more than once',
                include.span,
                hint=f"Use another name: INCLUDE {include.name} AS {include.name.lower()}_2.",
            )


def _span(statement: ast.CreateSource, name: str) -> Span:
    return option_span(statement.options, name, statement.kind_span)
