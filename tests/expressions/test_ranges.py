"""Ranges are read, written, built and compared as in Postgres 15: in the evaluator, in files and in Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from evaluate import wire
from expressions import vectors
from sinkql import evaluate
from sinkql.connector_api.types import arrow_type, parse_type
from sinkql.decode.text_column import Failures, from_text
from sinkql.errors import SinkqlError, Span
from sinkql.logical.range import SUBTYPES
from sinkql.lowering.spark.expression import spark_sql
from sinkql.planner.expression.literal import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("postgres_ranges.jsonl")
"""A question and Postgres's answer, null for an error.

`text`: a type and a text → the range's text, its bounds, and whether it is empty, includes and lacks each bound.
`pair`: a type and two ranges → the results of =, <, <=, @>, && and <@.
`value`: a type, a range and a value → whether the range contains the value.
`made`: a type, two bounds and which bounds are included → the text of the range.
"""
_OF_ONE = ("lower(r)", "upper(r)", "isempty(r)", "lower_inc(r)", "upper_inc(r)", "lower_inf(r)", "upper_inf(r)")
_OF_TWO = ("a = b", "a < b", "a <= b", "a @> b", "a && b", "a <@ b")
_LONG_AGO = ("BC", "10000-", "infinity")


@lru_cache
def _answers(kind: str) -> list[tuple[list[Any], Any]]:
    lines = map(json.loads, _ANSWERS.read_text(encoding="utf-8").splitlines())
    return [(asked[1:], answer) for asked, answer in lines if asked[0] == kind]


def _plain(text: str | None) -> str | None:
    """Remove the trailing zeros of fractions, which Postgres keeps as written."""
    if text is None or "-" in text[2:] or ":" in text:
        return text
    return re.sub(r"(\.\d*?)0+(?!\d)", lambda match: match[1].rstrip("."), text)


def _read(text: str, type_: str) -> str | None:
    failures: Failures = {}
    found: str | None = from_text(pa.array([text]), parse_type(type_), failures)[0].as_py()
    assert (found is None) == (0 in failures)
    return found


def _constant(text: str, type_: str) -> str | None:
    try:
        tree = literal(text, parse_type(type_), Span(0, 0)).tree
    except SinkqlError:
        return None
    return str(getattr(tree, "text", None))


def test_what_is_read_is_what_postgres_reads() -> None:
    known = read = 0
    for (type_, text), answer in _answers("text"):
        expected = answer and _plain(answer[0])
        found = _read(text, type_)
        assert found in (None, expected), (type_, text)
        assert _constant(text, type_) in (None, expected), (type_, text)
        if expected is not None and not any(each in expected for each in _LONG_AGO):
            known += 1
            read += found is not None and _constant(text, type_) is not None
    assert read >= 0.97 * known
    assert read > 500


def _ranges() -> Iterator[tuple[str, str, list[Any]]]:
    """Yield types, texts of ranges, and the results of `_OF_ONE` for them."""
    for (type_, text), answer in _answers("text"):
        found = _read(text, type_)
        if found is not None:
            yield type_, found, [_plain(each) if isinstance(each, str) else each for each in answer[1:]]


def _shown(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _plain(f"{value:f}")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{wire.shown(value)}+00"
    return value if value is None or isinstance(value, bool) else str(wire.shown(value))


def test_the_parts_of_ranges_are_those_of_postgres() -> None:
    functions = {
        type_: [evaluate.function_of(vectors.expression(text, {"r": type_}), ["r"]) for text in _OF_ONE]
        for type_ in SUBTYPES
    }
    for type_, text, answer in _ranges():
        assert [_shown(function((text,))) for function in functions[type_] if function] == answer, text
    nothing = [function((None,)) for function in functions["int4range"] if function]
    assert nothing == [None] * len(_OF_ONE)


def _pairs(type_: str) -> list[tuple[str, str, list[bool]]]:
    found = []
    for (own, *texts), answer in _answers("pair"):
        read = [_read(each, type_) for each in texts if own == type_]
        if read and None not in read:
            found.append((str(read[0]), str(read[1]), answer))
    return found


@pytest.mark.parametrize("type_", SUBTYPES)
def test_pairs_of_ranges_are_compared_as_in_postgres(type_: str) -> None:
    functions = [
        evaluate.function_of(vectors.expression(text, dict.fromkeys("ab", type_)), ["a", "b"]) for text in _OF_TWO
    ]
    for a, b, answer in _pairs(type_):
        assert [function((a, b)) for function in functions if function] == answer, (a, b)
        assert [function((a, None)) for function in functions if function] == [None] * len(_OF_TWO)
    assert len(_pairs(type_)) > 50


def _value(text: str, type_: str) -> str:
    return text if "::" in text else f"{text}::{SUBTYPES[type_].name}"


def test_values_are_in_ranges_as_in_postgres() -> None:
    asked = 0
    for (type_, text, value), answer in _answers("value"):
        found = _read(text, type_)
        tree = vectors.expression(f"r @> {_value(value, type_)}", {"r": type_})
        function = evaluate.function_of(tree, ["r"])
        if found is not None:
            assert function is not None
            assert function((found,)) == answer, (text, value)
            asked += 1
    assert asked > 100


def _bound(text: str | None, type_: str) -> Any:
    failures: Failures = {}
    subtype = str(SUBTYPES[type_])
    found = from_text(pa.array([text], pa.string()), parse_type(subtype), failures)[0].as_py()
    return "no such value" if failures else found


def _made() -> Iterator[tuple[str, Any, Any, str, str | None]]:
    for (type_, lower, upper, bounds), answer in _answers("made"):
        values = _bound(lower, type_), _bound(upper, type_)
        beyond = answer is not None and any(each in answer for each in _LONG_AGO)
        if "no such value" not in values:
            yield type_, *values, bounds, None if beyond else _plain(answer)


def test_ranges_are_made_as_in_postgres() -> None:
    made = list(_made())
    for type_, lower, upper, bounds, answer in made:
        tree = vectors.expression(f"{type_}(a, b, '{bounds}')", dict.fromkeys("ab", str(SUBTYPES[type_])))
        function = evaluate.function_of(tree, ["a", "b"])
        assert function is not None
        if answer is not None:
            assert function((lower, upper)) == answer, (lower, upper, bounds)
            continue
        with pytest.raises(SinkqlError, match="SQ3201"):
            function((lower, upper))
    assert len(made) > 100


@pytest.mark.spark
@pytest.mark.share(6)
@pytest.mark.parametrize("type_", SUBTYPES)
def test_spark_gives_the_same(spark: SparkSession, type_: str) -> None:
    kept = [(text, answer) for own, text, answer in _ranges() if own == type_]
    calls = [f"{each}::text" if type_ == "tstzrange" else each for each in _OF_ONE]
    shown = [spark_sql(vectors.expression(text, {"r": type_})) for text in calls]
    assert _rows(spark, shown, {"r": [text for text, _ in kept]}) == [answer for _, answer in kept]
    pairs = _pairs(type_)
    shown = [spark_sql(vectors.expression(text, dict.fromkeys("ab", type_))) for text in _OF_TWO]
    columns = {name: [pair[place] for pair in pairs] for place, name in enumerate("ab")}
    assert _rows(spark, shown, columns) == [answer for *_, answer in pairs]
    assert _rows(spark, shown, {**columns, "b": pa.nulls(len(pairs), pa.string())})[0] == [None] * len(_OF_TWO)
    value = f"r @> {_value({v[2]: 1 for v, _ in _answers('value') if v[0] == type_}.popitem()[0], type_)}"
    tree = vectors.expression(value, {"r": type_})
    function = evaluate.function_of(tree, ["r"])
    assert function is not None
    texts = [text for text, _ in kept]
    assert _rows(spark, [spark_sql(tree)], {"r": texts}) == [[function((text,))] for text in texts]


@pytest.mark.spark
@pytest.mark.share(3)
@pytest.mark.parametrize("type_", SUBTYPES)
def test_spark_makes_the_same(spark: SparkSession, type_: str) -> None:
    for bounds in ("[]", "[)", "(]", "()"):
        made = [(a, b, text) for own, a, b, which, text in _made() if (own, which) == (type_, bounds) and text]
        subtype = str(SUBTYPES[type_])
        tree = vectors.expression(f"{type_}(a, b, '{bounds}')", dict.fromkeys("ab", subtype))
        columns = {
            name: pa.array([each[place] for each in made], arrow_type(parse_type(subtype)))
            for place, name in enumerate("ab")
        }
        assert _rows(spark, [spark_sql(tree)], columns) == [[text] for *_, text in made]


@pytest.mark.spark
def test_spark_refuses_the_same(spark: SparkSession) -> None:
    tree = vectors.expression("int4range(a, b)", dict.fromkeys("ab", "integer"))
    with pytest.raises(Exception, match="range lower bound must be less than or equal to range upper bound"):
        _rows(spark, [spark_sql(tree)], {"a": pa.array([2], pa.int32()), "b": pa.array([1], pa.int32())})
    tree = vectors.expression("daterange(a, a, '[]')", {"a": "date"})
    with pytest.raises(Exception, match="date out of range"):
        _rows(spark, [spark_sql(tree)], {"a": pa.array([date.max])})


def _rows(spark: SparkSession, shown: list[str], columns: dict[str, Any]) -> list[list[Any]]:
    """Compute expressions over the columns in Spark; return the results in row order."""
    width = len(next(iter(columns.values())))
    table = pa.table({**columns, "n": list(range(width))})
    texts = [f"CAST({each} AS STRING)" for each in shown]
    found = spark.createDataFrame(table).repartition(1).selectExpr(*texts, "n").collect()
    by_place = {row[-1]: list(row)[:-1] for row in found}
    words = {"true": True, "false": False}
    return [[words.get(each, _zoned(each)) for each in by_place[place]] for place in range(width)]


def _zoned(text: Any) -> Any:
    return _plain(text) if isinstance(text, str) else text
