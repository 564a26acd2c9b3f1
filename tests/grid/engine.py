"""Compute the rows of the grid in Spark, with generated code or its interpreter, many expressions in a query.

Each expression is inside a `TryEval`, for which SQL has no syntax. It yields NULL for a row on which the expression
fails, and the query continues. Over a few rows, most of the time is spent on generating and compiling code. If the
rows are part of the plan, Spark interprets the expressions while it plans instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions

from expressions.tried import NUMBER, PYTHON, tried
from grid import edges, values
from sinkql import logical
from sinkql.logical.type import parse_type
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import spark_type
from sinkql.runtime.spark.arrow import from_spark, to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VIEW = "grid_rows"
_SCHEMA = ", ".join(
    [f"{NUMBER} int", *(f"{name} {spark_type(parse_type(type_))}" for name, type_ in edges.COLUMNS.items())]
)
_TOGETHER = 48
_TOGETHER_INTERPRETED = 96
Outcome = tuple[str, Any]
"""`value` and the value, or `error` and its message."""


@dataclass(slots=True)
class Engine:
    """A session with the grid's rows in a file, so that Spark cannot compute over them while it plans.

    With `sampled`, Spark generates code only for every `sampled`-th group of expressions. Expressions that call Python
    are computed only in these groups, and have no outcome in the rest.
    """

    spark: SparkSession
    sampled: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    """The number of expressions computed in each way."""
    groups: int = 0
    _local: dict[tuple[int, ...], DataFrame] = field(default_factory=dict)

    def outcomes(
        self, expressions: Sequence[logical.Expression], numbers: Sequence[int]
    ) -> list[dict[int, Outcome] | None]:
        """Return the outcome of each expression for each row; None if the expression was left out."""
        found: list[dict[int, Outcome] | None] = [None for _ in expressions]
        spelled = [spark_sql(each) for each in expressions]
        ours = [place for place, sql in enumerate(spelled) if PYTHON not in sql]
        compiled = self.groups % self.sampled == 0
        self.groups += 1
        together = _TOGETHER if compiled else _TOGETHER_INTERPRETED
        rows = self._rows(numbers) if compiled else self._at_hand(numbers)
        for start in range(0, len(ours), together):
            self._group(expressions, spelled, numbers, ours[start : start + together], rows, found)
        self.counts["generated code" if compiled else "interpreted"] += len(ours)
        for place in sorted(set(range(len(spelled))) - set(ours)):
            if compiled:
                found[place] = self._with_python(expressions[place], spelled[place], numbers)
            self.counts["with Python" if compiled else "with Python, left out"] += 1
        return found

    def _rows(self, numbers: Sequence[int]) -> DataFrame:
        rows = self.spark.table(_VIEW)
        return rows if len(numbers) == edges.ROWS else rows.where(f"{NUMBER} IN ({', '.join(map(str, numbers))})")

    def _at_hand(self, numbers: Sequence[int]) -> DataFrame:
        """Return the rows as part of the plan, so that Spark computes over them while it plans."""
        if tuple(numbers) not in self._local:
            rows = to_spark(edges.table().take(list(numbers)))
            self._local[tuple(numbers)] = self.spark.createDataFrame(rows, _SCHEMA)
        return self._local[tuple(numbers)]

    def _group(
        self,
        expressions: Sequence[logical.Expression],
        spelled: Sequence[str],
        numbers: Sequence[int],
        places: Sequence[int],
        rows: DataFrame,
        found: list[dict[int, Outcome] | None],
    ) -> None:
        try:
            columns = _columns(tried(rows, [spelled[each] for each in places]))
        except (PySparkException, Py4JJavaError) as error:  # of the plan, or of the machine (out of memory)
            if len(places) == 1:
                found[places[0]] = dict.fromkeys(numbers, ("error", str(error)[:300]))
                return
            for part in (places[: len(places) // 2], places[len(places) // 2 :]):
                self._group(expressions, spelled, numbers, part, rows, found)
            return
        for place, column in zip(places, columns, strict=True):
            there = dict(zip(numbers, column.is_valid().to_pylist(), strict=True))
            values_ = _values(column, expressions[place])
            found[place] = {
                number: ("value", value) if there[number] else ("error", "of Spark")
                for number, value in zip(numbers, values_, strict=True)
            }

    def _with_python(self, expression: logical.Expression, sql: str, numbers: Sequence[int]) -> dict[int, Outcome]:
        """Return the outcomes of an expression that calls Python, whose errors generated code cannot catch."""
        try:
            value = functions.when(functions.col(NUMBER).isNotNull(), functions.expr(sql)).alias("v")  # it may be NULL
            (column,) = _columns(self._rows(numbers).select(NUMBER, functions.struct(value).alias("x")))
        except (PySparkException, Py4JJavaError) as error:
            if len(numbers) == 1:
                return {numbers[0]: ("error", str(error)[:300])}
            half = len(numbers) // 2
            parts = (numbers[:half], numbers[half:])
            return {at: each for part in parts for at, each in self._with_python(expression, sql, part).items()}
        return {number: ("value", value) for number, value in zip(numbers, _values(column, expression), strict=True)}


def _columns(shown: DataFrame) -> list[pa.ChunkedArray]:
    """Return the columns except for the row number, in its order."""
    table = shown.toArrow().sort_by(NUMBER)
    return list(table.columns[1:])


def _values(column: pa.ChunkedArray, expression: logical.Expression) -> list[Any]:
    within = pc.struct_field(column, "v")
    return values.listed(from_spark(pa.table({"v": within}), [expression.type]).column(0))


@contextmanager
def engine(spark: SparkSession, folder: Path, sampled: int = 1, first: int = 0) -> Iterator[Engine]:
    """Create a view of the grid's rows in Spark until the block ends; `first` is the number of the first group."""
    path = folder / "grid.parquet"
    pq.write_table(to_spark(edges.table()), path)
    spark.read.schema(_SCHEMA).parquet(str(path)).createOrReplaceTempView(_VIEW)
    yield Engine(spark, sampled, groups=first)
    spark.catalog.dropTempView(_VIEW)
