"""Interval columns are read, written, compared and added as in Postgres 15: in the evaluator, in files and in Spark."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from evaluate import wire
from expressions import vectors
from sinkql import evaluate
from sinkql.decode.text_column import Failures, from_text
from sinkql.logical.type import INTERVAL
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("postgres_intervals.jsonl")
"""A text, and the results of i::text, i > '1 mon', t + i and t - i for its interval; null for an error."""
_COLUMNS = {"t": "timestamp", "i": "interval"}
_CALLS = ("i::text", "i > '1 mon'", "(t + i)::text", "(t - i)::text")
_AT = datetime(2024, 1, 31, 10)


def _answers() -> list[tuple[str, list[str] | None]]:
    return [(text, answer) for text, answer in map(json.loads, _ANSWERS.read_text(encoding="utf-8").splitlines())]


def _read() -> list[tuple[str, list[str] | None]]:
    """Return the intervals that a column accepts, with Postgres's results for them."""
    failures: Failures = {}
    texts = from_text(pa.array([text for text, _ in _answers()]), INTERVAL, failures).to_pylist()
    return [(text, answer) for text, (_, answer) in zip(texts, _answers(), strict=True) if text is not None]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(wire.shown(value))


def test_what_is_read_is_read_and_computed_as_in_postgres() -> None:
    functions = [evaluate.function_of(vectors.expression(text, _COLUMNS), list(_COLUMNS)) for text in _CALLS]
    years = 0
    for text, answer in _read():
        assert answer is not None, text
        for function, expected in zip(functions, answer, strict=True):
            assert function is not None
            try:
                assert _shown(function((_AT, text))) == expected, text
            except evaluate.NotEvaluableError:
                years += 1  # later than Python's last year
    assert years < 10
    assert len(_read()) > 120


def test_most_of_what_postgres_reads_is_read() -> None:
    known = sum(answer is not None for _, answer in _answers())
    assert len(_read()) >= 0.85 * known


def test_a_month_is_30_days_where_intervals_are_compared() -> None:
    same = evaluate.function_of(
        vectors.expression("i = '30 days -24:00:00' AND i < '29 days 00:00:01'", _COLUMNS), ["t", "i"]
    )
    assert same is not None
    assert [same((_AT, text)) for text in ("29 days", "1 mon -1 days", "1 mon", "28 days 24:00:00", None)] == [
        True, True, False, True, None
    ]  # fmt: skip


@pytest.mark.spark
def test_spark_gives_the_same(spark: SparkSession) -> None:
    kept = [(text, answer) for text, answer in _read() if answer is not None and len(answer[2].split("-")[0]) == 4]
    kept = [each for each in kept if "BC" not in " ".join(each[1]) and len(each[1][3].split("-")[0]) == 4]
    rows = pa.table({"t": pa.array([_AT] * len(kept)), "i": [text for text, _ in kept]})
    shown = [spark_sql(vectors.expression(text, _COLUMNS)) for text in _CALLS]
    found = spark.createDataFrame(rows).repartition(1).selectExpr(*shown, "i").collect()
    assert {i: [_shown(value) for value in row] for *row, i in found} == dict(kept)
    assert len(found) > 100
    nothing = [spark_sql(vectors.expression(text, _COLUMNS)) for text in ("i = NULL", "t + NULL::interval")]
    assert spark.createDataFrame(rows).selectExpr(*nothing).first() == (None, None)


@pytest.mark.spark
def test_spark_writes_differences_as_postgres_does(spark: SparkSession) -> None:
    pairs = {
        "-422 days -04:05:06.789": (datetime(2024, 1, 31), datetime(2025, 3, 28, 4, 5, 6, 789_000)),
        "1 day": (datetime(2024, 2, 29), datetime(2024, 2, 28)), "00:00:00": (_AT, _AT),
        "-1 days": (datetime(2024, 2, 28), datetime(2024, 2, 29)),
        "00:00:00.000001": (datetime(2024, 2, 28, microsecond=1), datetime(2024, 2, 28)),
    }  # fmt: skip
    columns = {"a": "timestamp", "b": "timestamp"}
    tree = vectors.expression("(a - b)::text", columns)
    table = pa.table({"a": [a for a, _ in pairs.values()], "b": [b for _, b in pairs.values()]})
    found = spark.createDataFrame(table).repartition(1).selectExpr(spark_sql(tree)).collect()
    assert [text for (text,) in found] == list(pairs)
    function = evaluate.function_of(tree, list(columns))
    assert function is not None
    assert [function(pair) for pair in pairs.values()] == list(pairs)
