"""Spark, whose generated code computes the rows of the grid: many expressions a query.

Each expression stands in a `TryEval`, which SQL has no word for: the code gives NULL for a row on which it fails, and
the other rows and expressions of the query go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions
from pyspark.sql.classic.column import Column

from grid import edges, values
from sinkql import logical
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.text import spark_type
from sinkql.runtime.spark.carriage import into_spark, out_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VIEW = "grid_rows"
_TOGETHER = 48
_PYTHON = "sinkql_"
"""What names of functions of Python's begin with; generated code calls none of them."""
Outcome = tuple[str, Any]
"""`value` and what it is, or `error` and its message."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A session with the grid's rows in a file, of which Spark knows nothing while it plans."""

    spark: SparkSession

    def outcomes(self, expressions: Sequence[logical.Expression], numbers: Sequence[int]) -> list[dict[int, Outcome]]:
        """Return what each expression gives for each of the rows."""
        found: list[dict[int, Outcome]] = [{} for _ in expressions]
        spelled = [spark_sql(each) for each in expressions]
        ours = [place for place, sql in enumerate(spelled) if _PYTHON not in sql]
        for start in range(0, len(ours), _TOGETHER):
            self._group(expressions, spelled, numbers, ours[start : start + _TOGETHER], found)
        for place in sorted(set(range(len(spelled))) - set(ours)):
            found[place] = self._with_python(expressions[place], spelled[place], numbers)
        return found

    def _group(
        self,
        expressions: Sequence[logical.Expression],
        spelled: Sequence[str],
        numbers: Sequence[int],
        places: Sequence[int],
        found: list[dict[int, Outcome]],
    ) -> None:
        try:
            columns = self._read([_tried(self.spark, spelled[each]) for each in places], numbers)
        except (PySparkException, Py4JJavaError) as error:  # of a plan, or of the machine: it has no memory left, say
            if len(places) == 1:
                found[places[0]] = dict.fromkeys(numbers, ("error", str(error)[:300]))
                return
            for part in (places[: len(places) // 2], places[len(places) // 2 :]):
                self._group(expressions, spelled, numbers, part, found)
            return
        for place, column in zip(places, columns, strict=True):
            there = dict(zip(numbers, column.is_valid().to_pylist(), strict=True))
            values_ = _values(column, expressions[place])
            found[place] = {
                number: ("value", value) if there[number] else ("error", "of Spark")
                for number, value in zip(numbers, values_, strict=True)
            }

    def _with_python(self, expression: logical.Expression, sql: str, numbers: Sequence[int]) -> dict[int, Outcome]:
        """Return what an expression gives that calls Python, which generated code does not catch errors of."""
        try:
            (column,) = self._read([functions.expr(f"struct(IF(row_number IS NULL, NULL, {sql}) AS v)")], numbers)
        except (PySparkException, Py4JJavaError) as error:
            if len(numbers) == 1:
                return {numbers[0]: ("error", str(error)[:300])}
            half = len(numbers) // 2
            parts = (numbers[:half], numbers[half:])
            return {at: each for part in parts for at, each in self._with_python(expression, sql, part).items()}
        return {number: ("value", value) for number, value in zip(numbers, _values(column, expression), strict=True)}

    def _read(self, columns: Sequence[Column], numbers: Sequence[int]) -> list[pa.ChunkedArray]:
        """Return the columns' values for the rows, in their order."""
        rows = self.spark.table(_VIEW)
        if len(numbers) < edges.ROWS:
            rows = rows.where(f"row_number IN ({', '.join(map(str, numbers))})")
        shown = [column.alias(f"x{place}") for place, column in enumerate(columns)]
        table = rows.select("row_number", *shown).toArrow().sort_by("row_number")
        return [table.column(place + 1) for place in range(len(columns))]


def _tried(spark: SparkSession, sql: str) -> Column:
    """Return a structure of an expression's value, or NULL where the code that Spark generates fails."""
    catalyst = spark.sparkContext._jvm.org.apache.spark.sql
    shown = f"struct(IF(row_number IS NULL, NULL, {sql}) AS v)"  # of a value that may be NULL, for Arrow
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(shown)
    return Column(catalyst.classic.ExpressionUtils.column(catalyst.catalyst.expressions.TryEval(parsed)))


def _values(column: pa.ChunkedArray, expression: logical.Expression) -> list[Any]:
    within = pc.struct_field(column, "v")
    return values.listed(out_of_spark(pa.table({"v": within}), [str(expression.type)]).column(0))


@contextmanager
def engine(spark: SparkSession, folder: Path) -> Iterator[Engine]:
    """Give Spark the grid's rows until the block ends."""
    path = folder / "grid.parquet"
    pq.write_table(into_spark(edges.table()), path)
    schema = ", ".join(f"{name} {spark_type(parse_type(type_))}" for name, type_ in edges.COLUMNS.items())
    spark.read.schema(f"row_number int, {schema}").parquet(str(path)).createOrReplaceTempView(_VIEW)
    yield Engine(spark)
    spark.catalog.dropTempView(_VIEW)
