"""A literal's text and the type it takes → Spark SQL; conversions that happen unasked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal

from sinkql.connector.types import spark_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Type
from sinkql.planner import types
from sinkql.planner.expressions_interval import interval_literal, parse_interval
from sinkql.planner.expressions_typed import Typed, check_scale, exact, form, null_of, text_literal

_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")
_INTEGER_BITS = {"smallint": 15, "integer": 31, "bigint": 63}
_SUFFIX = {"smallint": "S", "integer": "", "bigint": "L"}


def untyped(text: str, span: Span) -> Typed:
    """Return a string literal: it takes the type of what it meets, text if it meets nothing."""
    return Typed(text_literal(text), types.UNKNOWN, False, span, constant=text)


def untyped_null(span: Span) -> Typed:
    """Return the literal NULL."""
    return Typed("NULL", types.UNKNOWN, True, span, null=True)


def number(text: str, span: Span) -> Typed:
    """Return a number literal: integer, bigint or numeric by its size and form."""
    value = Decimal(text.replace("_", ""))
    if re.fullmatch(r"[0-9_]+", text) and value < 2**63:
        type_ = types.INTEGER if value < 2**31 else types.BIGINT
        return Typed(f"{int(value)}{_SUFFIX[type_.name]}", type_, False, span, constant=int(value))
    return decimal(value, span)


def decimal(value: Decimal, span: Span) -> Typed:
    """Return a numeric literal; its text is a decimal with just its digits."""
    shown = format(value, "f")
    scale = len(shown.partition(".")[2])
    precision = max(len(shown.replace(".", "").replace("-", "").lstrip("0")), scale, 1)
    if precision > 38:
        raise SinkqlError("SQ2212", "a numeric has at most 38 digits", span)
    held = Type("numeric", precision, scale)
    return Typed(f"{shown}BD", NUMERIC, False, span, held=held, constant=value)


def coerced(value: Typed, target: Type) -> Typed:
    """Convert to a type that the value's type is implicitly converted to; a text that is exactly of that type."""
    if value.type == types.UNKNOWN:
        return null_of(target, value.span) if value.null else literal(str(value.constant), target, value.span)
    if value.type == target:
        return exact(value)
    if target == NUMERIC and value.raw.name == "numeric":
        check_scale(value)
    if types.floating(target) and isinstance(value.constant, (int, Decimal)):
        return literal(str(value.constant), target, value.span)
    if target == types.BIGINT and isinstance(value.constant, int):
        return literal(str(value.constant), target, value.span)
    if target == types.TEXT and value.type in (types.UUID,):
        return value
    return form(f"CAST(@0 AS {spark_type(target)})", (value,), target).at(value.span)


def literal(text: str, target: Type, span: Span) -> Typed:
    """Return a string literal read as a value of a type; raises SinkqlError (SQ2212) where it is not one."""
    if target in (types.TEXT, types.UNKNOWN):
        return Typed(text_literal(text), types.TEXT, False, span, constant=text)
    if target == types.INTERVAL:
        return interval_literal(parse_interval(text, span), span)
    sql = _READERS[target.name](text.strip(), target)
    if sql is None:
        raise SinkqlError("SQ2212", f"'{text}' is not a value of type {target}", span, hint=_hint(target))
    return Typed(sql, target, False, span, constant=int(text) if types.whole(target) else None)


def _integer(text: str, target: Type) -> str | None:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    value, bits = int(text), _INTEGER_BITS[target.name]
    return _signed(f"{value}{_SUFFIX[target.name]}") if -(2**bits) <= value < 2**bits else None


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _numeric(text: str, target: Type) -> str | None:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    if target == NUMERIC and -int(Decimal(text).as_tuple().exponent) > types.MAX_SCALE:
        return None
    return f"CAST('{text}' AS {spark_type(target)})"


def _floating(text: str, target: Type) -> str | None:
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", text, re.IGNORECASE):
        return f"CAST('{text}' AS {spark_type(target)})"
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value = float(text)
    if value in (float("inf"), float("-inf")) or (value == 0 and re.search(r"[1-9]", re.split("[eE]", text)[0])):
        return None
    if target == types.REAL:
        return f"CAST('{text}' AS FLOAT)"
    return _signed(f"{text.lstrip('+')}D")


def _boolean(text: str, _target: Type) -> str | None:
    if text.lower() in _TRUE:
        return "true"
    return "false" if text.lower() in _FALSE else None


def _date(text: str, _target: Type) -> str | None:
    match = re.fullmatch(r"(\d{4})-(\d{1,2})-(\d{1,2})", text)
    if text.lower() == "epoch":
        return "DATE'1970-01-01'"
    try:
        return f"DATE'{date(int(match[1]), int(match[2]), int(match[3]))}'" if match else None
    except ValueError:
        return None


_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[ Tt]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?"
    r"\s*(?:([zZ]|UTC|utc)|([+-])(\d{1,2})(?::?(\d{2}))?)?"
)


def _timestamp(text: str, target: Type) -> str | None:
    match = _TIMESTAMP.fullmatch(text)
    day = _date(match[1], target) if match else None
    if text.lower() == "epoch":
        day, match = "DATE'1970-01-01'", _TIMESTAMP.fullmatch("1970-01-01")
    if match is None or day is None:
        return None
    clock = timedelta(hours=int(match[2] or 0), minutes=int(match[3] or 0), seconds=int(match[4] or 0))
    if int(match[3] or 0) > 59 or int(match[4] or 0) > 59 or clock > timedelta(days=1):
        return None
    try:
        value = datetime.fromisoformat(day[5:-1]) + clock
    except OverflowError:
        return None
    fraction = f".{match[5].rstrip('0')}" if (match[5] or "").rstrip("0") else ""
    if target == types.TIMESTAMP:  # a zone in the text of a timestamp is not looked at
        return f"TIMESTAMP_NTZ'{value}{fraction}'"
    zone = f"{match[7]}{int(match[8]):02}:{match[9] or '00'}" if match[7] else "+00:00"
    return f"TIMESTAMP'{value}{fraction}{zone}'"


def _uuid(text: str, _target: Type) -> str | None:
    if not re.fullmatch(r"\{?([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\}?", text) or text[:1] + text[-1:] in ("{", "}"):
        return None
    digits = re.sub(r"[{}-]", "", text).lower()
    return f"'{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'"


def _bytea(text: str, _target: Type) -> str | None:
    if re.fullmatch(r"\\x([0-9a-fA-F]{2})*", text):
        return f"X'{text[2:]}'"
    return None if "\\" in text else f"encode({text_literal(text)}, 'UTF-8')"


_READERS: dict[str, Callable[[str, Type], str | None]] = {
    "smallint": _integer, "integer": _integer, "bigint": _integer, "numeric": _numeric, "real": _floating,
    "double precision": _floating, "boolean": _boolean, "date": _date, "timestamp": _timestamp,
    "timestamptz": _timestamp, "uuid": _uuid, "bytea": _bytea, "jsonb": lambda text, target: None,
}  # fmt: skip
_HINTS = {
    "date": "Write dates as DATE '2024-02-29'.",
    "timestamp": "Write timestamps as TIMESTAMP '2024-02-29 12:30:00'.",
    "timestamptz": "Write them with a numeric zone, as TIMESTAMPTZ '2024-02-29 12:30:00+00'.",
}


def _hint(target: Type) -> str | None:
    return _HINTS.get(target.name)
