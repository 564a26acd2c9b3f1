"""Decode one value, in binary or as text, into the value that an Arrow array of its type takes.

This is the exact decoder. The decoder of columns (`column`) agrees with it on all values that it accepts.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from types import MappingProxyType
from typing import Any

from sinkql.connectors.postgres.type import (
    BLANKED,
    NUMERIC_OID,
    ServerType,
    element_type,
    sql_type,
    supported_type,
)
from sinkql.logical.expression import Interval
from sinkql.logical.jsonb import has_long_number, jsonb
from sinkql.logical.nested import Items, levels, read_array, read_record
from sinkql.logical.range import EMPTY, SUBTYPES, Bound, make_range, read_range
from sinkql.logical.time import (
    OutOfRangeError,
    read_date,
    read_interval,
    read_time,
    read_timestamp,
    read_timestamptz,
    show_interval,
)
from sinkql.logical.type import Type

EPOCH_DAY = 10957
"""Days from 1970 to 2000, the epoch of Postgres."""
EPOCH_US = EPOCH_DAY * 86_400_000_000
DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = date.min.toordinal() - 719163, date.max.toordinal() - 719163
"""The first and the last day of the years 1 to 9999, counted from 1970."""
MOST_DIGITS = 38


class UnfitError(ValueError):
    """A value that its type cannot hold; the text explains why."""


def read_binary(type_: ServerType, raw: bytes) -> Any:
    """Decode a value that the send function of a type wrote; raise UnfitError."""
    bare = type_.bare
    try:
        match bare.kind:
            case "enum":
                return raw.decode()
            case "array":
                return _unpack_array(bare, raw)
            case "composite":
                return _unpack_composite(bare, raw)
            case _ if bare.oid == NUMERIC_OID:
                return _unpack_numeric(bare, raw)
            case _:
                return _BINARY[bare.oid](raw)
    except UnicodeDecodeError as error:
        raise UnfitError("it is not UTF-8") from error
    except UnfitError:
        raise
    except (ValueError, struct.error, IndexError, KeyError) as error:
        raise UnfitError(f"it is not a valid {bare.name}") from error


def read_text(type_: ServerType, text: str) -> Any:
    """Decode a value that the output function of a type wrote, in a session of ISO dates in UTC; raise UnfitError."""
    bare = type_.bare
    target = supported_type(bare)
    try:
        return _read_checked_text(bare, target, text)
    except UnfitError:
        raise
    except OutOfRangeError as error:
        raise UnfitError(_YEARS) from error
    except ValueError as error:
        raise UnfitError(_unfit_reason(target, text)) from error


def _unfit_reason(type_: Type, text: str) -> str:
    if type_.name == "time":
        return _WITHIN_A_DAY
    return _FINITE if type_.name == "interval" else f'"{text[:_SHOWN]}" is not a valid {type_.called}'


_SHOWN = 100
_YEARS = "only the years 1 to 9999 are supported, not infinity"
_WITHIN_A_DAY = "a time of day must be less than 24 hours"
_FINITE = "an interval must be finite"

# --- binary -----------------------------------------------------------------------------------------------------------


def _unpacker(form: str) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        (number,) = struct.unpack(form, raw)
        return number

    return read


def _read_day(raw: bytes) -> int:
    (day,) = struct.unpack(">i", raw)
    if not FIRST_DAY <= day + EPOCH_DAY <= LAST_DAY:
        raise UnfitError(_YEARS)
    return int(day) + EPOCH_DAY


def _unpack_timestamp(raw: bytes) -> int:
    (micros,) = struct.unpack(">q", raw)
    if not FIRST_DAY * DAY_US <= micros + EPOCH_US < (LAST_DAY + 1) * DAY_US:
        raise UnfitError(_YEARS)
    return int(micros) + EPOCH_US


def _unpack_time(raw: bytes) -> int:
    (micros,) = struct.unpack(">q", raw)
    if micros >= DAY_US:
        raise UnfitError(_WITHIN_A_DAY)
    return int(micros)


def _unpack_interval(raw: bytes) -> str:
    micros, days, months = struct.unpack(">qii", raw)
    if (micros, days, months) in _INFINITE_INTERVALS:
        raise UnfitError(_FINITE)
    return show_interval(Interval(months, days, micros))


_INFINITE_INTERVALS = ((-(2**63), -(2**31), -(2**31)), (2**63 - 1, 2**31 - 1, 2**31 - 1))


def _strip_blanks(raw: bytes) -> str:
    return raw.decode().rstrip(" ")


def _unpack_jsonb(raw: bytes) -> str:
    if raw[0] != 1:
        raise ValueError
    return read_json(raw[1:].decode()) if has_long_number(raw) else raw[1:].decode()


def _unpack_json(raw: bytes) -> str:
    return read_json(raw.decode())


def read_json(text: str) -> str:
    """Return a json as jsonb; raise UnfitError."""
    try:
        return jsonb(text)
    except ValueError as error:
        raise UnfitError(f"it is not valid jsonb: {error}") from error


def _unpack_decimal(raw: bytes) -> Decimal:
    count, weight, sign, _ = struct.unpack_from(">hhHH", raw)
    if sign not in (0, 0x4000):
        raise UnfitError("a numeric must be finite, and not NaN")
    digits = struct.unpack_from(f">{count}h", raw, 8)
    whole = int("".join(f"{digit:04}" for digit in digits) or "0")
    return Decimal(f"{'-' if sign else ''}{whole}E{4 * (weight + 1 - count)}")


def _unpack_numeric(type_: ServerType, raw: bytes) -> Decimal:
    return fit_decimal(_unpack_decimal(raw), type_)


def _unpack_bound(raw: bytes) -> Decimal:
    return _check_bound(_unpack_decimal(raw))


def _check_bound(value: Decimal) -> Decimal:
    """Return a bound with all its digits; raise UnfitError if no numeric holds them."""
    fit_decimal(value, _ANY_NUMERIC)
    return value


_ANY_NUMERIC = ServerType(NUMERIC_OID, "numeric")


def fit_decimal(value: Decimal, type_: ServerType) -> Decimal:
    """Return a number with the digits of a type; raise UnfitError if it has more."""
    scale = (sql_type(type_) or Type("numeric", MOST_DIGITS, 0)).scale or 0
    if not value.is_finite():
        raise UnfitError("a numeric must be finite, and not NaN")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    shift = exponent + scale
    if shift < 0:
        text, cut = text[:shift], text[shift:]
        if cut.strip("0"):
            raise UnfitError(f"it has more than {scale} digits after the point")
    elif text:
        text += "0" * min(shift, 2 * MOST_DIGITS)
    if len(text) > MOST_DIGITS:
        raise UnfitError(f"it has more than {MOST_DIGITS - scale} digits before the point")
    return Decimal(f"{'-' if sign and text else ''}{text or 0}E-{scale}")


def _range_reader(name: str, read: Callable[[bytes], Any]) -> Callable[[bytes], str]:
    def read_bounds(raw: bytes) -> str:
        flags = raw[0]
        if flags & _EMPTY:
            return EMPTY
        at, bounds = 1, dict[int, Bound]()
        for infinite in (_NO_LOWER, _NO_UPPER):
            if not flags & infinite:
                (length,) = struct.unpack_from(">i", raw, at)
                bounds[infinite] = to_bound(name, read(raw[at + 4 : at + 4 + length]))
                at += 4 + length
        signs = ("[" if flags & _LOWER_IN else "(") + ("]" if flags & _UPPER_IN else ")")
        return make_range(bounds.get(_NO_LOWER), bounds.get(_NO_UPPER), signs, name)

    return read_bounds


_EMPTY, _LOWER_IN, _UPPER_IN, _NO_LOWER, _NO_UPPER = 1, 2, 4, 8, 16


def to_bound(range_: str, value: Any) -> Bound:
    """Return a value of an Arrow array as the bound of a range."""
    match SUBTYPES[range_].name:
        case "date":
            return date.fromordinal(value + 719163)
        case "timestamp":
            return datetime(1970, 1, 1) + timedelta(microseconds=value)  # without a time zone
        case "timestamptz":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        case _:
            return value  # type: ignore[no-any-return]  # a whole number, or a decimal


def _unpack_array(type_: ServerType, raw: bytes) -> list[Any]:
    element = element_type(type_)
    dimensions, _, oid = struct.unpack_from(">iiI", raw)
    if not dimensions:
        return []
    wanted = levels(sql_type(type_) or Type("text"))
    if dimensions != wanted:
        raise UnfitError(_dimensions_reason(dimensions, wanted))
    sizes = struct.unpack_from(f">{2 * dimensions}i", raw, 12)
    if any(subscript != 1 for subscript in sizes[1::2]):
        raise UnfitError(_SUBSCRIPTS)
    if oid != element.oid:
        raise ValueError
    at = 12 + 8 * dimensions
    values: list[Any] = []
    while at < len(raw):
        (length,) = struct.unpack_from(">i", raw, at)
        values.append(None if length < 0 else read_binary(element, raw[at + 4 : at + 4 + length]))
        at += 4 + max(length, 0)
    for size in reversed(sizes[2::2]):
        parts = iter(values)
        values = [list(islice(parts, size)) for _ in range(len(values) // size)]
    return values


_SUBSCRIPTS = "the subscripts of its array do not begin with 1"


def _dimensions_reason(has: int, wanted: int) -> str:
    return f"its array has {has} dimension{'' if has == 1 else 's'}, but its column declares {wanted}"


def _unpack_composite(type_: ServerType, raw: bytes) -> dict[str, Any]:
    (count,) = struct.unpack_from(">i", raw)
    if count != len(type_.fields):
        raise UnfitError(f"its type {type_.name} was altered")
    at, values = 4, dict[str, Any]()
    for name, field in type_.fields:
        oid, length = struct.unpack_from(">Ii", raw, at)
        if oid != field.oid:
            raise UnfitError(f"its type {type_.name} was altered")
        values[name] = None if length < 0 else read_binary(field, raw[at + 8 : at + 8 + length])
        at += 8 + max(length, 0)
    return values


_BINARY: Mapping[int, Callable[[bytes], Any]] = MappingProxyType(
    {
        16: lambda raw: raw != b"\0", 17: bytes, 19: bytes.decode, 20: _unpacker(">q"), 21: _unpacker(">h"),
        23: _unpacker(">i"), 25: bytes.decode, 26: _unpacker(">I"), 114: _unpack_json, 700: _unpacker(">f"),
        701: _unpacker(">d"), BLANKED: _strip_blanks, 1043: bytes.decode, 1082: _read_day, 1083: _unpack_time,
        1114: _unpack_timestamp, 1184: _unpack_timestamp, 1186: _unpack_interval,
        2950: lambda raw: str(uuid.UUID(bytes=raw)), 3802: _unpack_jsonb,
        3904: _range_reader("int4range", _unpacker(">i")), 3906: _range_reader("numrange", _unpack_bound),
        3908: _range_reader("tsrange", _unpack_timestamp), 3910: _range_reader("tstzrange", _unpack_timestamp),
        3912: _range_reader("daterange", _read_day),
        3926: _range_reader("int8range", _unpacker(">q")),
    }
)  # fmt: skip

# --- text -------------------------------------------------------------------------------------------------------------


def _read_checked_text(type_: ServerType, target: Type, text: str) -> Any:
    match type_.kind:
        case "enum":
            return text
        case "array":
            return _read_array_text(type_, target, text)
        case "composite":
            texts = read_record(text, len(type_.fields))
            return {
                name: None if field_text is None else read_text(field, field_text)
                for (name, field), field_text in zip(type_.fields, texts, strict=True)
            }
        case _ if type_.oid == NUMERIC_OID:
            return fit_decimal(Decimal(text), type_)
        case _ if type_.oid == BLANKED:
            return text.rstrip(" ")
        case _ if target.name in SUBTYPES:
            return read_range(text, target.name, _BOUNDS[SUBTYPES[target.name].name])
        case _:
            return _TEXT[target.name](text)


def _read_array_text(type_: ServerType, target: Type, text: str) -> list[Any]:
    wanted = levels(target)
    if text.startswith("["):
        raise UnfitError(_SUBSCRIPTS)
    items = read_array(text)
    has, first = 0, items
    while isinstance(first, list) and first:
        has, first = has + 1, first[0]  # type: ignore[assignment]  # a list within, or an element
    if has not in (0, wanted):
        raise UnfitError(_dimensions_reason(has, wanted))
    return _read_elements(element_type(type_), items)


def _read_elements(type_: ServerType, items: Items) -> list[Any]:
    return [
        _read_elements(type_, item) if isinstance(item, list) else None if item is None else read_text(type_, item)
        for item in items
    ]


def _parse_days(text: str) -> int:
    return read_date(text).toordinal() - 719163


def _parse_timestamp(text: str) -> int:
    return (read_timestamp(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # without a time zone


def _parse_timestamptz(text: str) -> int:
    return (read_timestamptz(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _parse_time(text: str) -> int:
    time = read_time(text)
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


def _parse_boolean(text: str) -> bool:
    return {"t": True, "f": False}[text]


_TEXT: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "boolean": _parse_boolean, "smallint": int, "integer": int, "bigint": int, "uint4": int, "real": float,
        "double precision": float, "date": _parse_days, "time": _parse_time, "timestamp": _parse_timestamp,
        "timestamptz": _parse_timestamptz, "text": str, "uuid": str, "jsonb": read_json,
        "interval": lambda text: show_interval(read_interval(text)),
        "bytea": lambda text: bytes.fromhex(text.removeprefix("\\x")),
    }
)  # fmt: skip
_BOUNDS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {
        "integer": int, "bigint": int, "date": read_date, "numeric": lambda text: _check_bound(Decimal(text)),
        "timestamp": read_timestamp,
        "timestamptz": read_timestamptz,
    }
)  # fmt: skip
