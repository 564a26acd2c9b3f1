"""Maps and records: the evaluator, Spark and a model compute the same from generated values."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from expressions import vectors
from sinkql import evaluate
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = {
    "k": "text", "l": "text", "i": "integer", "m": "map[text=>integer]",
    "r": 'record(a integer, "B @1`" record(c text))', "s": "record(a integer NOT NULL, b map[text=>integer])",
}  # fmt: skip
_CALLS = (
    "m -> k", "m ? k", "m -> 'a'", "map_length(m)", "(r).a", '(r)."B @1`"', '((r)."B @1`").c', "(s).b -> k",
    "MAP['b' => i, k || '' => 1, 'a' => NULL, coalesce(l, 'z') => i + 1]", "ROW(i, k, m)", "(ROW(i, r)).f2",
    "r::record(x bigint, y record(z text))", "ROW(i, NULL)::record(x bigint, y record(z text))",
    "CASE WHEN i > 0 THEN m ELSE '{x=>9,\"y z\"=>NULL}' END", "r IS NULL", "r IS NOT NULL", "m IS NULL",
    """coalesce(r, '(5,"(q)")')""", "ARRAY[m, MAP['a' => i]]",
)  # fmt: skip
_KEYS = ("a", "b", "é", "", "z", None)


def _value(random_: random.Random, type_: str) -> Any:
    match type_:
        case "text":
            return random_.choice(_KEYS)
        case "integer":
            return random_.choice((0, 1, -7, None))
        case "map[text=>integer]":
            keys = sorted(random_.sample([each for each in _KEYS if each is not None], random_.randrange(4)))
            return None if random_.random() < 0.2 else tuple((key, _value(random_, "integer")) for key in keys)
    if random_.random() < 0.2:
        return None
    if type_ == _COLUMNS["s"]:
        return random_.randrange(5), _value(random_, "map[text=>integer]")
    return _value(random_, "integer"), random_.choice((None, (None,), ("x",)))


def _rows() -> list[tuple[Any, ...]]:
    random_ = random.Random("composites")
    found = [tuple(_value(random_, type_) for type_ in _COLUMNS.values()) for _ in range(150)]
    return [row for row in found if row[0] is not None]  # a NULL key is an error


def _evaluated() -> list[list[Any]]:
    functions = [evaluate.function_of(vectors.expression(call, _COLUMNS), list(_COLUMNS)) for call in _CALLS]
    return [[function(row) if function else "?" for function in functions] for row in _rows()]


def test_values_are_those_of_a_model() -> None:
    for (k, other, i, m, r, s), found in zip(_rows(), _evaluated(), strict=True):
        held = None if m is None else dict(m)
        of_map = [None] * 4 if held is None else [held.get(k), k in held, held.get("a"), len(held)]
        assert found[:4] == of_map
        assert found[4:7] == [r and r[0], r and r[1], r and r[1] and r[1][0]]
        assert found[7] == (dict(s[1] or ()).get(k) if s else None)
        made = {"b": i, k: 1, "a": None, "z" if other is None else other: None if i is None else i + 1}
        assert found[8] == tuple(sorted(made.items()))
        assert found[9:13] == [(i, k, m), r, r, (i, None)]
        assert found[14:17] == [r is None or r == (None, None), r is not None and None not in r, m is None]
        assert found[17] == (r if r is not None else (5, ("q",)))
        assert found[18] == (m, (("a", i),))


def test_a_key_that_is_null_is_an_error() -> None:
    function = evaluate.function_of(vectors.expression("MAP[k => 1]", _COLUMNS), ["k"])
    assert function is not None
    with pytest.raises(SinkqlError, match="a key of a map is NULL"):
        function((None,))


@pytest.mark.spark
def test_spark_gives_the_same(spark: SparkSession) -> None:
    rows = _rows()
    table = pa.table({
        **{name: pa.array([row[place] for row in rows], arrow_type(parse_type(type_)))
           for place, (name, type_) in enumerate(_COLUMNS.items())},
        "n": list(range(len(rows))),
    })  # fmt: skip
    frame = spark.createDataFrame(table).repartition(1)
    shown = [f"{spark_sql(vectors.expression(call, _COLUMNS))} AS c{place}" for place, call in enumerate(_CALLS)]
    found = frame.selectExpr(*shown, "n").toArrow().sort_by("n").drop_columns(["n"])
    assert list(map(list, zip(*map(python_values, found.columns), strict=True))) == _evaluated()
    with pytest.raises(Exception, match="a key of a map is NULL"):
        frame.selectExpr(spark_sql(vectors.expression("MAP[l => 1]", _COLUMNS))).collect()
