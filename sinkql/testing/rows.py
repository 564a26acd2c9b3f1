"""Convert the rows of a test, which are dictionaries, to typed values, and compare rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from sinkql import logical
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.evaluate import comparable
from sinkql.logical.expression import as_literal
from sinkql.logical.jsonb import jsonb
from sinkql.logical.nested import UNEVEN, UnevenError, entries, squared
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.range import SUBTYPES
from sinkql.logical.time import show_interval
from sinkql.logical.type import DAY
from sinkql.planner.expression.literal import literal
from sinkql.table.row import Row, normal

RowValues = Mapping[str, Any]
"""A row of a test: values by column."""
_NOWHERE = Span(0, 0)
_MICROSECOND = timedelta(microseconds=1)
_PYTHON = {
    "boolean": "a bool", "smallint": "an int", "integer": "an int", "bigint": "an int",
    **dict.fromkeys(("uint2", "uint4", "uint8"), "an int that is not negative"), "numeric": "a Decimal",
    "real": "a float", "double precision": "a float", "text": "a str", "uuid": "a UUID", "bytea": "bytes",
    "date": "a date", "time": "a time without a zone", "timestamp": "a datetime without a zone",
    "timestamptz": "a datetime with a zone",
    "interval": "a timedelta", "jsonb": "a dict or a list", **dict.fromkeys(SUBTYPES, "a range as a str"),
}  # fmt: skip


def names_of(row: RowValues, columns: Sequence[logical.Column]) -> None:
    """Raise SQ2204 for a name without a column."""
    names = [column.name for column in columns]
    for name in row:
        if name not in names:
            match = nearest(str(name), names)
            hint = f'Did you mean "{match}"?' if match else f"The columns are {', '.join(names)}."
            raise SinkqlError("SQ2204", f'column "{name}" does not exist', hint=hint)


def value_of(value: Any, column: logical.Column) -> Any:
    """Return a value in the form of stored rows. Raise SQ2212 for an invalid text, and SQ2422 for a wrong value.

    A text is parsed as SQL parses a string literal of the column's type.
    """
    type_ = column.type
    if value is None:
        return None
    if isinstance(value, str) and type_.name not in ("text", "jsonb"):
        converted = as_literal(literal(value, type_, _NOWHERE).tree).value
        return show_interval(converted) if isinstance(converted, logical.Interval) else converted
    if type_.name in ("map", "record"):
        return _composite(value, column)
    if type_.element is not None and isinstance(value, list | tuple):
        items = [value_of(item, logical.Column(column.name, type_.element)) for item in value]
        try:
            return tuple(squared(items, type_))
        except UnevenError:
            message = f'{value!r} is no value for column "{column.name}" of type {type_}: {UNEVEN}'
            raise SinkqlError("SQ2422", message) from None
    converted = _from_python(value, type_)
    if converted is None:
        kind = _PYTHON[type_.name] if type_.element is None else "a list of its elements"
        hint = f"Use {kind}, or the text of an SQL literal."
        raise SinkqlError("SQ2422", f'{value!r} is no value for column "{column.name}" of type {type_}', hint=hint)
    return converted


def _composite(value: Any, column: logical.Column) -> tuple[Any, ...]:
    """Return a dictionary as a map or record. Nullable fields of a record may be missing."""
    type_ = column.type
    if type_.name == "map" and isinstance(value, Mapping):
        inner = logical.Column(column.name, type_.value)
        return entries((str(key), value_of(item, inner)) for key, item in value.items())
    names = [item.name for item in type_.fields]
    if isinstance(value, list | tuple) and len(value) == len(names):
        value = dict(zip(names, value, strict=True))
    is_match = isinstance(value, Mapping) and set(value) <= set(names) and type_.name == "record"
    missing = (
        [] if not is_match else [item for item in type_.fields if not item.nullable and value.get(item.name) is None]
    )
    if not is_match or missing:
        hint = "Use a dict, or the text of an SQL literal."
        reason = f': field "{missing[0].name}" is NOT NULL' if missing else ""
        message = f'{value!r} is no value for column "{column.name}" of type {type_}{reason}'
        raise SinkqlError("SQ2422", message, hint=hint)
    return tuple(value_of(value.get(item.name), logical.Column(column.name, item.type)) for item in type_.fields)


def _from_python(value: Any, type_: logical.Type) -> Any:
    """Return a Python value in the form of a type. Return None if it has another kind or is out of range."""
    match type_.name, value:
        case "boolean", bool():
            return value
        case _, bool():
            return None
        case name, int() if name in RANGES:
            return value if value in RANGES[name] else None
        case "numeric", int() | Decimal():
            return _numeric(Decimal(value), type_)
        case (("real" | "double precision"), int() | float()):
            return normal(float(value), type_)
        case "date", date() if not isinstance(value, datetime):
            return value
        case "time", time() if value.tzinfo is None:
            return value
        case "timestamp", datetime() if value.tzinfo is None:
            return value
        case "timestamptz", datetime() if value.tzinfo is not None:
            return normal(value, type_)
        case "text", str():
            return value
        case "jsonb", _:
            return _json(value)
        case "uuid", UUID():
            return str(value)
        case "interval", timedelta():
            return show_interval(logical.Interval(days=value.days, micros=value // _MICROSECOND % DAY))
        case "bytea", bytes() | bytearray():
            return bytes(value)
        case _:
            return None


def _numeric(number: Decimal, type_: logical.Type) -> Decimal | None:
    if not number.is_finite():
        return None
    scale = type_.scale or 0
    is_in_range = abs(number) < Decimal(10) ** ((type_.precision or 38) - scale)
    return normal(number, type_) if is_in_range and number == round(number, scale) else None


def _json(value: Any) -> str | None:
    try:
        return jsonb(value if isinstance(value, str) else json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


def in_order(rows: Iterable[Row], by: Sequence[int]) -> list[Row]:
    """Return rows sorted by the columns with these indexes, then by the remaining columns."""

    def key(row: Row) -> list[tuple[bool, Any]]:
        places = [*by, *(place for place in range(len(row)) if place not in by)]
        return ordered(row[place] for place in places)

    return sorted(rows, key=key)


def ordered(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Return the sort key of values. NULL is last, as in Postgres."""
    return [(value is None, "" if value is None else comparable(value)) for value in values]


def alike(row: Row) -> Row:
    """Return a row in a form that compares by SQL equality, in which NaN equals NaN."""
    return tuple(map(comparable, row))


def assert_rows(actual: Iterable[RowValues], expected: Iterable[RowValues]) -> None:
    """Raise AssertionError unless both sides have the same rows, in any order and with the same number of copies.

    The message has a line for each missing row (-) and each unexpected row (+).
    """
    __tracebackhide__ = True
    actual_rows, expected_rows = list(actual), list(expected)
    missing, extra = _subtract(expected_rows, actual_rows), _subtract(actual_rows, expected_rows)
    if missing or extra:
        equal = len(expected_rows) - len(missing)
        head = f"{_row_count(missing)} missing (-), {_row_count(extra)} not expected (+), {equal} as expected"
        raise AssertionError("\n".join([head, *_table(missing, extra)]))


def _row_count(rows: Sequence[RowValues]) -> str:
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'}"


def _subtract(rows: Sequence[RowValues], others: Sequence[RowValues]) -> list[RowValues]:
    """Return the rows without an equal one in `others`, which matches one row only."""
    remaining = [_comparable(row) for row in others]
    unmatched = []
    for row in rows:
        if _comparable(row) in remaining:
            remaining.remove(_comparable(row))
        else:
            unmatched.append(row)
    return unmatched


def _comparable(row: RowValues) -> dict[str, Any]:
    return dict(zip(row, alike(tuple(row.values())), strict=True))


def _table(missing: Sequence[RowValues], extra: Sequence[RowValues]) -> list[str]:
    """Return a table of the rows, similar rows next to each other. A missing column is empty."""
    columns = list(dict.fromkeys(name for row in (*extra, *missing) for name in row))
    marked = [*(("-", row) for row in missing), *(("+", row) for row in extra)]
    cells = [[mark, *(repr(row[name]) if name in row else "" for name in columns)] for mark, row in marked]
    cells.sort(key=lambda line: (line[1:2], line[1:], line[0]))
    lines = [["", *columns], *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns) + 1)]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]
