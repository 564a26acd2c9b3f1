"""Decode Debezium's messages in JSON, with or without their schema, to changes of rows of declared columns.

The schema of a message tells the encoding of its values. Without it, the declared types decide: numbers count days for
a date, and microseconds for times, timestamps and intervals. A bytea is in base64, and JSON is a text.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import codec, physical
from sinkql.connector_api.stream import DecodedMessages
from sinkql.connector_api.types import arrow_type
from sinkql.decode.arrow_values import column_of, lists
from sinkql.decode.json_lines import MemberError, member
from sinkql.decode.messages import (
    ALIVE,
    EMPTIED,
    GONE,
    NO_KEY,
    NO_ROW,
    NO_TRUNCATE,
    OTHER,
    PLACEHOLDER,
    UNSENT,
    Part,
    changes,
    unknown,
)  # fmt: skip
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
_MOST_SCHEMAS = 64


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of a field by the schema: the unit of numbers, the scale of decimals, and the encoding of items."""

    unit: str = "us"
    scale: int | None = None
    items: Encoding | None = None


_DEFAULT = Encoding()


@dataclass(frozen=True)
class JsonChanges:
    """Decode changes. `key` names the columns of a deleted row; they come from `before` if keys are not read."""

    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonChanges, (self.columns, self.key)

    @cached_property
    def _row(self) -> type:
        """Return the type of rows, whose fields are named by column numbers."""
        return _row_of(self.columns, range(len(self.columns)))

    @cached_property
    def _key_row(self) -> type:
        """Return the type of keys; other fields of a deleted row are ignored, and may be wrong."""
        return _row_of(self.columns, [place for place, column in enumerate(self.columns) if column.name in self.key])

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        change: list[Any] = [
            ("op", str | None, None), ("after", self._row | None | msgspec.UnsetType, msgspec.UNSET),
            ("before", msgspec.Raw, msgspec.Raw(b"")),
        ]  # fmt: skip
        inner = msgspec.defstruct("Change", change, gc=False)
        whole = [
            *change,
            ("payload", inner | None | msgspec.UnsetType, msgspec.UNSET),
            ("schema", msgspec.Raw, msgspec.Raw(b"null")),
        ]
        return msgspec.json.Decoder(msgspec.defstruct("Message", whole, gc=False)).decode

    @cached_property
    def _decode_key(self) -> Callable[[Any], Any]:
        return msgspec.json.Decoder(self._key_row | None).decode

    @cached_property
    def _schemas(self) -> dict[bytes, Mapping[str, Encoding]]:
        return {}

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return the changes of messages as rows with `$diff`; raise WideError."""
        failures: Failures = {}
        rowless: list[int] = []
        alive: dict[int, tuple[Mapping[str, Encoding], list[int], list[Any]]] = {}
        deleted: dict[int, tuple[Mapping[str, Encoding], list[int], list[Any]]] = {}
        for place, value in enumerate(values):
            try:
                change = self._change(value) if value is not None else None
                if change is None:
                    rowless.append(place)
                    continue
                encodings, row, exists = change
            except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
                failures[place] = self._reason(error)
                continue
            _, places, rows = (alive if exists else deleted).setdefault(id(encodings), (encodings, [], []))
            places.append(place)
            rows.append(row)
        everything = [(column, place) for place, column in enumerate(self.columns)]
        living = [self._part(*group, everything, failures) for group in alive.values()]
        dead = [self._deleted_part(*group, keys, failures) for group in deleted.values()]
        return changes(self.columns, self.key, living, dead, failures, rowless)

    def _change(self, value: bytes) -> tuple[Mapping[str, Encoding], Any, bool] | None:
        """Return a row, its encoding, and whether it exists; None for a message without a row. Raise ValueError."""
        message = self._decode(value)
        encodings = _NO_ENCODINGS
        if message.payload is not msgspec.UNSET:
            if message.payload is None:
                return None
            encodings = self._encodings(message.schema)
            message = message.payload
        op, after, before = message.op, message.after, bytes(message.before)
        if op is None and after is not msgspec.UNSET and before:  # the form that sinks write
            op = GONE if after is None else ALIVE[0]
        if op in ALIVE:
            if not after:
                raise ValueError(NO_ROW)
            return encodings, after, True
        if op == GONE:
            return encodings, before or b"null", False
        if op == OTHER:
            return None
        raise ValueError(NO_TRUNCATE if op == EMPTIED else unknown(op))

    def _encodings(self, schema: msgspec.Raw) -> Mapping[str, Encoding]:
        """Return the encodings of the fields of rows; the messages of a table repeat their schema byte by byte."""
        text = bytes(schema)
        encodings = self._schemas.get(text)
        if encodings is None:
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            encodings = self._schemas[text] = _read_schema(text)
        return encodings

    def _deleted_part(
        self,
        encodings: Mapping[str, Encoding],
        places: list[int],
        rows: list[Any],
        keys: pa.RecordBatch | None,
        failures: Failures,
    ) -> Part:
        """Return the keys of deleted rows."""
        at = np.array(places, np.int64)
        if keys is not None:
            return Part(at, [keys.column(name).take(pa.array(at)) for name in self.key])
        key_rows = []
        for place, raw in zip(places, rows, strict=True):
            try:
                row = self._decode_key(raw)
                if row is None:
                    raise ValueError(NO_KEY)
            except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
                failures[place] = self._reason(error)
                row = self._key_row()
            key_rows.append(row)
        numbered = {column.name: (column, place) for place, column in enumerate(self.columns)}
        return self._part(encodings, places, key_rows, [numbered[name] for name in self.key], failures)

    def _part(
        self,
        encodings: Mapping[str, Encoding],
        places: list[int],
        rows: list[Any],
        columns: Sequence[tuple[physical.Column, int]],
        failures: Failures,
    ) -> Part:
        arrays = []
        for column, number in columns:
            column_failures: Failures = {}
            values = list(map(attrgetter(f"f{number}"), rows))
            array = _array(values, column, encodings.get(column.name, _DEFAULT), column_failures)
            for row, message in column_failures.items():
                failures.setdefault(places[row], f'column "{column.name}": {message}')
            if not column.nullable and array.null_count:
                for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
                    failures.setdefault(places[row], f'null value in column "{column.name}", which is NOT NULL')
            arrays.append(array)
        return Part(np.array(places, np.int64), arrays)

    def _reason(self, error: Exception) -> str:
        """Return why a message fails, with the names and types of columns."""
        if isinstance(error, RecursionError):
            return "it is nested too deeply"
        if isinstance(error, UnicodeDecodeError):
            return f"invalid UTF-8: 0x{error.object[error.start]:02x}"
        if not isinstance(error, msgspec.MsgspecError):
            return str(error)
        message, _, path = str(error).partition(" - at `$")
        name = path.rstrip("`").rpartition(".")[2]
        column = next((column for column in self.columns if column.name == name), None)
        if column is None or "got " not in message:
            why = message.removeprefix("JSON is malformed: ")
            return f"it is not a message of Debezium: {why[0].lower()}{why[1:]}"
        return f'column "{name}": expected {column.type}, got {message.rpartition("got ")[2].strip("`")}'


_NO_ENCODINGS: Mapping[str, Encoding] = {}


def _row_of(columns: Sequence[physical.Column], places: Sequence[int]) -> type:
    fields = [(f"f{place}", _decoded_as(columns[place].type), None) for place in places]
    return msgspec.defstruct("Row", fields, rename={f"f{place}": columns[place].name for place in places}, gc=False)


def _read_schema(text: bytes) -> Mapping[str, Encoding]:
    """Return the encodings of the fields of `after`; none if the schema is not Debezium's."""
    try:
        fields = msgspec.json.decode(text)["fields"]
        rows = next(field for field in fields if field.get("field") == "after")["fields"]
        return {field["field"]: _encoding(field) for field in rows}
    except (KeyError, TypeError, AttributeError, StopIteration):
        return {}


def _encoding(field: Mapping[str, Any]) -> Encoding:
    name = field.get("name") or ""
    unit = _UNITS.get(name.rpartition(".")[2], "us")
    scale = int(field.get("parameters", {}).get("scale", 0)) if name == _DECIMAL else None
    items = field.get("items")
    return Encoding(unit, scale, None if items is None else _encoding(items))


def _decoded_as(type_: Type) -> Any:
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


def _array(values: list[Any], column: physical.Column, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return the values as an array of the column's type; a value that does not fit is NULL and noted."""
    type_ = column.type
    match type_.name:
        case "boolean":
            return pa.array(values, pa.bool_())
        case name if name in RANGES:
            return _whole(values, column.type, failures)
        case "double precision":
            if not any(isinstance(value, str) for value in values):
                return pa.array(values, pa.float64())
            return from_text(
                pa.array([None if value is None else str(value) for value in values], pa.string()),
                column.type,
                failures,
            )
        case name if name in _TEMPORAL:
            return _times(values, column.type, encoding, failures)
        case "bytea":
            return pa.array(
                [_converted(_base64, value, row, failures) for row, value in enumerate(values)], pa.binary()
            )
        case "text" | "uuid":
            return _from_texts(values, column.type, failures)
    raws = [None if value is None or bytes(value) == b"null" else bytes(value) for value in values]
    if type_.name == "jsonb":
        return _from_texts([None if raw is None else _json(raw) for raw in raws], JSONB, failures)
    if type_.name in ("array", "list"):
        return _lists(raws, type_, encoding.items or _DEFAULT, failures)
    if type_.name in ("map", "record"):
        members = [_converted(lambda text: member(text, type_), raw, row, failures) for row, raw in enumerate(raws)]
        return pa.array(members, arrow_type(column.type))
    if type_.name == "numeric":
        texts = [
            _converted(lambda text: _digits(text, encoding.scale), raw, row, failures) for row, raw in enumerate(raws)
        ]
        return from_text(pa.array(texts, pa.string()), column.type, failures)
    return _from_texts([None if raw is None else _json(raw) for raw in raws], column.type, failures)


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
        lambda values, inner, item_failures: _array(values, physical.Column("", inner), encoding, item_failures),
    )


@cache
def _items(element: Type) -> Callable[[bytes], list[Any]]:
    return msgspec.json.Decoder(list[_decoded_as(element)]).decode  # type: ignore[misc]  # a type created at run time


def _whole(values: list[Any], type_: Type, failures: Failures) -> pa.Array:
    try:
        return column_of(pa.array(values, pa.int64()), type_, failures)
    except (pa.ArrowInvalid, OverflowError):
        return _from_texts([None if value is None else str(value) for value in values], type_, failures)


def _from_texts(values: Sequence[str | None], type_: Type, failures: Failures) -> pa.Array:
    for row, value in enumerate(values if PLACEHOLDER in values else ()):
        if value == PLACEHOLDER:
            failures[row] = UNSENT
    text_failures: Failures = {}
    array = from_text(pa.array(values, pa.string()), type_, text_failures)
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
    return pc.coalesce(numbers, _from_texts(texts, type_, failures))


def _counted(values: list[Any], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return dates and times from numbers that count days, or units of the encoding."""
    units = {"date": pa.date32(), "timestamp": pa.timestamp(encoding.unit),
             "timestamptz": pa.timestamp(encoding.unit, "UTC"),
             "time": pa.time32("ms") if encoding.unit == "ms" else pa.time64(encoding.unit)}  # fmt: skip
    if type_ == INTERVAL:
        return pa.array([_converted(lambda count: _duration(count, encoding.unit), value, row, failures)
                         for row, value in enumerate(values)], pa.string())  # fmt: skip
    unit = units[type_.name]
    try:
        counted = pa.array(values, pa.int32() if unit.bit_width == 32 else pa.int64())
    except (pa.ArrowInvalid, OverflowError):
        most = 2 ** (unit.bit_width - 1)
        far = [row for row, value in enumerate(values) if value is not None and not -most <= value < most]
        failures.update({row: f"{values[row]} does not fit" for row in far})
        near = [None if row in far else value for row, value in enumerate(values)]
        counted = pa.array(near, pa.int32() if unit.bit_width == 32 else pa.int64())
    column_failures: Failures = {}
    array = column_of(counted.view(unit), type_, column_failures)
    failures.update(column_failures)
    return array


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


def _json(raw: bytes) -> str:
    """Return JSON, which may be in a text."""
    return None if raw is None else _unquoted(raw)


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
