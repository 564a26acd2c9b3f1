"""An interval's text → months, days and microseconds; intervals added to timestamps."""

from __future__ import annotations

import re
from decimal import Decimal

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Call, Interval, Literal
from sinkql.logical.type import DAY, SECOND
from sinkql.planner.expression.typed import Typed, call

_MONTHS = {"month": 1, "mon": 1, "year": 12, "yr": 12, "y": 12, "decade": 120, "century": 1200, "centurie": 1200}
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROS = {
    "hour": 3600 * SECOND, "hr": 3600 * SECOND, "h": 3600 * SECOND, "minute": 60 * SECOND, "min": 60 * SECOND,
    "m": 60 * SECOND, "second": SECOND, "sec": SECOND, "s": SECOND, "millisecond": 1000, "ms": 1000, "msec": 1000,
    "microsecond": 1, "us": 1, "usec": 1,
}  # fmt: skip
_MOST_MONTHS = 2**31 - 1
_MOST_MICROS = 2**63 - 1
_LONGEST = 200
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-]?)\s*(?P<h>\d+):(?P<m>\d{1,2})(?::(?P<s>\d{1,2}(?:\.\d{1,6})?))?"
    r"|(?P<number>[+-]?\s*\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+))(?=[\s+-]|$)"
)


def parse_interval(text: str, span: Span, unit: str | None = None) -> Interval:
    """Return an interval literal's value; raises SinkqlError (SQ2212) for a form that is not understood."""
    flat = text.strip().lower()
    if len(flat) > _LONGEST:
        raise _invalid(f"{flat[:20]}…", span)
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", flat):
        flat = f"{flat} {(unit or 'second').lower()}"
    elif unit is not None:
        raise _invalid(text, span)
    months, days, micros, position = 0, 0, 0, 0
    while position < len(flat):
        match = _PART.match(flat, position)
        if match is None:
            raise _invalid(text, span)
        position = match.end()
        more = _clock(match) if match["h"] else _amount(match, text, span)
        months, days, micros = months + more.months, days + more.days, micros + more.micros
    if not flat:
        raise _invalid(text, span)
    if max(abs(months), abs(days)) > _MOST_MONTHS or abs(micros) > _MOST_MICROS:
        raise SinkqlError("SQ2212", "the interval is out of range", span, hint="Write fewer years, days or hours.")
    return Interval(months, days, micros)


def _clock(match: re.Match[str]) -> Interval:
    seconds = Decimal(match["s"] or 0) + 60 * int(match["m"]) + 3600 * int(match["h"])
    return Interval(micros=int(seconds * SECOND) * (-1 if match["sign"] == "-" else 1))


def _amount(match: re.Match[str], text: str, span: Span) -> Interval:
    number, unit = Decimal(match["number"].replace(" ", "")), match["unit"]
    singular = unit[:-1] if len(unit) > 2 and unit.endswith("s") and unit not in ("ms", "us") else unit
    if singular in _MONTHS:
        if number != int(number):
            raise _invalid(text, span)
        return Interval(months=int(number) * _MONTHS[singular])
    if singular in _DAYS:
        whole = int(number * _DAYS[singular])
        return Interval(days=whole, micros=int((number * _DAYS[singular] - whole) * DAY))
    if singular in _MICROS:
        return Interval(micros=int(number * _MICROS[singular]))
    raise _invalid(text, span)


def _invalid(text: str, span: Span) -> SinkqlError:
    hint = "Write it as INTERVAL '1 year 2 months 3 days 04:05:06'."
    return SinkqlError("SQ2212", f"invalid input syntax for type interval: '{text}'", span, hint=hint)


def shift(instant: Typed, interval: Typed, *, sign: str) -> Typed:
    """Add an interval to a timestamp (`+`), or take it off (`-`): months first, then days and time."""
    if isinstance(interval.tree, Call) and interval.difference is None:
        _check_times(interval)
    elif not isinstance(interval.constant, Interval):
        message = "adding a difference of timestamps is not supported"
        raise SinkqlError("SQ2214", message, interval.span)
    return call(f"{sign}({instant.type.name},interval)", (instant, interval))


def _check_times(product: Typed) -> None:
    """Refuse all multiples of an interval but those of a constant number of days or whole seconds."""
    assert isinstance(product.tree, Call)
    interval = product.tree.arguments[1]
    value = interval.value if isinstance(interval, Literal) else None
    if not isinstance(value, Interval) or value.months or value.micros % SECOND or (value.days and value.micros):
        hint = "Use a constant interval, n * INTERVAL '1 day' or n * INTERVAL '1 second'."
        raise SinkqlError("SQ2214", "this multiple of an interval is not supported", product.span, hint=hint)
