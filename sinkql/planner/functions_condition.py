"""COALESCE, NULLIF, GREATEST, LEAST and the like → Spark SQL."""

from __future__ import annotations

from dataclasses import replace

from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expressions_operator import alike, settled
from sinkql.planner.expressions_typed import Typed, exact, form
from sinkql.planner.functions_overload import arity


def _coalesce(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    type_, values = settled(arguments, span, "COALESCE")
    nullable = all(value.nullable for value in values)
    return Typed(f"coalesce({', '.join(value.sql for value in values)})", type_, nullable, span)


def _extreme(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    type_, values = settled(arguments, span, name.upper())
    if type_ == types.JSONB:
        raise SinkqlError("SQ2214", "jsonb is not compared: its text is not its value", span)
    if len(values) == 1:
        return values[0]
    nullable = all(value.nullable for value in values)
    return Typed(f"{name}({', '.join(value.sql for value in values)})", type_, nullable, span)


def _nullif(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    left, right = alike(arguments, span, "=")
    if left.type == right.type and left.raw == right.raw:
        return replace(form("nullif(@0, @1)", (left, right), left.type, nullable=True), held=left.held)
    first = exact(arguments[0])
    return form("CASE WHEN @1 = @2 THEN NULL ELSE @0 END", (first, left, right), first.type, nullable=True)


def _num_nulls(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    for_null, otherwise = (0, 1) if name == "num_nonnulls" else (1, 0)
    parts = [f"IF({value.within(4)} IS NULL, {for_null}, {otherwise})" for value in arguments]
    return Typed(f"({' + '.join(parts)})", types.INTEGER, False, span)


HANDLERS = {
    "coalesce": _coalesce, "greatest": _extreme, "least": _extreme, "nullif": _nullif,
    "num_nonnulls": _num_nulls, "num_nulls": _num_nulls,
}  # fmt: skip
