"""Decode Protobuf messages to rows, with the message type that the source was planned with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Context, DecodedMessages
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.confluent.options import ProtobufOptions
from sinkql.connectors.confluent.protobuf_schema import WELL_KNOWN, Descriptor, Types, compile_schema, is_map
from sinkql.connectors.confluent.registry import Access, UnknownSchemaError, access_of, open_registry
from sinkql.decode.arrow_values import column_of
from sinkql.decode.text_column import Failures
from sinkql.logical import Interval
from sinkql.logical.time import show_interval
from sinkql.logical.type import JSONB, Type

_HEADER = 5
_MOST_INDEXES = 64


@dataclass(frozen=True)
class ProtobufMessages:
    """A decoder of messages of one type in `descriptors`.

    With a registry, a header precedes each message: the id of a schema, and the indexes of the type in it.
    """

    columns: tuple[physical.Column, ...]
    descriptors: bytes = field(repr=False)
    message: str
    registry: Access | None = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufMessages, (self.columns, self.descriptors, self.message, self.registry)

    @cached_property
    def _type(self) -> Descriptor:
        return Types(self.descriptors).find(self.message)

    @cached_property
    def _parse(self) -> Callable[[bytes], Any]:
        from google.protobuf.message_factory import GetMessageClass

        parse: Callable[[bytes], Any] = GetMessageClass(self._type).FromString
        return parse

    @staticmethod
    def from_plan(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> ProtobufMessages:
        """Return the decoder of planned options. Raise SQ4266 if the extra is not installed."""
        planned = ProtobufOptions.from_plan(options)
        descriptors = compile_schema(planned.schema, dict(planned.references))
        registry = access_of(planned.tuning, context)
        return ProtobufMessages(tuple(columns), descriptors, planned.message, registry)

    @cached_property
    def _readers(self) -> list[Callable[[Any], Any]]:
        return [_reader(self._type.fields_by_name[column.name], column.type) for column in self.columns]

    @cached_property
    def _header_errors(self) -> dict[bytes, str | None]:
        return {}

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message. Raise SQ426x if the registry does not answer."""
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        failures: Failures = {}
        empty = GetMessageClass(self._type)()
        rows = []
        for index, message in enumerate(messages):
            try:
                row = self._parse(self._body(message))
                if not row.IsInitialized():
                    raise ValueError(f"it has no {', '.join(row.FindInitializationErrors())}, which is required")
                rows.append(row)
            except DecodeError:
                failures[index] = f"it is not a message {self.message}"
                rows.append(empty)
            except ValueError as error:
                failures[index] = str(error)
                rows.append(empty)
        arrays = [
            self._column(column, reader, rows, failures)
            for column, reader in zip(self.columns, self._readers, strict=True)
        ]
        return DecodedMessages(pa.record_batch(arrays, names=[column.name for column in self.columns]), failures)

    def _column(
        self, column: physical.Column, reader: Callable[[Any], Any], rows: Sequence[Any], failures: Failures
    ) -> pa.Array:
        reasons: Failures = {}
        values = []
        for row, message in enumerate(rows):
            try:
                values.append(reader(message))
            except ValueError as error:
                reasons[row] = str(error)
                values.append(None)
        array = column_of(pa.array(values, _stored_type(column.type)), column.type, reasons)
        for row, reason in reasons.items():
            failures.setdefault(row, f'column "{column.name}": {reason}')
        return array

    def _body(self, message: bytes) -> bytes:
        """Return a message without its header. Raise ValueError for an invalid header."""
        if self.registry is None:
            return message
        if len(message) <= _HEADER:
            raise ValueError("it is cut off before the id of its schema")
        if message[0]:
            raise ValueError(f"it begins with the byte 0x{message[0]:02x} instead of 0x00 and the id of its schema")
        indexes, end = _indexes(message)
        header, id_ = message[:end], int.from_bytes(message[1:_HEADER], "big")
        if header not in self._header_errors:
            self._header_errors[header] = self._header_error(self.registry, id_, indexes)
        reason = self._header_errors[header]
        if reason is not None:
            raise ValueError(reason)
        return message[end:]

    def _header_error(self, registry: Access, id_: int, indexes: tuple[int, ...]) -> str | None:
        """Return why messages with a header cannot be read; None if the header has the planned type."""
        try:
            name = _type_name(registry, id_, indexes)
        except ValueError as error:
            return str(error)
        expected = self._type.full_name
        return None if name == expected else f"it is a message {name}, but {expected} is expected"


def _indexes(message: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message's type in its schema, and the end of the header. A single 0 is the first type."""
    count, at = _number(message, _HEADER)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError("the indexes of its type cannot be read")
    indexes = []
    for _ in range(count):
        index, at = _number(message, at)
        indexes.append(index)
    return tuple(indexes), at


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 35:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError("the indexes of its type cannot be read")


@lru_cache(maxsize=1024)
def _types(registry: Access, id_: int) -> Types:
    try:
        schema = open_registry(registry, os.getpid()).schema(id_)
    except UnknownSchemaError:
        raise ValueError(f"the registry has no schema {id_}") from None
    if schema.kind != "PROTOBUF":
        raise ValueError(f"schema {id_} has the format {schema.kind}, not PROTOBUF")
    try:
        return Types(compile_schema(schema.text, schema.references))
    except ValueError as error:
        raise ValueError(f"schema {id_} is invalid: {error}") from None


def _type_name(registry: Access, id_: int, indexes: tuple[int, ...]) -> str:
    return str(_types(registry, id_).at(indexes).full_name)


# --- values -----------------------------------------------------------------------------------------------------------


def _stored_type(type_: Type) -> pa.DataType:
    """Return the type of an array of values: the one of the SQL type, or an unsigned integer."""
    unsigned = {"uint4": pa.uint32(), "uint8": pa.uint64()}
    if type_.name in unsigned:
        return unsigned[type_.name]
    if type_.name == "map":
        return pa.map_(pa.string(), _stored_type(type_.value))
    if type_.name == "record":
        return pa.struct([(field.name, _stored_type(field.type)) for field in type_.fields])
    return pa.list_(_stored_type(type_.element)) if type_.element is not None else arrow_type(type_)


def _reader(field: Descriptor, type_: Type) -> Callable[[Any], Any]:
    """Return a function that reads a field of a message."""
    get: Callable[[Any], Any] = attrgetter(field.name)
    if type_ == JSONB and not _is_single_well_known(field):
        return _json_reader(field)
    if is_map(field):
        convert_value = _value_reader(field.message_type.fields_by_name["value"], type_.value)
        return lambda message: [(_key_text(key), convert_value(value)) for key, value in get(message).items()]
    if field.is_repeated:
        convert_item = _value_reader(field, type_.item)
        return lambda message: [convert_item(item) for item in get(message)]
    convert = _value_reader(field, type_)
    if not field.has_presence:
        return get if field.message_type is None and field.enum_type is None else lambda message: convert(get(message))
    name = field.name
    return lambda message: convert(get(message)) if message.HasField(name) else None


def _is_single_well_known(field: Descriptor) -> bool:
    return not field.is_repeated and field.message_type is not None and field.message_type.full_name in WELL_KNOWN


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else str(key).lower() if isinstance(key, bool) else str(key)


def _value_reader(field: Descriptor, type_: Type) -> Callable[[Any], Any]:
    """Return a function that converts a value of a field, or one of its elements, for an array."""
    if field.enum_type is not None:
        names = {member.number: member.name for member in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    inner = field.message_type
    if inner is None:
        return _same
    match inner.full_name:
        case "google.protobuf.Timestamp":
            return _micros
        case "google.protobuf.Duration":
            return lambda value: show_interval(Interval(micros=_micros(value)))
        case "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.ListValue":
            return _as_json
        case name if name in WELL_KNOWN:
            return attrgetter("value")
    if type_ == JSONB:
        return _as_json
    readers = {part.name: _reader(inner.fields_by_name[part.name], part.type) for part in type_.fields}
    return lambda value: {name: read(value) for name, read in readers.items()}


def _same(value: Any) -> Any:
    return value


def _micros(value: Any) -> int:
    if value.nanos % 1000:
        raise ValueError(f"{value.seconds}.{abs(value.nanos):09d} seconds have more than six decimals")
    micros: int = value.seconds * 1_000_000 + value.nanos // 1000
    if not -(2**63) <= micros < 2**63:
        raise ValueError(f"{value.seconds} seconds are out of range")
    return micros


def _as_json(value: Any) -> str:
    from google.protobuf.json_format import Error, MessageToJson

    try:
        return str(MessageToJson(value, preserving_proto_field_name=True, indent=None))
    except (Error, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None


def _json_reader(field: Descriptor) -> Callable[[Any], Any]:
    """Return a function that reads a field as JSON."""
    name = field.name

    def read(message: Any) -> str | None:
        if field.is_repeated:
            values = getattr(message, name)
            if is_map(field):
                return json.dumps({_key_text(key): json.loads(_as_json(value)) for key, value in values.items()})
            return json.dumps([json.loads(_as_json(value)) for value in values])
        if field.has_presence and not message.HasField(name):
            return None
        return _as_json(getattr(message, name))

    return read
