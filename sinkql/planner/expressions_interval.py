"""An interval's text → months, days and microseconds → Spark SQL."""

from __future__ import annotations

import re
from decimal import Decimal

from sinkql.errors import SinkqlError, Span
from sinkql.planner.expressions_typed import SUM, Interval, Typed, form
from sinkql.planner.types import INTERVAL

SECOND = 1_000_000
DAY = 86_400 * SECOND
_MONTHS = {"month": 1, "mon": 1, "year": 12, "yr": 12, "y": 12, "decade": 120, "century": 1200, "centurie": 1200}
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROS = {
    "hour": 3600 * SECOND, "hr": 3600 * SECOND, "h": 3600 * SECOND, "minute": 60 * SECOND, "min": 60 * SECOND,
    "m": 60 * SECOND, "second": SECOND, "sec": SECOND, "s": SECOND, "millisecond": 1000, "ms": 1000, "msec": 1000,
    "microsecond": 1, "us": 1, "usec": 1,
}  # fmt: skip
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-]?)\s*(?P<h>\d+):(?P<m>\d{1,2})(?::(?P<s>\d{1,2}(?:\.\d{1,6})?))?"
    r"|(?P<number>[+-]?\s*\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+))(?=[\s+-]|$)"
)


def parse_interval(text: str, span: Span, unit: str | None = None) -> Interval:
    """Return an interval literal's value; raises SinkqlError (SQ2212) for a form that is not understood."""
    flat = text.strip().lower()
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
    return SinkqlError("SQ2212", f"'{text}' is not understood as an interval", span, hint=hint)


def interval_literal(value: Interval, span: Span) -> Typed:
    """Return an interval constant; its text is that of a day-time interval, the form that comparisons take."""
    return Typed(day_time(value.days * DAY + value.micros), INTERVAL, False, span, constant=value)


def day_time(micros: int) -> str:
    """Return Spark SQL for an interval of microseconds, in its largest whole unit."""
    for unit, size in (("DAY", DAY), ("HOUR", 3600 * SECOND), ("MINUTE", 60 * SECOND), ("SECOND", SECOND)):
        if micros % size == 0:
            return f"INTERVAL '{micros // size}' {unit}"
    rest = abs(micros)
    days, rest = divmod(rest, DAY)
    hours, rest = divmod(rest, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    clock = f"{hours:02}:{minutes:02}:{rest // SECOND:02}.{rest % SECOND:06}"
    return f"INTERVAL '{'-' if micros < 0 else ''}{days} {clock}' DAY TO SECOND"


def shift(instant: Typed, interval: Typed, *, sign: int) -> Typed:
    """Add an interval to a timestamp, or with `sign` -1 take it off: months first, then days and time."""
    if interval.times is not None:
        return _shift_times(instant, interval, interval.times, sign)
    value = interval.constant
    if not isinstance(value, Interval):
        message = "a difference of timestamps cannot be added: an interval that is computed has no exact type"
        raise SinkqlError("SQ2214", message, interval.span)
    micros = value.days * DAY + value.micros
    shown, template = "+" if sign > 0 else "-", "@0"
    if value.months:
        template += f" {shown} INTERVAL '{value.months}' MONTH"
    if micros or not value.months:
        template += f" {shown} {day_time(micros)}"
    return form(template, (instant,), instant.type, nullable=instant.nullable, binds=SUM)


def _shift_times(instant: Typed, interval: Typed, times: Typed, sign: int) -> Typed:
    """Add `n * INTERVAL '…'` of a constant number of days or whole seconds."""
    value = interval.constant
    if not isinstance(value, Interval) or value.months or value.micros % SECOND or (value.days and value.micros):
        hint = "Use a constant interval, or n * INTERVAL '1 day' or '1 second'."
        raise SinkqlError("SQ2214", "this multiple of an interval is not supported", interval.span, hint=hint)
    shown = "+" if sign > 0 else "-"
    if value.days:
        amount = "make_dt_interval(@1)" if value.days == 1 else f"make_dt_interval(@1 * {value.days})"
    else:
        amount = (
            f"make_dt_interval(0, 0, 0, CAST(CAST(@1 AS DECIMAL(19,0)) * {value.micros // SECOND} AS DECIMAL(18,6)))"
        )
    return form(f"@0 {shown} {amount}", (instant, times), instant.type, binds=SUM)
