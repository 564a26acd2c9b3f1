"""Functions of jsonb return the same texts for random JSON documents in the evaluator, in Spark and in Postgres."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from expressions import vectors
from sinkql import evaluate
from sinkql.errors import SinkqlError
from sinkql.lowering.spark.expression import spark_sql
from sinkql.runtime.spark.arrow import to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.postgres import Postgres

COLUMNS = {"s": "text", "j": "jsonb", "n": "integer"}
CALLS = (
    "s::jsonb",
    "s::jsonb -> 'a'",
    "s::jsonb ->> 'a'",
    "j -> 'a'",
    "j -> 'a' -> 'bb'",
    "j -> 'a' -> 0",
    "j -> 0",
    "j -> 1 -> 'a'",
    "j ->> 'a'",
    "j ->> 'bb'",
    "j ->> 1",
    "j -> 'a' ->> 0",
    "j -> 'a' ->> 'bb'",
    "j #> '{a,bb}'",
    "j #>> '{a,bb}'",
    "j #>> '{a,1}'",
    "jsonb_extract_path_text(j, 'bb', 'a')",
    "j ? 'a'",
    "j @> '{\"a\": 1}'",
    'j @> \'{"a": "x", "bb": null}\'',
    "jsonb_typeof(j)",
    "jsonb_typeof(j -> 'a')",
    "CASE WHEN jsonb_typeof(j) = 'array' THEN jsonb_array_length(j) END",
    "to_jsonb(s)",
    "to_jsonb(j ->> 'a')",
    "to_jsonb(n)",
    "jsonb_build_object('b', s, 'aa', n, 'a', j ->> 'a', 'b', n)",
    "jsonb_build_array(s, n, j ->> 'bb', NULL, n > 1)",
    "left(coalesce(s::jsonb ->> 'a', j ->> 'bb'), 3) || coalesce(s::jsonb ->> 'bb', '')",
    "CASE WHEN n > 1 THEN s::jsonb ELSE j END -> 'a'",
)
FAILING = ("(s || '}')::jsonb", "jsonb_array_length(j)")
_KEYS = ("a", "bb", "a", "bb", "b", "ccc", "", "é", "😀", 'q"', "\\", "x: 1, y", "a\tb", "\x1f")
_TEXTS = (*_KEYS, "null", "1.50", "{}", '{"a": 1.0}', "x", "[1,2]", "a, b: c", "\x7f\u2028", "/", "-Infinity")
_NUMBERS = (
    "0", "1", "-1", "1.0", "1.50", "-0", "-0.00", "1e3", "1.5E-3", "12345678901234567890123", "1e40", "0.1e1",
    "123456789.123456789123456789123456789", "1e-30", "9" * 60, "2.50e1",
)  # fmt: skip


def document(random: Random, depth: int = 3) -> str:
    """Return a JSON text with spaces, duplicate names and escaped characters."""
    blank = random.choice(("", "", " ", "\n\t"))
    match random.randrange(8 if depth else 4):
        case 0:
            return random.choice(_NUMBERS)
        case 1:
            return random.choice(("null", "true", "false"))
        case 2 | 3:
            return json.dumps(random.choice(_TEXTS), ensure_ascii=random.random() < 0.5)
        case 4 | 5:
            elements = f",{blank}".join(document(random, depth - 1) for _ in range(random.randrange(4)))
            return f"[{blank}{elements}{blank}]"
        case _:
            members = (
                f"{json.dumps(random.choice(_KEYS), ensure_ascii=random.random() < 0.5)}{blank}:{blank}"
                f"{document(random, depth - 1)}"
                for _ in range(random.randrange(6))
            )
            return f"{{{blank}{f',{blank}'.join(members)}}}"


def _documents(count: int) -> list[str]:
    random = Random(31)
    return [document(random) for _ in range(count)]


def _expected(postgres: Postgres, texts: Sequence[str], calls: Sequence[str]) -> list[tuple[Any, ...]]:
    shown = ", ".join(f"({each})::text" for each in calls)
    with postgres.connect() as connection:
        rows = "SELECT s, s::jsonb AS j, n FROM unnest(%s::text[]) WITH ORDINALITY AS u (s, n)"
        return connection.execute(f"SELECT j::text, {shown} FROM ({rows}) AS t ORDER BY n", (list(texts),)).fetchall()


def _rows(texts: Sequence[str], canonical: Sequence[str]) -> list[tuple[Any, ...]]:
    return [(text, j, number) for number, (text, j) in enumerate(zip(texts, canonical, strict=True), 1)]


def _text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


@pytest.mark.parametrize("count", [400, pytest.param(40_000, marks=pytest.mark.soak)])
def test_evaluated_texts_are_those_of_postgres(postgres: Postgres, count: int) -> None:
    texts = _documents(count)
    judged = _expected(postgres, texts, CALLS)
    rows = _rows(texts, [row[0] for row in judged])
    for place, call in enumerate(CALLS, 1):
        value = evaluate.function_of(vectors.expression(call, COLUMNS), list(COLUMNS))
        assert value is not None, call
        wrong = [
            (row[1], judged[number][place], found)
            for number, row in enumerate(rows)
            if (found := _text(value(row))) != judged[number][place]
        ]
        assert not wrong, (call, wrong[:3])


@pytest.mark.spark
@pytest.mark.parametrize("count", [400, pytest.param(40_000, marks=pytest.mark.soak)])
def test_in_spark_texts_are_those_of_postgres(spark: SparkSession, postgres: Postgres, count: int) -> None:
    texts = _documents(count)
    judged = _expected(postgres, texts, CALLS)
    columns = zip(*_rows(texts, [row[0] for row in judged]), strict=True)
    table = pa.table([pa.array(each) for each in columns], names=list(COLUMNS)).cast(
        pa.schema([("s", pa.string()), ("j", pa.string()), ("n", pa.int32())])
    )
    frame = spark.createDataFrame(to_spark(table), "s string, j string, n int").repartition(2)
    shown = [f"{spark_sql(vectors.expression(each, COLUMNS))} AS c{place}" for place, each in enumerate(CALLS)]
    found = frame.selectExpr("n", *shown).orderBy("n").collect()
    wrong = {
        call: (row[0], row[place], value)
        for place, call in enumerate(CALLS, 1)
        for row, got in zip(judged, found, strict=True)
        if (value := _text(got[place])) != row[place]
    }
    assert not wrong, "\n".join(map(str, wrong.items()))
    for call in FAILING:
        tree = vectors.expression(call, COLUMNS)
        failing = evaluate.function_of(tree, list(COLUMNS))
        assert failing is not None
        with pytest.raises(SinkqlError) as refused:
            failing(("1", "1", 1))
        with pytest.raises(Exception, match=refused.value.message):
            frame.limit(1).selectExpr("'1' AS s", "'1' AS j", "1 AS n").selectExpr(spark_sql(tree)).collect()
