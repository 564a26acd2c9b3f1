"""Numeric functions as Spark SQL, and to_char() of numbers, which builds its text from the number's digits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sinkql.logical import Call, Type
from sinkql.logical.number_format import (
    DIGITS,
    ENDINGS,
    FLOAT_DIGITS,
    ROMAN,
    ROMAN_WIDTH,
    NumberFormat,
    PatternToken,
    parse_number_format,
)
from sinkql.lowering.spark.operator import absolute
from sinkql.lowering.spark.sql import Form, Spelling, raised, text_literal
from sinkql.lowering.spark.string import constant_number, constant_text

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
"""The upper limit of numeric."""
_FACTORIALS = [factorial for number in range(99) if (factorial := math.factorial(number)) < _MOST]
_FACTORIAL = (
    "CASE WHEN @0 IS NULL THEN NULL "
    f"WHEN @0 < 0 THEN {raised('factorial of a negative number is undefined', 'DECIMAL(38,10)')} "
    f"WHEN @0 >= {len(_FACTORIALS)} THEN {raised('value out of range for numeric', 'DECIMAL(38,10)')} "
    f"ELSE element_at(array({', '.join(f'CAST({factorial}BD AS DECIMAL(38,10))' for factorial in _FACTORIALS)}), "
    "CAST(@0 AS INT) + 1) END"
)
_UNITS = "CAST(replace(CAST(CAST({} AS DECIMAL(38,10)) AS STRING), '.', '') AS DECIMAL({},0))"
"""A numeric as a whole number of units in its last place."""
_DIV = (
    # Spark's div returns a bigint, which overflows silently; its quotients by a short divisor have enough digits
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
_ATAN2 = (  # Spark's atan2 reads -0.0 as 0.0
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


# names of the parts of the text: the number, rounded and without its sign, and its digits before the point
_ROUNDED, _DIGITS, _PLACED = "`$n`", "`$d`", "`$p`"
# Java writes the exact digits of a float only up to 17, and a float above the range of bigint is split into two parts
_VALUE = "`$x`"
_NEGATIVE = "startswith(CAST(@0 AS STRING), '-')"
_HALF = "9223372036854775808"
_LARGE = (
    f"CASE WHEN {_VALUE} >= 1e37D THEN '$over' ELSE "
    f"CAST(CAST(floor({_VALUE} / {_HALF}D) AS DECIMAL(20,0)) * CAST({_HALF}BD AS DECIMAL(19,0)) "
    f"+ CAST(CAST({_VALUE} - floor({_VALUE} / {_HALF}D) * {_HALF}D AS BIGINT) AS DECIMAL(20,0)) AS STRING) END"
)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in Spark: its text without a sign, whether it has a point, and whether it is negative."""

    text: str
    places: int | None
    """The number of digits after the point; None if it depends on the number."""
    negative: str


def _to_char(call: Call) -> Form:
    format_ = parse_number_format(constant_text(call.arguments[1]))
    type_ = call.arguments[0].type
    if format_.roman:
        text = _roman(format_, type_)
    elif format_.exponent:
        text = _scientific(format_, type_)
    elif type_.name in FLOAT_DIGITS:
        text = _written(format_, _of_float(format_, type_.name))
    else:
        text = _written(format_, _exact(format_, type_))
    return Form(text, operands=call.arguments[:1])


def _rounded(type_: Type, places: int) -> tuple[str, int]:
    """Return a number without its sign as text, and how many digits it has after its point."""
    precision, scale = type_.precision or 38, type_.scale or 0
    digits_behind, value = min(places, scale), "@0"
    if type_.name == "numeric":
        most = min(precision - scale + (digits_behind < scale) + digits_behind, 38)
        value = f"CAST(@0 AS DECIMAL({max(most, 1)},{digits_behind}))"
    return f"trim(LEADING '-' FROM CAST({value} AS STRING))", digits_behind


def _exact(format_: NumberFormat, type_: Type) -> _Number:
    text, digits_behind = _rounded(type_, format_.places or format_.shift)
    if type_.name != "numeric" and format_.shift:  # shifted as an integer, which fails for large numbers
        factor = 10**format_.shift if type_.name == "integer" else f"{10**format_.shift}L"
        text, digits_behind = text.replace("@0", f"@0 * {factor}"), format_.shift
    return _Number(text, digits_behind, f"@0 < 0 AND {_ROUNDED} RLIKE '[1-9]'")


def _of_float(format_: NumberFormat, type_: str) -> _Number:
    """Return a float shifted and rounded as in Postgres: half to even, with its significant digits."""
    value = "@0"
    if format_.shift:
        value = f"@0 * {10**format_.shift}D" if type_ == "double precision" else f"@0 * float('{10**format_.shift}')"
    value, most = f"abs(CAST({value} AS DOUBLE))", FLOAT_DIGITS[type_]
    whole = f"CAST(CAST(rint({_VALUE}) AS BIGINT) AS STRING)"
    behind = f"greatest(0, least({format_.places}, {most} - length({whole})))"
    pointed = f"replace(format_number({_VALUE}, {behind}), ',', '')" if format_.places else whole
    large = _LARGE.replace("$over", "9" * (len(format_.slots) + 1))
    text = (
        f"CASE WHEN isnan({_VALUE}) THEN '{format_.not_finite('NaN', most)}' "
        f"WHEN {_VALUE} = double('Infinity') THEN '{format_.not_finite('Infinity', most)}' "
        f"WHEN {_VALUE} < 1e14D THEN {pointed} WHEN {_VALUE} < 9e18D THEN {whole} ELSE {large} END"
    )
    return _Number(_named(value, _VALUE, text), None if format_.places else 0, _NEGATIVE)


def _written(format_: NumberFormat, number: _Number) -> str:
    digits, digits_behind = _ROUNDED, number.places or 0
    fraction = text_literal("0" * (format_.places - digits_behind))
    if number.places is None:
        digits = f"substring_index({_ROUNDED}, '.', 1)"
        fraction = f"IF(contains({_ROUNDED}, '.'), substring_index({_ROUNDED}, '.', -1), '')"
    elif format_.shift and number.negative != _NEGATIVE:
        digits = f"concat(replace({_ROUNDED}, '.', ''), '{'0' * (format_.shift - digits_behind)}')"
        digits = f"regexp_replace({digits}, '^0+(?=[0-9])', '')"
    elif digits_behind:
        digits = f"substring_index({_ROUNDED}, '.', 1)"
        fraction = f"concat(substring_index({_ROUNDED}, '.', -1), {fraction})"
    text = _text(format_, number, fraction)
    return _named(number.text, _ROUNDED, _named(digits, _DIGITS, text))


def _named(value: str, name: str, of: str) -> str:
    return f"transform(array({value}), {name} -> {of})[0]"


def _text(format_: NumberFormat, number: _Number, fraction: str) -> str:
    """Return a number's text, from its digits and those after its point."""
    over = f"length({_DIGITS}) > {len(format_.slots)}"
    varying = number.places is None
    shown = _digits(format_, fraction, over, varying=varying)
    if format_.start is not None and any(format_.start):
        shown = f"concat({_either(number.negative, format_.start)}, {shown})"
    if format_.blanks:
        width = f"{format_.width} - {_missing(format_, fraction, over)}" if varying else f"{format_.width}"
        shown = f"lpad({shown}, {width}, ' ')"
    end = [] if format_.end is None else [_either(number.negative, format_.end)]
    before, after = (
        [_beside(format_, part, number, over) for part in side] for side in (format_.before, format_.after)
    )
    if varying:
        pointed = f"({over} OR {fraction} <> '')"
        end = [f"IF({pointed}, {ending}, '')" for ending in end]
        after = [_uncut(format_, part, fraction, pointed) for part in after]
    pieces = [*before, shown, *end, *after]
    return pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})"


def _uncut(format_: NumberFormat, piece: str, fraction: str, pointed: str) -> str:
    """Return the text after a float, which is omitted if the float's digits end early."""
    wanted = format_.places if format_.blanks else format_.forced
    return f"IF({pointed} AND length({fraction}) >= {wanted}, {piece}, '')"


def _missing(format_: NumberFormat, fraction: str, over: str) -> str:
    """Return the number of characters by which a float is shorter than its pattern, the point included."""
    return f"({format_.places} - length({fraction})) - IF({over} OR {fraction} <> '', 0, 1)"


def _digits(format_: NumberFormat, fraction: str, over: str, *, varying: bool) -> str:
    """Return a number's digits and those after its point, without leading blanks."""
    shown_fraction = fraction
    if not format_.blanks:
        shown_fraction = f"regexp_replace({fraction}, '^(.{{{format_.forced}}}.*?)0*$', '$1')"
    shown = f"trim(LEADING ' ,' FROM {_whole(format_, shown_fraction, over)})"
    if not format_.places:
        return shown
    if not varying:
        return f"concat({shown}, '.', IF({over}, '{'#' * format_.places}', {shown_fraction}))"
    behind = f"IF({fraction} = '', '', concat('.', {shown_fraction}))"
    return f"concat({shown}, IF({over}, concat('.', repeat('#', length({fraction}))), {behind}))"


def _scientific(format_: NumberFormat, type_: Type) -> str:
    """Return a number's first digits and its power of ten."""
    places = format_.places
    if type_.name in ("bigint", "numeric"):
        return _exact_scientific(places)
    form = f"'0{'.' * bool(places)}{'0' * places}E00'"
    # Java does not know which whole doubles are exact, and rounds their halves up
    whole = f"{_VALUE} = rint({_VALUE}) AND abs({_VALUE}) < 9e18D"
    exact = f"format_number(CAST(CAST(abs({_VALUE}) AS BIGINT) AS DECIMAL(20,0)), {form})"
    shown = f"IF({whole}, {exact}, format_number(abs({_VALUE}), {form}))"
    shown = f"replace(regexp_replace({shown}, 'E(?=[0-9])', 'e+'), 'E', 'e')"
    least = f"{_VALUE} <> 0 AND abs({_VALUE}) < 2.2250738585072014E-308D"
    wrong = raised("to_char() with EEEE of a number so close to zero is not supported", "STRING")
    sign = f"IF({_NEGATIVE.replace('@0', _VALUE)}, '-', ' ')"
    infinite = f"isnan({_VALUE}) OR abs({_VALUE}) = double('Infinity')"
    text = f"IF({infinite}, '{format_.no_exponent}', concat({sign}, {shown}))"
    return _named("CAST(@0 AS DOUBLE)", _VALUE, f"CASE WHEN {least} THEN {wrong} ELSE {text} END")


def _exact_scientific(places: int) -> str:
    """Return the same as `_scientific` for an exact number: halves are rounded away from zero."""
    text = "trim(LEADING '-' FROM CAST(@0 AS STRING))"
    digits = f"regexp_replace(replace({_ROUNDED}, '.', ''), '^0+(?=[0-9])', '')"
    behind = f"IF(contains({_ROUNDED}, '.'), length(substring_index({_ROUNDED}, '.', -1)), 0)"
    power = f"IF(replace({_DIGITS}, '0', '') = '', 0, length({_DIGITS}) - {behind} - 1)"
    padded = f"rpad({_DIGITS}, {places + 1}, '0')"
    more = f"IF(substring({_DIGITS}, {places + 2}, 1) >= '5', 1BD, 0BD)"
    figures = f"CAST(CAST({padded} AS DECIMAL(38,0)) + {more} AS STRING)"
    if places:
        figures = f"regexp_replace({figures}, '^0$', '{'0' * (places + 1)}')"
        halves = f"left({_PLACED}, length({_PLACED}) - {places}), '.', right({_PLACED}, {places})"
        figures = _named(figures, _PLACED, f"concat({halves})")
    sign = f"IF({power} < 0, '-', '+'), lpad(CAST(abs({power}) AS STRING), 2, '0')"
    shown = f"concat(IF(@0 < 0, '-', ' '), {figures}, 'e', {sign})"
    return _named(text, _ROUNDED, _named(digits, _DIGITS, shown))


def _either(negative: str, words: tuple[str, str]) -> str:
    return f"IF({negative}, {text_literal(words[1])}, {text_literal(words[0])})"


def _whole(format_: NumberFormat, fraction: str, over: str) -> str:
    """Return the text before the point: digits padded with blanks or zeros, and the pattern's commas and texts."""
    slots, digits = format_.slots, _DIGITS
    if format_.zeros:
        digits = f"IF(length({_DIGITS}) < {format_.zeros}, lpad({_DIGITS}, {format_.zeros}, '0'), {_DIGITS})"
    elif format_.places:
        left_out = f"{_DIGITS} = '0'" if format_.blanks else f"{_DIGITS} = '0' AND {fraction} <> ''"
        digits = f"IF({left_out}, '', {_DIGITS})"
    placed = f"IF({over}, '{'#' * len(slots)}', lpad({digits}, {len(slots)}, ' '))"
    pieces, start, count = [], 1, 0
    for slot in (*format_.whole, ""):
        if slot in DIGITS:
            count += 1
            continue
        if count:
            pieces.append(f"substring({_PLACED}, {start}, {count})")
        start, count = start + count, 0
        if slot:
            pieces.append(text_literal(slot))
    return placed if len(pieces) == 1 else _named(placed, _PLACED, f"concat({', '.join(pieces)})")


def _beside(format_: NumberFormat, part: PatternToken | str, number: _Number, over: str) -> str:
    if isinstance(part, str):
        return text_literal(part)
    if part.name not in ("TH", "th"):
        return _either(number.negative, format_.beside(part))
    if format_.places:
        return "''"
    endings = [ending.upper() if part.name == "TH" else ending for ending in ENDINGS]
    branches = " ".join(f"WHEN {_DIGITS} RLIKE '(^|[^1]){digit}$' THEN '{endings[digit]}'" for digit in (1, 2, 3))
    if number.negative == _NEGATIVE:
        branches += f" WHEN {_DIGITS} RLIKE '[a-z]' THEN {raised('infinity and NaN have no ordinal', 'STRING')}"
    return f"CASE WHEN {number.negative} OR {over} THEN '' {branches} ELSE '{endings[0]}' END"


def _roman(format_: NumberFormat, type_: Type) -> str:
    rounded, _ = _rounded(type_, 0)
    if type_.name in FLOAT_DIGITS:
        whole = "CAST(CAST(rint(abs(CAST(@0 AS DOUBLE))) AS BIGINT) AS STRING)"
        rounded = f"CASE WHEN @0 IS NOT NULL THEN IF(abs(@0) < 1e4, {whole}, '99999') END"
    digits = [
        f"split_part('{'|'.join(row)}', '|', CAST(substring({_DIGITS}, {place}, 1) AS INT) + 1)"
        for place, row in enumerate(ROMAN, start=1)
    ]
    shown = f"concat({', '.join(digits)})"
    shown = f"lower({shown})" if format_.roman == "rn" else shown
    shown = f"lpad({shown}, {ROMAN_WIDTH}, ' ')" if format_.blanks else shown
    wrong = f"@0 <= 0 OR length({_ROUNDED}) > 4 OR {_ROUNDED} >= '4' AND length({_ROUNDED}) = 4 OR {_ROUNDED} = '0'"
    text = _named(f"lpad({_ROUNDED}, 4, '0')", _DIGITS, shown)
    text = f"IF({wrong}, '{'#' * ROMAN_WIDTH}', {text})"
    sides = [[text_literal(part) for part in side if isinstance(part, str)] for side in (format_.before, format_.after)]
    pieces = [*sides[0], text, *sides[1]]
    return _named(rounded, _ROUNDED, pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})")


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
    **{f"to_char({type_},text)": _to_char for type_ in ("integer", "bigint", "numeric", *FLOAT_DIGITS)},
}
"""By id; the pattern is a constant."""
