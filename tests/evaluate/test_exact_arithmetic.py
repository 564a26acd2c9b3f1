"""Arithmetic and comparisons of integers and numerics are exact, or an error; fractions are the reference."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from expressions import vectors
from sinkql import evaluate
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

_TYPES = ("smallint", "integer", "bigint", "numeric(12,10)", "numeric(38,0)", "numeric(38,10)", "numeric(5,2)",
          "numeric(20,5)", "numeric(10,10)")  # fmt: skip
_BITS = {"smallint": 15, "integer": 31, "bigint": 63}
_WIDE = Context(prec=100)
_ROUNDS = 30


def some(type_: str, random: Random) -> int | Decimal:
    """Return a random value of a type, often one of its limits."""
    if type_ in _BITS:
        most = 1 << _BITS[type_]
        return random.choice((0, 1, -1, most - 1, -most, random.randrange(-most, most)))
    precision, scale = map(int, type_[8:-1].split(","))
    digits = random.choice((0, 1, 10**precision - 1, random.randrange(10 ** random.randrange(1, precision + 1))))
    return _scaled(digits * random.choice((1, -1)), scale)


def _scaled(digits: int, scale: int) -> Decimal:
    return _WIDE.plus(Decimal(digits).scaleb(-scale, _WIDE))


def outcome(text: str, types: dict[str, str], row: tuple[Any, ...]) -> Any:
    """Return the value of an expression for a row, None if it raises an error."""
    function = _function(text, tuple(types.items()))
    try:
        return function(row)
    except SinkqlError:
        return None


@cache
def _function(text: str, types: tuple[tuple[str, str], ...]) -> Callable[[tuple[Any, ...]], Any]:
    columns = dict(types)
    function = evaluate.function_of(vectors.expression(text, columns), list(columns))
    assert function is not None, text
    return function


def rounded(value: Fraction, places: int = 10) -> Fraction:
    """Return a number rounded half away from zero."""
    scaled = abs(value) * 10**places
    whole = scaled.numerator // scaled.denominator
    whole += 2 * (scaled - whole) >= 1
    return Fraction(whole if value >= 0 else -whole, 10**places)


def _pair(sign: str, left: str, right: str, random: Random) -> tuple[Any, Any]:
    """Return two random operands. Some quotients end in half a unit of the last place, or almost."""
    x, y = some(left, random), some(right, random)
    if sign == "/" and random.random() < 0.5:
        half = Fraction(2 * random.randrange(10 ** random.randrange(1, 12)) + 1, 2 * 10**10)
        x = _nearest(half * Fraction(y), left)
    return x, y


@pytest.mark.parametrize("left", _TYPES)
def test_quotients_are_rounded_once(left: str) -> None:
    random = Random(left)
    halves = 0
    for right in _TYPES:
        if left in _BITS and right in _BITS:
            continue
        for _ in range(_ROUNDS):
            x, y = _pair("/", left, right, random)
            found = outcome("x / y", {"x": left, "y": right}, (x, y))
            if found is None:
                if y and right in _BITS:  # any dividend that fits is divided by a whole number
                    assert abs(x) >= 10**28, (x, y)
                assert y == 0 or max(abs(Fraction(x) / Fraction(y)), abs(x), abs(y)) >= 10**17 - 1, (x, y)
                continue
            exact = Fraction(x) / Fraction(y)
            halves += abs(exact * 10**10 % 1 - Fraction(1, 2)) < Fraction(1, 10**6)
            assert Fraction(found) == rounded(exact), (left, x, right, y, found)
    assert halves > 10 or left != "numeric(38,10)"


@pytest.mark.soak
@pytest.mark.spark
def test_spark_gives_the_same_numbers(spark: SparkSession) -> None:
    random = Random(8)
    cases = [
        (text, left, right)
        for left in ("bigint", "numeric(12,10)", "numeric(38,0)", "numeric(38,10)")
        for text, right in (
            ("x + y", random.choice(_TYPES)), ("x - y", random.choice(_TYPES)), ("x * y", random.choice(_TYPES)),
            ("x / y", "numeric(38,10)"), ("x / y", random.choice(_TYPES)), ("x % y", random.choice(_TYPES)),
            ("-x", "integer"), ("abs(x)", "integer"),
        )
    ]  # fmt: skip
    cases.append(("x / y", "numeric(38,10)", "bigint"))
    columns: dict[str, pa.Array] = {}
    shown, expected = [], []
    for number, (text, left, right) in enumerate(cases):
        types = {"x": left, "y": right}
        pairs = [_pair(text[2:3], left, right, random) for _ in range(200)]
        found = [outcome(text, types, pair) for pair in pairs]
        if text == "x / y":  # with a larger divisor, Spark cannot distinguish a half from less
            found = [value if abs(y) < 10**26 else None for value, (_, y) in zip(found, pairs, strict=True)]
        kept = [pair if value is not None else (None, None) for pair, value in zip(pairs, found, strict=True)]
        for name, values in zip(types, zip(*kept, strict=True), strict=True):
            columns[f"{name}{number}"] = pa.array(values, arrow_type(parse_type(types[name])))
        expected.append(found)
        renamed = {f"{name}{number}": type_ for name, type_ in types.items()}
        named = re.sub(r"\b[xy]\b", rf"\g<0>{number}", text)
        shown.append(f"{spark_sql(vectors.expression(named, renamed))} AS r{number}")
    table = spark.createDataFrame(pa.table({"id": range(200), **columns})).repartition(1)
    rows = table.selectExpr("id", *shown).orderBy("id").collect()
    for number, case in enumerate(cases):
        assert [row[number + 1] for row in rows] == expected[number], case
    given = sum(value is not None for values in expected for value in values)
    assert given > 3_000


@pytest.mark.parametrize("sign", ["+", "-", "*"])
@pytest.mark.parametrize("left", _TYPES)
def test_results_are_exact_or_an_error(sign: str, left: str) -> None:
    random = Random(f"{sign}{left}")
    operation: Callable[[Any, Any], Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    given = 0
    for right in _TYPES:
        whole = left in _BITS and right in _BITS
        bits = max(_BITS.get(left, 0), _BITS.get(right, 0))
        for _ in range(_ROUNDS):
            x, y = some(left, random), some(right, random)
            exact = operation(Fraction(x), Fraction(y))
            found = outcome(f"x {sign} y", {"x": left, "y": right}, (x, y))
            if found is None:
                most = 1 << bits if whole else 10**17
                assert max(abs(exact), abs(x), abs(y)) >= most - 1, (x, sign, y)
                continue
            given += 1
            assert Fraction(found) == (exact if whole else rounded(exact)), (left, x, sign, right, y, found)
    assert given > _ROUNDS


@pytest.mark.parametrize("left", _TYPES)
def test_comparisons_are_exact(left: str) -> None:
    random = Random(left)
    for right in _TYPES:
        for _ in range(_ROUNDS):
            x, y = some(left, random), some(right, random)
            if random.random() < 0.3:
                y = _nearest(x, right)
            row, types = (x, y), {"x": left, "y": right}
            for sign, test in (("=", operator.eq), ("<", operator.lt), (">=", operator.ge)):
                found = outcome(f"x {sign} y", types, row)
                assert found is None or found == test(Fraction(x), Fraction(y)), (left, x, sign, right, y)
            found = outcome("x IN (y, 7)", types, row)
            assert found is None or found == (Fraction(x) in (Fraction(y), 7))


def _nearest(value: int | Decimal | Fraction, type_: str) -> int | Decimal:
    """Return the nearest value of a type, equal if the type has an equal value."""
    if type_ in _BITS:
        most = 1 << _BITS[type_]
        return max(-most, min(most - 1, int(value)))
    precision, scale = map(int, type_[8:-1].split(","))
    digits = int(Fraction(value) * 10**scale)
    return _scaled(max(1 - 10**precision, min(10**precision - 1, digits)), scale)


def test_a_sum_beside_the_greatest_bigint_keeps_its_digits() -> None:
    row = (2**63 - 1, Decimal("12.0123456789"))
    types = {"b": "bigint", "n": "numeric(12,10)"}
    assert outcome("b + n", types, row) == Decimal("9223372036854775819.0123456789")
    assert outcome("b + n = 9223372036854775819.0123456789", types, row) is True
    assert outcome("b + n IN (9223372036854775819.0123456789, 1)", types, row) is True


def test_whole_quotients_and_remainders_are_exact() -> None:
    random = Random(3)
    for type_ in _BITS:
        for _ in range(10 * _ROUNDS):
            x, y = some(type_, random), some(type_, random)
            quotient = outcome("x / y", {"x": type_, "y": type_}, (x, y))
            rest = outcome("x % y", {"x": type_, "y": type_}, (x, y))
            if quotient is not None and rest is not None:
                assert quotient * y + rest == x
                assert abs(rest) < abs(y)
