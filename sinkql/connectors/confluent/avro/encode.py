"""Rows → messages of Avro, each with the id of its schema before it; a `MessageEncoder`."""

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
from sinkql.connectors.confluent.avro.plan import avro_names, derived
from sinkql.connectors.confluent.registry import Registry

_AS_INTEGERS = {"date": pa.int32(), "time": pa.int64(), "timestamp": pa.int64(), "timestamptz": pa.int64()}


@dataclass(frozen=True, slots=True)
class AvroRows:
    """A record a row, of the schema that the registry has under this id."""

    columns: tuple[physical.Column, ...]
    schema: str
    id: int

    @classmethod
    def of(cls, options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> AvroRows:
        """Register the schema of these columns, unless the registry has it; raises SQ426x."""
        text = msgspec.json.encode(derived(columns, options)).decode()
        registry = options["tuning"]["registry"]
        client = Registry(registry["name"], registry["options"], context.secret, registry.get("tunnel"))
        try:
            if options.get("compatibility") is not None:
                client.set_compatibility(options["subject"], options["compatibility"])
            return cls(tuple(columns), text, client.register(options["subject"], text))
        finally:
            client.close()

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the message of each row."""
        schema = fastavro.parse_schema(msgspec.json.decode(self.schema))
        names = avro_names(column.name for column in self.columns)
        values = [_values(rows.column(each.name), each.type) for each in self.columns]
        head, found = struct.pack(">bI", 0, self.id), []
        for row in zip(*values, strict=True):
            stream = BytesIO()
            stream.write(head)
            fastavro.schemaless_writer(stream, schema, dict(zip(names, row, strict=True)))
            found.append(stream.getvalue())
        return found


def _values(column: pa.Array, type_: logical.Type) -> list[Any]:
    """Return a column's values as Avro's writer takes them: days and microseconds are integers."""
    found = column.cast(_whole(type_)).to_pylist()
    shaped = _shape(type_)
    return found if shaped is None else [None if each is None else shaped(each) for each in found]


def _whole(type_: logical.Type) -> pa.DataType:
    if type_.name in _AS_INTEGERS:
        return _AS_INTEGERS[type_.name]
    if type_.element is not None:
        return pa.list_(_whole(type_.element))
    if type_.name == "record":
        return pa.struct([(each.name, _whole(each.type)) for each in type_.fields])
    return arrow_type(type_)


def _shape(type_: logical.Type) -> Callable[[Any], Any] | None:
    """Return what makes a nested value one of Avro's; None where it is that."""
    if type_.name == "map":
        inner = _maybe(_shape(type_.value))
        return lambda value: {each["key"]: inner(each["value"]) for each in value}
    if type_.element is not None:
        inner = _maybe(_shape(type_.element))
        return lambda value: [inner(each) for each in value]
    if type_.name == "record":
        names = avro_names(each.name for each in type_.fields)
        parts = [(each.name, name, _maybe(_shape(each.type))) for each, name in zip(type_.fields, names, strict=True)]
        return lambda value: {name: part(value[own]) for own, name, part in parts}
    return None


def _maybe(shape: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if shape is None:
        return lambda value: value
    return lambda value: None if value is None else shape(value)
