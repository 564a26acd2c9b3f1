"""Format a value as text like Postgres, or as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from sinkql.logical import Type

Rows = Sequence[Sequence[Any]]


def shown_rows(rows: Rows, types: Sequence[Type]) -> Rows:
    """Return rows with maps and records as dictionaries; `types` may be empty."""
    if not any(type_.nested for type_ in types):
        return rows
    return [[shown_value(value, type_) for value, type_ in zip(row, types, strict=True)] for row in rows]


def shown_value(value: Any, type_: Type) -> Any:
    """Return a value with the maps and records inside it as dictionaries."""
    if value is None or not type_.nested:
        return value
    if type_.name == "record":
        pairs = zip(type_.fields, value, strict=True)
        return {each.name: shown_value(one, each.type) for each, one in pairs}
    if type_.name == "map":
        return {key: shown_value(one, type_.value) for key, one in value}
    return [shown_value(each, type_.element) for each in value] if type_.element is not None else value


def value_text(value: Any, null: str = "") -> str:
    """Return a value as Postgres prints it: times without T, short time zones; nested values are JSON.

    `null` is the text for NULL.
    """
    match value:
        case None:
            return null
        case list() | dict() | tuple():
            return json.dumps(value, default=plain, ensure_ascii=False)
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return f"\\x{value.hex()}"
        case datetime():
            return _timestamp_text(value)
        case _:
            return str(value)


def with_sizes(text: str | None) -> str | None:
    """Return a text with its numbers of bytes, like `1048576 bytes`, in larger units, like `1.0 MB`."""
    return None if text is None else re.sub(r"\b(\d+) bytes", lambda found: _size(int(found[1])), text)


def _size(bytes_: int) -> str:
    power = min(4, max(0, bytes_.bit_length() - 1) // 10)
    return f"{bytes_ / (1 << 10 * power):.1f} {('', 'kB', 'MB', 'GB', 'TB')[power]}" if power else f"{bytes_} bytes"


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    shown = repr(value)
    if "e" in shown:
        digits, _, exponent = shown.partition("e")
        return f"{digits}e{int(exponent):+03d}"
    return shown.removesuffix(".0")


def _timestamp_text(value: datetime) -> str:
    shown = value.replace(tzinfo=None).isoformat(" ")
    if value.microsecond:
        shown = shown.rstrip("0")
    return shown if value.tzinfo is None else f"{shown}+00"


def plain(value: Any) -> Any:
    """Return a value for JSON; numbers with a scale stay exact, as text."""
    match value:
        case None | bool() | int() | str() | list() | dict():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case Decimal() | datetime() | date() | time() | timedelta():
            return value_text(value)
        case _:
            return value_text(value)


def numeric(rows: Rows, place: int) -> bool:
    """Return whether all values of a column are numbers."""
    values = [row[place] for row in rows if row[place] is not None]
    return bool(values) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in values
    )
