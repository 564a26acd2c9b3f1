"""Expressions over Arrow columns have the values of their Python form, or leave the rows to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from evaluate import wire
from expressions import vectors
from sinkql import evaluate, logical
from sinkql.connector_api.types import arrow_type, parse_type
from sinkql.errors import SinkqlError
from sinkql.runtime.local.arrow_form import RowsNeededError, arrow_form
from sinkql.runtime.local.map import python_rows

_EDGES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, None),
    "smallint": (0, 1, -1, 7, 2**15 - 1, -(2**15), None),
    "integer": (0, 1, -2, 7, 2**31 - 1, -(2**31), None),
    "bigint": (0, 3, -1, 2**53 + 1, 2**63 - 1, -(2**63), None),
    "uint2": (0, 1, 2**16 - 1, None),
    "uint4": (0, 3, 2**32 - 1, None),
    "uint8": (Decimal(0), Decimal(7), Decimal(2**64 - 1), None),
    "numeric(5,2)": (Decimal("0.00"), Decimal("-1.50"), Decimal("2.50"), Decimal("999.99"), Decimal("-999.99"), None),
    "numeric(20,6)": (Decimal("0.500000"), Decimal("-2.500000"), Decimal("9" * 14 + ".999999"), None),
    "numeric(38,10)": (Decimal("0.5000000000"), Decimal("9" * 28 + ".9999999999"), Decimal("-3.0000000001"), None),
    "real": (0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, None),
    "double precision": (0.0, -0.0, 0.1, math.nan, math.inf, -math.inf, None),
    "text": ("", "a", "A", "é", "z", "\U0001d11e", "￿", None),
    "bytea": (b"", b"\x00", b"\xff", None),
    "date": (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None),
    "time": (time(0), time(23, 59, 59, 999999), None),
    "timestamp": (datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None),
    "timestamptz": (datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC), None),
}
_OF_TWO = (
    "x = y", "x <> y", "x < y", "x <= y", "x > y", "x >= y", "x IS NOT DISTINCT FROM y", "x IS DISTINCT FROM y",
    "x IN (y, x)", "x NOT IN (y)", "x BETWEEN y AND x", "x BETWEEN x AND y", "coalesce(x, y)", "nullif(x, y)",
    "greatest(x, y)", "least(x, y)", "CASE WHEN x < y THEN x ELSE y END", "CASE WHEN x = y THEN x END",
)  # fmt: skip
_ARITHMETIC = ("x + y", "x - y", "x * y", "x / y", "x % y", "-x", "abs(x)")
_LOGIC = (
    "x AND y", "x OR y", "NOT x", "x IS TRUE", "x IS FALSE", "x IS NULL", "x IS NOT NULL", "x AND NULL", "x OR true",
    "x AND y OR NOT x", "x IS UNKNOWN", "x IS NOT TRUE AND y",
)  # fmt: skip
_NUMBERS = tuple(
    type_ for type_ in _EDGES if type_ in ("smallint", "integer", "bigint") or type_.startswith(("u", "n"))
)


def cases() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield expressions over x and y, with their types."""
    for type_ in _EDGES:
        yield from ((text, {"x": type_, "y": type_}) for text in (*_OF_TWO, "x IS NULL"))
    for type_ in _NUMBERS:
        yield from ((text, {"x": type_, "y": type_}) for text in _ARITHMETIC)
    for one, other in product(_NUMBERS, _NUMBERS):
        yield from ((text, {"x": one, "y": other}) for text in ("x + y", "x - y", "x < y", "x = y"))
    for one, other in product(_EDGES, _EDGES):
        yield f"x::{other}", {"x": one}
    yield from ((text, {"x": "boolean", "y": "boolean"}) for text in _LOGIC)
    yield from ((text, {"x": "text", "y": "text"}) for text in ("x || y", "x || 'b' || y", "x = 'a' OR y > 'é'"))
    yield from (
        (f"x {op} {n}", {"x": "integer"}) for op in ("+", "*", "<", "=", "/", "%") for n in (0, 2, -1, 2**31 - 1)
    )


def rows_of(types: dict[str, str]) -> list[tuple[Any, ...]]:
    return list(product(*(_EDGES[type_] for type_ in types.values())))


def table(types: dict[str, str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in types]
    arrays = [
        pa.array(column, arrow_type(parse_type(type_))) for column, type_ in zip(columns, types.values(), strict=True)
    ]
    return pa.table(arrays, names=list(types))


def one_by_one(function: Any, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the values of rows; an error is its class."""
    values = []
    for row in rows:
        try:
            values.append(function(row))
        except (SinkqlError, evaluate.NotEvaluableError) as error:
            values.append(type(error))
    return values


def alike(values: Sequence[Any], type_: logical.Type) -> list[Any]:
    """Return values that compare as the values of a type are written."""
    return [
        repr(float(value) if type_.name.startswith(("real", "double")) and value is not None else value)
        for value in values
    ]


def computed(form: Any, types: dict[str, str], rows: list[tuple[Any, ...]]) -> list[Any]:
    """Return the values of rows, an error for a row that fails because of operands that Python leaves out."""
    try:
        return [value for (value,) in python_rows(pa.table({"v": form(table(types, rows))}))]
    except RowsNeededError:
        if len(rows) == 1:
            return [RowsNeededError]
        return [value for row in rows for value in computed(form, types, [row])]


def check(expression: logical.Expression, types: dict[str, str], rows: list[tuple[Any, ...]]) -> str:
    """Compare both forms over all rows, and over the rows that do not fail; return what happened."""
    form, function = arrow_form(expression), evaluate.function_of(expression, list(types))
    if form is None:
        return "no form"
    assert function is not None
    values = one_by_one(function, rows)
    good = [(row, value) for row, value in zip(rows, values, strict=True) if not isinstance(value, type)]
    outcome = "equal"
    if len(good) < len(rows):
        with pytest.raises(RowsNeededError):
            form(table(types, rows))
        outcome = "failed"
    found = computed(form, types, [row for row, _ in good])
    declared = pa.array([value for _, value in good], arrow_type(expression.type))
    expected = [value for (value,) in python_rows(pa.table({"v": declared}))]
    pairs = [(one, other) for one, other in zip(found, expected, strict=True) if one is not RowsNeededError]
    assert alike([one for one, _ in pairs], expression.type) == alike([other for _, other in pairs], expression.type)
    return outcome


def test_generated_rows_have_the_values_of_the_python_form() -> None:
    counts: Counter[str] = Counter()
    for text, types in cases():
        try:
            expression = vectors.expression(text, types)
        except SinkqlError:
            continue  # no such operator or cast
        try:
            counts[check(expression, types, rows_of(types))] += 1
        except AssertionError as error:
            raise AssertionError(f"{text} over {types}") from error
    assert counts["equal"] > 400, counts
    assert counts["failed"] > 100, counts


def test_the_vectors_have_the_values_of_the_python_form() -> None:
    counts: Counter[str] = Counter()
    for vector in vectors.load():
        if vector["status"] != "exact" or vector.get("mode") in ("query", "group"):
            continue
        plan = vectors.planned(vector)
        if isinstance(plan, SinkqlError) or not isinstance(plan.relation, logical.Project):
            continue
        types = dict(vector["columns"])
        try:
            rows = [tuple(map(wire.value, row, map(parse_type, types.values()))) for row in vector["rows"]]
        except ValueError:
            continue  # a time before Python's first year
        if evaluate.function_of(plan.relation.outputs[-1].expression, list(types)) is None:
            continue
        try:
            counts[check(plan.relation.outputs[-1].expression, types, rows)] += 1
        except AssertionError as error:
            raise AssertionError(vector["id"], vector["sql"]) from error
    assert counts["equal"] + counts["failed"] > 60, counts


def test_operands_that_are_not_asked_for_leave_the_rows_to_python() -> None:
    form = arrow_form(vectors.expression("CASE WHEN x = 0 THEN 0 ELSE 1 / x END", {"x": "integer"}))
    assert form is not None
    assert form(table({"x": "integer"}, [(1,), (None,)])).to_pylist() == [1, None]
    with pytest.raises(RowsNeededError):
        form(table({"x": "integer"}, [(0,)]))
