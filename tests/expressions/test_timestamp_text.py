"""Texts of dates and times are read as in Postgres 18 or refused, alike in the evaluator, in Spark and in files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from evaluate import wire
from expressions import batch, vectors
from sinkql import evaluate
from sinkql.decode.text_column import Failures, from_text
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).parents[1] / "files/postgres_timestamps.jsonl"
"""One line each: a type, a random text, and the text that `SELECT '…'::type` returned; null for an error."""
_REFUSED = "refused"
_ZONED = re.compile(r"(?:z|utc|gmt|(?<=[0-9m ])[+]\S+|(?<=[m ])[-]\S+)\s*( [0-9]{4})?\s*$", re.IGNORECASE)


def _answers(type_: str) -> Iterator[tuple[str, Any]]:
    """Yield the texts of a type with Postgres's values; values that Python cannot represent count as refused."""
    for line in _ANSWERS.read_text(encoding="utf-8").splitlines():
        asked, text, answer = json.loads(line)
        if asked == type_:
            yield text, _REFUSED if answer is None else _value(answer, type_)


def _value(answer: str, type_: str) -> Any:
    try:
        return time.fromisoformat(answer) if type_ == "time" else wire.value(answer, parse_type(type_))
    except (ValueError, IndexError):
        return _REFUSED


def _cast(text: str, type_: str) -> Any:
    function = evaluate.function_of(vectors.expression(f"x::{type_}", {"x": "text"}), ["x"])
    assert function is not None
    try:
        return function((text,))
    except SinkqlError:
        return _REFUSED


def _read(texts: list[str], type_: str) -> list[Any]:
    """Read the texts as a column of a file."""
    failures: Failures = {}
    values = from_text(pa.array(texts), parse_type(type_), failures).to_pylist()
    return [_REFUSED if row in failures else value for row, value in enumerate(values)]


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
def test_a_cast_reads_what_postgres_reads_and_a_file_what_a_cast_does(type_: str) -> None:
    texts = [text for text, _ in _answers(type_)]
    casts = [_cast(text, type_) for text in texts]
    wrong = [(text, answer, cast) for (text, answer), cast in zip(_answers(type_), casts, strict=True)
             if cast not in (answer, _REFUSED)]  # fmt: skip
    assert not wrong, wrong
    assert sum(cast != _REFUSED for cast in casts) > 120
    differing = {text: read for text, cast, read in zip(texts, casts, _read(texts, type_), strict=True) if read != cast}
    if type_ == "timestamptz":  # a file requires a zone; a cast reads a text without one as UTC
        assert set(differing.values()) == {_REFUSED}
        differing = {text: read for text, read in differing.items() if _ZONED.search(text)}
    assert differing == {}


def test_a_file_reads_the_times_that_postgres_reads() -> None:
    texts = [text for text, _ in _answers("time")]
    read = _read(texts, "time")
    assert [
        (text, answer, found)
        for (text, answer), found in zip(_answers("time"), read, strict=True)
        if found not in (answer, _REFUSED)
    ] == []
    assert sum(found != _REFUSED for found in read) > 80


def test_what_is_common_is_read() -> None:
    instant = datetime(2024, 2, 3, 14, 5, 6, tzinfo=UTC)
    for text in (
        "2024-02-03 14:05:06", "2024-02-03T14:05:06Z", "2024-02-03 14:05:06+00", "20240203T140506Z",
        "2/3/24 2:05:06 PM", "02.03.2024 14:05:06", "2024.2.3 14:05:06 GMT", "Sat, 03 Feb 2024 14:05:06 GMT",
        "Sat Feb  3 14:05:06 UTC 2024", "Sat Feb  3 14:05:06 2024", "03/Feb/2024:14:05:06 +0000",
        "3-Feb-24 16:05:06 +02", "Saturday, February 3, 2024 14:05:06",
    ):  # fmt: skip
        assert _cast(text, "timestamptz") == instant, text


@pytest.mark.spark
@pytest.mark.parametrize("tried", [3, pytest.param(40, marks=pytest.mark.soak)])
def test_spark_reads_what_the_evaluator_reads(spark: SparkSession, tried: int) -> None:
    refused = 0
    for type_ in ("date", "timestamp", "timestamptz"):
        good = [text for text, _ in _answers(type_) if _cast(text, type_) != _REFUSED]
        assert _in_spark(spark, good, type_) == [wire.shown(_cast(text, type_)) for text in good]
        bad = [text for text, answer in _answers(type_) if _cast(text, type_) == _REFUSED]
        for text in bad[:: len(bad) // tried]:
            with pytest.raises(PySparkException):
                _in_spark(spark, [text], type_)
            refused += 1
    assert refused > 2 * tried


@pytest.mark.spark
@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("timestamp", ["9999-12-31 23:59:59.999999", "9999-12-30 24:00"], ["9999-12-31 24:00"]),
        (
            "timestamptz",
            ["9999-12-31 23:59:59+00:00", "9999-12-31 23:00:00.5+05:00", "0001-01-01 00:00:00-05:00"],
            ["9999-12-31 24:00", "9999-12-31 23:00:00-05:00", "0001-01-01 00:00:00+05:00", "0001-01-01 00:00 +5"],
        ),
    ],
)
def test_nothing_reads_a_time_outside_the_years_1_to_9999(
    spark: SparkSession, type_: str, good: list[str], bad: list[str]
) -> None:
    assert _in_spark(spark, good, type_) == [wire.shown(_cast(text, type_)) for text in good]
    assert [_cast(text, type_) for text in bad] == [_REFUSED] * len(bad) == _read(bad, type_)
    for text in bad:
        with pytest.raises(PySparkException, match=f"{type_} out of range"):
            _in_spark(spark, [text], type_)


def _in_spark(spark: SparkSession, texts: list[str], type_: str) -> list[str]:
    shown = vectors.query(f"SELECT row, x::{type_}::text AS r FROM t", vectors.table({"row": "integer", "x": "text"}))
    rows = batch.rows({"row": "integer", "x": "text"}, [(str(row), text) for row, text in enumerate(texts)])
    found = spark.sql(batch.sql(shown.relation, rows)).collect()
    return [value.removesuffix("+00") for _, value in sorted(map(tuple, found))]
