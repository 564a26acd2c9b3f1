"""to_char() of numbers returns Postgres 18's text, in the evaluator and in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from evaluate import wire
from expressions import batch, vectors
from sinkql import evaluate
from sinkql.connector_api.types import parse_type
from sinkql.errors import SinkqlError
from sinkql.logical.expression import single
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("number_formats.jsonl")
"""One line each: a type, a pattern, values of the type, and the results of `SELECT to_char(value, pattern)`.

An integer that V makes too large is an error here, as for bigint in Postgres, which truncates it for type integer.
"""
_ERROR = {"error": True}


def _answers() -> Iterator[tuple[str, str, list[str | None], list[Any]]]:
    for line in _ANSWERS.read_text(encoding="utf-8").splitlines():
        type_, pattern, values, answers = json.loads(line)
        yield type_, pattern, values, answers


def _call(pattern: str, name: str = "n") -> str:
    return "to_char({}, '{}')".format(name, pattern.replace("'", "''"))


def test_the_evaluator_writes_numbers_as_postgres_does() -> None:
    wrong = []
    for type_, pattern, values, answers in _answers():
        shown = evaluate.function_of(vectors.expression(_call(pattern), {"n": type_}), ["n"])
        assert shown is not None
        for value, answer in zip(values, answers, strict=True):
            try:
                found = shown((wire.value(value, parse_type(type_)),))
            except SinkqlError:
                found = _ERROR
            if found != answer:
                wrong.append(f"{pattern!r} of {type_} {value}: expected {answer!r}, found {found!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_spark_writes_numbers_as_postgres_does(spark: SparkSession, step: int) -> None:
    of_type: dict[str, list[tuple[str, list[str | None], list[Any]]]] = {}
    for type_, pattern, values, answers in islice(_answers(), 0, None, step):
        of_type.setdefault(type_, []).append((pattern, values, answers))
    for type_, cases in of_type.items():
        values = cases[0][1]
        assert all(each == values for _, each, _ in cases)
        columns = {"id": "integer", "n": type_}
        # all patterns in one query; a value that fails in a pattern is NULL in it, and is queried alone
        patterns = [(pattern, {n for n, each in enumerate(answers) if each == _ERROR}) for pattern, _, answers in cases]
        shown = []
        for number, (pattern, failing) in enumerate(patterns):
            known = f"CASE WHEN id NOT IN ({', '.join(map(str, [-1, *failing]))}) THEN {_call(pattern)} END"
            shown.append(f"{known} AS x{number}")
        rows = batch.rows(columns, [(str(number), value) for number, value in enumerate(values)])
        relation = vectors.query(f"SELECT id, {', '.join(shown)} FROM t", vectors.table(columns)).relation
        found = {row[0]: row[1:] for row in spark.sql(batch.sql(relation, rows)).collect()}
        wrong = [
            f"{pattern!r} of {type_} {values[row]}: expected {answer!r}, found {found[row][number]!r}"
            for number, (pattern, _, answers) in enumerate(cases)
            for row, answer in enumerate(answers)
            if answer != _ERROR and answer != found[row][number]
        ]
        assert not wrong, "\n".join(wrong)
        assert not any(_shown(spark, type_, pattern, values[row]) for pattern, rows in patterns for row in rows)


_PATTERNS = ("9.99EEEE", "9EEEE", "0.99999999999999EEEE", "FM999999999990.00", "FM99999999999999990.99999999")


@pytest.mark.spark
def test_spark_rounds_floats_as_the_evaluator(spark: SparkSession) -> None:
    random = Random(18)
    halves = [random.randrange(1, 10**7) / random.choice((2, 4, 8, 16, 32, 1024)) for _ in range(300)]
    decimals = [round(random.uniform(0, 10**6), 3) + random.choice((0, 0.0005)) for _ in range(300)]
    others = [random.choice((1, -1)) * random.random() * 10.0 ** random.randint(-300, 300) for _ in range(300)]
    whole = [float(random.randrange(10 ** random.randint(1, 19))) for _ in range(300)]
    doubles = [*halves, *decimals, *others, *whole]
    singles = [single(each) if abs(each) < 1e38 and single(each) else 0.5 for each in doubles]
    table = spark.createDataFrame(
        pa.table({"d": pa.array(doubles), "r": pa.array(singles, pa.float32()), "id": range(len(doubles))})
    ).repartition(1)
    types = (("d", "double precision", doubles), ("r", "real", singles))
    cases = [(name, vectors.expression(_call(pattern, name), {name: type_}), values)
             for name, type_, values in types for pattern in _PATTERNS]  # fmt: skip
    columns = [f"{spark_sql(call)} AS x{number}" for number, (_, call, _) in enumerate(cases)]
    rows = table.selectExpr("id", *columns).orderBy("id").collect()
    for number, (name, call, values) in enumerate(cases):
        shown = evaluate.function_of(call, [name])
        assert shown is not None
        assert [row[number + 1] for row in rows] == [shown((value,)) for value in values], _PATTERNS[number % 5]
    assert _shown(spark, "double precision", "9EEEE", "1e-320") is None


def _shown(spark: SparkSession, type_: str, pattern: str, value: str | None) -> str | None:
    relation = vectors.query(f"SELECT {_call(pattern)} AS x FROM t", vectors.table({"n": type_})).relation
    try:
        return str(spark.sql(batch.sql(relation, batch.rows({"n": type_}, [(value,)]))).collect())
    except PySparkException:
        return None
