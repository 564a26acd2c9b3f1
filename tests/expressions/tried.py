"""Expressions, each of whose failures Spark keeps to the row and the expression that fail: many in one query.

Each stands in a `TryEval`, which SQL has no word for: it gives NULL for a row on which it fails, and the other rows
and expressions of the query go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions
from pyspark.sql.classic.column import Column

from expressions import batch
from sinkql import logical
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON = "sinkql_"
"""What names of functions of Python's begin with; their errors are caught by no `TryEval`."""
FAILED = object()
"""Stands for the value of an expression that failed."""
_TOGETHER = 96
NUMBER = "row_number"
"""The name of the column that numbers the rows."""


def nullable(value: Column) -> Column:
    """Return a structure of a value that may be NULL, for Arrow.

    It is no text: Spark's parser would read all within `struct(…)` twice, and that is most of its time.
    """
    return functions.struct(functions.when(functions.col(NUMBER).isNotNull(), value).alias("v"))


def tried(spark: SparkSession, sql: str) -> Column:
    """Return a structure of an expression's value, or NULL where what Spark makes of it fails."""
    catalyst = spark.sparkContext._jvm.org.apache.spark.sql
    utils = catalyst.classic.ExpressionUtils
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)
    whole = utils.expression(nullable(Column(utils.column(parsed)))._jc)
    return Column(utils.column(catalyst.catalyst.expressions.TryEval(whole)))


def outcomes(
    spark: SparkSession,
    columns: dict[str, str],
    rows: Sequence[Sequence[str | None]],
    expressions: Sequence[logical.Expression],
) -> list[list[Any]]:
    """Return what each expression gives for each of the rows, or `FAILED`; values as `batch.shown` shows them."""
    numbered = [(str(number), *row) for number, row in enumerate(rows)]
    table = spark.sql(f"SELECT * FROM {batch.rows({NUMBER: 'integer', **columns}, numbered)}")
    found = []
    for start in range(0, len(expressions), _TOGETHER):
        part = expressions[start : start + _TOGETHER]
        given = [tried(spark, spark_sql(each)).alias(f"x{place}") for place, each in enumerate(part)]
        texts = [
            text
            for place, each in enumerate(part)
            for text in (f"x{place} IS NOT NULL", batch.shown(each.type.name, f"x{place}`.`v"))
        ]
        lines = table.select(NUMBER, *given).selectExpr(NUMBER, *texts).collect()
        ordered = sorted(lines, key=lambda line: line[0])
        found += [
            [line[2 * place + 2] if line[2 * place + 1] else FAILED for line in ordered] for place in range(len(part))
        ]
    return found
