"""Functions of numbers: integers within their range, exact decimals to 38 digits, floats like the engine."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

from sinkql.evaluate.exact_numeric import evaluate_program
from sinkql.evaluate.failure import EvaluationError, Make, Row, Value, strict
from sinkql.logical import Call, Literal, Type
from sinkql.logical.expression import constant_value, single
from sinkql.logical.function import SEVERAL, SINGLE, whole_divisor
from sinkql.logical.number_format import FLOAT_DIGITS, format_float, format_numeric, parse_number_format
from sinkql.logical.numeric_type import FLOATS, RANGES, SIGNED, UNSIGNED, sum_fits
from sinkql.logical.type import DOUBLE, NUMERIC

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_ENGINE = Context(prec=39, rounding=ROUND_HALF_UP)
"""The digits of a product before it is rounded to its type."""


def whole(value: int, type_: str) -> int:
    """Return the result of an integer operation; raises EvaluationError if it does not fit its type."""
    if value not in RANGES[type_]:
        wider = _wider(value)
        # beside a bigint, a uint8 is a numeric, but its value may be too great for a cast to bigint
        wider = "numeric" if wider == "bigint" and type_ == "uint8" else wider
        raise EvaluationError(f"{type_} out of range", wider and f"Cast an operand to {wider}.")
    return value


def converted(value: int, type_: str) -> int:
    """Return a value cast to an integer type; raises EvaluationError if it does not fit."""
    limits = RANGES[type_]
    if value not in limits:
        wider = _wider(value)
        article = "An" if type_ == "integer" else "A"
        hint = wider and f"{article} {type_} is from {limits[0]} to {limits[-1]}: cast to {wider} instead."
        raise EvaluationError(f"{type_} out of range", hint)
    return value


def _wider(value: int) -> str | None:
    """Return bigint or numeric, the first that holds a value; None if neither does."""
    if value in RANGES["bigint"]:
        return "bigint"
    return "numeric" if abs(value) < 10**28 else None


def fit(value: Decimal, type_: Type = NUMERIC) -> Decimal:
    """Return a number rounded to the scale of a numeric, half away from zero; raises EvaluationError if too great."""
    precision, scale = type_.precision or 38, type_.scale or 0
    if value.adjusted() > precision and value:
        raise EvaluationError(f"value out of range for {type_}")
    rounded = EXACT.quantize(value, Decimal(1).scaleb(-scale))
    if rounded.copy_abs() >= Decimal(10) ** (precision - scale):
        raise EvaluationError(f"value out of range for {type_}")
    return EXACT.plus(rounded)  # removes the sign of -0


def _whole(operation: Callable[[int, int], int], type_: str) -> Make:
    return strict(lambda x, y: whole(operation(int(x), int(y)), type_))


def _quotient(x: int, y: int) -> int:
    if y == 0:
        raise EvaluationError("division by zero")
    quotient: int = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _remainder(x: int, y: int) -> int:
    return x - y * _quotient(x, y)


# --- numeric -----------------------------------------------------------------------------------------------------


def _types(call: Call) -> tuple[Type, Type]:
    left, right = (argument.type for argument in call.arguments)
    return left, right


def _sum(operation: Callable[[Decimal, Decimal], Decimal]) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        narrow = Type("numeric", 37, 10)

        def plain(x: Decimal, y: Decimal) -> Decimal:
            return fit(operation(x, y))

        def narrowed(x: Decimal, y: Decimal) -> Decimal:
            return fit(operation(fit(x, narrow), fit(y, narrow)))

        return strict(plain if sum_fits(*_types(call)) else narrowed)(call, operands)

    return make


def _product(call: Call, operands: list[Value]) -> Value | None:
    left, right = _types(call)
    digits = (left.precision or 0) + (right.precision or 0) + 1
    type_ = Type("numeric", min(digits, 38), min((left.scale or 0) + (right.scale or 0), 38))
    return strict(lambda x, y: fit(fit(_ENGINE.multiply(x, y), type_)))(call, operands)


def _quotient_of_decimals(call: Call, operands: list[Value]) -> Value | None:
    # the engine's type
    room = NUMERIC if whole_divisor(call.arguments[1]) else Type("numeric", 30, 10)
    return strict(lambda x, y: _decimal_quotient(x, y, room))(call, operands)


def _decimal_quotient(x: Decimal, y: Decimal, room: Type) -> Decimal:
    dividend, divisor = (int(fit(operand).scaleb(10, EXACT)) for operand in (x, y))
    if divisor == 0:
        raise EvaluationError("division by zero")
    quotient, rest = divmod(abs(dividend) * 10**10, abs(divisor))
    quotient += 2 * rest >= abs(divisor)
    rounded = fit(Decimal(quotient).scaleb(-10, EXACT), room)
    return rounded if (dividend < 0) == (divisor < 0) else EXACT.minus(rounded)


def _decimal_remainder(x: Decimal, y: Decimal) -> Decimal:
    if y == 0:
        raise EvaluationError("division by zero")
    return fit(EXACT.remainder(x, y))


def _div(x: Decimal, y: Decimal) -> Decimal:
    if y == 0:
        raise EvaluationError("division by zero")
    return fit(EXACT.divide_int(x, y))


def _factorial(value: int) -> Decimal:
    if value < 0:
        raise EvaluationError("factorial of a negative number is undefined")
    return fit(Decimal(math.factorial(min(value, _MOST_FACTORIAL))))


_MOST_FACTORIAL = 100
"""The smallest number whose factorial is out of range for numeric."""


def _program(call: Call, operands: list[Value]) -> Value | None:
    program, type_ = constant_value(call.arguments[0], str), call.type
    return lambda row: program_value(program, type_, [operand(row) for operand in operands[1:]])


def program_value(program: str, type_: Type, operands: Sequence[Decimal | None]) -> Decimal | float | None:
    """Return the value of a program as a numeric type, or as double precision."""
    result = evaluate_program(program, operands)
    if result is None:
        return None
    if type_ == DOUBLE:
        return float(result) or 0.0  # removes the sign of -0.0
    return fit(result, type_)


def _rounded(rounding: str) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        digits = call.arguments[1] if len(call.arguments) > 1 else None
        places = 0
        if digits is not None:
            if not isinstance(digits, Literal) or not isinstance(digits.value, int):
                return None
            places = digits.value
        step = Decimal(1).scaleb(-min(max(places, -38), 38))
        return strict(lambda x: fit(EXACT.plus(x.quantize(step, rounding, EXACT))))(call, operands[:1])

    return make


def _to_char(call: Call, operands: list[Value]) -> Value | None:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    format_, type_ = parse_number_format(pattern.value), call.arguments[0].type.name

    def shown(value: int | Decimal) -> str:
        if type_ in RANGES:
            whole(int(value) * 10**format_.shift, type_)
        if type_ == "integer" and format_.exponent:
            return format_float(format_, float(value), FLOAT_DIGITS["double precision"])
        return format_numeric(format_, value)

    def shown_float(value: float) -> str:
        if (
            format_.exponent and value and abs(value) < sys.float_info.min
        ):  # Java does not write subnormal numbers exactly
            raise EvaluationError("to_char() with EEEE of a number so close to zero is not supported")
        try:
            return format_float(format_, _narrow(value * 10**format_.shift, type_), FLOAT_DIGITS[type_])
        except ValueError as error:
            raise EvaluationError(str(error)) from None

    return strict(shown_float if type_ in FLOATS else shown)(call, operands[:1])


def _sign(value: Any) -> int:
    return int(value > 0) - int(value < 0)


# --- floats --------------------------------------------------------------------------------------------------------


def _float(operation: Callable[[float, float], float], type_: str, *, product: bool = False) -> Make:
    def apply(x: float, y: float) -> float:
        result = _narrow(operation(x, y), type_)
        if math.isinf(result) and not math.isinf(x) and not math.isinf(y):
            raise EvaluationError("value out of range: overflow")
        if product and result == 0 and x != 0 and y != 0:
            raise EvaluationError("value out of range: underflow")
        return result

    return strict(apply)


def _float_quotient(type_: str) -> Make:
    def apply(x: float, y: float) -> float:
        if y == 0:
            if math.isnan(x):
                return x
            raise EvaluationError("division by zero")
        result = _narrow(x / y, type_)
        if math.isinf(result) and not math.isinf(x):
            raise EvaluationError("value out of range: overflow")
        if result == 0 and x != 0 and not math.isinf(y):
            raise EvaluationError("value out of range: underflow")
        return result

    return strict(apply)


def _narrow(value: float, type_: str) -> float:
    return single(value) if type_ == "real" else value


def _times(x: float, y: float) -> float:
    return x * y


def _sqrt(value: float) -> float:
    if value < 0:
        raise EvaluationError("cannot take square root of a negative number")
    return math.sqrt(value)


def even(value: float) -> float:
    """Return the nearest whole number; a half is rounded to the even one."""
    return value if math.isnan(value) or math.isinf(value) else math.copysign(float(round(value)), value)


def _toward(round_: Callable[[float], int]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        return value if math.isnan(value) or math.isinf(value) else math.copysign(float(round_(value)), value)

    return apply


def _bucket(value: float, low: float, high: float, count: int) -> int:
    """Return the bucket of a value among `count` equal buckets between two bounds, as in Postgres."""
    if count <= 0:
        raise EvaluationError("count must be greater than zero")
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        raise EvaluationError("operand, lower bound, and upper bound cannot be NaN")
    if math.isinf(low) or math.isinf(high):
        raise EvaluationError("lower and upper bounds must be finite")
    if low == high:
        raise EvaluationError("lower bound cannot equal upper bound")
    if value < low if low < high else value > low:
        return 0
    if value >= high if low < high else value <= high:
        return whole(count + 1, "integer")
    half = 2 if math.isinf(high - low) else 1
    return min(int(count * ((value / half - low / half) / (high / half - low / half))), count - 1) + 1


_WHOLE: dict[str, Make] = {
    f"{name}({type_},{type_})": _whole(operation, type_)
    for type_ in RANGES
    for name, operation in {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": _quotient,
        "%": _remainder,
    }.items()
}
_BITS: dict[str, Make] = {
    f"{name}({type_},{type_})": _whole(operation, type_)
    for type_ in RANGES
    for name, operation in {
        "&": lambda x, y: x & y,
        "|": lambda x, y: x | y,
        "#": lambda x, y: x ^ y,
    }.items()
}
_FLOATING: dict[str, Make] = {
    id_: make
    for type_ in FLOATS
    for id_, make in {
        f"+({type_},{type_})": _float(lambda x, y: x + y, type_),
        f"-({type_},{type_})": _float(lambda x, y: x - y, type_),
        f"*({type_},{type_})": _float(_times, type_, product=True),
        f"/({type_},{type_})": _float_quotient(type_),
        f"-({type_})": strict(lambda x: -x),
        f"abs({type_})": strict(abs),
    }.items()
}


def _total(total: float, values: float) -> float:
    """Return a sum of floats; `values` is infinite if one of them was."""
    if math.isinf(total) and not math.isinf(values):
        raise EvaluationError("value out of range: overflow")
    return total


def _single(call: Call, operands: list[Value]) -> Value:
    count, value = operands

    def evaluate(row: Row) -> Any:
        if (count(row) or 0) > 1:
            raise EvaluationError(SEVERAL)
        return value(row)

    return evaluate


FORMS: dict[str, Make] = {
    **_WHOLE,
    **_BITS,
    **_FLOATING,
    SINGLE: _single,
    "$sum(double precision,double precision)": strict(_total),
    "$avg(double precision,double precision,bigint)": strict(lambda x, y, n: _total(x, y) / n if n else None),
    "$exact(text,any…)": _program,
    "$root(numeric)": strict(lambda x: fit(Decimal(repr(math.sqrt(x))))),
    "pi()": strict(lambda: math.pi),
    **{f"-({type_})": strict(lambda x, type_=type_: whole(-x, type_)) for type_ in SIGNED},
    **{f"abs({type_})": strict(lambda x, type_=type_: whole(abs(x), type_)) for type_ in SIGNED},
    **{f"~({type_})": strict(lambda x: ~x) for type_ in SIGNED},
    **{f"~({type_})": strict(lambda x, most=RANGES[type_][-1]: most - int(x)) for type_ in UNSIGNED},
    "+(numeric,numeric)": _sum(EXACT.add),
    "-(numeric,numeric)": _sum(EXACT.subtract),
    "*(numeric,numeric)": _product,
    "/(numeric,numeric)": _quotient_of_decimals,
    "%(numeric,numeric)": strict(_decimal_remainder),
    "-(numeric)": strict(EXACT.minus),
    "abs(numeric)": strict(EXACT.abs),
    "sign(numeric)": strict(lambda x: fit(Decimal(_sign(x)))),
    "div(numeric,numeric)": strict(_div),
    "factorial(bigint)": strict(_factorial),
    "width_bucket(double precision,double precision,double precision,integer)": strict(_bucket),
    "ceil(numeric)": _rounded(ROUND_CEILING),
    "floor(numeric)": _rounded(ROUND_FLOOR),
    "round(numeric,integer)": _rounded(ROUND_HALF_UP),
    "trunc(numeric,integer)": _rounded(ROUND_DOWN),
    **{f"to_char({type_},text)": _to_char for type_ in ("integer", "bigint", "numeric", *FLOATS)},
    "sqrt(double precision)": strict(_sqrt),
    "round(double precision)": strict(even),
    "ceil(double precision)": strict(_toward(math.ceil)),
    "floor(double precision)": strict(_toward(math.floor)),
    "trunc(double precision)": strict(_toward(math.trunc)),
    "sign(double precision)": strict(lambda x: float(_sign(x))),
}
"""By id."""
