"""Aggregates over all rows of a group in a one-shot query, in Spark."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from sinkql import ast
from sinkql.errors import Span
from sinkql.lowering.spark.query import QuerySql
from sinkql.planner.query.plan import plan_one_shot
from sinkql.program.compiler import compile_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

_ROWS = "(VALUES (1, 'b', 2), (1, 'a', 2), (1, NULL, 3), (2, 'c', 5), (2, 'c', NULL), (3, NULL, NULL)) AS v (g, n, x)"
_CALLS = {
    "string_agg(n, ', ' ORDER BY n DESC)": ["b, a", "c, c", None],
    "string_agg(DISTINCT n, '''')": ["a'b", "c", None],
    "array_agg(x ORDER BY x DESC NULLS LAST, n)": [[3, 2, 2], [5, None], [None]],
    "array_agg(DISTINCT x ORDER BY x)": [[2, 3], [5, None], [None]],
    "sum(DISTINCT x)": [5, 5, None],
    "count(n)": [2, 2, 0],
    "variance(x)": [Decimal("0.3333333333"), None, None],
    "stddev_pop(x * 3000000.5)": [Decimal("1414213.7980753554"), Decimal(0), None],
    "var_pop((x * 1000000000.25)::numeric(38,10))": [Decimal("222222222333333333.3472222222"), Decimal(0), None],
    "bit_xor(x)": [3, 5, None],
    "bit_and(x)": [2, 5, None],
    "array_agg(x ORDER BY x) FILTER (WHERE n <> 'b')": [[2], [5, None], None],
    "jsonb_agg(n ORDER BY n)": ['["a", "b", null]', '["c", "c"]', "[null]"],
    "jsonb_agg(DISTINCT x) FILTER (WHERE x > 0)": ["[2, 3]", "[5]", None],
    "jsonb_object_agg(n, x ORDER BY x) FILTER (WHERE n <> '')": ['{"a": 2, "b": 2}', '{"c": null}', None],
    "percentile_cont(0.4) WITHIN GROUP (ORDER BY x)": [2.0, 5.0, None],
    "percentile_cont(ARRAY[0, 0.75]) WITHIN GROUP (ORDER BY x)": [[2.0, 2.5], [5.0, 5.0], None],
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY n DESC)": ["b", "c", None],
    "mode() WITHIN GROUP (ORDER BY n DESC)": ["b", "c", None],
    "bit_or(x) FILTER (WHERE x < 4)": [3, None, None],
}


def test_in_spark_aggregates_over_all_rows_of_a_group_are_those_of_postgres(spark: SparkSession) -> None:
    calls = ", ".join(f"{call} AS c{number}" for number, call in enumerate([*_CALLS, "array_agg(n ORDER BY n)"]))
    text = f"SELECT g, {calls} FROM {_ROWS} GROUP BY g ORDER BY g"
    found = _run(spark, text)
    for number, values in enumerate(_CALLS.values(), 1):
        assert values == [row[number] for row in found]
    assert _run(spark, f"SELECT string_agg(n, ',') AS a, array_agg(x) AS b FROM {_ROWS} WHERE g > 5") == [(None, None)]


def _run(spark: SparkSession, text: str) -> list[tuple[object, ...]]:
    catalog = compile_text("").catalog
    assert catalog is not None
    once = plan_one_shot(ast.Query(text, Span(0, len(text))), catalog, datetime(2024, 1, 1))
    return [tuple(row) for row in spark.sql(QuerySql(catalog).once(once)).collect()]
