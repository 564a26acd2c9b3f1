"""Plan COALESCE, NULLIF, GREATEST, LEAST and similar functions, whose arguments have one type."""

from __future__ import annotations

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Branch, Case
from sinkql.logical.numeric_type import FLOATS, SIGNED, UNSIGNED
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced, held
from sinkql.planner.expression.operator import alike, compare, settled
from sinkql.planner.expression.typed_expression import Typed, call, exact, null_of
from sinkql.planner.function.argument import arity

_COMPARED_WITHOUT_CAST = (
    set(SIGNED),
    set(UNSIGNED),
    set(FLOATS),
    {"date", "timestamp", "timestamptz"},
)
"""Types that Postgres compares with each other without a cast; NULLIF then has its first argument's type."""


def _coalesce(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    type_, values = settled(arguments, span, "COALESCE")
    return call("coalesce(any…)", values, span, type_=type_)


def _extreme(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    type_, values = settled(arguments, span, name.upper())
    if types.is_range(type_):
        raise SinkqlError("SQ2214", f"{name}() of ranges is not supported", span)
    if not types.is_ordered(type_):
        raise SinkqlError("SQ2214", f"values of type {type_} cannot be compared exactly", span)
    return values[0] if len(values) == 1 else call(f"{name}(any…)", values, span, type_=type_)


def _nullif(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    if arguments[0].type.name == "record":
        (first, other), type_ = arguments, arguments[0].type
        test = compare("=", first, other, span)
        return Typed(Case((Branch(test.tree, null_of(type_, span).tree),), exact(first).tree, type_, span), type_)
    left, right = alike(arguments, span, "=")
    if left.raw == right.raw and arguments[0].type in (left.type, types.UNKNOWN):
        return Typed(call("nullif(any,any)", (left, right), span, type_=left.raw).tree, left.type, left.scale)
    names = {argument.type.name for argument in arguments}
    keeps_type = len(names) == 1 or any(names <= family for family in _COMPARED_WITHOUT_CAST)
    if types.INTERVAL in (arguments[0].type, arguments[1].type):
        first = held(coerced(arguments[0], types.INTERVAL))
    else:
        first = exact(arguments[0] if keeps_type else left)
    same = call("=(any,any)", (left, right), span)
    tree = Case((Branch(same.tree, null_of(first.type, span).tree),), first.tree, first.type, span)
    return Typed(tree, first.type, first.scale)


def _num_nulls(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 99)
    return call(f"{name}(any…)", arguments, span)


HANDLERS = {
    "coalesce": _coalesce, "greatest": _extreme, "least": _extreme, "nullif": _nullif,
    "num_nonnulls": _num_nulls, "num_nulls": _num_nulls,
}  # fmt: skip
