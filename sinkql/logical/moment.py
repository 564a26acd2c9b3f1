"""The texts of dates and timestamps, as Postgres reads them with its own DateStyle, ISO, MDY.

A date is `2024-02-29`, `2024/02/29`, `20240229`, `2/29/2024`, `2-29-2024`, `Feb 29 2024`, `February 29, 2024`,
`29 Feb 2024`, `29-Feb-2024` or `2024-Feb-29`. A time may follow, and a zone: `Z`, `UTC` or hours from UTC. Blanks
around it do not count, nor does case.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

BLANK = r"[ \t\n\r\f\x0B]"
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
MONTH_NAME = f"{LONG_MONTHS}|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec"
YEAR = "(?!0000)[0-9]{4}"
DASHES = f"({YEAR})-([0-9]{{1,2}})-([0-9]{{1,2}})"
SLASHES = f"({YEAR})/([0-9]{{1,2}})/([0-9]{{1,2}})"
DIGITS = f"({YEAR})([0-9]{{2}})([0-9]{{2}})"
AMERICAN = f"([0-9]{{1,2}})/([0-9]{{1,2}})/({YEAR})"
AMERICAN_DASHES = f"([0-9]{{1,2}})-([0-9]{{1,2}})-({YEAR})"
MONTH_FIRST = f"({MONTH_NAME})[ -]([0-9]{{1,2}})(?:, ?|[ -])({YEAR})"
DAY_FIRST = f"([0-9]{{1,2}})[ -]({MONTH_NAME})[ -]({YEAR})"
YEAR_FIRST = f"({YEAR})-({MONTH_NAME})-([0-9]{{1,2}})"
"""A date's forms: both Python and Java read these expressions, without regard to case."""
CLOCK = rf"(?:T|{BLANK}+)([01]?[0-9]|2[0-4]):([0-5]?[0-9])(?::([0-5]?[0-9])(\.[0-9]{{1,6}})?)?"
ZONE = f"(?:{BLANK}*(?:Z|UTC|([+-])(0?[0-9]|1[0-5])(?::?([0-5][0-9]))?))?"
FORMS = (
    (DASHES, "YMD", f"(?:{CLOCK})?{ZONE}"),
    (SLASHES, "YMD", f"(?:{CLOCK}{ZONE})?"),
    (DIGITS, "YMD", f"(?:{CLOCK}{ZONE})?"),
    (MONTH_FIRST, "MDY", f"(?:{CLOCK}{ZONE})?"),
    (DAY_FIRST, "DMY", f"(?:{CLOCK}{ZONE})?"),
    (YEAR_FIRST, "YMD", f"(?:{CLOCK}{ZONE})?"),
    (AMERICAN, "MDY", f"(?:{CLOCK}{ZONE})?"),
    (AMERICAN_DASHES, "MDY", f"(?:{CLOCK}{ZONE})?"),
)
"""Each form with the order of its parts and with what may follow it: a zone after most of them only with a time."""
_FORMS = tuple((re.compile(form + tail, re.IGNORECASE | re.ASCII), order) for form, order, tail in FORMS)
_BEYOND = re.compile(rf"[+-]?infinity|[0-9]{{5,}}-[0-9]{{1,2}}-[0-9]{{1,2}}.*|{DASHES}.* BC", re.IGNORECASE | re.ASCII)


class BeyondError(ValueError):
    """A date or time that Postgres has, outside the years 1 to 9999."""


def read_date(text: str) -> date:
    """Return the date that a text says; raises ValueError, and BeyondError for one of another year."""
    return _read(text)[0]


def read_timestamp(text: str) -> datetime:
    """Return what a text says without a look at its zone; raises as `read_date` does."""
    day, clock, _ = _read(text)
    return _within(datetime(day.year, day.month, day.day), clock)


def read_instant(text: str) -> datetime:
    """Return the instant that a text says, in UTC where it has no zone; raises as `read_date` does."""
    day, clock, ahead = _read(text)
    return _within(datetime(day.year, day.month, day.day, tzinfo=UTC), clock - ahead)


def day_of_year(year: int, number: int) -> tuple[str, str]:
    """Return the month and the day that are the n-th day of a year; raises ValueError where there is none."""
    found = date(year, 1, 1) + timedelta(days=number - 1)
    if found.year != year:
        raise ValueError(number)
    return str(found.month), str(found.day)


def _within(start: datetime, later: timedelta) -> datetime:
    try:
        return start + later
    except OverflowError:
        raise BeyondError from None


def _read(text: str) -> tuple[date, timedelta, timedelta]:
    flat = text.strip(" \t\n\r\f\v")
    if flat.lower() == "epoch":
        return date(1970, 1, 1), timedelta(), timedelta()
    for form, order in _FORMS:
        match = form.fullmatch(flat)
        if match is not None:
            parts = dict(zip(order, match.groups()[:3], strict=True))
            day = date(int(parts["Y"]), month(parts["M"]), int(parts["D"]))
            return day, _clock(*match.groups()[3:7]), _ahead(*match.groups()[7:])
    raise BeyondError if _BEYOND.fullmatch(flat) else ValueError


def month(text: str) -> int:
    """Return the number of a month, which its name begins with or is."""
    return int(text) if text.isdigit() else MONTHS.index(text[:3].lower()) // 4 + 1


def _clock(hours: str | None, minutes: str | None, seconds: str | None, fraction: str | None) -> timedelta:
    micros = int((fraction or ".")[1:].ljust(6, "0"))
    found = timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=int(seconds or 0), microseconds=micros)
    if found > timedelta(days=1):
        raise ValueError(hours)
    return found


def _ahead(sign: str | None, hours: str | None, minutes: str | None) -> timedelta:
    found = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    return -found if sign == "-" else found
