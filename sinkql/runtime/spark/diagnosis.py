"""Find the user's expression that failed in a batch, and a row for which it fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    PySparkException,
    SparkRuntimeException,
)
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # its customary name

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.evaluate.failure import code_of
from sinkql.logical import Type
from sinkql.logical.type import TIME
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import quoted
from sinkql.runtime.batch import failure

_NUMBER = "$number"
_ROW_ERRORS = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    SparkRuntimeException,
)
_ADVICE = re.compile(r"\s*(Use [`']try_|To return NULL|If necessary set|SQLSTATE:|Correct the value).*", re.DOTALL)


RowsOf = Callable[[physical.Operator], DataFrame]
"""Returns the rows of an operator in the failed batch."""


def diagnose(job: physical.Job, rows_of: RowsOf, error: Exception) -> SinkqlError | None:
    """Return SQ3201 for an error that rows caused, with the expression and a row if they can be found."""
    if not isinstance(error, _ROW_ERRORS):
        return None
    for operator in job.graph.running():
        if isinstance(operator, physical.Map):
            found = _in_map(job, rows_of, operator)
            if found is not None:
                return found
    message = told(error)
    return SinkqlError(code_of(message), message, hint=failure.row_error_hint(job))


def _in_map(job: physical.Job, rows_of: RowsOf, operator: physical.Map) -> SinkqlError | None:
    types = {column.name: column.type for column in physical.columns_of(operator.input)}
    rows = rows_of(operator.input).coalesce(1)
    if physical.change_of(operator) == "upsert":
        rows = rows.where(F.col(quoted(physical.DIFF)) > 0)
    rows = rows.withColumn(_NUMBER, F.monotonically_increasing_id()).persist()
    try:
        for failing in _expressions(operator):
            kept = rows
            if operator.where is not None and failing is not operator.where:
                kept = rows.where(F.expr(spark_sql(operator.where.expression)))
            probe = _Probe(kept, types, failing)
            error = probe.failure(None)
            if error is not None:
                return failure.row_error(job, failing, told(error), probe.sample())
    finally:
        rows.unpersist()
    return None


def _expressions(operator: physical.Map) -> Iterator[physical.Output]:
    if operator.where is not None:
        yield operator.where
    yield from operator.outputs


@dataclass(frozen=True, slots=True)
class _Probe:
    """Evaluates one expression on numbered rows, whose columns have these types."""

    rows: DataFrame
    types: dict[str, Type]
    output: physical.Output

    def failure(self, below: int | None) -> PySparkException | None:
        """Return the failure on the rows numbered below `below`, or on all rows for None."""
        rows = self.rows if below is None else self.rows.where(F.col(_NUMBER) < below)
        # A hash of the expression must be computed for each row; an unused column would be skipped.
        value = rows.select(F.xxhash64(F.expr(spark_sql(self.output.expression))).alias("value"))
        try:
            value.agg(F.max("value")).collect()
        except _ROW_ERRORS as error:
            return error
        return None

    def sample(self) -> dict[str, object]:
        """Return the first row for which the expression fails."""
        last = self.rows.agg(F.max(f"`{_NUMBER}`")).collect()[0][0]
        low, high = 0, int(last) + 1  # it fails below high, and not below low
        while high - low > 1:
            middle = (low + high) // 2
            if self.failure(middle) is None:
                low = middle
            else:
                high = middle
        shown = [
            F.col(quoted(name)).cast("string").alias(name) if "date" in type_ or "timestamp" in type_ else quoted(name)
            for name, type_ in self.rows.dtypes  # Spark has years outside of Python's range
        ]
        row = self.rows.where(F.col(_NUMBER) == high - 1).select(*shown).collect()[0].asDict()
        types = {name: type_ for name, type_ in self.types.items() if not name.startswith("$")}
        return {name: _shown(row[name], type_) for name, type_ in types.items()}


def _shown(value: Any, type_: Type) -> object:
    """Return a value for display: Spark stores a time of day as its microseconds."""
    if isinstance(value, list) and type_.element is not None:
        return [_shown(each, type_.element) for each in value]
    if isinstance(value, Row):
        return {field.name: _shown(value[place], field.type) for place, field in enumerate(type_.fields)}
    if isinstance(value, int) and type_ == TIME:
        return str((datetime.min + timedelta(microseconds=value)).time())
    return value


def told(error: Exception) -> str:
    """Return Spark's message without its error class, and without advice that does not apply to SinkQL."""
    text = re.sub(r"^\[[\w.]+\]\s*", "", str(error)).strip()
    text = _ADVICE.sub("", text).splitlines()[0].rstrip(". ")
    for pattern, said in _SAID:
        found = pattern.search(text)
        if found is not None:
            return said(found)
    return text[:1].lower() + text[1:]


def _type(written: str) -> str:
    name = written.partition("(")[0]
    return _TYPES.get(name, name.lower()) + written[len(name) :].replace(", ", ",")


_TYPES = {
    "INT": "integer", "DOUBLE": "double precision", "FLOAT": "real", "STRING": "text", "DECIMAL": "numeric",
    "Decimal": "numeric", "BINARY": "bytea", "TIMESTAMP": "timestamptz", "TIMESTAMP_NTZ": "timestamp",
}  # fmt: skip
_SAID: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r'to "(.+)" due to an overflow$'), lambda found: f"{_type(found[1])} out of range"),
    (
        re.compile(r"(?s)^The value '(.*)' of the type \"STRING\" cannot be cast to \"(.+)\" because it is malformed$"),
        lambda found: f'invalid input syntax for type {_type(found[2])}: "{found[1]}"',
    ),
    (
        re.compile(r"cannot be represented as (Decimal\(.+\))$"),
        lambda found: f"value out of range for {_type(found[1])}",
    ),
    (re.compile(r"^Invalid value for (Year|Month|Day|Epoch)\w*"), lambda found: "date field value out of range"),
)
"""Messages of Spark about values, and the same messages in the evaluator's words."""
