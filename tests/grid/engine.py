"""Spark, whose generated code computes the rows of the grid: many expressions a query, failing ones row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from grid import edges, values
from sinkql import logical
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.text import spark_type
from sinkql.runtime.spark.carriage import into_spark, out_of_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VIEW = "grid_rows"
_TOGETHER = 24
_PYTHON = "sinkql_"
"""What names of functions of Python's begin with; generated code calls none of them."""
_FEW = 3
Outcome = tuple[str, Any]
"""`value` and what it is, or `error` and its message."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A session with the grid's rows in a file, of which Spark knows nothing while it plans."""

    spark: SparkSession
    rows: list[Any]
    """The rows as Spark's own code has them."""

    def outcomes(
        self, expressions: Sequence[logical.Expression], failing: Sequence[frozenset[int]], numbers: Sequence[int]
    ) -> list[dict[int, Outcome]]:
        """Return what each expression gives for each of the rows; `failing` are those on which it is to fail."""
        found: list[dict[int, Outcome]] = [{} for _ in expressions]
        for start in range(0, len(expressions), _TOGETHER):
            places = range(start, min(start + _TOGETHER, len(expressions)))
            self._group(expressions, failing, numbers, list(places), found)
        return found

    def _group(
        self,
        expressions: Sequence[logical.Expression],
        failing: Sequence[frozenset[int]],
        numbers: Sequence[int],
        places: Sequence[int],
        found: list[dict[int, Outcome]],
    ) -> None:
        try:
            columns = self._together(
                [expressions[each] for each in places], [failing[each] for each in places], numbers
            )
        except (PySparkException, Py4JJavaError) as error:
            if len(places) > 1:
                for part in (places[: len(places) // 2], places[len(places) // 2 :]):
                    self._group(expressions, failing, numbers, part, found)
                return
            (place,) = places  # it fails where it should not, or is no SQL of Spark's
            failed = self._failed(expressions[place], numbers)
            found[place] |= failed
            known = {frozenset(failed)} - {failing[place]}
            if not known:
                found[place] = dict.fromkeys(numbers, ("error", str(error)[:300]))
            elif len(failed) < len(numbers):
                self._group(expressions, [frozenset(failed)] * len(failing), numbers, places, found)
            return
        for place, column in zip(places, columns, strict=True):
            found[place] |= {
                number: ("value", value) for number, value in column.items() if number not in failing[place]
            }
            wrong = [number for number in numbers if number in failing[place] and number not in found[place]]
            if wrong:
                found[place] |= dict.fromkeys(wrong, ("value", UNREAD)) | self._failed(expressions[place], wrong)

    def _together(
        self, expressions: Sequence[logical.Expression], failing: Sequence[frozenset[int]], numbers: Sequence[int]
    ) -> list[dict[int, Any]]:
        shown = [
            f"{_unless(fails, spark_sql(each))} AS x{place}"
            for place, (each, fails) in enumerate(zip(expressions, failing, strict=True))
        ]
        rows = self.spark.table(_VIEW)
        if len(numbers) < edges.ROWS:
            rows = rows.where(f"row_number IN ({', '.join(map(str, numbers))})")
        table = rows.selectExpr("row_number", *shown).toArrow()
        read = out_of_spark(table, [None, *(str(each.type) for each in expressions)])
        order = read.column(0).to_pylist()
        return [dict(zip(order, values.listed(read.column(place + 1)), strict=True)) for place in range(len(shown))]

    def _failed(self, expression: logical.Expression, numbers: Iterable[int]) -> dict[int, Outcome]:
        """Return the rows on which the code that Spark generates fails, row by row."""
        scala = self.spark.sparkContext._jvm.scala
        if _PYTHON in spark_sql(expression):
            return self._failed_in_python(expression, numbers)
        try:
            project = self._projection(expression)
        except (PySparkException, Py4JJavaError) as error:
            return dict.fromkeys(numbers, ("error", f"no plan: {str(error)[:300]}"))
        tried = ((number, _tried(scala.util.Success(self.rows[number]), project)) for number in numbers)
        return {number: ("error", message) for number, message in tried if message is not None}

    def _failed_in_python(self, expression: logical.Expression, numbers: Iterable[int]) -> dict[int, Outcome]:
        """Return the rows on which an expression fails that calls Python: the first few are tried, each in a query."""
        failed: dict[int, Outcome] = {}
        for place, number in enumerate(numbers):
            if place >= _FEW:
                failed[number] = "error", "not tried"
                continue
            try:
                self.spark.table(_VIEW).where(f"row_number = {number}").selectExpr(spark_sql(expression)).collect()
            except (PySparkException, Py4JJavaError) as error:
                failed[number] = "error", str(error)[:300]
        return failed

    def _projection(self, expression: logical.Expression) -> Any:
        frame = self.spark.table(_VIEW).selectExpr(f"{spark_sql(expression)} AS x")
        plan = frame._jdf.queryExecution().optimizedPlan()
        catalyst = self.spark.sparkContext._jvm.org.apache.spark.sql.catalyst.expressions
        return catalyst.codegen.GenerateUnsafeProjection.generate(plan.projectList(), plan.child().output())


def _tried(row: Any, project: Any) -> str | None:
    """Return why a row fails, None for one that does not."""
    try:
        found = row.map(project)
    except (PySparkException, Py4JJavaError) as error:  # of the machine itself: it has no memory left, say
        return str(error)[:300]
    return str(found.failed().get().toString())[:300] if found.isFailure() else None


UNREAD = object()
"""A value that is there where an error was expected: which one is no matter."""


def _unless(failing: frozenset[int], sql: str) -> str:
    return f"IF(row_number NOT IN ({', '.join(map(str, sorted(failing)))}), {sql}, NULL)" if failing else sql


@contextmanager
def engine(spark: SparkSession, folder: Path) -> Iterator[Engine]:
    """Give Spark the grid's rows until the block ends."""
    path = folder / "grid.parquet"
    pq.write_table(into_spark(edges.table()), path)
    schema = ", ".join(f"{name} {spark_type(parse_type(type_))}" for name, type_ in edges.COLUMNS.items())
    spark.read.schema(f"row_number int, {schema}").parquet(str(path)).createOrReplaceTempView(_VIEW)
    plan = spark.table(_VIEW).orderBy("row_number")._jdf.queryExecution().executedPlan()
    yield Engine(spark, list(plan.executeCollect()))
    spark.catalog.dropTempView(_VIEW)
