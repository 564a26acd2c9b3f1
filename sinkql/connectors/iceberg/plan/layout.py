"""PARTITION BY and SORT BY of CREATE SINK → planned options, held against the types of the table's columns.

`partition_by` is a list of terms with `sql` as it is written, Iceberg's `transform` and the `column`; `sort_by` one of
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
"""The Iceberg types of the columns that a transform takes; of fractions with a binary point, none takes any."""
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
        same = next((each for each in seen if _redundant(each, term)), None)
        if same is not None:
            raise _twice(term, same)
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
            message = f'tables cannot be sorted by column "{column}" of type {_nested(types[column])}'
            hint = "Take what they are sorted by into a column of its own, in a view."
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
        shown = _shown(kind) if number else _nested(type_)
        raise SinkqlError(
            "SQ2337",
            f'tables cannot be partitioned by column "{column}" of type {shown}',
            term.span,
            hint=f"Give it an exact type in a view: {ident(term.column)}::numeric."
            if number
            else "Take what they are partitioned by into a column of its own, in a view.",
        )
    raise SinkqlError(
        "SQ2337",
        f'{term.function} cannot be taken of column "{column}" of type {_shown(kind)}',
        term.span,
        hint=f"Write {one_of([_example(function, term.column) for function in fitting])}.",
    )


def _nested(kind: str) -> str:
    if kind.startswith("struct<lower: ") and kind.endswith("upper_inclusive: boolean, empty: boolean>"):
        return "range"
    if kind.startswith("struct"):
        return "array" if kind.startswith("struct<items: list") else "record"
    return "map" if kind.startswith("map") else "list"


def _shown(kind: str) -> str:
    return {"float": "real", "double": "double precision", "string": "text", "decimal": "numeric", "int": "integer",
            "long": "bigint", "binary": "bytea"}.get(kind, kind)  # fmt: skip


def _example(function: str, column: ast.Ident) -> str:
    return transform(ast.Transform(function, column, _USUAL.get(function)))


def _redundant(one: ast.Transform, other: ast.Transform) -> bool:
    """Tell whether two terms part rows alike: the same, or one time in two units, of which the finer says all."""
    if one.column.value != other.column.value:
        return False
    if one.function in _CALENDAR and other.function in _CALENDAR:
        return True
    return (one.function, one.argument) == (other.function, other.argument)


def _twice(term: ast.Transform, same: ast.Transform) -> SinkqlError:
    if (term.function, term.argument) == (same.function, same.argument):
        return SinkqlError(
            "SQ2338", f"{transform(term)} is specified more than once", term.span, hint="Keep one of them."
        )
    fine = max(term, same, key=lambda each: _CALENDAR.index(each.function))
    return SinkqlError(
        "SQ2338",
        f"{transform(same)} and {transform(term)} are both given, and one follows from the other",
        term.span,
        hint=f"Keep {transform(fine)}: readers that filter by time find its partitions.",
    )


def _iceberg_name(term: ast.Transform) -> str:
    return term.function if term.argument is None else f"{term.function}[{term.argument}]"
