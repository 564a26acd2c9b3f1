"""Arithmetic of numerics with all digits of Postgres: evaluate a program of several steps.

A program is in reverse Polish notation: `0 1 / 2 *` is the quotient of the first two operands, times the third. Its
steps have Postgres's scales: at least 16 significant digits for a quotient and a power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

from sinkql.evaluate.failure import EvaluationError

_EXACT = Context(prec=400, Emax=999_999, Emin=-999_999, rounding=ROUND_HALF_UP)
_LEAST_DIGITS, _MOST_SCALE = 16, 1000
_GROUP = 4
"""Postgres stores digits in groups of four."""
_BEYOND = 100
"""A power of ten above all results; values below its inverse are equal to 0."""
_TOO_GREAT = "value out of range: overflow"


def evaluate_program(program: str, operands: Sequence[Decimal | None]) -> Decimal | None:
    """Return the value of a program, NULL if a step has NULL; raises EvaluationError if Postgres fails."""
    stack: list[Decimal | None] = []
    for step in program.split():
        if step.isdigit():
            stack.append(operands[int(step)])
        elif step in _BINARY:
            right, left = stack.pop(), stack.pop()
            stack.append(None if left is None or right is None else _BINARY[step](left, right))
        elif step.startswith("or:"):
            values = [stack.pop() for _ in range(int(step.removeprefix("or:")))]
            stack.append(next((each for each in reversed(values) if each is not None), None))
        else:
            name, _, places = step.partition(":")
            value = stack.pop()
            stack.append(None if value is None else _UNARY[name](value, int(places or 0)))
    (found,) = stack
    return found


def _scale(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _rounded(value: Decimal, places: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), rounding, _EXACT)


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise EvaluationError("division by zero")
    (weight, first), (other, second) = _leading(left), _leading(right)
    groups = weight - other - (first <= second)
    scale = min(max(_LEAST_DIGITS - groups * _GROUP, _scale(left), _scale(right), 0), _MOST_SCALE)
    return _rounded(_EXACT.divide(left, right), scale)


def _leading(value: Decimal) -> tuple[int, int]:
    """Return the place of the first group of digits that is not 0, from the point, and the group."""
    if value == 0:
        return 0, 0
    weight = value.adjusted() // _GROUP
    return weight, int(value.copy_abs().scaleb(-weight * _GROUP, _EXACT))


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise EvaluationError("division by zero")
    return _EXACT.remainder(left, right)


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """Return a power with Postgres's scale."""
    whole = exponent == exponent.to_integral_value(context=_EXACT)
    if base == 0:
        if exponent < 0:
            raise EvaluationError("zero raised to a negative power is undefined")
        if not whole:
            return _rounded(Decimal(0), _LEAST_DIGITS)
    if base < 0 and not whole:
        raise EvaluationError("a negative number raised to a non-integer power yields a complex result")
    weight = float(exponent) * math.log10(base.copy_abs()) if base else 0.0
    if weight > _BEYOND:
        raise EvaluationError(_TOO_GREAT)
    scale = min(max(_LEAST_DIGITS - int(weight), _scale(base), _scale(exponent), 0), _MOST_SCALE)
    if exponent == 0:
        return _rounded(Decimal(1), scale)
    if weight < -_BEYOND or base == 0:
        return _rounded(Decimal(0), scale)
    found = _EXACT.power(base.copy_abs(), exponent)
    negative = base < 0 and _EXACT.remainder(exponent, Decimal(2)) != 0
    return _rounded(found.copy_negate() if negative else found, scale)


_BINARY: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _quotient,
    "%": _remainder,
    "^": power,
}
_UNARY: dict[str, Callable[[Decimal, int], Decimal]] = {
    "neg": lambda value, _: _EXACT.minus(value),
    "abs": lambda value, _: _EXACT.abs(value),
    "sign": lambda value, _: Decimal((value > 0) - (value < 0)),
    "round": _rounded,
    "trunc": lambda value, places: _rounded(value, places, ROUND_DOWN),
    "ceil": lambda value, _: _rounded(value, 0, ROUND_CEILING),
    "floor": lambda value, _: _rounded(value, 0, ROUND_FLOOR),
}
