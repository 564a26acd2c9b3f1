"""Functions of dates and times: arithmetic with intervals, fields, construction, truncation and to_char()."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, TypeVar

from sinkql.evaluate.failure import EvaluationError, Make, Value, strict
from sinkql.evaluate.number import EXACT, fit
from sinkql.logical import Call, Interval, Literal
from sinkql.logical import time as logical_time
from sinkql.logical.time import order_of, read_interval, show_interval
from sinkql.logical.time_format import (
    NAMES,
    ROMAN,
    ROMAN_WIDTH,
    TimePart,
    ordinal,
    read_by,
    read_time_form,
    read_to_char,
)
from sinkql.logical.type import DAY

_Day = TypeVar("_Day", date, datetime)


def _shifted(sign: int) -> Callable[[datetime, Interval | str], datetime]:
    def shift(instant: datetime, step: Interval | str) -> datetime:
        interval = read_interval(step) if isinstance(step, str) else step
        months = _months_later(instant, sign * interval.months) if interval.months else instant
        return months + sign * timedelta(days=interval.days, microseconds=interval.micros)

    return shift


def _difference(end: datetime, start: datetime) -> Interval:
    micros = (end - start) // timedelta(microseconds=1)
    days = abs(micros) // DAY * (1 if micros > 0 else -1)
    return Interval(days=days, micros=micros - days * DAY)


def _months_later(day: _Day, months: int) -> _Day:
    """Return the same day of another month, or its last day; months are added before days, as in Postgres."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    last = calendar.monthrange(year, month + 1)[1]
    return day.replace(year=year, month=month + 1, day=min(day.day, last))


# --- fields and units ----------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1)


def _seconds(instant: datetime) -> Decimal:
    return Decimal(instant.second) + Decimal(instant.microsecond).scaleb(-6)


def _epoch(instant: datetime) -> Decimal:
    micros = (instant - _EPOCH) // timedelta(microseconds=1)
    return EXACT.scaleb(Decimal(micros), Decimal(-6))


_FIELDS: dict[str, Callable[[datetime], int | Decimal]] = {
    "year": lambda at: at.year,
    "quarter": lambda at: (at.month + 2) // 3,
    "month": lambda at: at.month,
    "week": lambda at: at.isocalendar().week,
    "day": lambda at: at.day,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": _seconds,
    "dow": lambda at: at.isoweekday() % 7,
    "isodow": lambda at: at.isoweekday(),
    "doy": lambda at: at.timetuple().tm_yday,
    "isoyear": lambda at: at.isocalendar().year,
    "epoch": _epoch,
}
_OF_A_DAY = ("hour", "minute", "second")
_UNITS: dict[str, Callable[[datetime], datetime]] = {
    "year": lambda at: datetime(at.year, 1, 1),
    "quarter": lambda at: datetime(at.year, (at.month - 1) // 3 * 3 + 1, 1),
    "month": lambda at: datetime(at.year, at.month, 1),
    "week": lambda at: datetime(at.year, at.month, at.day) - timedelta(days=at.weekday()),
    "day": lambda at: datetime(at.year, at.month, at.day),
    "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "minute": lambda at: at.replace(second=0, microsecond=0),
    "second": lambda at: at.replace(microsecond=0),
}


def _constant(call: Call) -> str:
    """Return the constant first argument as a word."""
    word = call.arguments[0]
    return str(word.value).lower() if isinstance(word, Literal) else ""


def _in_utc(value: date | time) -> datetime:
    """Return the instant of a date or time in UTC; a time of day is in 1970."""
    if isinstance(value, time):
        return datetime.combine(_EPOCH, value)
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _field(result: Callable[[int | Decimal], Any]) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        name = _constant(call)
        field = _FIELDS.get(name)
        if field is None or (call.arguments[1].type.name == "date" and name in _OF_A_DAY):
            return None
        return strict(lambda value: result(field(_in_utc(value))))(call, operands[1:])

    return make


def _truncated(call: Call, operands: list[Value]) -> Value | None:
    unit = _UNITS.get(_constant(call))
    if unit is None:
        return None
    return strict(lambda value: unit(_in_utc(value)).replace(tzinfo=value.tzinfo))(call, operands[1:])


def _binned(width_text: Interval | str, instant: datetime, origin: datetime) -> datetime:
    stride = read_interval(width_text) if isinstance(width_text, str) else width_text
    width = timedelta(days=stride.days, microseconds=stride.micros)
    return origin + (instant - origin) // width * width


def _timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float | Decimal) -> datetime:
    if min(year, month, day) < 1:
        raise EvaluationError("date field value out of range")
    micros = _micros_of(second)
    clock = (hour * 60 + minute) * 60_000_000 + micros
    if not (0 <= hour <= 24 and 0 <= minute < 60 and 0 <= micros <= 60_000_000) or clock > DAY:
        raise EvaluationError("time field value out of range")
    return datetime(year, month, day) + timedelta(microseconds=clock)


def _micros_of(second: float | Decimal) -> int:
    """Return seconds as microseconds; NaN and infinity become a day, which is out of range."""
    if not isfinite(second):
        return DAY
    return round(float(second) * 1_000_000)


def _of_parts(months: int, days: int, micros: int) -> str:
    """Return an interval as columns store it; raises EvaluationError if it is out of range."""
    if not -(2**31) <= min(months, days) <= max(months, days) < 2**31:
        raise EvaluationError("interval out of range")
    return show_interval(Interval(months, days, micros))


def _read(read: Callable[[str], Any]) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        pattern = call.arguments[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return None
        form = read_time_form(pattern.value)

        def parse(text: str) -> Any:
            try:
                return read(read_by(form, text) or "")
            except ValueError:
                name = call.function.partition("(")[0]
                raise EvaluationError(f"the text does not have the form of {name}(): {text}") from None

        return strict(parse)(call, operands[:1])

    return make


# --- to_char -------------------------------------------------------------------------------------------------------


def _fraction(digits: int) -> Callable[[datetime], int]:
    """Return the first digits of a second's fraction."""
    return lambda at: at.microsecond // 10 ** (6 - digits)


_NUMBERS: dict[str, Callable[[datetime], int]] = {
    "YYYY": lambda at: at.year,
    "YYY": lambda at: at.year % 1000,
    "YY": lambda at: at.year % 100,
    "Y": lambda at: at.year % 10,
    "IYYY": lambda at: at.isocalendar().year,
    "IYY": lambda at: at.isocalendar().year % 1000,
    "IY": lambda at: at.isocalendar().year % 100,
    "I": lambda at: at.isocalendar().year % 10,
    "Y,": lambda at: at.year // 1000,
    "CC": lambda at: (at.year + 99) // 100,
    "Q": lambda at: (at.month + 2) // 3,
    "MM": lambda at: at.month,
    "IW": lambda at: at.isocalendar().week,
    "WW": lambda at: (at.timetuple().tm_yday + 6) // 7,
    "W": lambda at: (at.day + 6) // 7,
    "IDDD": lambda at: at.isocalendar().week * 7 - 7 + at.isoweekday(),
    "DDD": lambda at: at.timetuple().tm_yday,
    "DD": lambda at: at.day,
    "D": lambda at: at.isoweekday() % 7 + 1,
    "ID": lambda at: at.isoweekday(),
    "J": lambda at: at.toordinal() + 1_721_425,
    "HH24": lambda at: at.hour,
    "HH12": lambda at: (at.hour + 11) % 12 + 1,
    "HH": lambda at: (at.hour + 11) % 12 + 1,
    "MI": lambda at: at.minute,
    "SS": lambda at: at.second,
    "MS": lambda at: at.microsecond // 1000,
    "US": lambda at: at.microsecond,
    **{f"FF{digits}": _fraction(digits) for digits in range(1, 7)},
    "SSSSS": lambda at: at.hour * 3600 + at.minute * 60 + at.second,
    "SSSS": lambda at: at.hour * 3600 + at.minute * 60 + at.second,
}
_MONTHS = logical_time.LONG_MONTHS.title().split("|")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _to_char(call: Call, operands: list[Value]) -> Value | None:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    parts = read_to_char(pattern.value, zoned=call.arguments[0].type.name == "timestamptz")

    def shown(value: datetime) -> str:
        at = _in_utc(value)
        return "".join(part if isinstance(part, str) else _shown(part, at) for part in parts)

    return strict(shown)(call, operands[:1])


def _shown(part: TimePart, at: datetime) -> str:
    if part.number:
        number = str(_NUMBERS[part.name](at)).rjust(part.width, "0")
        return ordinal(number, part.ending) if part.ending else number
    kind = part.name.upper()
    if kind == "RM":
        return part.cased(ROMAN[at.month - 1].ljust(ROMAN_WIDTH if part.blanks else 0))
    if kind not in NAMES:
        return part.cased("AP"[at.hour >= 12] + part.name[1:])
    name = _MONTHS[at.month - 1] if kind in ("MONTH", "MON") else _DAYS[at.weekday()]
    short = NAMES[kind] == 3
    return part.cased(name[:3] if short else name.ljust(NAMES[kind] if part.blanks else 0))


def _turned(sign: int) -> Callable[[time, Interval], time]:
    """Return a function that moves a time of day by the hours of an interval; days do not count."""

    def turn(value: time, interval: Interval) -> time:
        return (_in_utc(value) + timedelta(microseconds=sign * (interval.micros % DAY))).time()

    return turn


def _of_interval(result: Callable[[Any], Any]) -> Make:
    """Return a field of the difference of two timestamps."""

    def make(call: Call, operands: list[Value]) -> Value | None:
        word = _constant(call)
        field = _float_epoch if (word, result) == ("epoch", float) else _INTERVAL_FIELDS.get(word)
        return None if field is None else strict(lambda value: result(field(value)))(call, operands[1:])

    return make


def _float_epoch(value: Interval) -> float:
    """Return the seconds as Postgres adds them in floats: the seconds of the days plus the rest."""
    return value.micros / 1_000_000 + value.days * 86_400.0


def _turn(value: Interval, unit: int, turn: int) -> int:
    """Return an interval's time in whole units, modulo `turn`, with the sign of the time."""
    return (1 if value.micros >= 0 else -1) * (abs(value.micros) // unit % turn)


_INTERVAL_FIELDS: dict[str, Callable[[Interval], int | Decimal]] = {
    "day": lambda value: value.days,
    "hour": lambda value: _turn(value, 3_600_000_000, 24),
    "minute": lambda value: _turn(value, 60_000_000, 60),
    "second": lambda value: Decimal(_turn(value, 1, 60_000_000)).scaleb(-6),
    "milliseconds": lambda value: Decimal(_turn(value, 1, 60_000_000)).scaleb(-3),
    "microseconds": lambda value: _turn(value, 1, 60_000_000),
    "epoch": lambda value: EXACT.scaleb(Decimal(value.days * DAY + value.micros), Decimal(-6)),
}
_FROM = ("date", "time", "timestamp", "timestamptz")
FORMS: dict[str, Make] = {
    **{f"+({type_},interval)": strict(_shifted(1)) for type_ in ("timestamp", "timestamptz")},
    **{f"-({type_},interval)": strict(_shifted(-1)) for type_ in ("timestamp", "timestamptz")},
    **{f"-({type_},{type_})": strict(_difference) for type_ in ("timestamp", "timestamptz")},
    **{f"date_bin(interval,{type_},{type_})": strict(_binned) for type_ in ("timestamp", "timestamptz")},
    "$held(interval)": strict(show_interval),
    "$order(interval)": strict(lambda text: Decimal(order_of(read_interval(text)))),
    "+(time,interval)": strict(_turned(1)),
    "-(time,interval)": strict(_turned(-1)),
    "+(date,time)": strict(datetime.combine),
    **{f"+(date,{type_})": strict(lambda day, days: day + timedelta(days=days)) for type_ in ("smallint", "integer")},
    **{f"-(date,{type_})": strict(lambda day, days: day - timedelta(days=days)) for type_ in ("smallint", "integer")},
    "-(date,date)": strict(lambda left, right: (left - right).days),
    **{f"EXTRACT(text,{type_})": _field(lambda value: fit(Decimal(value))) for type_ in _FROM},
    **{f"date_part(text,{type_})": _field(float) for type_ in _FROM},
    **{f"date_trunc(text,{type_})": _truncated for type_ in ("timestamp", "timestamptz")},
    "EXTRACT(text,interval)": _of_interval(lambda value: fit(Decimal(value))),
    "date_part(text,interval)": _of_interval(float),
    "make_date(integer,integer,integer)": strict(date),
    "make_timestamp(integer,integer,integer,integer,integer,any)": strict(_timestamp),
    "$interval(bigint,bigint,bigint)": strict(_of_parts),
    "to_date(text,text)": _read(logical_time.read_date),
    "to_timestamp(text,text)": _read(logical_time.read_timestamptz),
    "to_timestamp(bigint)": strict(lambda seconds: _EPOCH.replace(tzinfo=UTC) + timedelta(seconds=seconds)),
    **{f"to_char({type_},text)": _to_char for type_ in ("timestamp", "timestamptz")},
    **{f"isfinite({type_})": strict(lambda value: True) for type_ in ("date", "timestamp", "timestamptz")},
}
"""By id."""
