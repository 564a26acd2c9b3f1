"""The texts of ranges as in Postgres, `[1,5)`, `(,2024-01-01)`, `empty`; their bounds and their order.

A range is stored as its text, except in tables of other systems. Equal ranges have equal texts: ranges of whole
numbers and dates include the lower bound and exclude the upper one, and fractions have no trailing zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from sinkql.logical.numeric_type import RANGES
from sinkql.logical.type import BIGINT, DATE, INTEGER, NUMERIC, TIMESTAMP, TIMESTAMPTZ, Type

SUBTYPES: Mapping[str, Type] = MappingProxyType(
    {
        "int4range": INTEGER, "int8range": BIGINT, "numrange": NUMERIC, "daterange": DATE, "tsrange": TIMESTAMP,
        "tstzrange": TIMESTAMPTZ,
    }
)  # fmt: skip
"""The types of bounds, by the names of ranges."""
DISCRETE = ("int4range", "int8range", "daterange")
"""Ranges of values that have a next one."""
EMPTY = "empty"
BOUNDS = ("[]", "[)", "(]", "()")
"""The included bounds of a range."""
UPSIDE_DOWN = "range lower bound must be less than or equal to range upper bound"

Bound = int | Decimal | date | datetime
_BLANK = " \t\n\v\f\r"
_NEEDS_QUOTES = re.compile(r'[\s"\\()\[\],]')
_WRITTEN = re.compile(r'([\[(])("?)([^",]*)\2,("?)([^",]*)\4([\])])')


class BoundsError(ValueError):
    """The lower bound is above the upper one."""


class BeyondError(ValueError):
    """A bound has no next value in its type."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range that is not empty; a bound of None is infinite, and never included."""

    lower: Any
    upper: Any
    lower_in: bool
    upper_in: bool


def read_range(text: str, type_: str, read: Callable[[str], Any]) -> str:
    """Return the canonical text of a range; `read` parses a bound. Raises ValueError, BoundsError and BeyondError."""
    flat = text.lstrip(_BLANK)
    if flat.rstrip(_BLANK).lower() == EMPTY:
        return EMPTY
    if flat[:1] not in ("[", "("):
        raise ValueError
    lower, at = _bound(flat, 1)
    if flat[at : at + 1] != ",":
        raise ValueError
    upper, at = _bound(flat, at + 1)
    if flat[at : at + 1] not in ("]", ")") or flat[at + 1 :].strip(_BLANK):
        raise ValueError
    low, high = (None if each is None else read(each) for each in (lower, upper))
    return make_range(low, high, flat[0] + flat[at], type_)


def _bound(text: str, at: int) -> tuple[str | None, int]:
    """Return a bound's text without quotes and escapes, None if it is missing, and its end."""
    found, quoted, start = [], False, at
    while at < len(text) and (quoted or text[at] not in ",)]"):
        if text[at] == "\\":
            at += 1
            if at == len(text):
                raise ValueError
            found.append(text[at])
        elif text[at] != '"':
            found.append(text[at])
        elif quoted and text[at + 1 : at + 2] == '"':
            at += 1
            found.append('"')
        else:
            quoted = not quoted
        at += 1
    return None if at == start else "".join(found), at


def make_range(lower: Bound | None, upper: Bound | None, bounds: str, type_: str) -> str:
    """Return the canonical text of the range between two values; raises BoundsError and BeyondError."""
    lower_in, upper_in = bounds[0] == "[" and lower is not None, bounds[1] == "]" and upper is not None
    if lower is not None and upper is not None:
        if lower > upper:  # type: ignore[operator]  # both have the type of bounds
            raise BoundsError
        if lower == upper and not (lower_in and upper_in):
            return EMPTY
    if type_ in DISCRETE:
        lower, lower_in = (lower if lower_in or lower is None else _next(lower, type_)), lower is not None
        upper, upper_in = (_next(upper, type_) if upper_in and upper is not None else upper), False
        if lower is not None and lower == upper:
            return EMPTY
    return write_range(lower, upper, lower_in=lower_in, upper_in=upper_in)


def write_range(lower: Bound | None, upper: Bound | None, *, lower_in: bool, upper_in: bool) -> str:
    """Return the text of a range with these bounds."""
    return f"{'[' if lower_in else '('}{_shown(lower)},{_shown(upper)}{']' if upper_in else ')'}"


def _next(value: Bound, type_: str) -> Bound:
    if isinstance(value, int):
        if value + 1 not in RANGES[SUBTYPES[type_].name]:
            raise BeyondError
        return value + 1
    assert isinstance(value, date)
    if value == date.max:
        raise BeyondError
    return value + timedelta(days=1)


def _shown(value: Bound | None) -> str:
    match value:
        case None:
            return ""
        case datetime():
            zoned = value.tzinfo is not None
            shown = (value.astimezone(UTC).replace(tzinfo=None) if zoned else value).isoformat(" ")
            text = (shown.rstrip("0") if value.microsecond else shown) + ("+00" if zoned else "")
        case Decimal():
            plain = format(value, "f")
            text = plain.rstrip("0").rstrip(".") if "." in plain else plain
            text = "0" if text == "-0" else text
        case _:
            text = str(value)
    return f'"{text}"' if _NEEDS_QUOTES.search(text) else text


_READERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "int4range": int, "int8range": int, "numrange": Decimal, "daterange": date.fromisoformat,
        "tsrange": datetime.fromisoformat, "tstzrange": datetime.fromisoformat,
    }
)  # fmt: skip


def parts(text: str, type_: str) -> Range | None:
    """Return the range of a canonical text; None for an empty range."""
    if text == EMPTY:
        return None
    match = _WRITTEN.fullmatch(text)
    assert match is not None, text
    read = _READERS[type_]
    lower, upper = (read(each) if each else None for each in (match[3], match[5]))
    return Range(lower, upper, match[1] == "[", match[6] == "]")


def order_of(text: str, type_: str) -> tuple[Any, ...]:
    """Return the sort key of a range, as in Postgres: empty ranges first, then by the lower and the upper bound."""
    found = parts(text, type_)
    if found is None:
        return ()
    lower = () if found.lower is None else (found.lower, not found.lower_in)
    upper = (True,) if found.upper is None else (False, found.upper, found.upper_in)
    return (lower, upper)


def contains_value(found: Range | None, value: Any) -> bool:
    """Return whether a range contains a value."""
    if found is None:
        return False
    above = found.lower is None or value > found.lower or (found.lower_in and value == found.lower)
    below = found.upper is None or value < found.upper or (found.upper_in and value == found.upper)
    return above and below


def contains(found: Range | None, other: Range | None) -> bool:
    """Return whether a range contains all of another range."""
    if found is None or other is None:
        return other is None
    above = found.lower is None or (
        other.lower is not None and (found.lower, not found.lower_in) <= (other.lower, not other.lower_in)
    )
    below = found.upper is None or (
        other.upper is not None and (other.upper, other.upper_in) <= (found.upper, found.upper_in)
    )
    return above and below


def overlap(one: Range | None, other: Range | None) -> bool:
    """Return whether two ranges have a value in common."""
    return one is not None and other is not None and _reaches(one, other) and _reaches(other, one)


def _reaches(one: Range, other: Range) -> bool:
    """Return whether a range begins before another one ends."""
    if one.lower is None or other.upper is None or one.lower < other.upper:
        return True
    return bool(one.lower == other.upper and one.lower_in and other.upper_in)
