"""Python and the engines compute the same for random expressions, and refuse the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from duck.expression import NoFormError, duck_sql, duck_type
from evaluate.generated import COLUMNS, ROWS, Guards, Trees
from sinkql import evaluate, logical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import spark_type
from sinkql.runtime.spark.arrow import from_spark, to_spark
from support.examples import examples

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TREES = 60


def outcome(expression: logical.Expression, row: tuple[Any, ...]) -> tuple[str, Any]:
    """Return `value` with the value that Python computes, `error`, or `unsure`."""
    function = evaluate.function_of(expression, list(COLUMNS))
    if function is None:
        return "unsure", None
    try:
        return "value", function(row)
    except evaluate.NotEvaluableError:
        return "unsure", None
    except SinkqlError:
        return "error", None


def table() -> pa.Table:
    columns = zip(*ROWS, strict=True)
    arrays = [pa.array(each, arrow_type(type_)) for each, type_ in zip(columns, COLUMNS.values(), strict=True)]
    return pa.table([pa.array(range(len(ROWS))), *arrays], names=["row", *COLUMNS])


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET timezone = 'UTC'")
    connection.execute("PRAGMA disable_optimizer")  # it removes failing operands beside a literal NULL
    connection.register("rows_given", table())
    connection.execute("CREATE TABLE rows AS FROM rows_given")
    return connection


@settings(examples(50, 1_000), suppress_health_check=[HealthCheck.too_slow])
@given(random=st.randoms(use_true_random=False))
def test_python_gives_what_duckdb_gives(duck: duckdb.DuckDBPyConnection, random: Random) -> None:
    expression = Trees(random).any(3)
    try:
        sql = duck_sql(expression)
    except NoFormError:
        return
    for number, row in enumerate(ROWS):
        kind, value = outcome(expression, row)
        if kind == "unsure":
            continue
        query = f"SELECT CAST({sql} AS {duck_type(expression.type)}) FROM rows WHERE row = {number}"
        asked, found = _asked(duck, query)
        if kind == "value" and asked == "value":
            assert value == found, (expression, row, query)
        elif kind == "error":  # DuckDB may skip the failing operand beside a NULL
            assert asked == "error" or found is None, (expression, row, query)


def _asked(duck: duckdb.DuckDBPyConnection, query: str) -> tuple[str, Any]:
    try:
        ((found,),) = duck.execute(query).fetchall()
    except duckdb.Error:
        return "error", None
    return "value", found


@pytest.mark.spark
@pytest.mark.parametrize("count", [8, pytest.param(60, marks=pytest.mark.soak)])
def test_spark_computes_nothing_that_a_guard_leaves_out(spark: SparkSession, count: int) -> None:
    schema = ", ".join(f"{name} {spark_type(type_)}" for name, type_ in COLUMNS.items())
    spark.createDataFrame(to_spark(table()), f"row bigint, {schema}").createOrReplaceTempView("guarded")
    guards = Guards(Random(7))
    trees = [guards.any(4) for _ in range(count)]
    expected = [tuple(outcome(tree, row) for tree in trees) for row in ROWS]
    assert {kind for row in expected for kind, _ in row} == {"value"}

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    # all trees are columns of one row, so that Spark shares common parts; its rules do not look into mapInArrow
    rows = spark.table("guarded").mapInArrow(same, f"row bigint, {schema}")
    shown = [f"{spark_sql(tree)} AS x{number}" for number, tree in enumerate(trees)]
    found = rows.selectExpr("row", *shown).orderBy("row").collect()
    assert [tuple(value for _, value in row) for row in expected] == [tuple(row)[1:] for row in found]
    kept = {number: rows.where(spark_sql(trees[number])).count() for number in range(0, count, 10)}
    assert {number: sum(row[number][1] is True for row in expected) for number in kept} == kept


@pytest.mark.soak
@pytest.mark.spark
def test_python_gives_what_spark_gives(spark: SparkSession) -> None:
    schema = ", ".join(f"{name} {spark_type(type_)}" for name, type_ in COLUMNS.items())
    spark.createDataFrame(to_spark(table()), f"row bigint, {schema}").createOrReplaceTempView("evaluated")
    trees = Trees(Random(20))
    counts: Counter[str] = Counter()
    wrong = []
    for expression in (trees.any(4) for _ in range(_TREES)):
        outcomes = [outcome(expression, row) for row in ROWS]
        values = [number for number, (kind, _) in enumerate(outcomes) if kind == "value"]
        errors = [number for number, (kind, _) in enumerate(outcomes) if kind == "error"]
        found = _by_row(spark, expression, values) | _by_row(spark, expression, errors[:1])
        for number, answer in found.items():
            kind, value = outcomes[number]
            counts[f"{kind} {answer[0]}"] += 1
            # Spark skips some failing operands beside a NULL
            if answer[0] == "value" and answer[1] != (value if kind == "value" else None):
                wrong.append(f"{spark_sql(expression)} over {ROWS[number]}: {outcomes[number]} here, {answer} in Spark")
    assert not wrong, "\n".join(wrong)
    assert counts["value value"] > 200
    assert counts["error error"] > 5
    # Spark computes the right operand of a NULL if the SQL has it twice, so a few may fail
    assert counts["value error"] < counts["value value"] / 100


def _by_row(spark: SparkSession, expression: logical.Expression, rows: list[int]) -> dict[int, tuple[str, Any]]:
    """Return Spark's value for each row; if the query raises, each row runs alone."""
    if not rows:
        return {}
    chosen = ", ".join(map(str, rows))
    query = spark.sql(f"SELECT row, {spark_sql(expression)} AS x FROM evaluated WHERE row IN ({chosen})")
    try:
        found = from_spark(query.toArrow(), [None, expression.type])
        return {row["row"]: ("value", row["x"]) for row in found.to_pylist()}
    except PySparkException:
        if len(rows) == 1:
            return {rows[0]: ("error", None)}
    return {number: answer for row in rows for number, answer in _by_row(spark, expression, [row]).items()}
