"""Plan PARTITION BY and SORT BY of CREATE SINK, and check them against the types of the table's columns.

`partition_by` is a list of terms with `sql` as written, Iceberg's `transform` and the `column`. `sort_by` is a list of
terms with `sql`, `column`, `descending` and `nulls_first`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql import ast
from sinkql.errors import SinkqlError, nearest, one_of
from sinkql.printer.clause import ident
from sinkql.printer.create import sorting, transform

_TIMES = ("timestamp", "timestamptz")
_DATES = ("date", *_TIMES)
_NUMBERS_AND_TEXT = ("int", "long", "decimal", "string", "binary")
_TAKES: Mapping[str, tuple[str, ...]] = {
    "identity": (*_NUMBERS_AND_TEXT, "boolean", "time", *_DATES),
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMES,
    "bucket": (*_NUMBERS_AND_TEXT, "time", *_DATES),
    "truncate": _NUMBERS_AND_TEXT,
}
"""The Iceberg types of columns that each transform accepts; none accepts binary floating-point numbers."""
_CALENDAR = ("year", "month", "day", "hour")
_OFFERED = ("hour", "day", "truncate", "bucket", "identity")
_USUAL = {"bucket": 16, "truncate": 4}


def plan_partitions(statement: ast.CreateSink, types: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the terms of PARTITION BY; raises SQ2204, SQ2337 and SQ2338.

    `types` are the Iceberg types of the table's columns.
    """
    seen: list[ast.Transform] = []
    for term in statement.partition_by:
        _check_column(statement, term.column, types)
        _check_type(term, types[term.column.value])
        same = next((earlier for earlier in seen if _is_redundant(earlier, term)), None)
        if same is not None:
            raise _redundant_error(term, same)
        seen.append(term)
    return [
        {"sql": transform(term), "transform": _iceberg_name(term), "column": term.column.value}
        for term in statement.partition_by
    ]


def plan_order(statement: ast.CreateSink, types: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the terms of SORT BY; raises SQ2204, SQ2337 and SQ2338."""
    terms: dict[str, dict[str, Any]] = {}
    for term in statement.sort_by:
        _check_column(statement, term.column, types)
        column = term.column.value
        if column in terms:
            message = f'column "{column}" is specified more than once in SORT BY'
            raise SinkqlError("SQ2338", message, term.span, hint="Keep one of them.")
        if types[column].startswith(("struct<", "list<", "map<")):
            message = f'tables cannot be sorted by column "{column}" of type {_nested_type_name(types[column])}'
            hint = "Create a view with the sort value in a separate column."
            raise SinkqlError("SQ2337", message, term.span, hint=hint)
        terms[column] = {
            "sql": sorting(term), "column": column, "descending": term.descending, "nulls_first": term.nulls_first,
        }  # fmt: skip
    return list(terms.values())


def _check_column(statement: ast.CreateSink, column: ast.Ident, types: Mapping[str, Any]) -> None:
    """Refuse a column that the table will not have (SQ2204)."""
    if column.value in types:
        return
    near = nearest(column.value, list(types))
    raise SinkqlError(
        "SQ2204",
        f'column "{column.value}" of relation "{statement.relation.text}" does not exist',
        column.span,
        hint=f'Did you mean "{near}"?' if near else f"The columns are {', '.join(types)}.",
    )


def _check_type(term: ast.Transform, type_: str) -> None:
    kind = type_.partition("(")[0]
    if kind in _TAKES[term.function]:
        return
    column = term.column.value
    fitting = [function for function in _OFFERED if kind in _TAKES[function]]
    if not fitting:
        number = kind in ("float", "double")
        shown = _sql_type_name(kind) if number else _nested_type_name(type_)
        raise SinkqlError(
            "SQ2337",
            f'tables cannot be partitioned by column "{column}" of type {shown}',
            term.span,
            hint=f"Cast it to an exact type in a view: {ident(term.column)}::numeric."
            if number
            else "Create a view with the partition value in a separate column.",
        )
    raise SinkqlError(
        "SQ2337",
        f'{term.function} does not accept column "{column}" of type {_sql_type_name(kind)}',
        term.span,
        hint=f"Write {one_of([_example(function, term.column) for function in fitting])}.",
    )


def _nested_type_name(kind: str) -> str:
    if kind.startswith("struct<lower: ") and kind.endswith("upper_inclusive: boolean, empty: boolean>"):
        return "range"
    if kind.startswith("struct"):
        return "array" if kind.startswith("struct<items: list") else "record"
    return "map" if kind.startswith("map") else "list"


def _sql_type_name(kind: str) -> str:
    return {"float": "real", "double": "double precision", "string": "text", "decimal": "numeric", "int": "integer",
            "long": "bigint", "binary": "bytea"}.get(kind, kind)  # fmt: skip


def _example(function: str, column: ast.Ident) -> str:
    return transform(ast.Transform(function, column, _USUAL.get(function)))


def _is_redundant(term: ast.Transform, other_term: ast.Transform) -> bool:
    """Return whether one term follows from another: they are equal, or two units of one time column."""
    if term.column.value != other_term.column.value:
        return False
    if term.function in _CALENDAR and other_term.function in _CALENDAR:
        return True
    return (term.function, term.argument) == (other_term.function, other_term.argument)


def _redundant_error(term: ast.Transform, same: ast.Transform) -> SinkqlError:
    if (term.function, term.argument) == (same.function, same.argument):
        return SinkqlError(
            "SQ2338", f"{transform(term)} is specified more than once", term.span, hint="Keep one of them."
        )
    fine = max(term, same, key=lambda candidate: _CALENDAR.index(candidate.function))
    return SinkqlError(
        "SQ2338",
        f"{transform(same)} and {transform(term)} are redundant: one follows from the other",
        term.span,
        hint=f"Keep only {transform(fine)}: filters by time use its partitions.",
    )


def _iceberg_name(term: ast.Transform) -> str:
    return term.function if term.argument is None else f"{term.function}[{term.argument}]"
