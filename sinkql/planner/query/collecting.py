"""Aggregates over all rows of a group in an order: string_agg and array_agg; and those of bits, without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.extension.types import nested_type
from sinkql.logical import Branch, Case
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed import Typed, settled
from sinkql.planner.query.ordering import sort
from sinkql.planner.query.translate import Translator

BITS = ("bit_and", "bit_or", "bit_xor")
NAMES = ("string_agg", "array_agg", *BITS)


def call(
    rows: Translator,
    name: str,
    values: Sequence[Any],
    order: Sequence[Any],
    span: Span,
    *,
    distinct: bool,
    condition: Typed | None,
) -> logical.WindowCall:
    """Return the call, which has no name yet; SQ2211 and SQ2214 for what it does not take, SQ2932."""
    wanted = 2 if name == "string_agg" else 1
    if len(values) != wanted:
        noun = "arguments" if wanted > 1 else "argument"
        raise SinkqlError("SQ2211", f"{name}() takes {wanted} {noun}, found {len(values)}", span)
    value = rows.translate(values[0])
    if value.type == types.UNKNOWN:
        value = coerced(value, types.TEXT)
    terms = [_term(rows, each) for each in order]
    if distinct:
        terms = _of_distinct(value, terms, span)
    constants: tuple[str, ...] = ()
    type_ = types.TEXT
    if name == "string_agg":
        if value.type != types.TEXT:
            message = f"string_agg() takes text, found {value.type.called}"
            raise SinkqlError("SQ2211", message, value.span, hint="Cast it, as in value::text.")
        constants = (_between(rows, values[1]),)
    elif name in BITS:
        if value.type not in (types.SMALLINT, types.INTEGER, types.BIGINT):
            raise SinkqlError("SQ2211", f"aggregate {name}({value.type.called}) does not exist", span)
        type_ = value.type
    else:
        type_ = _array(value, condition, span)
    if condition is not None:
        value = Typed(Case((Branch(condition.tree, value.tree),), None, value.raw, condition.span), value.type)
    return logical.WindowCall("", name, (settled(value),), type_, tuple(terms), None, distinct, constants, span=span)


def _between(rows: Translator, node: Any) -> str:
    found = rows.translate(node)
    if not isinstance(found.constant, str):
        raise SinkqlError("SQ2214", "the delimiter of string_agg() must be a constant", rows.span(node))
    return found.constant


def _array(value: Typed, condition: Typed | None, span: Span) -> logical.Type:
    if condition is not None:
        hint = "Filter the rows in a subquery in FROM."
        raise SinkqlError("SQ2932", "array_agg() with FILTER is not supported yet", span, hint=hint)
    found = None if value.type.nested or value.type == types.INTERVAL else nested_type("array", value.type)
    if found is None:
        raise SinkqlError("SQ2214", f"array_agg() of {value.type.called} is not supported", span)
    return found


def _term(rows: Translator, term: Any) -> logical.Sort:
    value = rows.translate(term.this)
    if value.type == types.UNKNOWN:
        value = coerced(value, types.TEXT)
    return sort(value, term)


def _of_distinct(value: Typed, terms: list[logical.Sort], span: Span) -> list[logical.Sort]:
    """Return the order of values that come once each: by themselves, if the query says nothing else."""
    if not types.comparable(value.type):
        raise SinkqlError("SQ2214", f"DISTINCT of {value.type.called} is not supported", span)
    own = settled(value)
    if any(each.expression != own for each in terms):
        message = "in an aggregate with DISTINCT, ORDER BY can only name the argument"
        raise SinkqlError("SQ2214", message, span, hint="Take the DISTINCT rows in a subquery in FROM first.")
    return terms or ([] if types.ranged(value.type) else [logical.Sort(own)])
