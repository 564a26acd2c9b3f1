"""Plan aggregates over all rows of a group: ordered (string_agg), over sorted values (WITHIN GROUP), or of bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.connector_api.types import nested_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Branch, Case
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, settled
from sinkql.planner.function import json
from sinkql.planner.function.call import SORTED_AGGREGATES as SORTED
from sinkql.planner.query.order_by import sort
from sinkql.planner.query.translate import Translator

BITS = ("bit_and", "bit_or", "bit_xor")
ARGUMENTS: Mapping[str, int] = {
    "string_agg": 2, "array_agg": 1, "jsonb_agg": 1, "jsonb_object_agg": 2, "percentile_cont": 1,
    "percentile_disc": 1, "mode": 0, **dict.fromkeys(BITS, 1),
}  # fmt: skip
"""The number of arguments of each aggregate."""
NAMES = tuple(ARGUMENTS)
_PAIR = "jsonb_object_agg"


@dataclass(frozen=True, slots=True)
class OrderedAggregate:
    """An aggregate in a query: arguments, the terms of ORDER BY or WITHIN GROUP, and the condition of FILTER."""

    name: str
    values: Sequence[Any]
    order: Sequence[Any]
    span: Span
    distinct: bool
    within: bool
    condition: Typed | None


def plan_ordered_aggregate(rows: Translator, written: OrderedAggregate) -> logical.WindowCall:
    """Return the call without a name; raise SQ2211 or SQ2214 for wrong arguments."""
    _check(written)
    terms = [_term(rows, term) for term in written.order]
    if written.name in SORTED:
        return _sorted(rows, written, _typed_value(rows, written.order[0].this), terms[0])
    name, span, condition = written.name, written.span, written.condition
    values = [_typed_value(rows, value) for value in written.values]
    value = values[0]
    if written.distinct:
        terms = _order_of_distinct(value, terms, span)
    constants: tuple[str, ...] = ()
    further: tuple[Typed, ...] = ()
    type_ = types.TEXT
    match name:
        case "string_agg":
            if value.type != types.TEXT:
                message = f"string_agg() takes text, found {value.type.called}"
                raise SinkqlError("SQ2211", message, value.span, hint="Cast it, as in value::text.")
            constants = (_delimiter(rows, written.values[1]),)
        case "array_agg":
            type_ = _array_type(value, span)
            further = () if condition is None else (condition,)  # an array may contain NULL
        case "jsonb_agg":
            value, type_ = json.or_null(name, value), types.JSONB
        case "jsonb_object_agg":
            value, type_ = json.key(name, value), types.JSONB
            further = (_where(json.or_null(name, values[1]), condition),)
        case _:
            if value.type not in (types.SMALLINT, types.INTEGER, types.BIGINT):
                raise SinkqlError("SQ2211", f"aggregate {name}({value.type.called}) does not exist", span)
            type_ = value.type
    arguments = tuple(settled(argument) for argument in (_where(value, condition), *further))
    return logical.WindowCall("", name, arguments, type_, tuple(terms), None, written.distinct, constants, span=span)


def extreme(value: Typed, *, last: bool, span: Span) -> logical.WindowCall:
    """Return the call for the minimum or maximum of a type whose values are only compared row by row."""
    tree = settled(value)
    order = (logical.Sort(tree),)
    return logical.WindowCall(
        "", "percentile_disc", (tree,), value.type, order, None, False, (str(float(last)),), span=span
    )


def _check(written: OrderedAggregate) -> None:
    """Raise SQ2211 or SQ2214 if the call does not match the aggregate."""
    name, expected, count, span = written.name, ARGUMENTS[written.name], len(written.values), written.span
    if name in SORTED and not written.within:
        arguments = "" if name == "mode" else "0.5"
        raise SinkqlError(
            "SQ2211",
            f"WITHIN GROUP is required for {name}()",
            span,
            hint=f"Write {name}({arguments}) WITHIN GROUP (ORDER BY value).",
        )
    if count != expected:
        noun = "argument" if expected == 1 else "arguments"
        raise SinkqlError("SQ2211", f"{name}() takes {expected or 'no'} {noun}, found {count}", span)
    if written.within and written.distinct:
        raise SinkqlError("SQ2211", "DISTINCT is not allowed with WITHIN GROUP", span, hint="Leave it out.")
    if written.within and len(written.order) != 1:
        message = f"{name}() takes one value in WITHIN GROUP, found {len(written.order)}"
        raise SinkqlError("SQ2211", message, span)
    if name == _PAIR and written.distinct:
        raise SinkqlError("SQ2214", f"{name}() of DISTINCT is not supported", span, hint="Leave out DISTINCT.")


def _typed_value(rows: Translator, node: Any) -> Typed:
    value = rows.translate(node)
    return coerced(value, types.TEXT) if value.type == types.UNKNOWN else value


def _where(value: Typed, condition: Typed | None) -> Typed:
    """Return a value, or NULL if the condition of FILTER is not true; the aggregate ignores these NULLs."""
    if condition is None:
        return value
    return Typed(Case((Branch(condition.tree, value.tree),), None, value.raw, condition.span), value.type, value.scale)


def _delimiter(rows: Translator, node: Any) -> str:
    delimiter = rows.translate(node)
    if not isinstance(delimiter.constant, str):
        raise SinkqlError("SQ2214", "the delimiter of string_agg() must be a constant", rows.span(node))
    return delimiter.constant


def _array_type(value: Typed, span: Span) -> logical.Type:
    type_ = None if value.type.nested or value.type == types.INTERVAL else nested_type("array", value.type)
    if type_ is None:
        raise SinkqlError("SQ2214", f"array_agg() of {value.type.called} is not supported", span)
    return type_


def _term(rows: Translator, term: Any) -> logical.Sort:
    return sort(_typed_value(rows, term.this), term)


def _order_of_distinct(value: Typed, terms: list[logical.Sort], span: Span) -> list[logical.Sort]:
    """Return the order of distinct values: the values themselves, unless the query orders them."""
    if not types.is_comparable(value.type):
        raise SinkqlError("SQ2214", f"DISTINCT of {value.type.called} is not supported", span)
    expression = settled(value)
    if any(term.expression != expression for term in terms):
        message = "in an aggregate with DISTINCT, ORDER BY can only name the argument"
        raise SinkqlError("SQ2214", message, span, hint="Write SELECT DISTINCT in a subquery in FROM first.")
    return terms or ([] if types.is_range(value.type) else [logical.Sort(expression)])


# --- WITHIN GROUP ----------------------------------------------------------------------------------------------------


def _sorted(rows: Translator, written: OrderedAggregate, value: Typed, term: logical.Sort) -> logical.WindowCall:
    name = written.name
    if value.type == types.INTERVAL:
        hint = "Use its seconds, as in extract(epoch FROM value)."
        raise SinkqlError("SQ2214", f"{name}() of interval is not supported", value.span, hint=hint)
    if name == "mode" and value.type.nested:
        raise SinkqlError("SQ2214", f"mode() of {value.type.called} is not supported", value.span)
    if name == "percentile_cont":
        if not types.is_number(value.type):
            hint = "Write percentile_disc(), which takes values of any sortable type."
            message = f"percentile_cont() takes numbers, found {value.type.called}"
            raise SinkqlError("SQ2211", message, value.span, hint=hint)
        value = coerced(value, types.DOUBLE)
    fractions: tuple[str, ...] = ()
    type_ = value.type
    if written.values:
        several, fractions = _fractions(rows, name, written.values[0])
        type_ = types.array_of(type_) if several else type_
    value = _where(value, written.condition)
    order = (replace(term, expression=settled(value)),)
    return logical.WindowCall("", name, (settled(value),), type_, order, None, False, fractions, span=written.span)


def _fractions(rows: Translator, name: str, node: Any) -> tuple[bool, tuple[str, ...]]:
    """Return whether a percentile has an array of fractions, and the fractions."""
    nodes = node.expressions if isinstance(node, exp.Array) else [node]
    fractions = []
    for node_ in nodes:
        value = rows.translate(node_).constant
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            message = f"the fraction of {name}() must be a constant number"
            raise SinkqlError("SQ2214", message, rows.span(node_), hint="Write a number from 0 to 1, such as 0.5.")
        if not 0 <= value <= 1:
            message = f"percentile value {value} is not between 0 and 1"
            raise SinkqlError("SQ2211", message, rows.span(node_), hint="Write 0.95 for the 95th percentile.")
        fractions.append(repr(float(value)))
    return isinstance(node, exp.Array), tuple(fractions)
