"""Debezium's messages in JSON, with their schema or without → rows that change, of declared columns.

With its schema a message says what its values are. Without one, the declared types tell: numbers are days for a date,
and microseconds for times, timestamps and intervals; a bytea is in base64, and JSON a text.
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
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Encoding:
    """What the schema of a message says of a field: the unit of numbers, the scale of decimals, and those of items."""

    unit: str = "us"
    scale: int | None = None
    items: Encoding | None = None


_USUAL = Encoding()


@dataclass(frozen=True)
class JsonChanges:
    """Decode changes; `key` names columns, which are those of `before` where the messages' own keys are not read."""

    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonChanges, (self.columns, self.key)

    @cached_property
    def _row(self) -> type:
        """Return the type of rows, with fields of the columns' numbers."""
        return _row_of(self.columns, range(len(self.columns)))

    @cached_property
    def _key_row(self) -> type:
        """Return the type of keys; what else there was says nothing of a row that is gone, and may be wrong."""
        return _row_of(self.columns, [place for place, each in enumerate(self.columns) if each.name in self.key])

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
        """Return the rows that messages tell, with `$diff`; raises WideError."""
        failures: Failures = {}
        rowless: list[int] = []
        alive: dict[int, tuple[Mapping[str, Encoding], list[int], list[Any]]] = {}
        gone: dict[int, tuple[Mapping[str, Encoding], list[int], list[Any]]] = {}
        for place, value in enumerate(values):
            try:
                found = self._change(value) if value is not None else None
                if found is None:
                    rowless.append(place)
                    continue
                encodings, row, there = found
            except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
                failures[place] = self._reason(error)
                continue
            _, places, rows = (alive if there else gone).setdefault(id(encodings), (encodings, [], []))
            places.append(place)
            rows.append(row)
        everything = [(column, place) for place, column in enumerate(self.columns)]
        living = [self._part(*each, everything, failures) for each in alive.values()]
        dead = [self._dead(*each, keys, failures) for each in gone.values()]
        return changes(self.columns, self.key, living, dead, failures, rowless)

    def _change(self, value: bytes) -> tuple[Mapping[str, Encoding], Any, bool] | None:
        """Return a row, how it is written, and whether it is there; None for a message of no row. Raises ValueError."""
        found = self._decode(value)
        encodings = _NONE
        if found.payload is not msgspec.UNSET:
            if found.payload is None:
                return None
            encodings = self._encodings(found.schema)
            found = found.payload
        op, after, before = found.op, found.after, bytes(found.before)
        if op is None and after is not msgspec.UNSET and before:  # as sinks write it
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
        """Return what a schema says of the fields of rows; messages of one table have the same, byte by byte."""
        text = bytes(schema)
        known = self._schemas.get(text)
        if known is None:
            if len(self._schemas) >= _KEPT:
                self._schemas.clear()
            known = self._schemas[text] = _read_schema(text)
        return known

    def _dead(
        self,
        encodings: Mapping[str, Encoding],
        places: list[int],
        rows: list[Any],
        keys: pa.RecordBatch | None,
        failures: Failures,
    ) -> Part:
        """Return the keys of rows that are gone."""
        at = np.array(places, np.int64)
        if keys is not None:
            return Part(at, [keys.column(name).take(pa.array(at)) for name in self.key])
        held = []
        for place, raw in zip(places, rows, strict=True):
            try:
                row = self._decode_key(raw)
                if row is None:
                    raise ValueError(NO_KEY)
            except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
                failures[place] = self._reason(error)
                row = self._key_row()
            held.append(row)
        known = {column.name: (column, place) for place, column in enumerate(self.columns)}
        return self._part(encodings, places, held, [known[name] for name in self.key], failures)

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
            own: Failures = {}
            values = list(map(attrgetter(f"f{number}"), rows))
            array = _array(values, column, encodings.get(column.name, _USUAL), own)
            for row, message in own.items():
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
        column = next((each for each in self.columns if each.name == name), None)
        if column is None or "got " not in message:
            why = message.removeprefix("JSON is malformed: ")
            return f"it is not a message of Debezium: {why[0].lower()}{why[1:]}"
        return f'column "{name}": expected {column.type}, got {message.rpartition("got ")[2].strip("`")}'


_NONE: Mapping[str, Encoding] = {}


def _row_of(columns: Sequence[physical.Column], places: Sequence[int]) -> type:
    fields = [(f"f{place}", _decoded_as(columns[place].type), None) for place in places]
    return msgspec.defstruct("Row", fields, rename={f"f{place}": columns[place].name for place in places}, gc=False)


def _read_schema(text: bytes) -> Mapping[str, Encoding]:
    """Return the encodings of the fields of `after`; none where the schema is not one of Debezium's."""
    try:
        fields = msgspec.json.decode(text)["fields"]
        rows = next(each for each in fields if each.get("field") == "after")["fields"]
        return {each["field"]: _encoding(each) for each in rows}
    except (KeyError, TypeError, AttributeError, StopIteration):
        return {}


def _encoding(field: Mapping[str, Any]) -> Encoding:
    name = field.get("name") or ""
    unit = _UNITS.get(name.rpartition(".")[2], "us")
    scale = int(field.get("parameters", {}).get("scale", 0)) if name == _DECIMAL else None
    items = field.get("items")
    return Encoding(unit, scale, None if items is None else _encoding(items))


def _decoded_as(type_: Type) -> Any:
    """Return what a member is decoded as; numbers that must be exact by their text."""
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
    """Return the values as an array of the column's type; one that does not fit is NULL, and noted."""
    type_ = column.type
    match type_.name:
        case "boolean":
            return pa.array(values, pa.bool_())
        case name if name in RANGES:
            return _whole(values, column.type, failures)
        case "double precision":
            if not any(isinstance(each, str) for each in values):
                return pa.array(values, pa.float64())
            return from_text(
                pa.array([None if each is None else str(each) for each in values], pa.string()), column.type, failures
            )
        case name if name in _TEMPORAL:
            return _moments(values, column.type, encoding, failures)
        case "bytea":
            return pa.array([_each(_base64, each, row, failures) for row, each in enumerate(values)], pa.binary())
        case "text" | "uuid":
            return _texts(values, column.type, failures)
    raws = [None if each is None or bytes(each) == b"null" else bytes(each) for each in values]
    if type_.name == "jsonb":
        return _texts([None if each is None else _json(each) for each in raws], JSONB, failures)
    if type_.name in ("array", "list"):
        return _lists(raws, type_, encoding.items or _USUAL, failures)
    if type_.name in ("map", "record"):
        found = [_each(lambda raw: member(raw, type_), each, row, failures) for row, each in enumerate(raws)]
        return pa.array(found, arrow_type(column.type))
    if type_.name == "numeric":
        texts = [_each(lambda raw: _digits(raw, encoding.scale), each, row, failures) for row, each in enumerate(raws)]
        return from_text(pa.array(texts, pa.string()), column.type, failures)
    return _texts([None if each is None else _json(each) for each in raws], column.type, failures)


def _lists(raws: Sequence[bytes | None], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return arrays, whose elements are written as columns of their type are."""
    element = type_.item
    decode = _items(element)

    def held(raw: bytes) -> list[Any]:
        try:
            return decode(raw)
        except msgspec.MsgspecError as error:
            message, _, within = str(error).partition(" - at `$")
            wanted = element if within else type_
            raise ValueError(f"expected {wanted}, got {message.rpartition('got ')[2].strip('`')}") from None

    found = [_each(held, raw, row, failures) for row, raw in enumerate(raws)]
    return lists(
        [each for items in found for each in items or ()],
        pa.array([None if items is None else len(items) for items in found], pa.int32()),
        type_,
        failures,
        lambda values, inner, own: _array(values, physical.Column("", inner), encoding, own),
    )


@cache
def _items(element: Type) -> Callable[[bytes], list[Any]]:
    return msgspec.json.Decoder(list[_decoded_as(element)]).decode  # type: ignore[misc]  # a type made when it runs


def _whole(values: list[Any], type_: Type, failures: Failures) -> pa.Array:
    try:
        return column_of(pa.array(values, pa.int64()), type_, failures)
    except (pa.ArrowInvalid, OverflowError):
        return _texts([None if each is None else str(each) for each in values], type_, failures)


def _texts(values: Sequence[str | None], type_: Type, failures: Failures) -> pa.Array:
    for row, value in enumerate(values if PLACEHOLDER in values else ()):
        if value == PLACEHOLDER:
            failures[row] = UNSENT
    own: Failures = {}
    found = from_text(pa.array(values, pa.string()), type_, own)
    for row, why in own.items():
        failures.setdefault(row, why)
    return found


def _moments(values: list[Any], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return dates and times, of numbers and of texts."""
    if not any(isinstance(each, str) for each in values):
        return _counted(values, type_, encoding, failures)
    numbers = _counted([None if isinstance(each, str) else each for each in values], type_, encoding, failures)
    texts = [each if isinstance(each, str) else None for each in values]
    if type_ == INTERVAL:
        texts = [_each(_iso, each, row, failures) for row, each in enumerate(texts)]
    return pc.coalesce(numbers, _texts(texts, type_, failures))


def _counted(values: list[Any], type_: Type, encoding: Encoding, failures: Failures) -> pa.Array:
    """Return dates and times of numbers, which count days or what the encoding says."""
    units = {"date": pa.date32(), "timestamp": pa.timestamp(encoding.unit),
             "timestamptz": pa.timestamp(encoding.unit, "UTC"),
             "time": pa.time32("ms") if encoding.unit == "ms" else pa.time64(encoding.unit)}  # fmt: skip
    if type_ == INTERVAL:
        return pa.array([_each(lambda each: _duration(each, encoding.unit), each, row, failures)
                         for row, each in enumerate(values)], pa.string())  # fmt: skip
    unit = units[type_.name]
    try:
        counted = pa.array(values, pa.int32() if unit.bit_width == 32 else pa.int64())
    except (pa.ArrowInvalid, OverflowError):
        most = 2 ** (unit.bit_width - 1)
        far = [row for row, each in enumerate(values) if each is not None and not -most <= each < most]
        failures.update({row: f"{values[row]} does not fit" for row in far})
        kept = [None if row in far else each for row, each in enumerate(values)]
        counted = pa.array(kept, pa.int32() if unit.bit_width == 32 else pa.int64())
    own: Failures = {}
    found = column_of(counted.view(unit), type_, own)
    failures.update(own)
    return found


def _each(convert: Callable[[Any], Any], value: Any, row: int, failures: Failures) -> Any:
    """Return a value converted, None where it is not there or does not fit."""
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
    return str(msgspec.json.decode(raw)) if raw[:1] == b'"' else raw.decode()


def _digits(raw: bytes, scale: int | None) -> str:
    """Return a decimal's text: of a number, a text, whole numbers in base64, or these with their scale beside them."""
    if raw[:1] == b"{":
        found = _SCALED.decode(raw)
        return _unscaled(found.value, found.scale)
    text = _json(raw)
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
        raise ValueError(f"{count} nanoseconds are no whole microseconds")
    return show_interval(Interval(micros=count // 1000 if unit == "ns" else count))


def _iso(text: str) -> str:
    """Return an interval as Postgres writes it, of one as ISO 8601 does."""
    found = _ISO.fullmatch(text)
    if found is None or text == "P":
        return text
    years, months, days, hours, minutes = (int(each or 0) for each in found.groups()[:5])
    micros = int(Decimal(found[6] or 0).scaleb(6)) + (hours * 3600 + minutes * 60) * 1_000_000
    return show_interval(Interval(years * 12 + months, days, micros))
