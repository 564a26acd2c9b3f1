"""Numeric functions → Spark SQL."""

from __future__ import annotations

from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Type
from sinkql.planner.expressions_operator import arithmetic
from sinkql.planner.expressions_typed import Typed, form
from sinkql.planner.functions_overload import Overload, arity, typed
from sinkql.planner.types import BIGINT, DOUBLE, INTEGER, REAL, SMALLINT, TEXT

_INFINITY = "double('Infinity')"
_TO_DOUBLE = "cast to double precision"


def _raise(message: str) -> str:
    return f"CAST(raise_error('{message}') AS DOUBLE)"


def _one(result: Type, template: str, nullable: bool | None = None) -> Overload:
    return Overload((result,), result, template, nullable)


def _refuse(*parameters: Type, why: str) -> Overload:
    return Overload(parameters, parameters[0], "", refused=why)


_EXP = (
    f"CASE WHEN exp(@0) = {_INFINITY} AND @0 <> {_INFINITY} OR exp(@0) = 0 AND @0 <> -{_INFINITY} "
    f"THEN {_raise('value out of range')} ELSE exp(@0) END"
)
_POWER = (
    f"CASE WHEN @0 < 0 AND abs(@0) <> {_INFINITY} AND @1 <> rint(@1) AND NOT isnan(@1) AND abs(@1) <> {_INFINITY} "
    f"OR @0 = 0 AND @1 < 0 OR abs(power(@0, @1)) = {_INFINITY} AND abs(@0) <> {_INFINITY} AND abs(@1) <> {_INFINITY} "
    f"OR power(@0, @1) = 0 AND @0 <> 0 AND abs(@0) <> {_INFINITY} AND abs(@1) <> {_INFINITY} "
    f"THEN {_raise('power out of range')} WHEN @0 = 1 OR @1 = 0 THEN 1D ELSE power(@0, @1) END"
)
_DEGREES = (
    f"IF(abs(degrees(@0)) = {_INFINITY} AND abs(@0) <> {_INFINITY}, "
    f"{_raise('value out of range: overflow')}, degrees(@0))"
)


def _angle(function: str) -> tuple[Overload, ...]:
    check = f"IF(abs(@0) = {_INFINITY}, {_raise('input is out of range')}, {function}(@0))"
    return (_one(DOUBLE, check),)


def _numeric(template: str) -> Overload:
    return _one(NUMERIC, f"CAST({template} AS DECIMAL(38,10))")


OVERLOADS: dict[str, tuple[Overload, ...]] = {
    "abs": tuple(_one(type_, "abs(@0)") for type_ in (DOUBLE, SMALLINT, INTEGER, BIGINT, REAL, NUMERIC)),
    "ceil": (_one(DOUBLE, "IF(rint(@0) < @0, rint(@0) + 1, rint(@0))"), _numeric("ceil(@0)")),
    "floor": (_one(DOUBLE, "IF(rint(@0) > @0, rint(@0) - 1, rint(@0))"), _numeric("floor(@0)")),
    "sign": (_one(DOUBLE, "IF(isnan(@0), 0D, sign(@0))"), _numeric("sign(@0)")),
    "sqrt": (
        _one(DOUBLE, f"IF(@0 < 0, {_raise('cannot take square root of a negative number')}, sqrt(@0))"),
        _refuse(NUMERIC, why=_TO_DOUBLE),
    ),
    "ln": (_one(DOUBLE, f"IF(@0 <= 0, {_raise('cannot take logarithm')}, ln(@0))"), _refuse(NUMERIC, why=_TO_DOUBLE)),
    "log": (
        _one(DOUBLE, f"IF(@0 <= 0, {_raise('cannot take logarithm')}, log10(@0))"),
        _refuse(NUMERIC, why=_TO_DOUBLE),
    ),
    "log10": (
        _one(DOUBLE, f"IF(@0 <= 0, {_raise('cannot take logarithm')}, log10(@0))"),
        _refuse(NUMERIC, why=_TO_DOUBLE),
    ),
    "exp": (_one(DOUBLE, _EXP), _refuse(NUMERIC, why=_TO_DOUBLE)),
    "power": (
        Overload((DOUBLE, DOUBLE), DOUBLE, _POWER),
        _refuse(NUMERIC, NUMERIC, why="cast to double precision or multiply"),
    ),
    "cbrt": (_one(DOUBLE, "cbrt(@0)"),),
    "radians": (_one(DOUBLE, "radians(@0)"),),
    "degrees": (_one(DOUBLE, _DEGREES),),
    "pi": (Overload((), DOUBLE, "pi()", nullable=False),),
    "atan2": (Overload((DOUBLE, DOUBLE), DOUBLE, "atan2(@0, @1)"),),
    "sin": _angle("sin"),
    "cos": _angle("cos"),
    "tan": _angle("tan"),
    "factorial": (Overload((BIGINT,), NUMERIC, "CAST(factorial(CAST(@0 AS INT)) AS DECIMAL(38,10))"),),
    "to_hex": (
        Overload((BIGINT,), TEXT, "lower(hex(@0))"),
        Overload(
            (INTEGER,), TEXT, "lower(conv(CAST(IF(@0 < 0, CAST(@0 AS BIGINT) + 4294967296, @0) AS STRING), 10, 16))"
        ),
    ),
    "width_bucket": (
        Overload((DOUBLE, DOUBLE, DOUBLE, INTEGER), INTEGER, "CAST(width_bucket(@0, @1, @2, @3) AS INT)"),
    ),
}
OVERLOADS["ceiling"] = OVERLOADS["ceil"]
OVERLOADS["pow"] = OVERLOADS["power"]


def _mod(_name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity("mod", arguments, span, 2, 2)
    return arithmetic("%", arguments[0], arguments[1], span)


def _div(_name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity("div", arguments, span, 2, 2)
    pair = [typed("div", value, NUMERIC) for value in arguments]
    return form("CAST(@0 div @1 AS DECIMAL(38,10))", pair, NUMERIC)


def _round(_name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity("round", arguments, span, 1, 2)
    if len(arguments) == 1 and arguments[0].type.name != "numeric":
        return form("rint(@0)", (typed("round", arguments[0], DOUBLE),), DOUBLE)
    return form(f"CAST(round(@0, {_digits('round', arguments)}) AS DECIMAL(38,10))", (_number(arguments),), NUMERIC)


def _trunc(_name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity("trunc", arguments, span, 1, 2)
    if len(arguments) == 1 and arguments[0].type.name != "numeric":
        value = typed("trunc", arguments[0], DOUBLE)
        return form("IF(abs(rint(@0)) > abs(@0), rint(@0) - signum(@0), rint(@0))", (value,), DOUBLE)
    digits = _digits("trunc", arguments)
    places = f", {digits}" if len(arguments) == 2 else ""
    template = f"CAST(IF(@0 < 0, ceil(@0{places}), floor(@0{places})) AS DECIMAL(38,10))"
    return form(template, (_number(arguments),), NUMERIC)


def _number(arguments: tuple[Typed, ...]) -> Typed:
    return typed("round", arguments[0], NUMERIC)


def _digits(name: str, arguments: tuple[Typed, ...]) -> int:
    if len(arguments) == 1:
        return 0
    count = arguments[1].constant
    if not isinstance(count, int) or isinstance(count, bool) or not -28 <= count <= 10:
        message = f"the number of digits of {name}() must be a constant from -28 to 10"
        raise SinkqlError("SQ2214", message, arguments[1].span)
    return count


HANDLERS = {"mod": _mod, "div": _div, "round": _round, "trunc": _trunc}
