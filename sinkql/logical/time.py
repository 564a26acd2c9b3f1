"""The texts of dates, times and intervals as Postgres reads them with the default DateStyle, ISO, MDY.

A date is `2024-02-29`, `2/29/2024`, `20240229`, `Feb 29 2024`, `29 Feb 2024` or `2024-Feb-29`; `-`, `/` or `.`
separates its digits. A year that is not first may have two digits, for the years from 1970 to 2069. A day of the week
may precede a date with a name. A time may follow, with AM or PM, and a zone: `Z`, `UTC`, `GMT` or hours from UTC.
Surrounding blanks and case do not count.

An interval is `1 year 2 mons 3 days 04:05:06`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from sinkql.logical.expression import Interval
from sinkql.logical.type import DAY, SECOND

BLANK = r"[ \t\n\r\f\x0B]"
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_MONTH_NAME = f"{LONG_MONTHS}|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec"
_DAYS = "sunday|sun|monday|mon|tuesday|tues|tue|wednesday|weds|wed|thursday|thurs|thur|thu|friday|fri|saturday|sat"
_WEEKDAY = rf"(?:(?:{_DAYS})(?:, *| +)(?![a-z0-9]+[-/]))?"
_MORE = "(?:(?<= ) +)?"
_YEAR = "(?!0000)[0-9]{4}"
_SHORT_YEAR = f"{_YEAR}|[0-9]{{2}}"
_DASHES = f"({_YEAR})-([0-9]{{1,2}})-([0-9]{{1,2}})"
_SLASHES = rf"({_YEAR})([/.])([0-9]{{1,2}})\2([0-9]{{1,2}})"
_DIGITS = f"({_SHORT_YEAR})([0-9]{{2}})([0-9]{{2}})"
_MONTH_FIRST = rf"{_WEEKDAY}({_MONTH_NAME})([-/](?=[0-9]+[-/])| ){_MORE}([0-9]{{1,2}})(?:\2|, ?){_MORE}({_SHORT_YEAR})"
_DAY_FIRST = rf"{_WEEKDAY}([0-9]{{1,2}})([-/ ]){_MORE}({_MONTH_NAME})\2{_MORE}({_SHORT_YEAR})"
_YEAR_FIRST = rf"({_YEAR})([-/ ]){_MORE}({_MONTH_NAME})\2{_MORE}([0-9]{{1,2}})"
_AMERICAN = rf"([0-9]{{1,2}})([-/.])([0-9]{{1,2}})\2({_SHORT_YEAR})"
_MIDNIGHT = r"24(?=:0?0(?::0?0(?:\.0+)?)?(?![0-9.:]))"
_HALF = f"(?:{BLANK}*([AP]M)(?![A-Z-]))?"
_OF_DAY = (
    rf"(?!(?:1[3-9]|2[0-4])[0-9:.]*{BLANK}*[AP]M)([01]?[0-9]|2[0-3]|{_MIDNIGHT})"
    rf":([0-5]?[0-9])(?::([0-5]?[0-9])(\.[0-9]{{1,6}})?)?{_HALF}"
)
_CLOCK = rf"(?:T|{BLANK}+){_OF_DAY}"
_DIGITS_OF_DAY = rf"(?:T|{BLANK}+)([01][0-9]|2[0-3])([0-5][0-9])([0-5][0-9])(\.[0-9]{{1,6}})?()(?!-)"
_HOURS_AHEAD = r"([+-])(?![0-9]{3}(?![0-9]))(0?[0-9]|1[0-5])(?::?([0-5][0-9]))?"
_ZONE = rf"({BLANK}*(?:Z|UTC|GMT|{_HOURS_AHEAD}))?"
_LATE_YEAR = rf"{_WEEKDAY}({_MONTH_NAME}) +([0-9]{{1,2}}){BLANK}+{_OF_DAY}{_ZONE} +({_YEAR})"
"""The date format of Unix, with the year after the time."""
_TIMED = f"(?:{_CLOCK}{_ZONE})?"
_SPACED = f"(?:(?:{BLANK}+|(?<=/[0-9]{{4}}):){_OF_DAY}{_ZONE})?"
_OF_TIME = "hmsfpz+HO"
FORMS = (
    (f"{_DASHES}(?:{_CLOCK}|(?!{BLANK}*-)){_ZONE}", f"YMD{_OF_TIME}"),
    (_SLASHES + _TIMED, f"Y/MD{_OF_TIME}"),
    (_DIGITS + _TIMED, f"YMD{_OF_TIME}"),
    (_DIGITS + _DIGITS_OF_DAY + _ZONE, f"YMD{_OF_TIME}"),
    (_MONTH_FIRST + _SPACED, f"M/DY{_OF_TIME}"),
    (_DAY_FIRST + _SPACED, f"D/MY{_OF_TIME}"),
    (_YEAR_FIRST + _SPACED, f"Y/MD{_OF_TIME}"),
    (_AMERICAN + _TIMED, f"M/DY{_OF_TIME}"),
    (_LATE_YEAR, f"MD{_OF_TIME}Y"),
)
"""Regular expressions for a whole text, without regard to case, in Python and in Java, and the meaning of their groups:
Y, M, D, h, m, s, f (a fraction), p (AM or PM), z (the whole zone) and its +, H and O. After most dates, a zone requires
a time.
"""
_FORMS = tuple((re.compile(form, re.IGNORECASE | re.ASCII), order) for form, order in FORMS)
TIME_FORM, TIME_PARTS = f"T?{_OF_DAY}{_ZONE}", _OF_TIME
"""Regular expressions for a whole time of day, and the meaning of their groups, as in FORMS."""
_TIME = re.compile(TIME_FORM, re.IGNORECASE | re.ASCII)
_BEYOND = re.compile(rf"[+-]?infinity|[0-9]{{5,}}-[0-9]{{1,2}}-[0-9]{{1,2}}.*|{_DASHES}.* BC", re.IGNORECASE | re.ASCII)


class OutOfRangeError(ValueError):
    """A date or time that is valid in Postgres, outside the years 1 to 9999."""


def read_date(text: str) -> date:
    """Return the date of a text; raises ValueError, and OutOfRangeError for other years."""
    return _date(_parts(text))


def read_time(text: str) -> time:
    """Return the time of day of a text without a date; raises ValueError, also for 24:00."""
    match = _TIME.fullmatch(_trimmed(text))
    since = _clock(_named(match, _OF_TIME)) if match is not None else timedelta(days=1)
    if since >= timedelta(days=1):
        raise ValueError
    return (datetime.min + since).time()


def read_timestamp(text: str) -> datetime:
    """Return the timestamp of a text, ignoring its zone; raises like `read_date`."""
    parts = _parts(text)
    return _within(datetime.combine(_date(parts), time()), _clock(parts))


def read_timestamptz(text: str, *, zoned: bool = False) -> datetime:
    """Return the instant of a text, in UTC if it has no zone; raises like `read_date`.

    With `zoned` a text without a zone is a ValueError.
    """
    parts = _parts(text)
    if zoned and not parts["z"]:
        raise ValueError
    return _within(datetime.combine(_date(parts), time(), UTC), _clock(parts) - _ahead(parts))


def day_of_year(year: int, number: int) -> tuple[str, str]:
    """Return the month and the day of the n-th day of a year; raises ValueError for an invalid day."""
    found = date(year, 1, 1) + timedelta(days=number - 1)
    if found.year != year:
        raise ValueError(number)
    return str(found.month), str(found.day)


def month(text: str) -> int:
    """Return the number of a month by its name, or a text that begins with its name."""
    return int(text) if text.isdigit() else MONTHS.index(text[:3].lower()) // 4 + 1


# --- the parts of a text -------------------------------------------------------------------------------------------

_Parts = Mapping[str, str]
"""Parts of a text by the letters of FORMS."""


def _trimmed(text: str) -> str:
    return text.strip(" \t\n\r\f\v")


def _parts(text: str) -> _Parts:
    flat = _trimmed(text)
    if flat.lower() == "epoch":
        flat = "1970-01-01Z"
    for form, order in _FORMS:
        match = form.fullmatch(flat)
        if match is not None:
            return _named(match, order)
    raise OutOfRangeError if _BEYOND.fullmatch(flat) else ValueError


def _named(match: re.Match[str], order: str) -> _Parts:
    return dict(zip(order, (group or "" for group in match.groups()), strict=True))


def _date(parts: _Parts) -> date:
    year = parts["Y"]
    century = "" if len(year) > 2 else "20" if year < "70" else "19"
    return date(int(century + year), month(parts["M"]), int(parts["D"]))


def _clock(parts: _Parts) -> timedelta:
    micros = int(parts["f"][1:].ljust(6, "0"))
    hours = int(parts["h"] or 0)
    if parts["p"]:
        hours = hours % 12 + 12 * (parts["p"][0] in "pP")
    return timedelta(hours=hours, minutes=int(parts["m"] or 0), seconds=int(parts["s"] or 0), microseconds=micros)


def _ahead(parts: _Parts) -> timedelta:
    found = timedelta(hours=int(parts["H"] or 0), minutes=int(parts["O"] or 0))
    return -found if parts["+"] == "-" else found


def _within(start: datetime, later: timedelta) -> datetime:
    try:
        return start + later
    except OverflowError:
        raise OutOfRangeError from None


_MONTHS = {
    **dict.fromkeys(("month", "mon"), ("month", 1)), **dict.fromkeys(("year", "yr", "y"), ("year", 12)),
    **dict.fromkeys(("decade", "dec"), ("decade", 120)),
    **dict.fromkeys(("century", "centurie", "cent"), ("century", 1200)),
}  # fmt: skip
_INTERVAL_DAYS = {**dict.fromkeys(("day", "d"), ("day", 1)), **dict.fromkeys(("week", "w"), ("week", 7))}
_MICROS = {
    **dict.fromkeys(("hour", "hr", "h"), ("hour", 3600 * SECOND)),
    **dict.fromkeys(("minute", "min", "m"), ("minute", 60 * SECOND)),
    **dict.fromkeys(("second", "sec", "s"), ("second", SECOND)),
    **dict.fromkeys(("millisecond", "ms", "msec"), ("millisecond", 1000)),
    **dict.fromkeys(("microsecond", "us", "usec"), ("microsecond", 1)),
}
_INTERVAL_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond")
_MOST = 2**31 - 1
_MOST_MICROS = 2**63 - 1
_LONGEST = 200
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-]?)\s*(?P<h>\d+):(?P<m>[0-5]?\d)(?::(?P<s>[0-5]?\d(?:\.\d{1,6})?))?"
    r"|(?P<number>[+-]?\s*\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+))(?=[\s+-]|$)"
)


class RangeError(ValueError):
    """The interval has more years, days or hours than its type can hold."""


def read_interval(text: str, unit: str | None = None) -> Interval:
    """Return an interval; raises RangeError, and ValueError for an invalid text.

    A number without a unit has the given `unit`, or counts seconds.
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
        fields, more = (_INTERVAL_CLOCK, _interval_clock(match)) if match["h"] else _amount(match)
        if seen & {*fields}:
            raise ValueError
        seen |= {*fields}
        months, days, micros = months + more.months, days + more.days, micros + more.micros
    if max(abs(months), abs(days)) > _MOST or abs(micros) > _MOST_MICROS:
        raise RangeError
    return Interval(months, days, micros)


def _interval_clock(match: re.Match[str]) -> Interval:
    seconds = Decimal(match["s"] or 0) + 60 * int(match["m"]) + 3600 * int(match["h"])
    return Interval(micros=int(seconds * SECOND) * (-1 if match["sign"] == "-" else 1))


def _amount(match: re.Match[str]) -> tuple[tuple[str], Interval]:
    number, unit = Decimal(match["number"].replace(" ", "")), match["unit"]
    singular = unit[:-1] if len(unit) > 2 and unit.endswith("s") and unit not in ("ms", "us") else unit
    if singular in _MONTHS:
        name, factor = _MONTHS[singular]
        return (name,), Interval(months=_whole(number * factor))
    if singular in _INTERVAL_DAYS:
        name, factor = _INTERVAL_DAYS[singular]
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
    """Return the canonical text of an interval; equal intervals like 1 month and 30 days may differ in their texts."""
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
    """Return the sort key of an interval, as in Postgres: a month is 30 days, a day 24 hours."""
    return (value.months * 30 + value.days) * DAY + value.micros
