"""Unsigned integers: arithmetic, comparisons and casts are exact or an error, in the evaluator, DuckDB and Spark."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from duck.expression import duck_sql
from expressions import vectors
from sinkql import evaluate
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSIGNED = ("uint2", "uint4", "uint8")
_OTHERS = (*RANGES, "numeric(20,5)", "double precision")
_COMMON = {
    ("uint2", "uint4"): "uint4", ("uint2", "uint8"): "uint8", ("uint4", "uint8"): "uint8",
    ("uint2", "smallint"): "integer", ("uint2", "integer"): "integer", ("uint2", "bigint"): "bigint",
    ("uint4", "smallint"): "bigint", ("uint4", "integer"): "bigint", ("uint4", "bigint"): "bigint",
}  # fmt: skip
"""The common type of two types; all other pairs become numeric or double precision."""
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": lambda x, y: Fraction(int(x / y)),
    "%": lambda x, y: x - y * int(x / y), "=": operator.eq, "<": operator.lt, "IS NOT DISTINCT FROM": operator.eq,
    "&": lambda x, y: int(x) & int(y), "|": lambda x, y: int(x) | int(y), "#": lambda x, y: int(x) ^ int(y),
}  # fmt: skip
Case = tuple[str, dict[str, str], list[tuple[Any, ...]], list[Any]]
"""An expression, the types of its columns, rows, and the results; None for an error and for NULL."""


def _some(type_: str, random: Random) -> Any:
    if type_ in RANGES:
        least, most = RANGES[type_][0], RANGES[type_][-1]
        return random.choice((random.randrange(9), least, most, random.randrange(least, most + 1)))
    if type_ == "double precision":
        return random.choice((0.5, 1.5, -0.5, 65535.5, 2.0**63, 2.0**64, 1e18, -3.0, float("nan"), float("inf"), 7e9))
    return Decimal(random.choice((0, 1, 150_000, random.randrange(-(10**20), 10**20)))).scaleb(-5)


def _pairs(one: str, other: str, random: Random) -> list[tuple[Any, Any]]:
    pairs = [(_some(one, random), _some(other, random)) for _ in range(20)]
    return [*pairs, (None, pairs[0][1]), (pairs[0][0], None)]


def _operations() -> list[Case]:
    random, found = Random(2), list[Case]()
    for one in _UNSIGNED:
        for other in RANGES:
            common = one if one == other else _COMMON.get((one, other)) or _COMMON.get((other, one))
            for sign, operation in _SIGNS.items():
                if common is None and sign in "*/%&|#":
                    continue  # not defined for numerics
                pairs = _pairs(one, other, random)
                expected = []
                for x, y in pairs:
                    value = None
                    if sign == "IS NOT DISTINCT FROM":
                        value = x == y
                    elif x is not None and y is not None and (y or sign not in "/%"):
                        value = operation(Fraction(x), Fraction(y))
                        if common is not None and not isinstance(value, bool):
                            value = int(value) if int(value) in RANGES[common] else None
                    expected.append(value)
                found.append((f"x {sign} y", {"x": one, "y": other}, pairs, expected))
    return found


def _casts() -> list[Case]:
    random, found = Random(3), list[Case]()
    for one in _UNSIGNED:
        for other in _OTHERS:
            values = [_some(other, random) for _ in range(20)]
            into = [_whole(value, one) for value in values]
            found.append((f"x::{one}", {"x": other}, [(value,) for value in values], into))
            values = [_some(one, random) for _ in range(20)]
            out: list[Any] = [float(value) for value in values]
            if other != "double precision":
                room = RANGES.get(other, range(10**15))
                out = [value if value in room else None for value in values]
            found.append((f"x::{other}", {"x": one}, [(value,) for value in values], out))
        texts = ["0", " 12\t", "-0", "+7", "007", str(RANGES[one][-1]), "", "-1", str(RANGES[one][-1] + 1), "1.0",
                 "1e1", "9" * 40]  # fmt: skip
        expected = [0, 12, 0, 7, 7, RANGES[one][-1], *[None] * 6]
        found.append((f"x::{one}", {"x": "text"}, [(text,) for text in texts], expected))
        values = [_some(one, random) for _ in range(5)]
        found.append(("~x", {"x": one}, [(value,) for value in values], [RANGES[one][-1] - value for value in values]))
        found.append(("x::text", {"x": one}, [(value,) for value in values], list(map(str, values))))
    return found


def _whole(value: Any, type_: str) -> int | None:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    exact = Fraction(value)
    if isinstance(value, float):
        nearest = round(exact)  # half to even
    else:
        nearest = int(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    return nearest if nearest in RANGES[type_] else None


_CASES = [*_operations(), *_casts()]


def _evaluated(case: Case) -> list[Any]:
    text, types, rows, _ = case
    function = evaluate.function_of(vectors.expression(text, types), list(types))
    assert function is not None, text
    found = []
    for row in rows:
        try:
            found.append(function(row))
        except (SinkqlError, evaluate.NotEvaluableError):
            found.append(None)
    return found


def test_the_evaluator_is_exact_or_fails() -> None:
    for case in _CASES:
        assert _evaluated(case) == case[3], case[:2]


def test_duckdb_agrees() -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        for text, types, rows, expected in _operations():
            sql = duck_sql(vectors.expression(text, types))
            kept = [(*row, value) for row, value in zip(rows, expected, strict=True) if value is not None]
            columns = {name: pa.array([row[place] for row in kept], arrow_type(parse_type(type_)))
                       for place, (name, type_) in enumerate(types.items())}  # fmt: skip
            table = pa.table(columns)
            casts = ", ".join(
                f"CAST({name} AS {duck_sql(vectors.expression(f'NULL::{type_}', {})).split(' AS ')[1]} AS {name}"
                for name, type_ in types.items()
            )
            connection.register("given", table)
            found = [row[0] for row in connection.execute(f"SELECT {sql} FROM (SELECT {casts} FROM given)").fetchall()]
            assert found == [row[-1] for row in kept], (text, types)


@pytest.mark.spark
def test_spark_gives_the_same(spark: SparkSession) -> None:
    columns: dict[str, pa.Array] = {}
    shown = []
    count = max(len(rows) for _, _, rows, _ in _CASES)
    for number, (text, types, rows, expected) in enumerate(_CASES):
        kept = [row if value is not None else (None,) * len(row) for row, value in zip(rows, expected, strict=True)]
        kept += [(None,) * len(types)] * (count - len(kept))
        for place, (name, type_) in enumerate(types.items()):
            columns[f"{name}{number}"] = pa.array([row[place] for row in kept], arrow_type(parse_type(type_)))
        renamed = {f"{name}{number}": type_ for name, type_ in types.items()}
        named = re.sub(r"\b[xy]\b", rf"\g<0>{number}", text)
        shown.append(f"{spark_sql(vectors.expression(named, renamed))} AS r{number}")
    table = spark.createDataFrame(pa.table({"id": range(count), **columns})).repartition(1)
    found = table.selectExpr("id", *shown).orderBy("id").collect()
    for number, (text, types, rows, expected) in enumerate(_CASES):
        wanted = [(row[0] is None and row[-1] is None and "DISTINCT" in text) or value
                  for row, value in zip(rows, expected, strict=True)]  # fmt: skip
        assert [row[number + 1] for row in found[: len(rows)]] == wanted, (text, types)


@pytest.mark.spark
@pytest.mark.parametrize("type_", _UNSIGNED)
def test_spark_refuses_what_does_not_fit(spark: SparkSession, type_: str) -> None:
    most = RANGES[type_][-1]
    for text, types, value in (
        ("x + x", {"x": type_}, most), ("x - x - x", {"x": type_}, 1), ("x * x", {"x": type_}, most),
        (f"x::{type_}", {"x": "text"}, "1.0"), (f"x::{type_}", {"x": "text"}, str(most + 1)),
        (f"x::{type_}", {"x": "numeric(38,0)"}, Decimal(most + 1)), (f"x::{type_}", {"x": "smallint"}, -1),
        (f"x::{type_}", {"x": "double precision"}, float(most + 1)),
        (f"x::{type_}", {"x": "double precision"}, float("nan")),
    ):  # fmt: skip
        table = spark.createDataFrame(pa.table({"x": pa.array([value], arrow_type(parse_type(types["x"])))}))
        with pytest.raises(Exception, match=r"out of range|OUT_OF_RANGE|OVERFLOW|invalid input"):
            table.selectExpr(spark_sql(vectors.expression(text, types))).collect()
