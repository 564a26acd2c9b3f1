"""Evaluate many expressions in one Spark query, and keep each failure to its row and expression.

Each expression is wrapped in a `TryEval`, which has no SQL syntax: it returns NULL for a row on which the expression
fails, and the query continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame

from expressions import batch
from sinkql import logical
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON = "sinkql_"
"""Prefix of the names of Python functions; no `TryEval` catches their errors."""
FAILED = object()
"""The value of an expression that failed."""
_TOGETHER = 96
NUMBER = "row_number"
"""Name of the column that numbers the rows."""


_TRIED = """
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;

public class Tried {
    public Dataset of(ParserInterface parser, Dataset rows, String numbers, List texts) throws Exception {
        Column number = functions.col(numbers);
        Column[] columns = new Column[texts.size() + 1];
        columns[0] = number;
        for (int place = 0; place < texts.size(); place++) {
            Column parsed = ExpressionUtils.column(parser.parseExpression((String) texts.get(place)));
            Column value = functions.when(number.isNotNull(), parsed).alias("v");
            Column whole = functions.struct(new Column[] {value});
            Column tried = ExpressionUtils.column(new TryEval(ExpressionUtils.expression(whole)));
            columns[place + 1] = tried.alias("x" + place);
        }
        return rows.select(columns);
    }
}
"""
"""Rows and texts → for each text a struct with its value, or NULL if the expression fails.

It is written in Java because a call from Python costs more than evaluating most of the texts. The struct is not built
in SQL text: Spark's parser would parse everything within `struct(…)` twice, which takes most of its time.
"""


_COMPILING = Lock()
"""If two threads define classes of one name, Py4J may call methods of one class on objects of another."""


@cache
def _compiled(spark: SparkSession) -> Any:
    """Return an object of the class, compiled by the compiler that Spark uses for generated code."""
    jvm = spark.sparkContext._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_TRIED)
    return compiler.getClassLoader().loadClass("Tried").newInstance()


def tried(rows: DataFrame, texts: Sequence[str]) -> DataFrame:
    """Return the row numbers, and structs x0, x1, … with the value of each text."""
    spark = rows.sparkSession
    given = spark.sparkContext._jvm.java.util.ArrayList()
    for each in texts:
        given.add(each)
    parser = spark._jsparkSession.sessionState().sqlParser()
    with _COMPILING:
        found = _compiled(spark)
    return DataFrame(found.of(parser, rows._jdf, NUMBER, given), spark)


def outcomes(
    spark: SparkSession,
    columns: dict[str, str],
    rows: Sequence[Sequence[str | None]],
    expressions: Sequence[logical.Expression],
) -> list[list[Any]]:
    """Return the value of each expression for each row, or `FAILED`; values are as `batch.shown` shows them."""
    numbered = [(str(number), *row) for number, row in enumerate(rows)]
    table = spark.sql(f"SELECT * FROM {batch.rows({NUMBER: 'integer', **columns}, numbered)}")
    found = []
    for start in range(0, len(expressions), _TOGETHER):
        part = expressions[start : start + _TOGETHER]
        texts = [
            text
            for place, each in enumerate(part)
            for text in (f"x{place} IS NOT NULL", batch.shown(each.type.name, f"x{place}`.`v"))
        ]
        given = tried(table, [spark_sql(each) for each in part])
        lines = given.selectExpr(NUMBER, *texts).collect()
        ordered = sorted(lines, key=lambda line: line[0])
        found += [
            [line[2 * place + 2] if line[2 * place + 1] else FAILED for line in ordered] for place in range(len(part))
        ]
    return found
