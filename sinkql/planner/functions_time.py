"""Functions of dates and times → Spark SQL; the session's time zone is UTC."""

from __future__ import annotations

from zoneinfo import available_timezones

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.logical import NUMERIC, Type
from sinkql.planner import types
from sinkql.planner.expressions_interval import DAY, parse_interval
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_typed import Interval, Typed, form
from sinkql.planner.functions_format import to_char
from sinkql.planner.functions_overload import Handler, Overload, arity, constant_text, typed
from sinkql.planner.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, TIMESTAMPTZ, UNKNOWN

# Spark's word for each unit that both truncate to
_UNITS = {
    "microseconds": "microsecond", "milliseconds": "millisecond", "second": "second", "minute": "minute",
    "hour": "hour", "day": "day", "week": "week", "month": "month", "quarter": "quarter", "year": "year",
}  # fmt: skip
_YEARS = {
    "decade": "floor(year(@0) / 10) * 10",
    "century": "floor((year(@0) - 1) / 100) * 100 + 1",
    "millennium": "floor((year(@0) - 1) / 1000) * 1000 + 1",
}
_DATE_FIELDS = {
    "year": "year(@0)", "month": "month(@0)", "day": "day(@0)", "quarter": "quarter(@0)", "week": "weekofyear(@0)",
    "dow": "dayofweek(@0) - 1", "isodow": "weekday(@0) + 1", "doy": "dayofyear(@0)",
    "isoyear": "extract(YEAROFWEEK FROM @0)", "century": "floor((year(@0) + 99) / 100)",
    "decade": "floor(year(@0) / 10)", "millennium": "floor((year(@0) + 999) / 1000)",
}  # fmt: skip
_CLOCK_FIELDS = {
    "hour": "hour(@0)", "minute": "minute(@0)", "second": "extract(SECOND FROM @0)",
    "milliseconds": "extract(SECOND FROM @0) * 1000", "microseconds": "extract(SECOND FROM @0) * 1000000",
}  # fmt: skip
_EPOCHS = {
    "date": "unix_date(@0) * 86400L",
    "timestamp": "CAST(unix_micros(CAST(@0 AS TIMESTAMP)) AS DECIMAL(38,10)) / 1000000",
    "timestamptz": "CAST(unix_micros(@0) AS DECIMAL(38,10)) / 1000000",
}
_SYNONYMS = {
    "microsecond": "microseconds", "millisecond": "milliseconds", "seconds": "second", "minutes": "minute",
    "hours": "hour", "days": "day", "weeks": "week", "months": "month", "quarters": "quarter", "years": "year",
    "decades": "decade", "centuries": "century", "millenniums": "millennium", "millennia": "millennium",
}  # fmt: skip


def _field(text: str) -> str:
    return _SYNONYMS.get(text.strip().lower(), text.strip().lower())


def extract(field: str, value: Typed, span: Span, *, result: Type = NUMERIC) -> Typed:
    """Plan EXTRACT(field FROM value), which is numeric, or date_part(field, value), which is double precision."""
    name = _field(field)
    arguments: tuple[Typed, ...]
    if value.difference is not None:
        template, arguments = _of_difference(name, value.difference, span), value.difference
    else:
        template, arguments = _of_instant(name, value, span), (value,)
    spark = "DECIMAL(38,10)" if result == NUMERIC else "DOUBLE"
    return form(f"CAST({template} AS {spark})", arguments, result).at(span)


def _of_instant(name: str, value: Typed, span: Span) -> str:
    if not types.instant(value.type):
        message = f"a field is taken from a date or timestamp, not from {value.type.name}"
        raise SinkqlError("SQ2211", message, value.span)
    if name == "epoch":
        return _EPOCHS[value.type.name]
    template = _DATE_FIELDS.get(name) or (_CLOCK_FIELDS.get(name) if value.type != DATE else None)
    if template is None:
        raise _no_field(name, value.type.name, span, (*_DATE_FIELDS, *_CLOCK_FIELDS, "epoch"))
    return template


def _of_difference(name: str, pair: tuple[Typed, Typed], span: Span) -> str:
    micros = "unix_micros({0}) - unix_micros({1})"
    cast = "CAST({0} AS TIMESTAMP)" if pair[0].type == TIMESTAMP else "{0}"
    micros = "(" + micros.format(cast.format("@0"), cast.format("@1")) + ")"
    templates = {
        "epoch": f"{micros} / CAST(1000000 AS DECIMAL(38,10))",
        "day": f"{micros} div 86400000000",
        "hour": f"{micros} div 3600000000 % 24",
    }
    if name not in templates:
        raise _no_field(name, "interval", span, tuple(templates))
    return templates[name]


def _no_field(name: str, of: str, span: Span, known: tuple[str, ...]) -> SinkqlError:
    close = nearest(name, known)
    hint = f"Did you mean {close}?" if close and close != name else None
    return SinkqlError("SQ2214", f'field "{name}" of {of} is not supported', span, hint=hint)


def _date_trunc(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    unit = _field(constant_text(name, arguments[0], "unit"))
    value = arguments[1]
    if value.type == DATE:
        value = coerced(value, TIMESTAMPTZ)
    if value.type not in (TIMESTAMP, TIMESTAMPTZ):
        raise SinkqlError("SQ2211", f"date_trunc() takes a date or timestamp, found {value.type.name}", value.span)
    if unit not in _UNITS and unit not in _YEARS:
        raise _no_field(unit, value.type.name, arguments[0].span, (*_UNITS, *_YEARS))
    if len(arguments) == 3:
        return _date_trunc_in(unit, typed(name, value, TIMESTAMPTZ), _zone(arguments[2]), span)
    spark = "TIMESTAMP_NTZ" if value.type == TIMESTAMP else "TIMESTAMP"
    if unit in _YEARS:
        return form(f"CAST(make_date(CAST({_YEARS[unit]} AS INT), 1, 1) AS {spark})", (value,), value.type)
    call = f"date_trunc('{_UNITS[unit]}', @0)"
    return form(f"CAST({call} AS TIMESTAMP_NTZ)" if value.type == TIMESTAMP else call, (value,), value.type)


def _date_trunc_in(unit: str, value: Typed, zone: str, span: Span) -> Typed:
    if unit not in _UNITS:
        raise SinkqlError("SQ2214", f"date_trunc() to {unit} in a time zone is not supported", span)
    local = f"date_trunc('{_UNITS[unit]}', from_utc_timestamp(@0, '{zone}'))"
    return form(f"to_utc_timestamp({local}, '{zone}')", (value,), TIMESTAMPTZ)


def _zone(value: Typed) -> str:
    """Return a time zone's name: a constant of the tz database (numeric zones have POSIX's sign, and are refused)."""
    zone = value.constant
    if not isinstance(zone, str):
        raise SinkqlError("SQ2214", "a time zone must be a constant", value.span)
    if zone.upper() in ("UTC", "GMT", "Z"):
        return "UTC"
    zones = available_timezones()
    if zone not in zones:
        close = nearest(zone, sorted(zones))
        hint = f"Did you mean '{close}'?" if close else "Name it as in 'Europe/Berlin'."
        raise SinkqlError("SQ2214", f"time zone '{zone}' is not supported", value.span, hint=hint)
    return zone


def at_time_zone(value: Typed, zone: Typed, span: Span) -> Typed:
    """Plan `value AT TIME ZONE zone`: a timestamptz gives local time, a timestamp is taken as local time."""
    name = _zone(zone)
    if value.type in (DATE, UNKNOWN):
        value = coerced(value, TIMESTAMPTZ)
    if value.type == TIMESTAMPTZ:
        inner = "@0" if name == "UTC" else f"from_utc_timestamp(@0, '{name}')"
        return form(f"CAST({inner} AS TIMESTAMP_NTZ)", (value,), TIMESTAMP).at(span)
    if value.type == TIMESTAMP:
        template = "CAST(@0 AS TIMESTAMP)" if name == "UTC" else f"to_utc_timestamp(CAST(@0 AS TIMESTAMP), '{name}')"
        return form(template, (value,), TIMESTAMPTZ).at(span)
    raise SinkqlError("SQ2211", f"AT TIME ZONE takes a timestamp, found {value.type.name}", value.span)


def _date_part(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    return extract(constant_text(name, arguments[0], "field"), arguments[1], span, result=DOUBLE)


def _date_bin(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 3)
    width = arguments[0]
    stride = parse_interval(width.constant, width.span) if isinstance(width.constant, str) else width.constant
    if not isinstance(stride, Interval) or stride.months or stride.days * DAY + stride.micros <= 0:
        raise SinkqlError("SQ2214", "the stride of date_bin() is a constant interval without months", width.span)
    type_ = arguments[1].type if arguments[1].type != DATE else TIMESTAMPTZ
    value, origin = typed(name, arguments[1], type_), typed(name, arguments[2], type_)
    if type_ not in (TIMESTAMP, TIMESTAMPTZ):
        raise SinkqlError("SQ2211", f"date_bin() takes a timestamp, found {type_.name}", value.span)
    micros = "unix_micros(CAST({0} AS TIMESTAMP))" if type_ == TIMESTAMP else "unix_micros({0})"
    first, zero = micros.format("@0"), micros.format("@1")
    template = f"timestamp_micros({first} - pmod({first} - {zero}, {stride.days * DAY + stride.micros}L))"
    return form(f"CAST({template} AS TIMESTAMP_NTZ)" if type_ == TIMESTAMP else template, (value, origin), type_)


def _make_date(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 3)
    parts = [typed(name, value, INTEGER) for value in arguments]
    # a negative year is one before Christ in Postgres, and zero is an error
    wrong = " OR ".join(f"@{i} < 1" for i, part in enumerate(parts) if not _positive(part))
    if not wrong:
        return form("make_date(@0, @1, @2)", parts, DATE)
    template = f"IF({wrong}, CAST(raise_error('date field value out of range') AS DATE), make_date(@0, @1, @2))"
    return form(template, parts, DATE)


def _positive(value: Typed) -> bool:
    return isinstance(value.constant, int) and value.constant >= 1


def _make_timestamp(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 6, 6)
    if not all(isinstance(value.constant, int) for value in arguments[:5]) or arguments[5].constant is None:
        raise SinkqlError("SQ2214", "make_timestamp() takes constants only", span)
    if not all(_positive(value) for value in arguments[:3]):
        raise SinkqlError("SQ2212", "a date's fields are at least 1", span)
    return form("make_timestamp_ntz(@0, @1, @2, @3, @4, @5)", arguments, TIMESTAMP)


def _to_timestamp(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    if len(arguments) == 2:
        message = "to_timestamp(text, format) has no exact form: Postgres reads it leniently"
        raise SinkqlError("SQ2214", message, span, hint="Cast the text, as in text::timestamptz.")
    arity(name, arguments, span, 1, 1)
    if types.whole(arguments[0].type):
        return form("timestamp_seconds(@0)", (typed(name, arguments[0], BIGINT),), TIMESTAMPTZ)
    # rounded as Postgres does, relative to its own epoch
    template = "timestamp_micros(CAST(rint((@0 - 946684800D) * 1000000) AS BIGINT) + 946684800000000L)"
    return form(template, (typed(name, arguments[0], DOUBLE),), TIMESTAMPTZ)


def _to_char(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    return to_char(arguments[0], constant_text(name, arguments[1], "format"), arguments[1].span)


HANDLERS: dict[str, Handler] = {
    "date_trunc": _date_trunc, "date_part": _date_part, "date_bin": _date_bin, "make_date": _make_date,
    "make_timestamp": _make_timestamp, "to_timestamp": _to_timestamp, "to_char": _to_char,
}  # fmt: skip
OVERLOADS: dict[str, tuple[Overload, ...]] = {
    "isfinite": tuple(
        Overload((type_,), BOOLEAN, "IF(@0 IS NULL, NULL, true)") for type_ in (TIMESTAMPTZ, TIMESTAMP, DATE)
    ),
}
