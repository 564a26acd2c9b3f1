"""Plan functions and operators of ranges: construction, bounds, containment and overlap."""

from __future__ import annotations

from contextlib import suppress

from sinkql.errors import SinkqlError, Span
from sinkql.logical.range import BOUNDS, SUBTYPES
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced, literal
from sinkql.planner.expression.operator import no_operator
from sinkql.planner.expression.typed_expression import Typed, call, constant, exact
from sinkql.planner.function import json, nested
from sinkql.planner.function.argument import Handler, arity, constant_text, typed
from sinkql.planner.types import Type


def bound(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    """Plan lower(range) and upper(range), which are NULL if the range has no such bound."""
    arity(name, arguments, span, 1, 1)
    return call(f"{name}(any)", (_checked_range(name, arguments[0]),), span, type_=SUBTYPES[arguments[0].type.name])


def contains(value: Typed, wanted: Typed, span: Span) -> Typed:
    """Plan `value @> wanted` for ranges, arrays and jsonb."""
    if _is_array(value, wanted):
        return nested.compared("@>", value, wanted, span)
    if not types.is_range(value.type) and not types.is_range(wanted.type):
        return json.contains(value, wanted, span)
    return _contains("@>", value, wanted, span)


def contained(value: Typed, outer: Typed, span: Span) -> Typed:
    """Plan `value <@ outer`."""
    if _is_array(value, outer):
        return nested.compared("<@", value, outer, span)
    if not types.is_range(value.type) and not types.is_range(outer.type):
        raise SinkqlError("SQ2214", "<@ is only supported for ranges and arrays", span)
    return _contains("<@", outer, value, span)


def overlaps(left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left && right`."""
    if _is_array(left, right):
        return nested.compared("&&", left, right, span)
    left, right = _as_ranges("&&", left, right, span)
    return call("&&(any,any)", (left, right), span)


def _is_array(*values: Typed) -> bool:
    return any(value.type.name in ("array", "list") for value in values)


def _contains(operator: str, outer: Typed, inner: Typed, span: Span) -> Typed:
    subtype = SUBTYPES.get(outer.type.name)
    if subtype is not None and inner.type != outer.type and inner.type != types.UNKNOWN:
        if not types.is_implicit(inner.type, subtype):
            operands = (outer, inner) if operator == "@>" else (inner, outer)
            raise no_operator(operator, operands, span)
        return call("@>(any,any)", (exact(outer), coerced(inner, subtype)), span)
    try:
        return call("@>(any,any)", _as_ranges(operator, outer, inner, span), span)
    except SinkqlError as error:
        if subtype is None or not _is_literal_of(inner, subtype):
            raise
        text = str(inner.constant).replace("'", "''")
        hint = f"Write the type of the value, as in '{text}'::{subtype}."
        raise SinkqlError(error.code, error.message, error.span, hint=hint) from None


def _is_literal_of(value: Typed, type_: Type) -> bool:
    """Return whether an untyped string is a valid value of `type_`."""
    if value.type != types.UNKNOWN or value.null:
        return False
    with suppress(SinkqlError):
        return literal(str(value.constant), type_, value.span) is not None
    return False


def _as_ranges(operator: str, left: Typed, right: Typed, span: Span) -> tuple[Typed, Typed]:
    type_ = next((side.type for side in (left, right) if types.is_range(side.type)), None)
    if type_ is None or any(side.type not in (type_, types.UNKNOWN) for side in (left, right)):
        raise no_operator(operator, (left, right), span)
    return coerced(left, type_), coerced(right, type_)


def _checked_range(name: str, value: Typed) -> Typed:
    if not types.is_range(value.type):
        hint = "Write the type of its argument, as in '[1,5)'::int4range." if value.type == types.UNKNOWN else None
        raise SinkqlError("SQ2211", f"{name}() takes a range, found {value.type.called}", value.span, hint=hint)
    return exact(value)


def _test(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    return call(f"{name}(any)", (_checked_range(name, arguments[0]),), span)


def _constructor(subtype: Type) -> Handler:
    def plan(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
        arity(name, arguments, span, 2, 3)
        bounds = constant_text(name, arguments[2], "third argument") if len(arguments) == 3 else "[)"
        if bounds not in BOUNDS:
            hint = "Write '[]', '[)', '(]' or '()': [ and ] include a bound."
            raise SinkqlError("SQ2212", f"invalid bounds of a range: '{bounds}'", arguments[2].span, hint=hint)
        values = tuple(typed(name, argument, subtype) for argument in arguments[:2])
        return call(f"{name}(any,any,text)", (*values, constant(bounds, types.TEXT, span)), span)

    return plan


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf"), _test),
    **{name: _constructor(subtype) for name, subtype in SUBTYPES.items()},
}
