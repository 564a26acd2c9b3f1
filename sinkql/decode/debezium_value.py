"""Convert the values of a column in Debezium's JSON to an Arrow array, and note the values that do not fit.

The schema of a message tells the encoding of its values. Without it, the declared types decide: numbers count days for
a date, and microseconds for times, timestamps and intervals. A bytea is in base64, and JSON is a text.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import codec
from sinkql.connector_api.types import arrow_type
from sinkql.decode.arrow_values import column_of, lists
from sinkql.decode.json_lines import MemberError, member
from sinkql.decode.messages import PLACEHOLDER, UNSENT, placeholders
from sinkql.decode.text_column import Failures, from_text
from sinkql.logical import Interval, Type
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.time import show_interval
from sinkql.logical.type import INTERVAL, JSONB

_TEMPORAL = ("date", "time", "timestamp", "timestamptz", "interval")

_UNITS = {"Timestamp": "ms", "MicroTimestamp": "us", "NanoTimestamp": "ns", "Time": "ms", "MicroTime": "us",
          "NanoTime": "ns", "MicroDuration": "us", "NanoDuration": "ns"}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ISO = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d{1,6})?)S)?)?"
)
_WIDE = Context(prec=400)


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of a field by the schema: the unit of numbers, the scale of decimals, and the encoding of items."""

    unit: str = "us"
    scale: int | None = None
    items: Encoding | None = None

    @classmethod
    def from_field(cls, field: Mapping[str, Any]) -> Encoding:
        """Return the encoding of a field of a schema."""
        name = field.get("name") or ""
        unit = _UNITS.get(name.rpartition(".")[2], "us")
        scale = int(field.get("parameters", {}).get("scale", 0)) if name == _DECIMAL else None
        items = field.get("items")
        return cls(unit, scale, None if items is None else cls.from_field(items))


DEFAULT = Encoding()
"""The encoding of a field without a schema."""


def decoded_as(type_: Type) -> Any:
    """Return the type that decodes a member; exact numbers are decoded from their text."""
    name = type_.name
    if name == "boolean":
        return bool | None
    if name in RANGES:
        return int | None
    if name == "double precision":
        return float | str | None
    if name in _TEMPORAL:
        return int | str | None
    return str | None if name in ("text", "uuid", "bytea") else msgspec.Raw


class ColumnValues:
    """The values of a column, which are added in parts as decoded by `decoded_as`, and converted together.

    Most parts become Arrow arrays at once: while they are in the processor's cache, a value costs little.
    """

    def __init__(self, type_: Type) -> None:
        self._type = type_
        self._kinds = _KINDS.get(type_.name, ())
        self._parts: list[pa.Array | list[Any]] = []

    def add(self, values: list[Any]) -> None:
        """Add the values of further rows."""
        for kind in self._kinds:
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                self._parts.append(pa.array(values, kind))
                return
        self._parts.append(values)

    def array(self, encoding: Encoding, failures: Failures) -> pa.Array:
        """Return an array of the column's type; a value that does not fit is NULL and noted."""
        arrays = [part for part in self._parts if isinstance(part, pa.Array)]
        kinds = {array.type for array in arrays if array.null_count < len(array)}
        if arrays and len(arrays) == len(self._parts) and len(kinds) <= 1:
            kind = next(iter(kinds), arrays[0].type)
            whole = pa.concat_arrays([array if array.type == kind else pa.nulls(len(array), kind) for array in arrays])
            converted = _converted_together(whole, self._type, encoding, failures)
            if converted is not None:
                return converted
        values = [value for part in self._parts for value in (part.to_pylist() if isinstance(part, pa.Array) else part)]
        return _array(values, self._type, encoding, failures)


_KINDS: Mapping[str, Sequence[pa.DataType]] = {
    "boolean": (pa.bool_(),), "double precision": (pa.float64(),), "text": (pa.string(),), "uuid": (pa.string(),),
    **dict.fromkeys(RANGES, (pa.int64(),)),
    **dict.fromkeys(("date", "time", "timestamp", "timestamptz"), (pa.string(), pa.int64())),
}  # fmt: skip
"""The Arrow types that have room for most values of a type as they are decoded."""


def _converted_together(array: pa.Array, type_: Type, encoding: Encoding, failures: Failures) -> pa.Array | None:
    """Return an array of `ColumnValues` in the column's type; None if its values must be converted one by one."""
    if pa.types.is_string(array.type):
        return _from_texts(array, type_, failures)
    if not pa.types.is_int64(array.type):
        return array
    if type_.name in RANGES:
        return column_of(array, type_, failures)
    unit = _unit(type_, encoding)
    try:
        counted = array.cast(pa.int32()) if unit.bit_width == 32 else array
    except pa.ArrowInvalid:
        return None
    return column_of(counted.view(unit), type_, failures)


def _array(values: list[Any], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return values as an array of a type; a value that does not fit is NULL and noted."""
    match type_.name:
        case "boolean":
            return pa.array(values, pa.bool_())
        case name if name in RANGES:
            return _whole(values, type_, failures)
        case "double precision":
            if not any(isinstance(value, str) for value in values):
                return pa.array(values, pa.float64())
            return from_text(
                pa.array([None if value is None else str(value) for value in values], pa.string()),
                type_,
                failures,
            )
        case name if name in _TEMPORAL:
            return _times(values, type_, encoding, failures)
        case "bytea":
            return pa.array(
                [_converted(_base64, value, row, failures) for row, value in enumerate(values)], pa.binary()
            )
        case "text" | "uuid":
            return _from_texts(pa.array(values, pa.string()), type_, failures)
    raws = [None if value is None or bytes(value) == b"null" else bytes(value) for value in values]
    if type_.name == "jsonb":
        return _from_texts(_jsons(raws), JSONB, failures)
    if type_.name in ("array", "list"):
        return _lists(raws, type_, encoding.items or DEFAULT, failures)
    if type_.name in ("map", "record"):
        members = [_converted(lambda text: member(text, type_), raw, row, failures) for row, raw in enumerate(raws)]
        return pa.array(members, arrow_type(type_))
    if type_.name == "numeric":
        texts = [
            _converted(lambda text: _digits(text, encoding.scale), raw, row, failures) for row, raw in enumerate(raws)
        ]
        return from_text(pa.array(texts, pa.string()), type_, failures)
    return _from_texts(_jsons(raws), type_, failures)


def _lists(raws: Sequence[bytes | None], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return arrays, whose elements are encoded like columns of their type."""
    element = type_.item
    decode = _items(element)

    def decoded(raw: bytes) -> list[Any]:
        try:
            return decode(raw)
        except msgspec.MsgspecError as error:
            message, _, within = str(error).partition(" - at `$")
            wanted = element if within else type_
            raise ValueError(f"expected {wanted}, got {message.rpartition('got ')[2].strip('`')}") from None

    items_by_row = [_converted(decoded, raw, row, failures) for row, raw in enumerate(raws)]
    return lists(
        [item for items in items_by_row for item in items or ()],
        pa.array([None if items is None else len(items) for items in items_by_row], pa.int32()),
        type_,
        failures,
        lambda values, inner, item_failures: _array(values, inner, encoding, item_failures),
    )


@cache
def _items(element: Type) -> Callable[[bytes], list[Any]]:
    return msgspec.json.Decoder(list[decoded_as(element)]).decode  # type: ignore[misc]  # a type created at run time


def _whole(values: list[Any], type_: Type, failures: Failures) -> pa.Array:
    try:
        return column_of(pa.array(values, pa.int64()), type_, failures)
    except (pa.ArrowInvalid, OverflowError):
        texts = pa.array([None if value is None else str(value) for value in values], pa.string())
        return _from_texts(texts, type_, failures)


def _from_texts(texts: pa.StringArray, type_: Type, failures: Failures) -> pa.Array:
    failures.update(dict.fromkeys(placeholders(texts), UNSENT))
    text_failures: Failures = {}
    array = from_text(texts, type_, text_failures)
    for row, why in text_failures.items():
        failures.setdefault(row, why)
    return array


def _times(values: list[Any], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return dates and times from numbers and texts."""
    if not any(isinstance(value, str) for value in values):
        return _counted(values, type_, encoding, failures)
    numbers = _counted([None if isinstance(value, str) else value for value in values], type_, encoding, failures)
    texts = [value if isinstance(value, str) else None for value in values]
    if type_ == INTERVAL:
        texts = [_converted(_interval_from_iso, text, row, failures) for row, text in enumerate(texts)]
    return pc.coalesce(numbers, _from_texts(pa.array(texts, pa.string()), type_, failures))


def _counted(values: list[Any], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return dates and times from numbers that count days, or units of the encoding."""
    if type_ == INTERVAL:
        return pa.array([_converted(lambda count: _duration(count, encoding.unit), value, row, failures)
                         for row, value in enumerate(values)], pa.string())  # fmt: skip
    unit = _unit(type_, encoding)
    whole = pa.int32() if unit.bit_width == 32 else pa.int64()
    try:
        counted = pa.array(values, whole)
    except (pa.ArrowInvalid, OverflowError):
        most = 2 ** (unit.bit_width - 1)
        far = {row for row, value in enumerate(values) if value is not None and not -most <= value < most}
        failures.update({row: f"{values[row]} does not fit" for row in far})
        counted = pa.array([None if row in far else value for row, value in enumerate(values)], whole)
    column_failures: Failures = {}
    array = column_of(counted.view(unit), type_, column_failures)
    failures.update(column_failures)
    return array


def _unit(type_: Type, encoding: Encoding) -> pa.DataType:
    """Return the Arrow type whose numbers count as those of a date or time do."""
    match type_.name:
        case "date":
            return pa.date32()
        case "time":
            return pa.time32("ms") if encoding.unit == "ms" else pa.time64(encoding.unit)
        case _:
            return pa.timestamp(encoding.unit, "UTC" if type_.name == "timestamptz" else None)


def _converted(convert: Callable[[Any], Any], value: Any, row: int, failures: Failures) -> Any:
    """Return a converted value; None if it is missing or does not fit."""
    if value is None:
        return None
    try:
        return convert(value)
    except (ValueError, MemberError, msgspec.MsgspecError) as error:
        failures.setdefault(row, str(error))
        return None


def _base64(text: str) -> bytes:
    if text == PLACEHOLDER:
        raise ValueError(UNSENT)
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not in base64") from None


def _jsons(raws: Sequence[bytes | None]) -> pa.StringArray:
    """Return JSON, which may be in texts."""
    return pa.array([None if raw is None else _unquoted(raw) for raw in raws], pa.string())


def _unquoted(raw: bytes) -> str:
    return str(msgspec.json.decode(raw)) if raw[:1] == b'"' else raw.decode()


def _digits(raw: bytes, scale: int | None) -> str:
    """Return a decimal's text, from a number, a text, a base64 integer, or one with its scale."""
    if raw[:1] == b"{":
        scaled = _SCALED.decode(raw)
        return _unscaled(scaled.value, scaled.scale)
    text = _unquoted(raw)
    return text if scale is None or raw[:1] != b'"' else _unscaled(text, scale)


class _Scaled(msgspec.Struct):
    scale: int
    value: str


_SCALED = codec.decoder(_Scaled)


def _unscaled(text: str, scale: int) -> str:
    number = int.from_bytes(_base64(text), "big", signed=True)
    return format(Decimal(number).scaleb(-scale, _WIDE), "f")


def _duration(count: int, unit: str) -> str:
    if unit == "ns" and count % 1000:
        raise ValueError(f"{count} nanoseconds are not a whole number of microseconds")
    return show_interval(Interval(micros=count // 1000 if unit == "ns" else count))


def _interval_from_iso(text: str) -> str:
    """Return an interval in ISO 8601 as Postgres writes it."""
    match = _ISO.fullmatch(text)
    if match is None or text == "P":
        return text
    years, months, days, hours, minutes = (int(part or 0) for part in match.groups()[:5])
    micros = int(Decimal(match[6] or 0).scaleb(6)) + (hours * 3600 + minutes * 60) * 1_000_000
    return show_interval(Interval(years * 12 + months, days, micros))
