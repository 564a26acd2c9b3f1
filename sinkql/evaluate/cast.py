"""Casts that are exact in Python; an engine computes all other casts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

from sinkql.evaluate.failure import EvaluationError, NotEvaluableError
from sinkql.evaluate.json import read
from sinkql.evaluate.number import EXACT, converted, even, fit
from sinkql.logical import Type
from sinkql.logical import time as logical_time
from sinkql.logical.expression import single
from sinkql.logical.numeric_type import FLOATS, RANGES
from sinkql.logical.range import SUBTYPES

_BLANK = " \t\n\r\f\v"
_WHOLE_TEXT = re.compile(r"[+-]?[0-9]{1,1000}")
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_NO_NUMBER_TEXT = re.compile("[+-]?inf(inity)?|nan", re.IGNORECASE)
_MOMENT_HINT = "Give its form, as in to_timestamp(value, 'DD.MM.YYYY HH24:MI')."
_TIME_HINT = "Times of day are written as 12:30:00, and are less than 24 hours."
_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})
_UUID_TEXT = re.compile(r"([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}|\{([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\}")
_MOST_EXPONENT = 100  # for a larger exponent, an engine rounds or refuses the number

Convert = Callable[[Any], Any]


def conversion(source: Type, target: Type) -> Convert | None:
    """Return a function that converts values between two types; None if only an engine can."""
    if source == target:
        return lambda value: value
    match source.name, target.name:
        case "text", name:
            return _from_text(name, target)
        case name, "text":
            return _TO_TEXT.get(name)
        case name, "numeric" if name in RANGES:
            return lambda value: fit(Decimal(value), target)
        case "numeric", "numeric":
            return lambda value: fit(value, target)
        case "numeric", name if name in RANGES:
            return lambda value: converted(int(EXACT.quantize(value, Decimal(1))), name)
        case name, other if name in RANGES and other in RANGES:
            return lambda value: converted(int(value), other)
        case name, "double precision" if name in (*RANGES, "numeric", "real"):
            return float
        case name, "real" if name in (*RANGES, "numeric"):
            return _to_single
        case name, "numeric" if name in FLOATS:
            return lambda value: _float_to_numeric(value, name, target)
        case "double precision", "real":
            return _narrowed
        case name, other if name in FLOATS and other in RANGES:
            return lambda value: _float_to_whole(value, other)
        case _:
            return _CONVERTED.get((source.name, target.name))


def _to_single(value: int | Decimal) -> float:
    """Return the nearest single-precision number; rounding to double precision first can give a neighbour of it."""
    double = float(value)
    if Decimal(double) == value:
        return single(double)
    near = (
        single(neighbour) for neighbour in (math.nextafter(double, -math.inf), double, math.nextafter(double, math.inf))
    )
    return min(near, key=lambda candidate: EXACT.abs(EXACT.subtract(Decimal(candidate), Decimal(value))))


def _float_to_numeric(value: float, source: str, target: Type) -> Decimal:
    """Return a number with the significant digits of its source type, as in Postgres."""
    if math.isnan(value) or math.isinf(value):
        raise EvaluationError("cannot convert NaN or infinity to numeric")
    return fit(Decimal(f"{value:.{15 if source == 'double precision' else 6}g}"), target)


def _narrowed(value: float) -> float:
    number = single(value)
    if math.isinf(number) != math.isinf(value) or (number == 0 and value != 0):
        raise EvaluationError("value out of range")
    return number


def _float_to_whole(value: float, type_: str) -> int:
    if math.isnan(value) or math.isinf(value):
        raise EvaluationError(f"{type_} out of range")
    number = int(even(value))
    if number not in RANGES["bigint"] and number not in RANGES[type_]:
        raise EvaluationError(f"{type_} out of range")
    return converted(number, type_)


# --- from and to text ----------------------------------------------------------------------------------------------


def _from_text(name: str, target: Type) -> Convert | None:
    if name in RANGES:
        return lambda text: converted(_whole_number(text), name)
    if name == "numeric":
        return lambda text: fit(_number(text), target)
    return _OF_TEXT.get(name)


def _whole_number(text: str) -> int:
    digits = text.strip(_BLANK)
    if not digits.isascii() or not _WHOLE_TEXT.fullmatch(digits):
        raise NotEvaluableError
    return int(digits)


def _number(text: str) -> Decimal:
    number_text = text.strip(_BLANK)
    if not _NUMBER_TEXT.fullmatch(number_text):
        raise EvaluationError("invalid input syntax for type numeric")
    value = Decimal(number_text)
    if abs(value.adjusted()) > _MOST_EXPONENT:
        raise NotEvaluableError
    return value


def _double(text: str) -> float:
    number_text = text.strip(_BLANK)
    if _NO_NUMBER_TEXT.fullmatch(number_text):
        return float(number_text)
    if not _NUMBER_TEXT.fullmatch(number_text):
        raise NotEvaluableError  # "+nan", and texts that an engine refuses
    value = float(number_text)
    if math.isinf(value) or (value == 0 and re.match(r"[^eE]*[1-9]", number_text)):
        raise EvaluationError("out of range for type double precision")
    return value


def _boolean(text: str) -> bool:
    word = text.strip(_BLANK).lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise EvaluationError(f"invalid input syntax for type boolean: {text}")


def _moment(read: Callable[[str], Any], type_: str, hint: str = _MOMENT_HINT) -> Convert:
    def parse(text: str) -> Any:
        try:
            return read(text)
        except logical_time.OutOfRangeError:
            raise EvaluationError(f"{type_} out of range: {text}") from None
        except ValueError:
            raise EvaluationError(f"unsupported {type_} format: {text}", hint) from None

    return parse


def _uuid(text: str) -> str:
    if not _UUID_TEXT.fullmatch(text):
        raise EvaluationError("invalid input syntax for type uuid")
    digits = re.sub("[{}-]", "", text).lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _shown_time(value: datetime) -> str:
    shown = value.replace(tzinfo=None).isoformat(" ")
    return shown.rstrip("0") if value.microsecond else shown


def _shown_clock(value: time) -> str:
    shown = value.isoformat()
    return shown.rstrip("0") if value.microsecond else shown


_OF_TEXT: dict[str, Convert] = {
    "boolean": _boolean,
    "double precision": _double,
    "date": _moment(logical_time.read_date, "date"),
    "time": _moment(logical_time.read_time, "time", _TIME_HINT),
    "timestamp": _moment(logical_time.read_timestamp, "timestamp"),
    "timestamptz": _moment(logical_time.read_timestamptz, "timestamptz"),
    "uuid": _uuid,
    "jsonb": read,
}
_TO_TEXT: dict[str, Convert] = {
    "boolean": lambda value: "true" if value else "false",
    **dict.fromkeys(RANGES, lambda value: str(int(value))),
    "numeric": lambda value: format(value, "f"),
    "date": lambda value: value.isoformat(),
    "time": _shown_clock,
    "timestamp": _shown_time,
    "timestamptz": lambda value: f"{_shown_time(value.astimezone(UTC))}+00",
    "uuid": str,
    "interval": str,
    "jsonb": str,
    **dict.fromkeys(SUBTYPES, str),
    "bytea": lambda value: f"\\x{value.hex()}",
}
_CONVERTED: dict[tuple[str, str], Convert] = {
    ("boolean", "integer"): int,
    ("integer", "boolean"): lambda value: value != 0,
    ("date", "timestamp"): lambda value: datetime(value.year, value.month, value.day),
    ("date", "timestamptz"): lambda value: datetime(value.year, value.month, value.day, tzinfo=UTC),
    ("timestamp", "date"): lambda value: value.date(),
    ("timestamptz", "date"): lambda value: value.astimezone(UTC).date(),
    ("timestamp", "time"): lambda value: value.time(),
    ("timestamptz", "time"): lambda value: value.astimezone(UTC).time(),
    ("timestamp", "timestamptz"): lambda value: value.replace(tzinfo=UTC),
    ("timestamptz", "timestamp"): lambda value: value.astimezone(UTC).replace(tzinfo=None),
}
