"""Texts of intervals, as Postgres reads and writes them: `1 year 2 mons 3 days 04:05:06`."""

from __future__ import annotations

import re
from decimal import Decimal

from sinkql.logical.expression import Interval
from sinkql.logical.type import DAY, SECOND

_MONTHS = {
    **dict.fromkeys(("month", "mon"), ("month", 1)), **dict.fromkeys(("year", "yr", "y"), ("year", 12)),
    **dict.fromkeys(("decade", "dec"), ("decade", 120)),
    **dict.fromkeys(("century", "centurie", "cent"), ("century", 1200)),
}  # fmt: skip
_DAYS = {**dict.fromkeys(("day", "d"), ("day", 1)), **dict.fromkeys(("week", "w"), ("week", 7))}
_MICROS = {
    **dict.fromkeys(("hour", "hr", "h"), ("hour", 3600 * SECOND)),
    **dict.fromkeys(("minute", "min", "m"), ("minute", 60 * SECOND)),
    **dict.fromkeys(("second", "sec", "s"), ("second", SECOND)),
    **dict.fromkeys(("millisecond", "ms", "msec"), ("millisecond", 1000)),
    **dict.fromkeys(("microsecond", "us", "usec"), ("microsecond", 1)),
}
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond")
_MOST = 2**31 - 1
_MOST_MICROS = 2**63 - 1
_LONGEST = 200
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-]?)\s*(?P<h>\d+):(?P<m>[0-5]?\d)(?::(?P<s>[0-5]?\d(?:\.\d{1,6})?))?"
    r"|(?P<number>[+-]?\s*\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+))(?=[\s+-]|$)"
)


class RangeError(ValueError):
    """The interval has more years, days or hours than fit."""


def read_interval(text: str, unit: str | None = None) -> Interval:
    """Return an interval; raises RangeError, and ValueError for a form that is not understood.

    A number without a unit has the one that is given, or counts seconds.
    """
    flat = text.strip().lower()
    if not flat or len(flat) > _LONGEST:
        raise ValueError
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", flat):
        flat = f"{flat} {(unit or 'second').lower()}"
    elif unit is not None:
        raise ValueError
    months, days, micros, position = 0, 0, 0, 0
    seen: set[str] = set()
    while position < len(flat):
        match = _PART.match(flat, position)
        if match is None:
            raise ValueError
        position = match.end()
        fields, more = (_CLOCK, _clock(match)) if match["h"] else _amount(match)
        if seen & {*fields}:
            raise ValueError
        seen |= {*fields}
        months, days, micros = months + more.months, days + more.days, micros + more.micros
    if max(abs(months), abs(days)) > _MOST or abs(micros) > _MOST_MICROS:
        raise RangeError
    return Interval(months, days, micros)


def _clock(match: re.Match[str]) -> Interval:
    seconds = Decimal(match["s"] or 0) + 60 * int(match["m"]) + 3600 * int(match["h"])
    return Interval(micros=int(seconds * SECOND) * (-1 if match["sign"] == "-" else 1))


def _amount(match: re.Match[str]) -> tuple[tuple[str], Interval]:
    number, unit = Decimal(match["number"].replace(" ", "")), match["unit"]
    singular = unit[:-1] if len(unit) > 2 and unit.endswith("s") and unit not in ("ms", "us") else unit
    if singular in _MONTHS:
        name, factor = _MONTHS[singular]
        return (name,), Interval(months=_whole(number * factor))
    if singular in _DAYS:
        name, factor = _DAYS[singular]
        days = int(number * factor)
        return (name,), Interval(days=days, micros=_whole((number * factor - days) * DAY))
    if singular in _MICROS:
        name, factor = _MICROS[singular]
        return (name,), Interval(micros=_whole(number * factor))
    raise ValueError


def _whole(number: Decimal) -> int:
    if number != int(number):
        raise ValueError
    return int(number)


def show_interval(value: Interval) -> str:
    """Return the one text of an interval; equal ones, such as 1 month and 30 days, may have others."""
    years, months = divmod(abs(value.months), 12)
    sign = -1 if value.months < 0 else 1
    parts: list[str] = []
    negative = False
    for number, unit in ((sign * years, "year"), (sign * months, "mon"), (value.days, "day")):
        if number:
            parts.append(f"{'+' if negative and number > 0 else ''}{number} {unit}{'' if number == 1 else 's'}")
            negative = number < 0
    if value.micros or not parts:
        hours, rest = divmod(abs(value.micros), 3600 * SECOND)
        minutes, rest = divmod(rest, 60 * SECOND)
        fraction = f".{rest % SECOND:06}".rstrip("0") if rest % SECOND else ""
        shown = "-" if value.micros < 0 else "+" if negative else ""
        parts.append(f"{shown}{hours:02}:{minutes:02}:{rest // SECOND:02}{fraction}")
    return " ".join(parts)


def order_of(value: Interval) -> int:
    """Return what intervals are ordered by, and are equal by, as in Postgres: a month is 30 days, a day 24 hours."""
    return (value.months * 30 + value.days) * DAY + value.micros
