"""Operators, comparisons, conditions and the parts of aggregates as Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sinkql.logical import Call, Expression, Interval, Literal, Type
from sinkql.logical.expression import constant_value
from sinkql.logical.function import SEVERAL, SINGLE, whole_divisor
from sinkql.logical.meaning_version import FEW_DAYS
from sinkql.logical.numeric_type import SIGNED, sum_fits
from sinkql.logical.short_circuit import evaluates_before, is_decided
from sinkql.logical.type import DAY, MOST_DIGITS, SECOND, UINT2, UINT4, UINT8
from sinkql.lowering.spark.nested import ordered
from sinkql.lowering.spark.sql import (
    AND,
    BITS,
    NOT,
    OR,
    PREDICATE,
    PRODUCT,
    SIGN,
    SUM,
    Form,
    Infix,
    Spelling,
    day_time,
    raised,
    spark_type,
    within,
)
from sinkql.lowering.spark.time import shift_by_text
from sinkql.planner.query.can_fail import can_fail

_OVERFLOW, _UNDERFLOW = "value out of range: overflow", "value out of range: underflow"
_FLOATS = {"real": "FLOAT", "double precision": "DOUBLE"}
_SPARK_BITS = {"&": "&", "|": "|", "#": "^"}
_INSTANTS = ("timestamp", "timestamptz")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def _overflow(operation: str, spark: str) -> str:
    infinite = f"{spark.lower()}('Infinity')"
    test = f"abs({operation}) = {infinite} AND abs(@0) <> {infinite} AND abs(@1) <> {infinite}"
    return f"IF({test}, {raised(_OVERFLOW, spark)}, {operation})"


def _product(spark: str) -> str:
    infinite = f"{spark.lower()}('Infinity')"
    return (
        f"CASE WHEN abs(@0 * @1) = {infinite} AND abs(@0) <> {infinite} AND abs(@1) <> {infinite} "
        f"THEN {raised(_OVERFLOW, spark)} WHEN @0 * @1 = 0 AND @0 <> 0 AND @1 <> 0 "
        f"THEN {raised(_UNDERFLOW, spark)} ELSE @0 * @1 END"
    )


def _quotient(spark: str) -> str:
    infinite = f"{spark.lower()}('Infinity')"
    value = "@0 / @1" if spark == "DOUBLE" else "CAST(@0 / @1 AS FLOAT)"  # Spark divides floats as doubles
    return (
        f"CASE WHEN isnan(@0) AND @1 = 0 THEN @0 WHEN abs({value}) = {infinite} AND abs(@0) <> {infinite} "
        f"THEN {raised(_OVERFLOW, spark)} WHEN {value} = 0 AND @0 <> 0 AND abs(@1) <> {infinite} "
        f"THEN {raised(_UNDERFLOW, spark)} ELSE {value} END"
    )


def _wide(type_: Type, place: str) -> str:
    """Return a number's place as plain numeric, DECIMAL(38,10)."""
    return place if (type_.precision, type_.scale) == (38, 10) else f"CAST({place} AS DECIMAL(38,10))"


def _numeric_sum(operator: str) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        places = ["@0", "@1"]
        if not sum_fits(*(argument.type for argument in call.arguments)):
            # a sum has one digit more: 37 digits leave room for it, and a longer value is an error
            places = [f"CAST({place} AS DECIMAL(37,10))" for place in places]
            moved = f"CAST({places[0]} {operator} {places[1]} AS DECIMAL(38,10))"
            return Form(f"IF(@0 IS NULL OR @1 IS NULL, NULL, {moved})")
        return Form(f"CAST({places[0]} {operator} {places[1]} AS DECIMAL(38,10))")

    return form


def _numeric_remainder(call: Call) -> Form:
    """Divide by a multiple of the divisor with at most the scale of the dividend, then by the divisor.

    Spark first converts both numbers to the divisor's scale, which a dividend of 38 digits has no room for.
    """
    left, right = (argument.type for argument in call.arguments)
    places = (right.scale or 0) - (left.scale or 0)
    digits = (right.precision or 38) + places
    if places <= 0 or left.whole_digits + (right.scale or 0) <= MOST_DIGITS or digits + 2 > MOST_DIGITS:
        return Form("CAST(@0 % @1 AS DECIMAL(38,10))")
    multiple = f"CAST(@1 * {10**places}BD AS DECIMAL(38,{left.scale or 0}))"
    return Form(f"CAST(CAST(@0 % {multiple} AS DECIMAL({digits},{right.scale or 0})) % @1 AS DECIMAL(38,10))")


def _numeric_quotient(call: Call) -> Form:
    """Divide, and round once, to ten places.

    Spark itself rounds to 18 places. The result differs from rounding once only if the last eight digits are 50000000
    and the exact quotient is smaller. The remainder decides that; it requires a divisor below 10^26.
    """
    types = [argument.type for argument in call.arguments]
    left, right = (_wide(type_, f"@{place}") for place, type_ in enumerate(types))
    form = _rounded_once(left, right, short=_short(*types))
    digits = (types[0].precision or 38) - (types[0].scale or 0)
    if digits > _ROOM and whole_divisor(call.arguments[1]):
        # the multiple of the divisor in the dividend, and the rest
        rest = _rounded_once("`$m`", right, short=False)
        most = f"CAST(CAST({left} - `$m` AS DECIMAL(38,0)) / CAST(@1 AS DECIMAL(19,0)) AS DECIMAL(38,10))"
        long = f"transform(array({left} % {right}), `$m` -> CAST({most} + {rest} AS DECIMAL(38,10)))[0]"
        form = f"CASE WHEN {left} NOT BETWEEN -1{'0' * _ROOM}BD AND 1{'0' * _ROOM}BD THEN {long} ELSE {form} END"
    if max(type_.whole_digits for type_ in types) > _WIDE_DIGITS:  # the conversion to plain numeric may fail
        form = f"IF(@0 IS NULL OR @1 IS NULL, NULL, {form})"
    return Form(form)


_WIDE_DIGITS = 28
_ROOM = 20
"""The number of digits before the point that Spark has for a quotient of wide numbers."""


def _rounded_once(left: str, right: str, *, short: bool) -> str:
    quotient = f"{left} / {right}"
    rounded = f"CAST({quotient} AS DECIMAL(38,10))"
    if short:
        return rounded
    behind = f"({quotient}) % {_STEP}"
    rest = f"{left} % {right}" + f" * 100BD % {right}" * 5  # times 10^10, two digits at a time
    # twice the rest is at least the divisor
    enough = f"transform(array(2 * ({rest})), `$r` -> `$r` % {right} <> `$r`)[0]"
    return (
        f"CASE WHEN {behind} NOT IN (0.00000000005BD, -0.00000000005BD) OR {enough} THEN {rounded} "
        f"ELSE CAST({quotient} - {behind} AS DECIMAL(38,10)) END"
    )


_STEP = "0.0000000001BD"


def _short(left: Type, right: Type) -> bool:
    """Return whether 18 places suffice to round any quotient of these types correctly."""
    more = max((left.scale or 0) - (right.scale or 0), 0)
    return (right.precision or 38) + more <= 6


def _negative(call: Call) -> Form:
    (type_,) = (argument.type for argument in call.arguments)
    return Form(f"CAST({_NEGATED} AS {spark_type(type_)})") if _long(type_) else Form("-@0", SIGN)


_NEGATED = "0BD - @0"


def _long(type_: Type) -> bool:
    """Return whether Spark's negation loses digits: it keeps 34."""
    return type_.name == "numeric" and (type_.precision or 38) > 34


def absolute(call: Call) -> Form:
    """Return the form of abs() of a numeric."""
    (type_,) = (argument.type for argument in call.arguments)
    return Form(f"IF(@0 < 0, CAST({_NEGATED} AS {spark_type(type_)}), @0)" if _long(type_) else "abs(@0)")


def _places(call: Call) -> list[str]:
    """Return the places of compared operands; decimals without a common type in Spark are split into two parts."""
    types = [argument.type for argument in call.arguments]
    places = [f"@{place}" for place in range(len(types))]
    if types[0].name == "array" and call.function.startswith(("<", ">", "BETWEEN")) and call.function[1] != ">":
        return [ordered(place, type_) for place, type_ in zip(places, types, strict=True)]
    if any(type_.name != "numeric" for type_ in types):
        return places
    scales = [type_.scale or 0 for type_ in types]
    digits = [(type_.precision or 0) - (type_.scale or 0) for type_ in types]
    if max(scales) + max(digits) <= 38:
        return places
    return [_in_two(place, type_) for place, type_ in zip(places, types, strict=True)]


def _in_two(place: str, type_: Type) -> str:
    """Return a decimal as its parts before and after the point, which sort like the decimal.

    The operand occurs once, so that it is evaluated only where it is compared.
    """
    behind = "`$x` % 1BD" if type_.scale else "0"
    before = f"`$x` - {behind}" if type_.scale else "`$x`"
    parts = f"struct(CAST({before} AS DECIMAL(38,0)) AS w, CAST({behind} AS DECIMAL(38,37)) AS f)"
    return f"transform(array({place}), `$x` -> IF(`$x` IS NULL, NULL, {parts}))[0]"


def _comparison(operator: str) -> Callable[[Call], Form | Infix]:
    def form(call: Call) -> Form | Infix:
        left, right = _places(call)
        plain = (left, right) == ("@0", "@1")
        return Infix(operator, PREDICATE) if plain else Form(f"{left} {operator} {right}", PREDICATE)

    return form


def _not(call: Call) -> Form:
    (operand,) = call.arguments
    if isinstance(operand, Call) and operand.function.startswith("IS "):
        test = operand.function[len("IS ") : operand.function.index("(")]
        if len(operand.arguments) == 1:
            return Form(f"@0 IS NOT {test}", PREDICATE, operand.arguments)
    return Form("NOT @0", NOT)


def _between(call: Call) -> Form:
    return Form("{} BETWEEN {} AND {}".format(*_places(call)), PREDICATE)


def _in(call: Call) -> Form:
    subject, *values = _places(call)
    return Form(f"{subject} IN ({', '.join(values)})", PREDICATE)


def _interval_comparison(operator: str) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        value = constant_value(call.arguments[1], Interval)
        # as Postgres compares them: a month is 30 days
        right = day_time((value.months * 30 + value.days) * DAY + value.micros)
        return Form(f"@0 {operator} {right}", PREDICATE, call.arguments[:1])

    return form


def _shift(sign: str) -> Callable[[Call], Form]:
    """Add an interval to a timestamp, or subtract it: months first, then days and time."""

    def form(call: Call) -> Form:
        instant, interval = call.arguments
        if isinstance(interval, Call) and interval.function.startswith("*("):
            return _shift_times(sign, instant, interval)
        if not isinstance(interval, Literal) or interval.text is None:
            return shift_by_text(sign, call)
        value = constant_value(interval, Interval)
        rest = value.days * DAY + value.micros
        months = f" {sign} INTERVAL '{value.months}' MONTH" if value.months else ""
        time = f" {sign} {day_time(rest)}" if rest or not value.months else ""
        return Form(f"@0{months}{time}", SUM, (instant,))

    return form


_FIRST_DAY, _LAST_DAY = -2440588, 2145042905
"""The dates of Postgres, from 4713 BC, in days since 1970."""


def _days(sign: str) -> Callable[[Call], Form]:
    """Add days to a date, or subtract them; without a check Spark would wrap around at the last date."""

    def form(call: Call) -> Form:
        days = call.arguments[1]
        if isinstance(days, Literal) and isinstance(days.value, int) and abs(days.value) <= FEW_DAYS:
            return Form(f"{'date_add' if sign == '+' else 'date_sub'}(@0, @1)")
        moved = f"(CAST(unix_date(@0) AS BIGINT) {sign} @1)"
        beyond = f"{moved} NOT BETWEEN {_FIRST_DAY} AND {_LAST_DAY}"
        return Form(f"IF({beyond}, {raised('date out of range', 'DATE')}, date_from_unix_date(CAST({moved} AS INT)))")

    return form


def _turn(sign: str) -> Callable[[Call], Form]:
    """Add an interval to a time of day, or subtract it; days do not count."""

    def form(call: Call) -> Form:
        micros = constant_value(call.arguments[1], Interval).micros % DAY
        return Form(f"pmod(@0 {sign} {micros}L, {DAY}L)", operands=call.arguments[:1])

    return form


def _shift_times(sign: str, instant: Expression, product: Call) -> Form:
    """Add `n * INTERVAL '…'` with a constant number of days or whole seconds."""
    factor, interval = product.arguments
    value = constant_value(interval, Interval)
    if value.days:
        amount = "make_dt_interval(@1)" if value.days == 1 else f"make_dt_interval(@1 * {value.days})"
    else:
        seconds = value.micros // SECOND
        amount = f"make_dt_interval(0, 0, 0, CAST(CAST(@1 AS DECIMAL(19,0)) * {seconds} AS DECIMAL(18,6)))"
    return Form(f"@0 {sign} {amount}", SUM, (instant, factor))


def _by_halves(operator: str) -> str:
    """Return a bitwise operator over decimals, since Spark has it only for integers up to bigint."""
    half = "4294967296BD"
    high = f"((@0 div {half}) {operator} (@1 div {half}))"
    low = f"(CAST(@0 % {half} AS BIGINT) {operator} CAST(@1 % {half} AS BIGINT))"
    return f"CAST(CAST({high} AS DECIMAL(10,0)) * {half} + CAST({low} AS DECIMAL(10,0)) AS DECIMAL(20,0))"


def _float_sum(value: str) -> Form:
    """Check a sum of floats, @0, for overflow by their greatest absolute value, @1."""
    infinity = "double('Infinity')"
    return Form(f"IF(abs(@0) = {infinity} AND @1 < {infinity}, {raised(_OVERFLOW, 'DOUBLE')}, {value})")


def _single(call: Call) -> Form:
    failed = f"CAST(raise_error('{SEVERAL}') AS {spark_type(call.type)})"
    return Form(f"CASE WHEN @0 > 1 THEN {failed} ELSE @1 END")


COMPUTED = "sinkql_computed"
"""A Python function of a program, its result's type and its operands: returns the result, or an error behind a !."""


def _program(call: Call) -> Form:
    places = "".join(f", @{place}" for place in range(1, len(call.arguments)))
    called = f"{COMPUTED}(@0, '{call.type}'{places})"
    spark = spark_type(call.type)
    failed = f"CAST(raise_error(substring({called}, 2)) AS {spark})"
    return Form(f"IF(left({called}, 1) = '!', {failed}, CAST({called} AS {spark}))", apart=True)


def _and(call: Call) -> Form | Infix:
    return Form("false", operands=()) if is_decided(call) else Infix("AND", AND)


def _or(call: Call) -> Form | Infix:
    """Return conditions joined with OR; in a comparison of rows, conditions after a NULL are not evaluated."""
    if is_decided(call):
        return Form("true", operands=())
    parts: list[str] = []
    operands: list[Expression] = []
    for place, argument in enumerate(call.arguments):
        here = len(operands)
        if place and isinstance(argument, Call) and evaluates_before(call.arguments[place - 1], argument):
            tie, *rest = argument.arguments
            if any(map(can_fail, rest)):
                behind = rest[0] if len(rest) == 1 else msgspec.structs.replace(argument, arguments=tuple(rest))
                operands += [tie, behind]
                parts.append(f"CASE @{here} WHEN true THEN @{here + 1} WHEN false THEN false END")
                continue
        operands.append(argument)
        parts.append(f"@{here}")
    if len(operands) == len(call.arguments):
        return Infix("OR", OR)
    return Form(" OR ".join(parts), OR, tuple(operands))


def _variadic(function: str) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        return Form(f"{function}({', '.join(f'@{place}' for place in range(len(call.arguments)))})")

    return form


def _counted(for_null: int) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        parts = [f"IF(@{place} IS NULL, {for_null}, {1 - for_null})" for place in range(len(call.arguments))]
        return Form(f"({' + '.join(parts)})")

    return form


def _most(function: str, sign: str) -> Spelling:
    def form(call: Call) -> Form:
        if call.type.name != "array":
            return _variadic(function)(call)
        places = ", ".join(f"@{place}" for place in range(len(call.arguments)))
        better = f"{ordered('`$e`', call.type)} {sign} {ordered('`$a`', call.type)}"
        chosen = f"CASE WHEN `$e` IS NULL THEN `$a` WHEN `$a` IS NULL OR {better} THEN `$e` ELSE `$a` END"
        return Form(f"aggregate(array({places}), CAST(NULL AS {spark_type(call.type)}), (`$a`, `$e`) -> {chosen})")

    return form


FORMS: dict[str, Spelling] = {
    "$exact(text,any…)": _program,
    "NOT(boolean)": _not,
    **{f"{operator}(any,any)": _comparison(operator) for operator in _COMPARISONS},
    **{f"{operator}(interval,interval)": _interval_comparison(operator) for operator in _COMPARISONS},
    "BETWEEN(any,any,any)": _between,
    "IN(any,any…)": _in,
    "IS NULL(any)": Form("@0 IS NULL", PREDICATE),
    "IS TRUE(boolean)": Form("@0 IS TRUE", PREDICATE),
    "IS FALSE(boolean)": Form("@0 IS FALSE", PREDICATE),
    "IS NOT DISTINCT FROM(any,any)": _comparison("<=>"),
    "IS NOT DISTINCT FROM(interval,interval)": _interval_comparison("<=>"),
    **{f"{operator}({type_},{type_})": Infix(operator, SUM) for operator in "+-" for type_ in SIGNED},
    **{f"*({type_},{type_})": Infix("*", PRODUCT) for type_ in SIGNED},
    "/(smallint,smallint)": Form("CAST(@0 div @1 AS SMALLINT)"),
    "/(integer,integer)": Form("CAST(@0 div @1 AS INT)"),
    "/(bigint,bigint)": Infix("div", PRODUCT),
    "%(smallint,smallint)": Form("CAST(@0 % @1 AS SMALLINT)"),
    "%(integer,integer)": Infix("%", PRODUCT),
    "%(bigint,bigint)": Infix("%", PRODUCT),
    **{
        f"{operator}({type_},{type_})": Form(within(f"@0 {operator} @1", type_))
        for operator in "+-*"
        for type_ in (UINT2, UINT4, UINT8)
    },
    "/(uint2,uint2)": Form("CAST(@0 div @1 AS INT)"),
    "/(uint4,uint4)": Infix("div", PRODUCT),
    "/(uint8,uint8)": Form("CAST((@0 - @0 % @1) / @1 AS DECIMAL(20,0))"),
    "%(uint2,uint2)": Infix("%", PRODUCT),
    "%(uint4,uint4)": Infix("%", PRODUCT),
    "%(uint8,uint8)": Form("CAST(@0 % @1 AS DECIMAL(20,0))"),
    **{
        f"{operator}({type_},{type_})": Form(_overflow(f"@0 {operator} @1", spark))
        for operator in "+-"
        for type_, spark in _FLOATS.items()
    },
    **{f"*({type_},{type_})": Form(_product(spark)) for type_, spark in _FLOATS.items()},
    **{f"/({type_},{type_})": Form(_quotient(spark)) for type_, spark in _FLOATS.items()},
    "+(numeric,numeric)": _numeric_sum("+"),
    "-(numeric,numeric)": _numeric_sum("-"),
    "*(numeric,numeric)": Form("CAST(@0 * @1 AS DECIMAL(38,10))"),
    "/(numeric,numeric)": _numeric_quotient,
    "%(numeric,numeric)": _numeric_remainder,
    **{f"-({type_})": Form("-@0", SIGN) for type_ in (*SIGNED, *_FLOATS)},
    "-(numeric)": _negative,
    **{
        f"{operator}({type_},{type_})": Form(f"@0 {spark} @1", BITS)
        for operator, spark in _SPARK_BITS.items()
        for type_ in (*SIGNED, "uint2", "uint4")
    },
    **{f"{operator}(uint8,uint8)": Form(_by_halves(spark)) for operator, spark in _SPARK_BITS.items()},
    **{f"<<({type_},integer)": Form("shiftleft(@0, @1)") for type_ in ("integer", "bigint")},
    **{f">>({type_},integer)": Form("shiftright(@0, @1)") for type_ in ("integer", "bigint")},
    **{f"~({type_})": Form("~@0", SIGN) for type_ in SIGNED},
    "~(uint2)": Form("65535 - @0", SUM),
    "~(uint4)": Form("4294967295L - @0", SUM),
    "~(uint8)": Form("CAST(18446744073709551615BD - @0 AS DECIMAL(20,0))"),
    "||(text,text)": Infix("||", SUM),
    "||(bytea,bytea)": Infix("||", SUM),
    **{f"+({type_},interval)": _shift("+") for type_ in _INSTANTS},
    **{f"-({type_},interval)": _shift("-") for type_ in _INSTANTS},
    **{f"-({type_},{type_})": Infix("-", SUM) for type_ in _INSTANTS},
    **{f"{sign}(time,interval)": _turn(sign) for sign in "+-"},
    "+(date,time)": Form("CAST(timestamp_micros(unix_date(@0) * 86400000000L + @1) AS TIMESTAMP_NTZ)"),
    "+(date,smallint)": Form("date_add(@0, @1)"),
    "-(date,smallint)": Form("date_sub(@0, @1)"),
    **{f"{sign}(date,integer)": _days(sign) for sign in "+-"},
    "-(date,date)": Form("datediff(@0, @1)"),
    SINGLE: _single,
    "$sum(double precision,double precision)": _float_sum("@0"),
    "$avg(double precision,double precision,bigint)": _float_sum("@0 / CAST(nullif(@2, 0) AS DOUBLE)"),
    "AND(boolean…)": _and,
    "OR(boolean…)": _or,
    "coalesce(any…)": _variadic("coalesce"),
    "greatest(any…)": _most("greatest", ">"),
    "least(any…)": _most("least", "<"),
    "nullif(any,any)": Form("nullif(@0, @1)"),
    "num_nulls(any…)": _counted(1),
    "num_nonnulls(any…)": _counted(0),
}
