"""Plan operators over typed operands as calls with exactly the types that the operators take."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Interval, Type
from sinkql.logical.function import CASTS
from sinkql.logical.type import shown_name
from sinkql.planner import types
from sinkql.planner.expression.cast import cast, compared
from sinkql.planner.expression.literal import coerced, decimal, held, order, shift
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, check_scale, constant, exact

_OF_RANGES = ("<<", ">>", "+", "-", "*")
"""Operators that Postgres also has for ranges."""
_EQUALITIES = ("=", "<>", "IS NOT DISTINCT FROM")
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def arithmetic(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left operator right` for + - * / %."""
    left, right = _type_literal(left, right)
    if any(types.is_instant(side) or side in (types.TIME, types.INTERVAL) for side in (left.type, right.type)):
        return _time_arithmetic(operator, left, right, span).at(span)
    type_ = types.operand(left.type, right.type) if types.is_number(left.type) and types.is_number(right.type) else None
    if type_ is None or (operator == "%" and types.is_floating(type_)):
        raise no_operator(operator, (left, right), span)
    if type_.name == "numeric":
        return _numeric_arithmetic(operator, left, right, span)
    return call(f"{operator}({type_.name},{type_.name})", (coerced(left, type_), coerced(right, type_)), span)


def _type_literal(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Give an untyped literal the type of the opposite side."""
    if left.type == types.UNKNOWN and right.type != types.UNKNOWN:
        return coerced(left, _operand_type(right.type)), right
    if right.type == types.UNKNOWN and left.type != types.UNKNOWN:
        return left, coerced(right, _operand_type(left.type))
    return left, right


def _operand_type(type_: Type) -> Type:
    return NUMERIC if type_.name == "numeric" else type_


def _numeric_arithmetic(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    check_scale(left)
    check_scale(right)
    return call(f"{operator}(numeric,numeric)", (decimal_operand(left), decimal_operand(right)), span)


def decimal_operand(value: Typed) -> Typed:
    """Return an operand as a numeric with exactly the digits of its type."""
    if value.type.name == "numeric":
        return value
    constant_ = value.constant
    if isinstance(constant_, int):
        return decimal(Decimal(constant_), value.span)
    return Typed(cast_to(value, Type("numeric", types.INTEGER_DIGITS[value.type.name], 0)).tree, NUMERIC)


def wide(value: Typed) -> Typed:
    """Return a number as plain numeric, numeric(38,10)."""
    if value.raw.name == "numeric":
        check_scale(value)
    return value if value.raw == NUMERIC else cast_to(value, NUMERIC)


def negative(value: Typed, span: Span) -> Typed:
    """Plan `-value`."""
    constant_ = value.constant
    if isinstance(constant_, int) and not isinstance(constant_, bool) and constant_ >= 0:
        return constant(-constant_, value.raw, span)
    if isinstance(constant_, Decimal) and constant_ >= 0:
        return Typed(logical.literal(-constant_, value.raw, span), value.type)
    if isinstance(constant_, Interval):
        return constant(Interval(-constant_.months, -constant_.days, -constant_.micros), types.INTERVAL, span)
    if not types.is_number(value.type) or types.is_unsigned(value.type):
        raise no_operator("-", (value,), span)
    negated = call(f"-({value.type.name})", (value,), span, type_=value.raw)
    return Typed(negated.tree, NUMERIC if value.type.name == "numeric" else value.type, value.scale)


def complement(value: Typed, span: Span) -> Typed:
    """Plan `~value`."""
    if not types.is_signed_integer(value.type) and not types.is_unsigned(value.type):
        raise no_operator("~", (value,), span)
    return call(f"~({value.type.name})", (value,), span)


def bits(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan & | # << >> over integers."""
    type_ = types.operand(left.type, right.type)
    shift = operator in ("<<", ">>")
    if (
        type_ is None
        or not (types.is_signed_integer(type_) or types.is_unsigned(type_))
        or (shift and types.is_unsigned(left.type))
    ):
        raise no_operator(operator, (left, right), span)
    if shift:
        left = coerced(left, type_) if left.type == types.UNKNOWN else left
        width = 64 if left.type == types.BIGINT else 32
        if not isinstance(right.constant, int) or not 0 <= right.constant < width or left.type == types.SMALLINT:
            raise SinkqlError("SQ2214", f"a shift takes a constant count from 0 to {width - 1}", right.span)
        return call(f"{operator}({left.type.name},integer)", (left, coerced(right, types.INTEGER)), span)
    return call(f"{operator}({type_.name},{type_.name})", (coerced(left, type_), coerced(right, type_)), span)


def compare(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan = <> < <= > >= and IS NOT DISTINCT FROM."""
    if types.INTERVAL in (left.type, right.type):
        return _compare_intervals(operator, left, right, span)
    if left.type.name == right.type.name == "record":
        return compared(operator, left, right, span, compare)
    return call(f"{operator}(any,any)", alike((left, right), span, operator), span)


def alike(values: Sequence[Typed], span: Span, operator: str) -> tuple[Typed, ...]:
    """Cast operands of a comparison to one type, if needed; raise SQ2214 for types without an exact comparison."""
    type_: Type | None = values[0].type
    for value in values[1:]:
        type_ = types.operand(type_, value.type) if type_ is not None else None
    if type_ == types.UNKNOWN:
        type_ = types.TEXT
    if type_ == types.INTERVAL:
        return tuple(order(coerced(value, type_)) for value in values)
    if type_ is not None and not types.compared(type_):
        hint = "Compare j ->> 'key'." if type_ == types.JSONB else part_of(type_)
        raise SinkqlError("SQ2214", f"values of type {type_} cannot be compared exactly", span, hint=hint)
    if type_ is None:
        raise no_operator(operator, values, span)
    if types.is_range(type_) and operator not in _EQUALITIES:
        return tuple(_sort_value(coerced(value, type_)) for value in values)
    if type_.name == "numeric":
        typed = [coerced(value, NUMERIC) if value.type == types.UNKNOWN else value for value in values]
        return tuple(map(decimal_operand, typed))
    return tuple(coerced(value, type_) for value in values)


def _sort_value(value: Typed) -> Typed:
    return call("$order(any)", (value,), value.span, type_=value.type)


def _compare_intervals(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    left, right = _type_literal(left, right)
    if left.difference is None and right.difference is not None:
        return _compare_intervals(_FLIPPED.get(operator, operator), right, left, span)
    if left.type != right.type:
        raise no_operator(operator, (left, right), span)
    if left.difference is None or not isinstance(right.constant, Interval):
        return call(f"{operator}(any,any)", (order(left), order(right)), span)
    return call(f"{operator}(interval,interval)", (left, right), span)


def _time_arithmetic(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    kinds = (left.type.name, operator, right.type.name)
    if operator == "*" and types.INTERVAL in (left.type, right.type):
        return _multiply_interval(*((right, left) if right.type == types.INTERVAL else (left, right)), span)
    if operator == "+" and (
        (left.type == types.INTERVAL and right.type != types.INTERVAL)
        or (right.type == types.DATE and (types.is_signed_integer(left.type) or left.type == types.TIME))
    ):
        return _time_arithmetic(operator, right, left, span)
    if operator in ("+", "-") and types.is_instant(left.type) and right.type == types.INTERVAL:
        start = coerced(left, types.TIMESTAMP) if left.type == types.DATE else left
        return shift(start, right, sign=operator)
    if operator in ("+", "-") and left.type == types.DATE and right.type in (types.SMALLINT, types.INTEGER):
        return call(f"{operator}(date,{right.type.name})", (left, right), span)
    if operator in ("+", "-") and left.type == types.TIME and isinstance(right.constant, Interval):
        return call(f"{operator}(time,interval)", (left, right), span)
    if kinds == ("date", "+", "time"):
        return call("+(date,time)", (left, right), span)
    if kinds == ("date", "-", "date"):
        return call("-(date,date)", (left, right), span)
    if operator == "-" and types.is_instant(left.type) and types.is_instant(right.type):
        type_ = types.operand(left.type, right.type) or left.type
        return call(f"-({type_.name},{type_.name})", (coerced(left, type_), coerced(right, type_)), span)
    raise no_operator(operator, (left, right), span)


def _multiply_interval(interval: Typed, factor: Typed, span: Span) -> Typed:
    value = interval.constant
    if not isinstance(value, Interval) or not types.is_signed_integer(factor.type):
        raise no_operator("*", (factor, interval), span)
    if isinstance(factor.constant, int):
        scaled = Interval(*(part * factor.constant for part in (value.months, value.days, value.micros)))
        return constant(scaled, types.INTERVAL, span)
    return call(f"*({factor.type.name},interval)", (factor, interval), span)


def interval_of(parts: Sequence[tuple[Typed, Interval]], total: Interval, span: Span) -> Typed:
    """Return the sum of a constant interval and multiples of intervals, in the form that columns store."""
    sums: list[Typed] = []
    for unit in ("months", "days", "micros"):
        sum_ = constant(getattr(total, unit), types.BIGINT, span)
        for factor, interval in parts:
            if getattr(interval, unit):
                product = arithmetic("*", factor, constant(getattr(interval, unit), types.BIGINT, span), span)
                sum_ = product if sum_.constant == 0 else arithmetic("+", sum_, product, span)
        sums.append(sum_)
    return call("$interval(bigint,bigint,bigint)", sums, span)


def concatenate(left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left || right`: two texts, a text and a value, or two byte strings."""
    if types.BYTEA in (left.type, right.type):
        left, right = _type_literal(left, right)
        if left.type != right.type:
            raise no_operator("||", (left, right), span)
        return call("||(bytea,bytea)", (left, right), span)
    if types.JSONB in (left.type, right.type):
        raise SinkqlError("SQ2214", "jsonb || is not supported", span)
    if not {types.TEXT, types.UNKNOWN} & {left.type, right.type}:
        raise no_operator("||", (left, right), span)
    return call("||(text,text)", [cast(value, types.TEXT, value.span) for value in (left, right)], span)


def no_operator(operator: str, operands: Sequence[Typed], span: Span) -> SinkqlError:
    """Return the error for an operator that does not exist for these types."""
    names = [value.type.called for value in operands]
    shown = f" {operator} ".join(names) if len(names) > 1 else f"{operator} {names[0]}"
    if operator == "BETWEEN":
        shown = "{} BETWEEN {} AND {}".format(*names)
    if all(types.is_range(value.type) for value in operands) and operator in _OF_RANGES:
        hint = "Compare lower() and upper() of the ranges."
        return SinkqlError("SQ2214", f"operator {operator} is not supported for ranges", span, hint=hint)
    if any(types.is_range(value.type) for value in operands):
        return SinkqlError("SQ2211", f"operator does not exist: {shown}", span)
    return SinkqlError("SQ2211", f"operator does not exist: {shown}", span, hint=_cast_hint(operator, operands))


_ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>", "~")
_COMPARISONS = (*_FLIPPED, "BETWEEN", "IN", "IS NOT DISTINCT FROM")


def _cast_hint(operator: str, operands: Sequence[Typed]) -> str | None:
    """Return how to cast the operands so that the operator exists, None if one step is not enough."""
    operand_types = [value.type for value in operands]
    if operator == "+" and set(operand_types) <= {types.TEXT, types.UNKNOWN}:
        return "Write || to concatenate text."
    nested = [type_ for type_ in operand_types if type_.nested]
    if nested:
        elements = {type_.value if type_.name == "map" else type_.element or type_ for type_ in operand_types}
        numbers = all(map(types.is_number, elements))
        comparable = numbers or (len(elements) == 1 and all(types.is_comparable(element) for element in elements))
        has_operator = (operator in _ARITHMETIC[:4] and numbers) or (operator in _COMPARISONS and comparable)
        has_operator |= operator == "||" and elements == {types.TEXT}
        kinds = {type_.name for type_ in nested}
        return part_of(nested[0]) if len(kinds) == 1 and (has_operator or "record" in kinds) else None
    targets: tuple[Type, ...] = ()
    if operator in (*_ARITHMETIC, *_COMPARISONS):
        targets = (types.INTEGER,)
    if operator in ("||", "^@") or (operator in _COMPARISONS and types.TEXT in operand_types):
        targets = (*targets, types.TEXT)
    for target in targets:
        if all(_can_cast(type_, target) for type_ in operand_types):
            return f"Cast the operands, as in value::{target}."
    return None


def _can_cast(type_: Type, target: Type) -> bool:
    if type_ in (target, types.UNKNOWN):
        return True
    return (type_.name, target.name) in CASTS and not (target == types.TEXT and type_.name == "numeric")


def part_of(type_: Type) -> str | None:
    """Return how to use a part of a nested value instead, None for other types."""
    match type_.name:
        case "array" | "list":
            return "Use an element of it, as x[1]."
        case "map":
            return "Use a value of it, as m -> 'key'."
        case "record":
            return f"Use a field of it, as (r).{shown_name(type_.fields[0].name)}."
        case _:
            return None


def settled(values: Sequence[Typed], span: Span, what: str) -> tuple[Type, tuple[Typed, ...]]:
    """Cast the branches of CASE, COALESCE and similar to one type; raise SQ2213 if they have no common type."""
    type_ = types.common([value.type for value in values])
    if type_ is None:
        shown = ", ".join(dict.fromkeys(value.type.called for value in values if value.type != types.UNKNOWN))
        raise SinkqlError(
            "SQ2213", f"the types of {what} cannot be matched: {shown}", span, hint="Cast them to one type."
        )
    if type_ == types.INTERVAL:
        return type_, tuple(held(coerced(value, type_)) for value in values)
    return type_, tuple(exact(coerced(value, type_)) for value in values)
