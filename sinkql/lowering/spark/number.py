"""Numeric functions → Spark SQL."""

from __future__ import annotations

from sinkql.logical import Call, Literal
from sinkql.lowering.spark.operator import absolute
from sinkql.lowering.spark.text import Form, Spelling, raised

_INFINITY = "double('Infinity')"
_NO_LOGARITHM = raised("cannot take logarithm", "DOUBLE")
_NO_ROOT = raised("cannot take square root of a negative number", "DOUBLE")
_EXP = (
    f"CASE WHEN exp(@0) = {_INFINITY} AND @0 <> {_INFINITY} OR exp(@0) = 0 AND @0 <> -{_INFINITY} "
    f"THEN {raised('value out of range', 'DOUBLE')} ELSE exp(@0) END"
)
_POWER = (
    f"CASE WHEN @0 < 0 AND abs(@0) <> {_INFINITY} AND @1 <> rint(@1) AND NOT isnan(@1) AND abs(@1) <> {_INFINITY} "
    f"OR @0 = 0 AND @1 < 0 OR abs(power(@0, @1)) = {_INFINITY} AND abs(@0) <> {_INFINITY} AND abs(@1) <> {_INFINITY} "
    f"OR power(@0, @1) = 0 AND @0 <> 0 AND abs(@0) <> {_INFINITY} AND abs(@1) <> {_INFINITY} "
    f"THEN {raised('power out of range', 'DOUBLE')} WHEN @0 = 1 OR @1 = 0 THEN 1D ELSE power(@0, @1) END"
)
_DEGREES = (
    f"IF(abs(degrees(@0)) = {_INFINITY} AND abs(@0) <> {_INFINITY}, "
    f"{raised('value out of range: overflow', 'DOUBLE')}, degrees(@0))"
)


def _angle(function: str) -> Form:
    return Form(f"IF(abs(@0) = {_INFINITY}, {raised('input is out of range', 'DOUBLE')}, {function}(@0))")


def _numeric(template: str) -> Form:
    return Form(f"CAST({template} AS DECIMAL(38,10))")


def _digits(call: Call) -> int:
    digits = call.arguments[1]
    assert isinstance(digits, Literal)
    assert isinstance(digits.value, int)
    return digits.value


def _round(call: Call) -> Form:
    return Form(f"CAST(round(@0, {_digits(call)}) AS DECIMAL(38,10))")


def _trunc(call: Call) -> Form:
    places = f", {_digits(call)}" if _digits(call) else ""
    return _numeric(f"IF(@0 < 0, ceil(@0{places}), floor(@0{places}))")


FORMS: dict[str, Spelling] = {
    **{f"abs({type_})": Form("abs(@0)") for type_ in ("double precision", "smallint", "integer", "bigint", "real")},
    "abs(numeric)": absolute,
    "ceil(double precision)": Form("IF(rint(@0) < @0, rint(@0) + 1, rint(@0))"),
    "ceil(numeric)": _numeric("ceil(@0)"),
    "floor(double precision)": Form("IF(rint(@0) > @0, rint(@0) - 1, rint(@0))"),
    "floor(numeric)": _numeric("floor(@0)"),
    "sign(double precision)": Form("IF(isnan(@0), 0D, sign(@0))"),
    "sign(numeric)": _numeric("sign(@0)"),
    "sqrt(double precision)": Form(f"IF(@0 < 0, {_NO_ROOT}, sqrt(@0))"),
    "$root(numeric)": _numeric("sqrt(CAST(@0 AS DOUBLE))"),
    "ln(double precision)": Form(f"IF(@0 <= 0, {_NO_LOGARITHM}, ln(@0))"),
    "log(double precision)": Form(f"IF(@0 <= 0, {_NO_LOGARITHM}, log10(@0))"),
    "exp(double precision)": Form(_EXP),
    "power(double precision,double precision)": Form(_POWER),
    "cbrt(double precision)": Form("cbrt(@0)"),
    "radians(double precision)": Form("radians(@0)"),
    "degrees(double precision)": Form(_DEGREES),
    "pi()": Form("pi()"),
    "atan2(double precision,double precision)": Form("atan2(@0, @1)"),
    "sin(double precision)": _angle("sin"),
    "cos(double precision)": _angle("cos"),
    "tan(double precision)": _angle("tan"),
    "factorial(bigint)": Form("CAST(factorial(CAST(@0 AS INT)) AS DECIMAL(38,10))"),
    "to_hex(bigint)": Form("lower(hex(@0))"),
    "to_hex(integer)": Form("lower(conv(CAST(IF(@0 < 0, CAST(@0 AS BIGINT) + 4294967296, @0) AS STRING), 10, 16))"),
    "width_bucket(double precision,double precision,double precision,integer)": Form(
        "CAST(width_bucket(@0, @1, @2, @3) AS INT)"
    ),
    "div(numeric,numeric)": Form("CAST(@0 div @1 AS DECIMAL(38,10))"),
    "round(double precision)": Form("rint(@0)"),
    "round(numeric,integer)": _round,
    "trunc(double precision)": Form("IF(abs(rint(@0)) > abs(@0), rint(@0) - signum(@0), rint(@0))"),
    "trunc(numeric,integer)": _trunc,
}
"""By id; the number of digits of round and trunc is a constant."""
