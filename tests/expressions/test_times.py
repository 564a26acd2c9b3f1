"""to_char() of times, to_date() and to_timestamp() behave as in Postgres 18, in the evaluator and in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from evaluate import wire
from expressions import batch, vectors
from sinkql import evaluate
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("times.jsonl")
"""A function (with its type if it has several), a pattern, values, and Postgres's results."""
_ERROR = {"error": True}
_REFUSED = {"2023-000", "2024000", "2024-02-29 12:30"}
"""Texts that do not match the pattern; Postgres accepts them."""


def _answers() -> Iterator[tuple[str, str, str, list[str | None], list[Any]]]:
    for line in _ANSWERS.read_text(encoding="utf-8").splitlines():
        function, pattern, values, answers = json.loads(line)
        if pattern != "YYYY-MM-DD HH12:MI":
            answers = [_ERROR if value in _REFUSED else answer for value, answer in zip(values, answers, strict=True)]
        function, _, type_ = function.partition(" of ")
        type_ = type_ or ("timestamp" if function == "to_char" else "text")
        yield f"{function}(x, '{pattern}')", type_, function, values, answers


def test_the_evaluator_does_what_postgres_does() -> None:
    wrong = []
    for call, type_, name, values, answers in _answers():
        function = evaluate.function_of(vectors.expression(call, {"x": type_}), ["x"])
        assert function is not None
        for value, answer in zip(values, answers, strict=True):
            try:
                found = wire.shown(function((wire.value(value, parse_type(type_)),)))
            except SinkqlError:
                found = _ERROR
            if found != (answer.removesuffix("+00") if name == "to_timestamp" and isinstance(answer, str) else answer):
                wrong.append(f"{call} of {value}: expected {answer!r}, found {found!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
def test_spark_does_what_postgres_does(spark: SparkSession) -> None:
    columns: dict[str, str] = {}
    shown, expected, failing = [], [], []
    rows: list[list[str | None]] = [[] for _ in range(9)]
    for number, (call, type_, function, values, answers) in enumerate(_answers()):
        good = [None if answer == _ERROR else value for value, answer in zip(values, answers, strict=True)]
        for row, value in zip(rows, [*good, *[None] * len(rows)], strict=False):
            row.append(value)
        columns[f"x{number}"] = type_
        named = call.replace("(x,", f"(x{number},")
        shown.append(f"{named}{'' if function == 'to_char' else '::text'} AS r{number}")
        expected.append([None if answer == _ERROR else answer for answer in answers])
        bad = [value for value, answer in zip(values, answers, strict=True) if answer == _ERROR]
        failing += [(call, bad[0])] if bad and function == "to_timestamp" else []
    relation = vectors.query(f"SELECT {', '.join(shown)} FROM t", vectors.table(columns)).relation
    found = list(zip(*spark.sql(batch.sql(relation, batch.rows(columns, rows))).collect(), strict=True))
    wrong = [
        f"{column}: expected {wanted}, got {each}"
        for column, each, wanted in zip(shown, found, expected, strict=True)
        if list(each[: len(wanted)]) != wanted
    ]
    assert not wrong, "\n".join(wrong)
    assert len(failing) > 5
    assert [call for call, value in failing if _read(spark, call, value)] == []


def _read(spark: SparkSession, call: str, value: str | None) -> bool:
    relation = vectors.query(f"SELECT {call} AS r FROM t", vectors.table({"x": "text"})).relation
    try:
        spark.sql(batch.sql(relation, batch.rows({"x": "text"}, [(value,)]))).collect()
    except PySparkException:
        return False
    return True
