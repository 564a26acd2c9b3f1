"""Messages of Protobuf → a row each, read by the type that the source was planned with."""

from __future__ import annotations

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
from sinkql.connectors.confluent.protobuf_schema import WELL_KNOWN, Descriptor, Types, compiled, is_map
from sinkql.connectors.confluent.registry import Access, UnknownSchemaError, access_of, opened
from sinkql.decode.arrow_values import column_of
from sinkql.decode.text_column import Failures
from sinkql.logical import Interval
from sinkql.logical.time import show_interval
from sinkql.logical.type import JSONB, Type

_HEAD = 5
_MOST_INDEXES = 64


@dataclass(frozen=True)
class ProtobufMessages:
    """Decode messages of a type; `descriptors` have it.

    With `wire` the id of a schema and the place of the type in it stand before each.
    """

    columns: tuple[physical.Column, ...]
    descriptors: bytes = field(repr=False)
    message: str
    wire: bool
    registry: Access | None = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufMessages, (self.columns, self.descriptors, self.message, self.wire, self.registry)

    @cached_property
    def _type(self) -> Descriptor:
        return Types(self.descriptors).named(self.message)

    @cached_property
    def _parse(self) -> Callable[[bytes], Any]:
        from google.protobuf.message_factory import GetMessageClass

        found: Callable[[bytes], Any] = GetMessageClass(self._type).FromString
        return found

    @staticmethod
    def of(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> ProtobufMessages:
        """Return the decoder of planned options; raises SQ4266."""
        descriptors = compiled(options["schema"], dict(options["references"]))
        registry = access_of(options, context)
        return ProtobufMessages(tuple(columns), descriptors, options["message"], registry is not None, registry)

    @cached_property
    def _readers(self) -> list[Callable[[Any], Any]]:
        return [_reader(self._type.fields_by_name[each.name], each.type) for each in self.columns]

    @cached_property
    def _heads(self) -> dict[bytes, str | None]:
        return {}

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raises SQ426x where the registry does not answer."""
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        failures: Failures = {}
        empty = GetMessageClass(self._type)()
        rows = []
        for place, message in enumerate(messages):
            try:
                row = self._parse(self._body(message))
                if not row.IsInitialized():
                    raise ValueError(f"it has no {', '.join(row.FindInitializationErrors())}, which is required")
                rows.append(row)
            except DecodeError:
                failures[place] = f"it is not a message {self.message}"
                rows.append(empty)
            except ValueError as error:
                failures[place] = str(error)
                rows.append(empty)
        arrays = [
            self._column(column, reader, rows, failures)
            for column, reader in zip(self.columns, self._readers, strict=True)
        ]
        return DecodedMessages(pa.record_batch(arrays, names=[each.name for each in self.columns]), failures)

    def _column(
        self, column: physical.Column, reader: Callable[[Any], Any], rows: Sequence[Any], failures: Failures
    ) -> pa.Array:
        own: Failures = {}
        values = []
        for row, message in enumerate(rows):
            try:
                values.append(reader(message))
            except ValueError as error:
                own[row] = str(error)
                values.append(None)
        array = column_of(pa.array(values, _held(column.type)), column.type, own)
        for row, why in own.items():
            failures.setdefault(row, f'column "{column.name}": {why}')
        return array

    def _body(self, message: bytes) -> bytes:
        """Return a message without what stands before it; raises ValueError."""
        if not self.wire:
            return message
        if len(message) <= _HEAD:
            raise ValueError("it is cut off before the id of its schema")
        if message[0]:
            raise ValueError(f"it begins with the byte 0x{message[0]:02x}, and not with 0x00 and the id of its schema")
        indexes, end = _indexes(message)
        head = message[:end]
        if head not in self._heads:
            self._heads[head] = self._wrong(int.from_bytes(message[1:_HEAD], "big"), indexes)
        why = self._heads[head]
        if why is not None:
            raise ValueError(why)
        return message[end:]

    def _wrong(self, id_: int, indexes: tuple[int, ...]) -> str | None:
        """Return why messages of a schema, of the type at a place in it, are not those that are read."""
        assert self.registry is not None
        try:
            name = _type_name(self.registry, id_, indexes)
        except ValueError as error:
            return str(error)
        return None if name == self._type.full_name else f"it is a message {name}, and not {self._type.full_name}"


def _indexes(message: bytes) -> tuple[tuple[int, ...], int]:
    """Return the place of a message's type in its schema, and where that ends; one zero is the first one."""
    count, at = _number(message, _HEAD)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise ValueError("the place of its type cannot be read")
    found = []
    for _ in range(count):
        index, at = _number(message, at)
        found.append(index)
    return tuple(found), at


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 35:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError("the place of its type cannot be read")


@lru_cache(maxsize=1024)
def _types(registry: Access, id_: int) -> Types:
    try:
        found = opened(registry, os.getpid()).schema(id_)
    except UnknownSchemaError:
        raise ValueError(f"the registry has no schema {id_}") from None
    if found.kind != "PROTOBUF":
        raise ValueError(f"schema {id_} is not one of Protobuf, but of {found.kind}")
    try:
        return Types(compiled(found.text, found.references))
    except ValueError as error:
        raise ValueError(f"schema {id_} cannot be used: {error}") from None


def _type_name(registry: Access, id_: int, indexes: tuple[int, ...]) -> str:
    return str(_types(registry, id_).at(indexes).full_name)


# --- values -----------------------------------------------------------------------------------------------------------


def _held(type_: Type) -> pa.DataType:
    """Return the type of the array that values are put into; SQL's own but for unsigned numbers."""
    unsigned = {"uint4": pa.uint32(), "uint8": pa.uint64()}
    if type_.name in unsigned:
        return unsigned[type_.name]
    if type_.name == "map":
        return pa.map_(pa.string(), _held(type_.value))
    if type_.name == "record":
        return pa.struct([(each.name, _held(each.type)) for each in type_.fields])
    return pa.list_(_held(type_.element)) if type_.element is not None else arrow_type(type_)


def _reader(own: Descriptor, type_: Type) -> Callable[[Any], Any]:
    """Return what takes the value of a field of a message."""
    get: Callable[[Any], Any] = attrgetter(own.name)
    if type_ == JSONB and not _single_known(own):
        return _json_reader(own)
    if is_map(own):
        value = _value_reader(own.message_type.fields_by_name["value"], type_.value)
        return lambda message: [(_key(key), value(each)) for key, each in get(message).items()]
    if own.is_repeated:
        item = _value_reader(own, type_.item)
        return lambda message: [item(each) for each in get(message)]
    one = _value_reader(own, type_)
    if not own.has_presence:
        return get if own.message_type is None and own.enum_type is None else lambda message: one(get(message))
    name = own.name
    return lambda message: one(get(message)) if message.HasField(name) else None


def _single_known(own: Descriptor) -> bool:
    return not own.is_repeated and own.message_type is not None and own.message_type.full_name in WELL_KNOWN


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(key).lower() if isinstance(key, bool) else str(key)


def _value_reader(own: Descriptor, type_: Type) -> Callable[[Any], Any]:
    """Return what makes a value of a field, or of one of its elements, one that an array takes."""
    if own.enum_type is not None:
        names = {each.number: each.name for each in own.enum_type.values}
        return lambda number: names.get(number, str(number))
    inner = own.message_type
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
    readers = {each.name: _reader(inner.fields_by_name[each.name], each.type) for each in type_.fields}
    return lambda value: {name: read(value) for name, read in readers.items()}


def _same(value: Any) -> Any:
    return value


def _micros(value: Any) -> int:
    if value.nanos % 1000:
        raise ValueError(f"{value.seconds}.{abs(value.nanos):09d} seconds have more than six digits of a fraction")
    found: int = value.seconds * 1_000_000 + value.nanos // 1000
    if not -(2**63) <= found < 2**63:
        raise ValueError(f"{value.seconds} seconds do not fit")
    return found


def _as_json(value: Any) -> str:
    from google.protobuf.json_format import Error, MessageToJson

    try:
        return str(MessageToJson(value, preserving_proto_field_name=True, indent=None))
    except (Error, RecursionError) as error:
        raise ValueError(f"it cannot be written as JSON: {error}") from None


def _json_reader(own: Descriptor) -> Callable[[Any], Any]:
    """Return what gives a field as JSON."""
    import json

    name = own.name

    def read(message: Any) -> str | None:
        if own.is_repeated:
            found = getattr(message, name)
            if is_map(own):
                return json.dumps({_key(key): json.loads(_as_json(each)) for key, each in found.items()})
            return json.dumps([json.loads(_as_json(each)) for each in found])
        if own.has_presence and not message.HasField(name):
            return None
        return _as_json(getattr(message, name))

    return read
