"""Variance of a count, a sum and a sum of squares, all of them exact.

With q a whole number near sum / n and r = sum - q n, the squares of the differences from the mean add up to
squares - q (sum + r) - r r / n: no term is greater than the sum of squares, and all but the last one are exact.
"""

from __future__ import annotations

import functools
from decimal import Decimal

from sinkql.errors import Span
from sinkql.logical import NUMERIC, Branch, Case, Type
from sinkql.planner import types
from sinkql.planner.expression.literal import decimal
from sinkql.planner.expression.operator import arithmetic
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant

NAMES = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")


_MORE = 1000
"""What squares are multiplied by, so that a rounded quotient does not round the result."""


_FEW = 5
"""How many digits behind the point a number of 38 digits may have, so that the digits of its square are enough."""
_MOST = 38


def square(value: Typed, span: Span) -> Typed:
    """Return a number times itself: one with many digits by its whole part and the rest, whose products have fewer."""
    if (value.raw.scale or 0) <= _FEW or 2 * (value.raw.precision or 0) <= _MOST:
        return arithmetic("*", value, value, span)
    rounded = call("round(numeric,integer)", (value, constant(0, types.INTEGER, span)), span)
    whole = cast_to(rounded, Type("numeric", 19, 0))
    rest = cast_to(_of("-", value, whole), Type("numeric", 11, 10))
    first, *others = (_of("*", *pair) for pair in ((whole, whole), (whole, rest), (whole, rest), (rest, rest)))
    return functools.reduce(lambda sum_, each: _of("+", sum_, each), others, first)


def of_sums(rows: Typed, total: Typed, squares: Typed, *, sample: bool) -> Typed:
    """Return the variance as numeric, right to its 10th digit: NULL of no rows, and of one if they are a sample."""
    span = rows.span
    count = _divisor(rows)
    near = call("round(numeric,integer)", (_of("/", total, count), constant(0, types.INTEGER, span)))
    mean = cast_to(near, Type("numeric", 38, 0))
    rest = _of("-", total, _of("*", mean, cast_to(rows, Type("numeric", 19, 0))))
    more = decimal(Decimal(_MORE), span)
    known = _of("*", _of("-", squares, _of("*", mean, _of("+", total, rest))), more)
    differences = _of("-", known, _of("/", _of("*", _of("*", rest, rest), more), count))
    by = call("-(bigint,bigint)", (rows, constant(1, types.BIGINT, span))) if sample else rows
    by = call("*(bigint,bigint)", (by, constant(_MORE, types.BIGINT, span)))
    found = _of("/", differences, _divisor(by))
    # squares of more than 10 digits behind the point are rounded
    zero = constant(Decimal(0), NUMERIC, span)
    negative = call("<(any,any)", (found, zero))
    return Typed(Case((Branch(negative.tree, zero.tree),), found.tree, NUMERIC, span), NUMERIC)


def root(variance: Typed) -> Typed:
    """Return the square root as numeric, by that of double precision."""
    return call("$root(numeric)", (variance,))


def _divisor(rows: Typed) -> Typed:
    """Return a count as numeric, NULL for 0."""
    some = call("nullif(any,any)", (rows, constant(0, types.BIGINT, rows.span)), type_=types.BIGINT)
    return cast_to(some, NUMERIC)


def _of(operator: str, left: Typed, right: Typed) -> Typed:
    return call(f"{operator}(numeric,numeric)", (left, right))
