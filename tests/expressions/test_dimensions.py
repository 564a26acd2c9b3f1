"""Arrays of two dimensions are read, written and computed as in Postgres: in the evaluator, in files and in Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from expressions import vectors
from sinkql import evaluate
from sinkql.connector_api.types import arrow_type, parse_type
from sinkql.decode.text_column import Failures, from_text
from sinkql.errors import SinkqlError, Span
from sinkql.logical.nested import write_nested
from sinkql.lowering.spark.expression import spark_sql
from sinkql.planner.expression.literal import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("postgres_arrays.jsonl")
"""A type, a text, and Postgres's text of the array and results of `_CALLS`; null for errors and for one dimension."""
_CALLS = (
    "x[1][1]", "x[2][1]", "x[2][3]", "cardinality(x)", "array_length(x, 1)", "array_length(x, 2)", "{} = ANY (x)",
    "{} < ANY (x)", "{} <> ALL (x)", "x @> ARRAY[ARRAY[{}]]", "x && ARRAY[ARRAY[{}]]", "cardinality(x[2:2])",
)  # fmt: skip
_AMONG = {"int[][]": "1", "text[][]": "'a'"}
_TYPES = {"int[][]": "integer[][]", "text[][]": "text[][]"}


def _answers(type_: str) -> list[tuple[str, Any]]:
    lines = map(json.loads, _ANSWERS.read_text(encoding="utf-8").splitlines())
    return [(text, answer) for own, text, answer in lines if own == type_]


def _value(text: str, type_: str) -> Any:
    try:
        tree = literal(text, parse_type(_TYPES[type_]), Span(0, 0)).tree
    except SinkqlError:
        return None
    return getattr(tree, "value", None)


def _trees(type_: str) -> list[Any]:
    return [vectors.expression(each.format(_AMONG[type_]), {"x": _TYPES[type_]}) for each in _CALLS]


def _read(type_: str) -> list[tuple[Any, list[Any]]]:
    return [(_value(text, type_), answer[1:]) for text, answer in _answers(type_) if answer is not None]


@pytest.mark.parametrize("type_", _TYPES)
def test_texts_are_read_as_in_postgres(type_: str) -> None:
    for text, answer in _answers(type_):
        if answer is None and _value(text, type_) == ():
            continue  # empty arrays within an array, which Postgres accepts since version 17
        failures: Failures = {}
        found = from_text(pa.array([text]), parse_type(_TYPES[type_]), failures)[0].as_py()
        value = _value(text, type_)
        assert [
            each if each is None else write_nested(each, parse_type(_TYPES[type_]), lambda one, _: str(one))
            for each in (value, found)
        ] == [answer and answer[0]] * 2, text
        assert (0 in failures) == (answer is None)
    assert len(_read(type_)) > 100


@pytest.mark.parametrize("type_", _TYPES)
def test_elements_and_lengths_are_those_of_postgres(type_: str) -> None:
    functions = [evaluate.function_of(tree, ["x"]) for tree in _trees(type_)]
    for value, answer in _read(type_):
        found = [function((value,)) for function in functions if function]
        assert [*(each if each is None else str(each) for each in found[:3]), *found[3:]] == answer, value


def test_arrays_are_made_of_arrays_of_one_length() -> None:
    function = evaluate.function_of(vectors.expression("ARRAY[x, y]", dict.fromkeys("xy", "integer[]")), ["x", "y"])
    assert function is not None
    pairs: list[tuple[Any, Any]] = [((1, 2), (3, None)), ((), None), (None, None)]
    assert [function(each) for each in pairs] == [((1, 2), (3, None)), (), ()]
    for uneven in (((1,), (1, 2)), ((1,), None)):
        with pytest.raises(SinkqlError, match="matching dimensions"):
            function(uneven)


@pytest.mark.spark
def test_spark_gives_the_same(spark: SparkSession) -> None:
    for type_ in _TYPES:
        kept = _read(type_)
        table = pa.table({
            "x": pa.array([value for value, _ in kept], arrow_type(parse_type(_TYPES[type_]))),
            "n": list(range(len(kept))),
        })  # fmt: skip
        shown = [spark_sql(tree) for tree in _trees(type_)]
        rows = spark.createDataFrame(table).repartition(1).selectExpr(*shown, "n").collect()
        given = {row[-1]: [*(each if each is None else str(each) for each in row[:3]), *row[3:-1]] for row in rows}
        assert [given[place] for place in range(len(kept))] == [answer for _, answer in kept]
    columns = {name: pa.array(values, pa.list_(pa.int32())) for name, values in (
        ("x", [[1, 2], [], None]), ("y", [[3, None], None, None]), ("z", [[1], [1], [1]]),
    )}  # fmt: skip
    frame = spark.createDataFrame(pa.table({**columns, "n": [0, 1, 2]})).repartition(1)
    types = dict.fromkeys("xyz", "integer[]")
    made = spark_sql(vectors.expression("ARRAY[x, y]", types))
    deep = spark_sql(vectors.expression("ARRAY[ARRAY[x, y], ARRAY[y, x]]", types))
    found = frame.selectExpr("n", f"{made} made", f"{deep} deep").collect()
    assert sorted(map(tuple, found)) == [
        (0, [[1, 2], [3, None]], [[[1, 2], [3, None]], [[3, None], [1, 2]]]), (1, [], []), (2, [], []),
    ]  # fmt: skip
    with pytest.raises(Exception, match="matching dimensions"):
        frame.selectExpr(spark_sql(vectors.expression("ARRAY[x, z]", types))).collect()
