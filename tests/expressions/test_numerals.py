"""to_char() of numbers gives what Postgres 18 gives, in the evaluator and in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from evaluate import wire
from expressions import batch, vectors
from sinkql import evaluate
from sinkql.errors import SinkqlError
from sinkql.extension.types import parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("numerals.jsonl")
"""A type, a pattern, values of the type, and what `SELECT to_char(value, pattern)` gave for each, a line.

An integer that V makes too large is an error, as Postgres has it for bigint; of integer it writes what is left of it.
"""
_ERROR = {"error": True}


def _answers() -> Iterator[tuple[str, str, list[str | None], list[Any]]]:
    for line in _ANSWERS.read_text(encoding="utf-8").splitlines():
        type_, pattern, values, answers = json.loads(line)
        yield type_, pattern, values, answers


def _call(pattern: str) -> str:
    return "to_char(n, '{}')".format(pattern.replace("'", "''"))


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
def test_spark_writes_numbers_as_postgres_does(spark: SparkSession) -> None:
    of_type: dict[str, list[tuple[str, list[str | None], list[Any]]]] = {}
    for type_, pattern, values, answers in islice(_answers(), 0, None, 3):  # each pattern with one type or two
        of_type.setdefault(type_, []).append((pattern, values, answers))
    for type_, cases in of_type.items():
        values = cases[0][1]
        assert all(each == values for _, each, _ in cases)
        columns = {"id": "integer", "n": type_}
        # as one query; a value that fails by one of the patterns is NULL there, and asked for alone
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


def _shown(spark: SparkSession, type_: str, pattern: str, value: str | None) -> str | None:
    relation = vectors.query(f"SELECT {_call(pattern)} AS x FROM t", vectors.table({"n": type_})).relation
    try:
        return str(spark.sql(batch.sql(relation, batch.rows({"n": type_}, [(value,)]))).collect())
    except PySparkException:
        return None
