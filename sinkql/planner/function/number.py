"""Plan numeric functions whose overloads depend on more than types."""

from __future__ import annotations

from collections.abc import Mapping

from sinkql.errors import SinkqlError, Span
from sinkql.logical.number_format import check_float, parse_number_format
from sinkql.planner import types
from sinkql.planner.expression.exact_numeric import make_program
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.operator import arithmetic, decimal_operand
from sinkql.planner.expression.typed_expression import Typed, call, constant
from sinkql.planner.function.argument import Handler, arity, typed
from sinkql.planner.function.text import refused
from sinkql.planner.types import DOUBLE, INTEGER, NUMERIC, TEXT

_TO_DOUBLE = "cast to double precision"
REFUSED: Mapping[str, str] = {
    **{f"{name}(numeric)": _TO_DOUBLE for name in ("sqrt", "ln", "log", "exp")},
}
"""Overloads of Postgres without an exact form here, with an alternative."""
ALIASES: Mapping[str, str] = {"ceiling": "ceil", "pow": "power", "log10": "log"}
"""Alternative names of functions."""


def _mod(_name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity("mod", arguments, span, 2, 2)
    return arithmetic("%", arguments[0], arguments[1], span)


def _div(_name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity("div", arguments, span, 2, 2)
    return call("div(numeric,numeric)", [typed("div", value, NUMERIC) for value in arguments])


def _round(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 2)
    if len(arguments) == 1 and arguments[0].type.name != "numeric":
        return call(f"{name}(double precision)", (typed(name, arguments[0], DOUBLE),))
    digits = arguments[1].constant if len(arguments) == 2 else 0
    if not isinstance(digits, int) or isinstance(digits, bool) or not -28 <= digits <= 10:
        message = f"the number of digits of {name}() must be a constant from -28 to 10"
        raise SinkqlError("SQ2214", message, arguments[1].span)
    return call(f"{name}(numeric,integer)", (typed(name, arguments[0], NUMERIC), constant(digits, INTEGER, span)))


def to_char(value: Typed, pattern: Typed, text: str) -> Typed:
    """Plan to_char(value, pattern) for a number."""
    with refused(pattern.span):
        number_format = parse_number_format(text)
        if types.is_floating(value.type):
            check_float(number_format)
    if value.type == types.SMALLINT:
        value = coerced(value, INTEGER)
    return call(f"to_char({value.type.name},text)", (value, coerced(pattern, TEXT)))


def _power(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    """Plan power(x, y), which is numeric if an argument is numeric and no argument is a float."""
    arity(name, arguments, span, 2, 2)
    argument_types = [value.type for value in arguments]
    if any(type_.name == "numeric" for type_ in argument_types) and all(
        type_ == types.UNKNOWN or (types.is_number(type_) and not types.is_floating(type_)) for type_ in argument_types
    ):
        typed_ = [typed(name, value, NUMERIC) if value.type == types.UNKNOWN else value for value in arguments]
        return Typed(make_program(("^",), [decimal_operand(value).tree for value in typed_], span, NUMERIC), NUMERIC)
    return call("power(double precision,double precision)", [typed(name, value, DOUBLE) for value in arguments], span)


HANDLERS: dict[str, Handler] = {
    "mod": _mod, "div": _div, "round": _round, "trunc": _round, "power": _power, "pow": _power,
}  # fmt: skip
