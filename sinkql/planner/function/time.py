"""Plan functions of dates and times whose overloads depend on more than types."""

from __future__ import annotations

import math
from decimal import Decimal
from zoneinfo import available_timezones

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.logical import Interval
from sinkql.logical.expression import as_call
from sinkql.logical.pattern import PatternError
from sinkql.logical.time_format import read_time_form, read_to_char
from sinkql.logical.type import DAY
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced, decimal, parse_interval
from sinkql.planner.expression.operator import arithmetic, interval_of
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant
from sinkql.planner.function.argument import Handler, arity, constant_text, typed
from sinkql.planner.function.number import to_char
from sinkql.planner.function.text import refused
from sinkql.planner.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
)

_UNITS = (
    "microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip
_LONG_UNITS = ("decade", "century", "millennium")
_DATE_FIELDS = (
    "year", "month", "day", "quarter", "week", "dow", "isodow", "doy", "isoyear", "century", "decade", "millennium",
)  # fmt: skip
_CLOCK_FIELDS = ("hour", "minute", "second", "milliseconds", "microseconds")
_DIFFERENCE_FIELDS = ("epoch", "day", *_CLOCK_FIELDS)
_MAKE_INTERVAL = ("years", "months", "weeks", "days", "hours", "mins", "secs")
_MAKE_TIMESTAMP = "year month mday hour min sec"
PARAMETERS = {
    "make_date": ("year month day",),
    "make_timestamp": (_MAKE_TIMESTAMP,),
    "make_timestamptz": (_MAKE_TIMESTAMP, f"{_MAKE_TIMESTAMP} timezone"),
    "make_interval": (" ".join(_MAKE_INTERVAL),),
}
"""The parameter names of functions that take named arguments, for each overload."""
_SYNONYMS = {
    "microsecond": "microseconds", "millisecond": "milliseconds", "seconds": "second", "minutes": "minute",
    "hours": "hour", "days": "day", "weeks": "week", "months": "month", "quarters": "quarter", "years": "year",
    "decades": "decade", "centuries": "century", "millenniums": "millennium", "millennia": "millennium",
}  # fmt: skip


def _field(text: str) -> str:
    return _SYNONYMS.get(text.strip().lower(), text.strip().lower())


def extract(name: str, field: str, value: Typed, span: Span) -> Typed:
    """Plan EXTRACT(field FROM value), which is numeric, or date_part(field, value), which is double precision."""
    unit = _field(field)
    if isinstance(value.constant, Interval):
        return _interval_field(name, unit, value.constant, span)
    if value.difference is not None:
        supported: tuple[str, ...] = _DIFFERENCE_FIELDS
    elif types.is_instant(value.type):
        supported = (*_DATE_FIELDS, *(() if value.type == DATE else _CLOCK_FIELDS), "epoch")
    elif value.type == TIME:
        supported = (*_CLOCK_FIELDS, "epoch")
    else:
        message = f"extract() takes a date, time or timestamp, found {value.type.name}"
        raise SinkqlError("SQ2211", message, value.span)
    if unit not in supported:
        shown = (
            supported
            if value.difference is not None or value.type == TIME
            else (*_DATE_FIELDS, *_CLOCK_FIELDS, "epoch")
        )
        raise _field_error(unit, value.type.name, span, shown)
    return call(f"{name}(text,{value.type.name})", (constant(unit, TEXT, span), value), span)


_DAY_S = 86_400
_YEAR_S = 31_557_600  # of 365.25 days


def _interval_field(name: str, unit: str, value: Interval, span: Span) -> Typed:
    """Return a field of a constant interval."""
    years, months = int(value.months / 12), int(math.fmod(value.months, 12))
    seconds = years * _YEAR_S + (months * 30 + value.days) * _DAY_S
    sign = -1 if value.micros < 0 else 1
    clock = abs(value.micros)
    fields: dict[str, int | Decimal] = {
        "epoch": seconds + Decimal(value.micros).scaleb(-6),
        "year": years, "month": months, "day": value.days,
        "hour": sign * (clock // 3_600_000_000), "minute": sign * (clock // 60_000_000 % 60),
        "second": Decimal(sign * (clock % 60_000_000)).scaleb(-6),
        "milliseconds": Decimal(sign * (clock % 60_000_000)).scaleb(-3), "microseconds": sign * (clock % 60_000_000),
    }  # fmt: skip
    if unit not in fields:
        raise _field_error(unit, "interval", span, tuple(fields))
    field_value = fields[unit]
    if name == "date_part":
        return constant(float(field_value), DOUBLE, span)
    return decimal(Decimal(field_value), span)


_DAY_OF_WEEK = "Write dow, which is 0 on Sundays, or isodow, which is 7 on Sundays."
_FIELDS_ELSEWHERE = {
    "dayofweek": _DAY_OF_WEEK,
    "weekday": _DAY_OF_WEEK,
    "dayofweekiso": "Write isodow.",
    "dayofyear": "Write doy.",
    "weekofyear": "Write week.",
    "weekiso": "Write week.",
    "yearofweek": "Write isoyear.",
    "epochsecond": "Write epoch.",
}


def _field_error(name: str, of: str, span: Span, supported: tuple[str, ...]) -> SinkqlError:
    close = nearest(name, supported)
    hint = f"Did you mean {close}?" if close and close != name else None
    hint = _FIELDS_ELSEWHERE.get(name.replace("_", ""), hint)
    return SinkqlError("SQ2214", f'field "{name}" of {of} is not supported', span, hint=hint)


def _date_trunc(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    unit = _field(constant_text(name, arguments[0], "unit"))
    value = arguments[1]
    if value.type == DATE:
        value = coerced(value, TIMESTAMPTZ)
    if value.type not in (TIMESTAMP, TIMESTAMPTZ):
        raise SinkqlError("SQ2211", f"date_trunc() takes a date or timestamp, found {value.type.name}", value.span)
    if unit not in _UNITS and unit not in _LONG_UNITS:
        raise _field_error(unit, value.type.name, arguments[0].span, (*_UNITS, *_LONG_UNITS))
    cut = constant(unit, TEXT, arguments[0].span)
    if len(arguments) == 2:
        return call(f"date_trunc(text,{value.type.name})", (cut, value))
    if unit not in _UNITS:
        raise SinkqlError("SQ2214", f"date_trunc() to {unit} in a time zone is not supported", span)
    zone = constant(_zone(arguments[2]), TEXT, arguments[2].span)
    return call("date_trunc(text,timestamptz,text)", (cut, typed(name, value, TIMESTAMPTZ), zone))


def _zone(value: Typed) -> str:
    """Return the name of a constant time zone of the tz database; numeric zones have POSIX's sign and are refused."""
    zone = value.constant
    if not isinstance(zone, str):
        raise SinkqlError("SQ2214", "a time zone must be a constant", value.span)
    if zone.upper() in ("UTC", "GMT", "Z"):
        return "UTC"
    zones = available_timezones()
    if zone not in zones:
        close = nearest(zone, sorted(zones))
        hint = f"Did you mean '{close}'?" if close else "Write a name such as 'Europe/Berlin'."
        raise SinkqlError("SQ2214", f"time zone '{zone}' is not supported", value.span, hint=hint)
    return zone


def at_time_zone(value: Typed, zone: Typed, span: Span) -> Typed:
    """Plan `value AT TIME ZONE zone`: a timestamptz becomes local time, a timestamp is read as local time."""
    name = constant(_zone(zone), TEXT, zone.span)
    if value.type in (DATE, UNKNOWN):
        value = coerced(value, TIMESTAMPTZ)
    if value.type not in (TIMESTAMP, TIMESTAMPTZ):
        raise SinkqlError("SQ2211", f"AT TIME ZONE takes a timestamp, found {value.type.name}", value.span)
    return call(f"AT TIME ZONE({value.type.name},text)", (value, name), span)


def _date_part(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    return extract(name, constant_text(name, arguments[0], "field"), arguments[1], span)


def _date_bin(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 3)
    width = arguments[0]
    stride = parse_interval(width.constant, width.span) if isinstance(width.constant, str) else width.constant
    if not isinstance(stride, Interval) or stride.months or stride.days * DAY + stride.micros <= 0:
        raise SinkqlError("SQ2214", "the stride of date_bin() must be a constant interval without months", width.span)
    type_ = arguments[1].type if arguments[1].type != DATE else TIMESTAMPTZ
    value, origin = typed(name, arguments[1], type_), typed(name, arguments[2], type_)
    if type_ not in (TIMESTAMP, TIMESTAMPTZ):
        raise SinkqlError("SQ2211", f"date_bin() takes a timestamp, found {type_.name}", value.span)
    return call(
        f"date_bin(interval,{type_.name},{type_.name})", (constant(stride, INTERVAL, width.span), value, origin)
    )


def _make_timestamp(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 6, 6)
    is_constant = all(isinstance(value.constant, int) for value in arguments[:5]) and arguments[5].constant is not None
    if is_constant and any(isinstance(value.constant, int) and value.constant < 1 for value in arguments[:3]):
        raise SinkqlError("SQ2212", "date field value out of range", span)
    parts = arguments[:5] if is_constant else [typed(name, value, INTEGER) for value in arguments[:5]]
    second = arguments[5]
    if not is_constant or second.type == UNKNOWN:
        second = typed(name, second, NUMERIC if is_constant else DOUBLE)
    return call("make_timestamp(integer,integer,integer,integer,integer,any)", (*parts, second))


def _make_timestamptz(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    """Plan make_timestamptz: a local time in a zone, by default UTC, as in all statements."""
    arity(name, arguments, span, 6, 7)
    local = _make_timestamp(name, arguments[:6], span)
    return at_time_zone(local, arguments[6] if len(arguments) == 7 else constant("UTC", TEXT, span), span)


def _make_interval(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    """Plan make_interval: a constant, a multiple of one interval, or a sum of parts."""
    arity(name, arguments, span, 0, len(_MAKE_INTERVAL))
    total = Interval()
    computed: list[tuple[Typed, Interval]] = []
    seconds: Typed | None = None
    for value, unit in zip(arguments, _MAKE_INTERVAL, strict=False):
        number = value.constant
        if unit == "secs" and isinstance(number, Decimal):
            total = _add(total, Interval(micros=int((number * 1_000_000).to_integral_value())))
        elif isinstance(number, int) and not isinstance(number, bool):
            total = _add(total, _multiply(_ONE[unit], number))
        elif types.is_signed_integer(value.type):
            computed.append((value, _ONE[unit]))
        elif unit == "secs" and types.is_implicit(value.type, DOUBLE):
            seconds = typed(name, value, DOUBLE)
        else:
            message = f"argument {unit} of make_interval() takes an integer, found {value.type.called}"
            raise SinkqlError("SQ2211", message, value.span)
    if max(abs(total.months), abs(total.days)) >= 2**31 or abs(total.micros) >= 2**63:
        raise SinkqlError("SQ2212", "the interval is out of range", span, hint="Write fewer years, days or hours.")
    if not computed and seconds is None:
        return constant(total, INTERVAL, span)
    if len(computed) != 1 or seconds is not None or total != Interval():
        return _interval_from_parts(computed, seconds, total, span)
    ((value, unit_interval),) = computed
    base = (
        Interval(days=1)
        if unit_interval.days
        else Interval(micros=1_000_000)
        if unit_interval.micros
        else unit_interval
    )
    multiple = unit_interval.days or unit_interval.micros // 1_000_000 or 1
    if multiple > 1:  # multiples of a day or a second have a direct form
        value = arithmetic("*", coerced(value, BIGINT), constant(multiple, BIGINT, span), span)
    return arithmetic("*", value, constant(base, INTERVAL, span), span)


def _interval_from_parts(
    computed: list[tuple[Typed, Interval]], seconds: Typed | None, total: Interval, span: Span
) -> Typed:
    """Return the sum of a constant interval, multiples of intervals, and seconds."""
    interval = interval_of([*((coerced(value, BIGINT), one) for value, one in computed)], total, span)
    if seconds is None:
        return interval
    months, days, micros = (Typed(argument, BIGINT) for argument in as_call(interval.tree).arguments)
    scaled = arithmetic("*", seconds, constant(1e6, DOUBLE, span), span)
    micros = arithmetic("+", micros, cast_to(scaled, BIGINT), span)
    return call("$interval(bigint,bigint,bigint)", (months, days, micros), span)


def _add(left: Interval, right: Interval) -> Interval:
    return Interval(left.months + right.months, left.days + right.days, left.micros + right.micros)


def _multiply(value: Interval, factor: int) -> Interval:
    return Interval(value.months * factor, value.days * factor, value.micros * factor)


_ONE = {
    "years": Interval(12), "months": Interval(1), "weeks": Interval(days=7), "days": Interval(days=1),
    "hours": Interval(micros=3_600_000_000), "mins": Interval(micros=60_000_000), "secs": Interval(micros=1_000_000),
}  # fmt: skip


def _to_timestamp(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    if len(arguments) == 2:
        return _parse_time(name, arguments, span)
    arity(name, arguments, span, 1, 1)
    seconds = BIGINT if types.is_signed_integer(arguments[0].type) else DOUBLE
    return call(f"to_timestamp({seconds.name})", (typed(name, arguments[0], seconds),))


def _parse_time(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    form = constant_text(name, arguments[1], "format")
    with refused(arguments[1].span):
        read_time_form(form)
    return call(f"{name}(text,text)", (typed(name, arguments[0], TEXT), coerced(arguments[1], TEXT)))


def _to_char(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, text = arguments[0], constant_text(name, arguments[1], "format")
    if types.is_number(value.type):
        return to_char(value, arguments[1], text)
    if not types.is_instant(value.type):
        raise SinkqlError("SQ2214", f"to_char() of {value.type.name} is not supported", value.span)
    with refused(arguments[1].span):
        if not read_to_char(text, zoned=value.type.name == "timestamptz"):
            raise PatternError("an empty to_char() pattern is not supported")
    if value.type == DATE:  # as in Postgres, a timestamptz if the pattern depends on the zone
        zoned = read_to_char(text, zoned=True) != read_to_char(text, zoned=False)
        value = coerced(value, TIMESTAMPTZ if zoned else TIMESTAMP)
    return call(f"to_char({value.type.name},text)", (value, coerced(arguments[1], TEXT)))


HANDLERS: dict[str, Handler] = {
    "date_trunc": _date_trunc, "date_part": _date_part, "date_bin": _date_bin,
    "make_timestamp": _make_timestamp, "make_timestamptz": _make_timestamptz,
    "make_interval": _make_interval, "to_timestamp": _to_timestamp, "to_date": _parse_time, "to_char": _to_char,
}  # fmt: skip
