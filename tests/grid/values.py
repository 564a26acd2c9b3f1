"""Compare the values of the engines with each other and with Postgres's texts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from sinkql.logical.expression import Interval, single
from sinkql.logical.nested import read_array
from sinkql.logical.time import show_interval
from sinkql.logical.type import Type

_WIDE = Context(prec=2000, rounding=ROUND_HALF_UP)


def alike(one: Any, other: Any) -> bool:
    """Return whether two engines' values are equal, including the sign of zero."""
    return bool(_plain(one) == _plain(other))


def _plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case bool():
            return ("boolean", value)
        case Decimal() | int():
            return ("number", Decimal(value))
        case dict():
            return tuple(_plain(each) for each in value.values())
        case list() | tuple():
            return tuple(_plain(each) for each in value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case _:
            return value


def judged(value: Any, expected: str | None, type_: Type) -> bool:
    """Return whether a value of a type equals Postgres's text."""
    if value is None or expected is None:
        return value is None and expected is None
    if type_.name in ("array", "list"):
        assert type_.element is not None
        return _items(value, read_array(expected), type_.element)
    match type_.name:
        case "boolean":
            return bool(value) == (expected in ("true", "t"))
        case "smallint" | "integer" | "bigint" | "uint2" | "uint4" | "uint8":
            return Decimal(int(value)) == Decimal(expected)
        case "numeric":
            return _numeric(value, expected, type_)
        case "real":
            return alike(single(value), single(float(expected)))
        case "double precision":
            return alike(value, float(expected))
        case "interval" if isinstance(value, Interval):  # a constant
            return show_interval(value) == expected
        case "bytea":
            return f"\\x{bytes(value).hex()}" == expected
        case "numrange":  # its bounds have no trailing zeros here
            return bool(
                value
                == re.sub(r"(\.\d*?)0+(?=[,)\]])", r"\1", expected)
                .replace(".,", ",")
                .replace(".)", ")")
                .replace(".]", "]")
            )
        case "date" | "time" | "timestamp" | "timestamptz":
            return _time(value, expected)
        case _:
            return bool(value == expected)


def _numeric(value: Decimal, expected: str, type_: Type) -> bool:
    if expected in ("NaN", "Infinity", "-Infinity"):
        return False
    return Decimal(value) == _WIDE.quantize(Decimal(expected), Decimal(1).scaleb(-(type_.scale or 0)))


def _items(values: Sequence[Any], expected: Sequence[Any], element: Type) -> bool:
    if len(values) != len(expected):
        return False
    pairs = zip(values, expected, strict=True)
    if element.name in ("array", "list"):
        inner = element.element
        assert inner is not None
        return all(_items(value, each, inner) for value, each in pairs)
    return all(judged(value, each, element) for value, each in pairs)


def _time(value: Any, expected: str) -> bool:
    if isinstance(value, Beyond):
        return value.number == _count(expected, days=value.days)
    if isinstance(value, datetime):
        shown = value.astimezone(UTC) if value.tzinfo is not None else value
        text = shown.replace(tzinfo=None).isoformat(" ")
        text = text.rstrip("0") if value.microsecond else text
        return text + ("+00" if value.tzinfo is not None else "") == expected
    if isinstance(value, time):
        return (value.isoformat().rstrip("0") if value.microsecond else value.isoformat()) == expected
    return isinstance(value, date) and value.isoformat() == expected


@dataclass(frozen=True, slots=True)
class Beyond:
    """A date or time outside of Python's range, as days or microseconds from 1970."""

    number: int
    days: bool = field(kw_only=True)


_TEXT = re.compile(r"(\d+)-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(?:\+00)?( BC)?")


def _count(text: str, *, days: bool) -> int | None:
    """Return the days or microseconds from 1970 to a date or time of any year."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    year = 1 - int(match[1]) if match[8] else int(match[1])
    eras, within = divmod(year, 400)  # the calendar repeats after 400 years
    since = (date(2000 + within, int(match[2]), int(match[3])) - date(2000, 1, 1)).days
    count = since + (eras - 5) * 146_097 + 10_957
    if days:
        return count
    hours, minutes, seconds = (int(match[place] or 0) for place in (4, 5, 6))
    micros = int((match[7] or "0").ljust(6, "0"))
    return ((count * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000 + micros


def listed(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; dates and times outside of Python's range become `Beyond`."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_value(each) for each in column]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if isinstance(scalar, pa.ListScalar):
            return [_value(each) for each in scalar.values]
        return Beyond(scalar.value, days=isinstance(scalar, pa.Date32Scalar))
