"""Encode rows as Avro messages, each with the id of its schema before it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pyarrow as pa

from sinkql import logical, physical
from sinkql.connector_api.stream import Context
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.confluent.avro.plan import avro_names, derive_schema
from sinkql.connectors.confluent.options import AvroWriteOptions
from sinkql.connectors.confluent.registry import Registry

_AS_INTEGERS = {"date": pa.int32(), "time": pa.int64(), "timestamp": pa.int64(), "timestamptz": pa.int64()}


@dataclass(frozen=True, slots=True)
class AvroRows:
    """A `MessageEncoder` that writes each row as a record of the schema with an id in the registry."""

    columns: tuple[physical.Column, ...]
    schema: str
    id: int

    @classmethod
    def from_plan(cls, options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> AvroRows:
        """Register the schema of the columns, unless the registry has it, and return the encoder. Raise SQ426x."""
        planned = AvroWriteOptions.from_plan(options)
        text, registry = msgspec.json.encode(derive_schema(columns, planned)).decode(), planned.tuning.registry
        client = Registry(registry.name, registry.options, context.secret, registry.tunnel)
        try:
            if planned.compatibility is not None:
                client.set_compatibility(planned.subject, planned.compatibility)
            return cls(tuple(columns), text, client.register(planned.subject, text))
        finally:
            client.close()

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the message of each row."""
        schema = fastavro.parse_schema(msgspec.json.decode(self.schema))
        names = avro_names(column.name for column in self.columns)
        values = [_avro_values(rows.column(column.name), column.type) for column in self.columns]
        header, messages = struct.pack(">bI", 0, self.id), []
        for row in zip(*values, strict=True):
            stream = BytesIO()
            stream.write(header)
            fastavro.schemaless_writer(stream, schema, dict(zip(names, row, strict=True)))
            messages.append(stream.getvalue())
        return messages


def _avro_values(column: pa.Array, type_: logical.Type) -> list[Any]:
    """Return a column's values for Avro's writer: dates and times are integers."""
    values = column.cast(_integer_type(type_)).to_pylist()
    convert = _converter(type_)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _integer_type(type_: logical.Type) -> pa.DataType:
    if type_.name in _AS_INTEGERS:
        return _AS_INTEGERS[type_.name]
    if type_.element is not None:
        return pa.list_(_integer_type(type_.element))
    if type_.name == "record":
        return pa.struct([(field.name, _integer_type(field.type)) for field in type_.fields])
    return arrow_type(type_)


def _converter(type_: logical.Type) -> Callable[[Any], Any] | None:
    """Return a function that converts a nested value for Avro's writer; None if no conversion is needed."""
    if type_.name == "map":
        inner = _null_safe(_converter(type_.value))
        return lambda value: {entry["key"]: inner(entry["value"]) for entry in value}
    if type_.element is not None:
        inner = _null_safe(_converter(type_.element))
        return lambda value: [inner(item) for item in value]
    if type_.name == "record":
        fields, names = type_.fields, avro_names(field.name for field in type_.fields)
        parts = [(field.name, _null_safe(_converter(field.type))) for field in fields]
        return lambda value: {name: part(value[column]) for name, (column, part) in zip(names, parts, strict=True)}
    return None


def _null_safe(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)
