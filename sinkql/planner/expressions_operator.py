"""Operators over typed operands → Spark SQL, type first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from sinkql.connector.types import spark_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Type
from sinkql.planner import types
from sinkql.planner.expressions_cast import cast
from sinkql.planner.expressions_interval import DAY, day_time, shift
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_literal import decimal as decimal_literal
from sinkql.planner.expressions_literal import number as number_literal
from sinkql.planner.expressions_typed import (
    ATOM,
    BITS,
    PREDICATE,
    PRODUCT,
    SIGN,
    SUM,
    Interval,
    Typed,
    check_scale,
    exact,
    form,
    infix,
)  # fmt: skip

_RAISE = "CAST(raise_error('value out of range: {0}') AS {1})"
_BINDS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _overflow(operation: str, spark: str) -> str:
    infinite = f"{spark.lower()}('Infinity')"
    test = f"abs({operation}) = {infinite} AND abs(@0) <> {infinite} AND abs(@1) <> {infinite}"
    return f"IF({test}, {_RAISE.format('overflow', spark)}, {operation})"


def _product(spark: str) -> str:
    infinite = f"{spark.lower()}('Infinity')"
    return (
        f"CASE WHEN abs(@0 * @1) = {infinite} AND abs(@0) <> {infinite} AND abs(@1) <> {infinite} "
        f"THEN {_RAISE.format('overflow', spark)} WHEN @0 * @1 = 0 AND @0 <> 0 AND @1 <> 0 "
        f"THEN {_RAISE.format('underflow', spark)} ELSE @0 * @1 END"
    )


def _quotient(spark: str) -> str:
    infinite = f"{spark.lower()}('Infinity')"
    value = "@0 / @1" if spark == "DOUBLE" else "CAST(@0 / @1 AS FLOAT)"  # floats are divided as doubles
    return (
        f"CASE WHEN isnan(@0) AND @1 = 0 THEN @0 WHEN abs({value}) = {infinite} AND abs(@0) <> {infinite} "
        f"THEN {_RAISE.format('overflow', spark)} WHEN {value} = 0 AND @0 <> 0 AND abs(@1) <> {infinite} "
        f"THEN {_RAISE.format('underflow', spark)} ELSE {value} END"
    )


def arithmetic(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left operator right` for + - * / %."""
    left, right = _literal_like(left, right)
    if types.instant(left.type) or types.instant(right.type) or types.INTERVAL in (left.type, right.type):
        return _of_times(operator, left, right, span).at(span)
    type_ = types.operand(left.type, right.type) if types.number(left.type) and types.number(right.type) else None
    if type_ is None or (operator == "%" and types.floating(type_)):
        raise no_operator(operator, (left, right), span)
    if types.floating(type_):
        found = _of_floats(operator, coerced(left, type_), coerced(right, type_), type_)
    elif type_.name == "numeric":
        found = _of_numerics(operator, left, right)
    else:
        found = _of_integers(operator, left, right, type_)
    return found.at(span)


def _literal_like(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Give an untyped literal the type of the other side; beside a date or time it is an interval or a number."""
    if left.type == types.UNKNOWN and right.type != types.UNKNOWN:
        return coerced(left, _partner(right.type)), right
    if right.type == types.UNKNOWN and left.type != types.UNKNOWN:
        return left, coerced(right, _partner(left.type))
    return left, right


def _partner(type_: Type) -> Type:
    return NUMERIC if type_.name == "numeric" else type_


def _of_integers(operator: str, left: Typed, right: Typed, type_: Type) -> Typed:
    if operator == "/":
        if type_ == types.BIGINT:
            right = coerced(right, type_) if right.type != type_ and left.type == type_ else right
            return infix("div", left, right, type_=type_, binds=PRODUCT)
        return form(f"CAST(@0 div @1 AS {spark_type(type_)})", (left, right), type_)
    found = infix(operator, left, right, type_=type_, binds=_BINDS[operator])
    if operator == "%" and type_ == types.SMALLINT:
        return form("CAST(@0 AS SMALLINT)", (found,), type_)
    return found


def _of_floats(operator: str, left: Typed, right: Typed, type_: Type) -> Typed:
    spark = spark_type(type_)
    match operator:
        case "*":
            return form(_product(spark), (left, right), type_)
        case "/":
            return form(_quotient(spark), (left, right), type_)
        case _:
            return form(_overflow(f"@0 {operator} @1", spark), (left, right), type_)


def _of_numerics(operator: str, left: Typed, right: Typed) -> Typed:
    check_scale(left)
    check_scale(right)
    if operator == "/":
        return form("CAST(@0 / @1 AS DECIMAL(38,10))", (wide(left), wide(right)), NUMERIC)
    if operator == "%":
        return form("CAST(@0 % @1 AS DECIMAL(38,10))", (_decimal(left), _decimal(right)), NUMERIC)
    if operator == "*":
        return form("CAST(@0 * @1 AS DECIMAL(38,10))", (_decimal(left), _decimal(right)), NUMERIC)
    left, right = _decimal(left), _decimal(right)
    if not _sum_fits(left.raw, right.raw):
        # a sum has one digit more: 37 leave room for it, and a value that has more is an error
        left, right = (form("CAST(@0 AS DECIMAL(37,10))", (each,), NUMERIC) for each in (left, right))
    return form(f"CAST(@0 {operator} @1 AS DECIMAL(38,10))", (left, right), NUMERIC)


def _sum_fits(left: Type, right: Type) -> bool:
    scales = (left.scale or 0, right.scale or 0)
    digits = ((left.precision or 0) - scales[0], (right.precision or 0) - scales[1])
    return max(digits) + max(scales) + 1 <= 38


def _decimal(value: Typed) -> Typed:
    """Return an operand as a decimal of just the digits its type has."""
    if value.type.name == "numeric":
        return value
    held = Type("numeric", types.INTEGER_DIGITS[value.type.name], 0)
    return replace(form(f"CAST(@0 AS {spark_type(held)})", (value,), NUMERIC), held=held)


def wide(value: Typed) -> Typed:
    """Return a number as plain numeric, DECIMAL(38,10)."""
    if value.raw.name == "numeric":
        check_scale(value)
    if value.raw == NUMERIC:
        return value
    return form("CAST(@0 AS DECIMAL(38,10))", (value,), NUMERIC).at(value.span)


def negative(value: Typed, span: Span) -> Typed:
    """Plan `-value`."""
    if isinstance(value.constant, int) and not isinstance(value.constant, bool) and value.constant >= 0:
        text = number_literal(str(value.constant), span)
        return replace(text, sql=f"-{text.sql}", binds=SIGN, constant=-value.constant)
    if isinstance(value.constant, Decimal) and value.constant >= 0:
        text = decimal_literal(value.constant, span)
        return replace(text, sql=f"-{text.sql}", binds=SIGN, constant=-value.constant)
    if isinstance(value.constant, Interval) and value.times is None:
        interval = value.constant
        return replace(value, constant=Interval(-interval.months, -interval.days, -interval.micros), span=span)
    if not types.number(value.type):
        raise no_operator("-", (value,), span)
    type_ = NUMERIC if value.type.name == "numeric" else value.type
    return Typed(f"-{value.within(ATOM)}", type_, value.nullable, span, binds=SIGN, held=value.raw)


def bits(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan & | # << >> over integers."""
    type_ = types.operand(left.type, right.type)
    if type_ is None or not types.whole(type_):
        raise no_operator(operator, (left, right), span)
    if operator in ("<<", ">>"):
        width = 64 if left.type == types.BIGINT else 32
        if not isinstance(right.constant, int) or not 0 <= right.constant < width or left.type == types.SMALLINT:
            raise SinkqlError("SQ2214", f"a shift takes a constant count from 0 to {width - 1}", right.span)
        function = "shiftleft" if operator == "<<" else "shiftright"
        return form(f"{function}(@0, @1)", (left, right), left.type).at(span)
    spark = {"&": "&", "|": "|", "#": "^"}[operator]
    found = form(f"@0 {spark} @1", (coerced(left, type_), coerced(right, type_)), type_, binds=BITS)
    return found.at(span)


def compare(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan = <> < <= > >= and, as `<=>`, IS NOT DISTINCT FROM."""
    if types.INTERVAL in (left.type, right.type):
        return _compare_intervals(operator, left, right, span)
    left, right = alike((left, right), span, operator)
    return infix(operator, left, right, type_=types.BOOLEAN, binds=PREDICATE).at(span)


def alike(values: Sequence[Typed], span: Span, operator: str) -> tuple[Typed, ...]:
    """Bring operands of a comparison to one type, as little as it takes; jsonb has no comparison here."""
    type_: Type | None = values[0].type
    for value in values[1:]:
        type_ = types.operand(type_, value.type) if type_ is not None else None
    if type_ == types.UNKNOWN:
        type_ = types.TEXT
    if type_ == types.JSONB:
        raise SinkqlError(
            "SQ2214", "jsonb is not compared: its text is not its value", span, hint="Compare j ->> 'key'."
        )
    if type_ is None or type_ == types.INTERVAL:
        raise no_operator(operator, values, span)
    if types.whole(type_):
        return tuple(value if types.whole(value.type) else coerced(value, type_) for value in values)
    if type_.name == "numeric":
        values = [coerced(value, NUMERIC) if value.type == types.UNKNOWN else _decimal(value) for value in values]
        return tuple(values) if _compares(values) else tuple(wide(value) for value in values)
    return tuple(coerced(value, type_) for value in values)


def _compares(values: Sequence[Typed]) -> bool:
    """Tell whether Spark finds a decimal type that holds all of them."""
    scales = [value.raw.scale or 0 for value in values]
    digits = [(value.raw.precision or 0) - (value.raw.scale or 0) for value in values]
    return max(scales) + max(digits) <= 38


def _compare_intervals(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    left, right = _literal_like(left, right)
    if left.difference is None and right.difference is not None:
        return _compare_intervals(_FLIPPED.get(operator, operator), right, left, span)
    value = right.constant
    if left.difference is None or not isinstance(value, Interval) or right.times is not None:
        raise no_operator(operator, (left, right), span)
    # as Postgres compares them: a month is 30 days
    micros = (value.months * 30 + value.days) * DAY + value.micros
    return form(f"@0 {operator} {day_time(micros)}", (left,), types.BOOLEAN, binds=PREDICATE).at(span)


def _of_times(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    kinds = (left.type.name, operator, right.type.name)
    if operator == "*" and types.INTERVAL in (left.type, right.type):
        return _times(*((right, left) if right.type == types.INTERVAL else (left, right)), span)
    if operator == "+" and (left.type == types.INTERVAL or (types.whole(left.type) and right.type == types.DATE)):
        return _of_times(operator, right, left, span)
    if operator in ("+", "-") and types.instant(left.type) and right.type == types.INTERVAL:
        start = coerced(left, types.TIMESTAMP) if left.type == types.DATE else left
        return shift(start, right, sign=1 if operator == "+" else -1)
    if operator in ("+", "-") and left.type == types.DATE and types.whole(right.type) and right.type != types.BIGINT:
        return form(f"{'date_add' if operator == '+' else 'date_sub'}(@0, @1)", (left, right), types.DATE)
    if kinds == ("date", "-", "date"):
        return form("datediff(@0, @1)", (left, right), types.INTEGER)
    if operator == "-" and types.instant(left.type) and types.instant(right.type):
        type_ = types.operand(left.type, right.type) or left.type
        pair = (coerced(left, type_), coerced(right, type_))
        return replace(infix("-", *pair, type_=types.INTERVAL, binds=SUM), difference=pair)
    raise no_operator(operator, (left, right), span)


def _times(interval: Typed, factor: Typed, span: Span) -> Typed:
    value = interval.constant
    if not isinstance(value, Interval) or interval.times is not None or not types.whole(factor.type):
        raise no_operator("*", (factor, interval), span)
    if isinstance(factor.constant, int):
        scaled = Interval(*(part * factor.constant for part in (value.months, value.days, value.micros)))
        return replace(interval, constant=scaled, sql=day_time(scaled.days * DAY + scaled.micros), span=span)
    return replace(interval, times=factor, nullable=factor.nullable, span=span)


def concatenate(left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left || right`: texts, a text and a value, or two byte strings."""
    if types.BYTEA in (left.type, right.type):
        left, right = _literal_like(left, right)
        if left.type != right.type:
            raise no_operator("||", (left, right), span)
        return infix("||", left, right, type_=types.BYTEA, binds=SUM).at(span)
    if types.JSONB in (left.type, right.type):
        raise SinkqlError("SQ2214", "jsonb || has no exact form", span)
    if not {types.TEXT, types.UNKNOWN} & {left.type, right.type}:
        raise no_operator("||", (left, right), span)
    pair = (cast(value, types.TEXT, value.span) for value in (left, right))
    return infix("||", *pair, type_=types.TEXT, binds=SUM).at(span)


def no_operator(operator: str, operands: Sequence[Typed], span: Span) -> SinkqlError:
    """Make the error for an operator that is not there for these types."""
    names = [value.type.name for value in operands]
    shown = f" {operator} ".join(names) if len(names) > 1 else f"{operator} {names[0]}"
    if operator == "BETWEEN":
        shown = "{} BETWEEN {} AND {}".format(*names)
    return SinkqlError("SQ2211", f"there is no operator {shown}", span, hint="Cast the operands, as in value::integer.")


def settled(values: Sequence[Typed], span: Span, what: str) -> tuple[Type, tuple[Typed, ...]]:
    """Bring the branches of CASE, COALESCE and the like to one type; raises SinkqlError (SQ2213) if there is none."""
    type_ = types.common([value.type for value in values])
    if type_ is None:
        shown = ", ".join(dict.fromkeys(value.type.name for value in values if value.type != types.UNKNOWN))
        raise SinkqlError(
            "SQ2213", f"the values of {what} have no common type: {shown}", span, hint="Cast them to one type."
        )
    if type_ in (types.INTERVAL,):
        raise SinkqlError("SQ2214", f"{what} of intervals has no exact form", span)
    return type_, tuple(exact(coerced(value, type_)) for value in values)
