"""A test's rows, which are dictionaries, ↔ rows of typed values.

Rows that are there beside rows that were expected → nothing, or an AssertionError that shows how they differ.
"""

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
from sinkql.logical.jsonb import jsonb
from sinkql.logical.nested import UNEVEN, UnevenError, entries, squared
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.range import SUBTYPES
from sinkql.logical.time import show_interval
from sinkql.logical.type import DAY
from sinkql.planner.expression.literal import literal
from sinkql.table.row import Row, normal

Given = Mapping[str, Any]
"""A row as a test writes it: values by column."""
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


def names_of(given: Given, columns: Sequence[logical.Column]) -> None:
    """Raise SQ2204 for a name that no column has."""
    known = [column.name for column in columns]
    for name in given:
        if name not in known:
            near = nearest(str(name), known)
            hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(known)}."
            raise SinkqlError("SQ2204", f'column "{name}" does not exist', hint=hint)


def value_of(given: Any, column: logical.Column) -> Any:
    """Return a value as rows hold it; raises SQ2212 for a text that is none of the type, SQ2422 for what does not fit.

    A text is read as SQL reads a string that stands for a value of the column's type.
    """
    type_ = column.type
    if given is None:
        return None
    if isinstance(given, str) and type_.name not in ("text", "jsonb"):
        found = literal(given, type_, _NOWHERE).tree
        assert isinstance(found, logical.Literal)
        return show_interval(found.value) if isinstance(found.value, logical.Interval) else found.value
    if type_.name in ("map", "record"):
        return _composite(given, column)
    if type_.element is not None and isinstance(given, list | tuple):
        items = [value_of(each, logical.Column(column.name, type_.element)) for each in given]
        try:
            return tuple(squared(items, type_))
        except UnevenError:
            message = f'{given!r} is no value for column "{column.name}" of type {type_}: {UNEVEN}'
            raise SinkqlError("SQ2422", message) from None
    found = _python(given, type_)
    if found is None:
        kind = _PYTHON[type_.name] if type_.element is None else "a list of its elements"
        wanted = f"Give {kind}, or the text that SQL would have."
        raise SinkqlError("SQ2422", f'{given!r} is no value for column "{column.name}" of type {type_}', hint=wanted)
    return found


def _composite(given: Any, column: logical.Column) -> tuple[Any, ...]:
    """Return a dictionary as a map or a record, whose fields may be left out where they may be NULL."""
    type_ = column.type
    if type_.name == "map" and isinstance(given, Mapping):
        inner = logical.Column(column.name, type_.value)
        return entries((str(key), value_of(each, inner)) for key, each in given.items())
    names = [each.name for each in type_.fields]
    if isinstance(given, list | tuple) and len(given) == len(names):
        given = dict(zip(names, given, strict=True))
    fitting = isinstance(given, Mapping) and set(given) <= set(names) and type_.name == "record"
    missing = (
        [] if not fitting else [each for each in type_.fields if not each.nullable and given.get(each.name) is None]
    )
    if not fitting or missing:
        wanted = "Give a dict, or the text that SQL would have."
        reason = f': field "{missing[0].name}" is NOT NULL' if missing else ""
        message = f'{given!r} is no value for column "{column.name}" of type {type_}{reason}'
        raise SinkqlError("SQ2422", message, hint=wanted)
    return tuple(value_of(given.get(each.name), logical.Column(column.name, each.type)) for each in type_.fields)


def _python(given: Any, type_: logical.Type) -> Any:
    """Return a value of Python's as one of a type; None where it is of another kind, or has no room in it."""
    match type_.name, given:
        case "boolean", bool():
            return given
        case _, bool():
            return None
        case name, int() if name in RANGES:
            return given if given in RANGES[name] else None
        case "numeric", int() | Decimal():
            return _numeric(Decimal(given), type_)
        case (("real" | "double precision"), int() | float()):
            return normal(float(given), type_)
        case "date", date() if not isinstance(given, datetime):
            return given
        case "time", time() if given.tzinfo is None:
            return given
        case "timestamp", datetime() if given.tzinfo is None:
            return given
        case "timestamptz", datetime() if given.tzinfo is not None:
            return normal(given, type_)
        case "text", str():
            return given
        case "jsonb", _:
            return _json(given)
        case "uuid", UUID():
            return str(given)
        case "interval", timedelta():
            return show_interval(logical.Interval(days=given.days, micros=given // _MICROSECOND % DAY))
        case "bytea", bytes() | bytearray():
            return bytes(given)
        case _:
            return None


def _numeric(given: Decimal, type_: logical.Type) -> Decimal | None:
    if not given.is_finite():
        return None
    scale = type_.scale or 0
    fits = abs(given) < Decimal(10) ** ((type_.precision or 38) - scale)
    return normal(given, type_) if fits and given == round(given, scale) else None


def _json(given: Any) -> str | None:
    try:
        return jsonb(given if isinstance(given, str) else json.dumps(given))
    except (TypeError, ValueError, RecursionError):
        return None


def in_order(rows: Iterable[Row], by: Sequence[int]) -> list[Row]:
    """Return rows ordered by the columns at these places, then by the others."""

    def key(row: Row) -> list[tuple[bool, Any]]:
        places = [*by, *(place for place in range(len(row)) if place not in by)]
        return ordered(row[place] for place in places)

    return sorted(rows, key=key)


def ordered(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    """Return what rows of these values are ordered by; NULL comes last, as in Postgres."""
    return [(value is None, "" if value is None else comparable(value)) for value in values]


def alike(row: Row) -> Row:
    """Return what stands for a row among rows that are compared: NaN equals NaN."""
    return tuple(map(comparable, row))


def assert_rows(actual: Iterable[Given], expected: Iterable[Given]) -> None:
    """Raise AssertionError unless both have the same rows, in any order and in the same number.

    The message has a line for each row that is missing (-) or not expected (+).
    """
    __tracebackhide__ = True
    there, wanted = list(actual), list(expected)
    missing, extra = _without(wanted, there), _without(there, wanted)
    if missing or extra:
        equal = len(wanted) - len(missing)
        head = f"{_many(missing)} missing (-), {_many(extra)} not expected (+), {equal} as expected"
        raise AssertionError("\n".join([head, *_table(missing, extra)]))


def _many(rows: Sequence[Given]) -> str:
    return f"{len(rows)} row{'' if len(rows) == 1 else 's'}"


def _without(rows: Sequence[Given], others: Sequence[Given]) -> list[Given]:
    """Return the rows for which there is none among the others; each of these stands for one."""
    left = [_comparable(each) for each in others]
    found = []
    for row in rows:
        if _comparable(row) in left:
            left.remove(_comparable(row))
        else:
            found.append(row)
    return found


def _comparable(row: Given) -> dict[str, Any]:
    return dict(zip(row, alike(tuple(row.values())), strict=True))


def _table(missing: Sequence[Given], extra: Sequence[Given]) -> list[str]:
    """Return a table of the rows, like ones beside each other; a column that a row has not is empty."""
    columns = list(dict.fromkeys(name for row in (*extra, *missing) for name in row))
    marked = [*(("-", row) for row in missing), *(("+", row) for row in extra)]
    shown = [[mark, *(repr(row[name]) if name in row else "" for name in columns)] for mark, row in marked]
    shown.sort(key=lambda line: (line[1:2], line[1:], line[0]))
    lines = [["", *columns], *shown]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns) + 1)]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]
