"""CREATE SOURCE … FROM LOAD GENERATOR → columns, change kind, and the reader's options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span
from sinkql.extension.options import bind, described
from sinkql.extension.plan import Planning, SourcePlan


@dataclass(frozen=True, slots=True)
class CounterOptions:
    """The options of LOAD GENERATOR COUNTER; `up_to` is the number of rows that ever come."""

    tick_interval: timedelta = described("the time between two rows", default=timedelta(seconds=1))
    up_to: int | None = described("how many rows ever come", default=None)
    rows_per_second: int | None = described("instead of `TICK INTERVAL`", default=None)
    max_cardinality: int | None = described("how many rows there are at most; older ones go", default=None)
    as_of: int = described("the counter starts after it", default=0)
    seed: int = described("taken, and without effect on a counter", default=0)


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: Planning) -> SourcePlan:
    """Plan a COUNTER: one column `counter`; with MAX CARDINALITY old rows go as new ones come."""
    parts = ((statement.columns, "columns"), ((statement.format,), "FORMAT"), (statement.include, "INCLUDE"))
    for written, word in parts:
        for part in written:
            if part is not None:
                message = f"a load generator source cannot have {word}"
                raise SinkqlError("SQ2401", message, part.span, hint=f"Leave out {word}.")
    if statement.envelope not in (None, "NONE"):
        raise SinkqlError(
            "SQ2401", "a load generator source cannot have ENVELOPE", statement.kind_span, hint="Leave out ENVELOPE."
        )
    options = bind(statement.options, CounterOptions, owner="counter load generators", span=statement.kind_span)
    if options.tick_interval < timedelta(milliseconds=1):
        raise SinkqlError(
            "SQ2309",
            "TICK INTERVAL must be at least 1 millisecond",
            _span(statement, "TICK INTERVAL"),
            hint="Use ROWS PER SECOND for many rows.",
        )
    for name, value in (("ROWS PER SECOND", options.rows_per_second), ("MAX CARDINALITY", options.max_cardinality)):
        if value == 0:
            raise SinkqlError(
                "SQ2326", f"{name} must be at least 1", _span(statement, name), hint=f"Write {name} 1 or more."
            )
    if options.max_cardinality is not None:
        shape = logical.Shape((_COUNTER,), (frozenset({"counter"}),), logical.Change.RETRACT)
    else:
        shape = logical.Shape((_COUNTER,), (frozenset({"counter"}),), logical.Change.APPEND)
    return SourcePlan(
        {
            "tick_ms": options.tick_interval // timedelta(milliseconds=1),
            "up_to": options.up_to,
            "rows_per_second": options.rows_per_second,
            "max_cardinality": options.max_cardinality,
            "first": options.as_of,
        },
        shape,
    )


_COUNTER = logical.Column("counter", logical.Type("bigint"), nullable=False)


def _span(statement: ast.CreateSource, name: str) -> Span:
    return next(option.span for option in statement.options if option.name == name)
