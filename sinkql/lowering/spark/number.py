"""Numeric functions → Spark SQL."""

from __future__ import annotations

import math

from sinkql.logical import Call
from sinkql.lowering.spark.operator import absolute
from sinkql.lowering.spark.sql import Form, Spelling, raised
from sinkql.lowering.spark.string import constant_number

_INFINITY = "double('Infinity')"
_NO_LOGARITHM = raised("cannot take logarithm", "DOUBLE")
_NO_ROOT = raised("cannot take square root of a negative number", "DOUBLE")
_EXP = (
    f"CASE WHEN exp(@0) = {_INFINITY} AND @0 <> {_INFINITY} OR exp(@0) = 0 AND @0 <> -{_INFINITY} "
    f"THEN {raised('value out of range', 'DOUBLE')} ELSE exp(@0) END"
)
_POWER = (
    f"CASE WHEN @0 IS NULL OR @1 IS NULL THEN NULL "
    f"WHEN @0 < 0 AND @1 <> rint(@1) AND NOT isnan(@1) AND abs(@1) <> {_INFINITY} "
    f"OR @0 = 0 AND @1 < 0 OR abs(power(@0, @1)) = {_INFINITY} AND abs(@0) <> {_INFINITY} AND abs(@1) <> {_INFINITY} "
    f"OR power(@0, @1) = 0 AND @0 <> 0 AND abs(@0) <> {_INFINITY} AND abs(@1) <> {_INFINITY} "
    f"THEN {raised('power out of range', 'DOUBLE')} WHEN @0 = 1 OR @1 = 0 OR @0 = -1 AND abs(@1) = {_INFINITY} THEN 1D "
    "ELSE power(@0, @1) END"
)
_MOST = 10**28
"""What a numeric is less than."""
_FACTORIALS = [factorial for number in range(99) if (factorial := math.factorial(number)) < _MOST]
_FACTORIAL = (
    "CASE WHEN @0 IS NULL THEN NULL "
    f"WHEN @0 < 0 THEN {raised('factorial of a negative number is undefined', 'DECIMAL(38,10)')} "
    f"WHEN @0 >= {len(_FACTORIALS)} THEN {raised('value out of range for numeric', 'DECIMAL(38,10)')} "
    f"ELSE element_at(array({', '.join(f'CAST({each}BD AS DECIMAL(38,10))' for each in _FACTORIALS)}), "
    "CAST(@0 AS INT) + 1) END"
)
_UNITS = "CAST(replace(CAST(CAST({} AS DECIMAL(38,10)) AS STRING), '.', '') AS DECIMAL({},0))"
"""A numeric in units of its last place: a whole number."""
_DIV = (
    # Spark's own div is a bigint, which overflows without a word; of its quotients, one by a short divisor has the room
    "CASE WHEN @0 IS NULL OR @1 IS NULL THEN NULL WHEN @1 > -1000000000 AND @1 < 1000000000 THEN "
    f"CAST(({_UNITS.format('@0', 38)} - {_UNITS.format('@0', 38)} % {_UNITS.format('@1', 19)}) "
    f"/ {_UNITS.format('@1', 19)} AS DECIMAL(38,10)) "
    "ELSE CAST((@0 - @0 % @1) / @1 AS DECIMAL(38,10)) END"
)
_BUCKET = (
    f"CASE WHEN @0 IS NULL OR @1 IS NULL OR @2 IS NULL OR @3 IS NULL THEN NULL "
    f"WHEN @3 <= 0 THEN {raised('count must be greater than zero', 'INT')} "
    f"WHEN isnan(@0) OR isnan(@1) OR isnan(@2) "
    f"THEN {raised('operand, lower bound, and upper bound cannot be NaN', 'INT')} "
    f"WHEN abs(@1) = {_INFINITY} OR abs(@2) = {_INFINITY} "
    f"THEN {raised('lower and upper bounds must be finite', 'INT')} "
    f"WHEN @1 = @2 THEN {raised('lower bound cannot equal upper bound', 'INT')} "
    "WHEN IF(@1 < @2, @0 < @1, @0 > @1) THEN 0 WHEN IF(@1 < @2, @0 >= @2, @0 <= @2) THEN @3 + 1 "
    "ELSE CAST(least(CAST(@3 * IF(abs(@2 - @1) = double('Infinity'), (@0 / 2 - @1 / 2) / (@2 / 2 - @1 / 2), "
    "(@0 - @1) / (@2 - @1)) AS BIGINT), @3 - 1L) AS INT) + 1 END"
)
_ATAN2 = (  # Spark's own takes -0.0 for 0.0
    "CASE WHEN @0 = 0 AND @1 IS NOT NULL AND NOT isnan(@1) THEN IF(startswith(CAST(@0 AS STRING), '-'), -1D, 1D) "
    "* IF(startswith(CAST(@1 AS STRING), '-'), pi(), 0D) ELSE atan2(@0, @1) END"
)
_DEGREES = (
    f"IF(abs(degrees(@0)) = {_INFINITY} AND abs(@0) <> {_INFINITY}, "
    f"{raised('value out of range: overflow', 'DOUBLE')}, degrees(@0))"
)


def _angle(function: str) -> Form:
    return Form(f"IF(abs(@0) = {_INFINITY}, {raised('input is out of range', 'DOUBLE')}, {function}(@0))")


def _numeric(template: str) -> Form:
    return Form(f"CAST({template} AS DECIMAL(38,10))")


def _round(call: Call) -> Form:
    return Form(f"CAST(round(@0, {constant_number(call.arguments[1])}) AS DECIMAL(38,10))")


def _trunc(call: Call) -> Form:
    places = f", {constant_number(call.arguments[1])}" if constant_number(call.arguments[1]) else ""
    return _numeric(f"IF(@0 < 0, ceil(@0{places}), floor(@0{places}))")


FORMS: dict[str, Spelling] = {
    **{f"abs({type_})": Form("abs(@0)") for type_ in ("double precision", "smallint", "integer", "bigint", "real")},
    "abs(numeric)": absolute,
    "ceil(double precision)": Form("IF(rint(@0) < @0, rint(@0) + 1, rint(@0))"),
    "ceil(numeric)": _numeric("ceil(@0)"),
    "floor(double precision)": Form("IF(rint(@0) > @0, rint(@0) - 1, rint(@0))"),
    "floor(numeric)": _numeric("floor(@0)"),
    "sign(double precision)": Form("IF(isnan(@0) OR @0 = 0, 0D, sign(@0))"),
    "sign(numeric)": _numeric("sign(@0)"),
    "sqrt(double precision)": Form(f"IF(@0 < 0, {_NO_ROOT}, sqrt(@0))"),
    "$root(numeric)": _numeric("sqrt(CAST(@0 AS DOUBLE))"),
    "ln(double precision)": Form(f"IF(@0 <= 0, {_NO_LOGARITHM}, ln(@0))"),
    "log(double precision)": Form(f"IF(@0 <= 0, {_NO_LOGARITHM}, log10(@0))"),
    "exp(double precision)": Form(_EXP),
    "power(double precision,double precision)": Form(_POWER),
    "cbrt(double precision)": Form("cbrt(@0)"),
    "radians(double precision)": Form(
        f"IF(radians(@0) = 0 AND @0 <> 0, {raised('value out of range: underflow', 'DOUBLE')}, radians(@0))"
    ),
    "degrees(double precision)": Form(_DEGREES),
    "pi()": Form("pi()"),
    "atan2(double precision,double precision)": Form(_ATAN2),
    "sin(double precision)": _angle("sin"),
    "cos(double precision)": _angle("cos"),
    "tan(double precision)": _angle("tan"),
    "factorial(bigint)": Form(_FACTORIAL),
    "to_hex(bigint)": Form("lower(hex(@0))"),
    "to_hex(integer)": Form("lower(conv(CAST(IF(@0 < 0, CAST(@0 AS BIGINT) + 4294967296, @0) AS STRING), 10, 16))"),
    "width_bucket(double precision,double precision,double precision,integer)": Form(_BUCKET),
    "div(numeric,numeric)": Form(_DIV),
    "round(double precision)": Form("rint(@0)"),
    "round(numeric,integer)": _round,
    "trunc(double precision)": Form("IF(abs(rint(@0)) > abs(@0), rint(@0) - signum(@0), rint(@0))"),
    "trunc(numeric,integer)": _trunc,
}
"""By id; the number of digits of round and trunc is a constant."""
