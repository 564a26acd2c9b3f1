"""Parse Avro schemas, and resolve a writer's schema to the declared columns by Avro's rules of schema resolution.

Fields match by name, or by an alias in the reader's schema. A field that the writer does not have is the reader's
default, or NULL. A value is converted to another type if that type can represent it with the same meaning. Names of
Kafka Connect's date and time types become Avro's logical types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import msgspec
import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.confluent.avro.column_reader import JSON, Node, Schema, node_of
from sinkql.connectors.confluent.avro.cursor import Cursor, Rows
from sinkql.decode.arrow_values import column_of, inferred_type, is_readable, json_text
from sinkql.decode.avro_schema import ZONED, column_of_schema
from sinkql.decode.text_column import Failures
from sinkql.logical.numeric_type import FLOATS, SIGNED
from sinkql.logical.type import INTERVAL, JSONB

Conform = Callable[[pa.Array], pa.Array]


class SchemaMismatchError(ValueError):
    """No message of the writer's schema can have the declared columns, for the reason in the text."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A schema that fastavro has parsed, with the named types of the schema and its references."""

    schema: Schema
    names: Mapping[str, Schema]

    @property
    def is_record(self) -> bool:
        """Whether values are records."""
        return _is_record(self.schema)

    def as_record(self, name: str) -> Parsed:
        """Return the schema; if its values are not records, a schema of records with one field `name`.

        Both have the same encoding.
        """
        if self.is_record:
            return self
        return Parsed({"type": "record", "name": "row", "fields": [{"name": name, "type": self.schema}]}, self.names)

    def follow(self, schema: Schema) -> Schema:
        """Return the definition of a named type, and the type of a nullable union."""
        if isinstance(schema, list) and len(schema) == 2 and schema.count("null") == 1:
            schema = schema[1 - schema.index("null")]
        while True:
            if isinstance(schema, str) and schema in self.names:
                schema = self.names[schema]
            elif isinstance(schema, dict) and isinstance(schema["type"], dict | list):
                schema = schema["type"]
            else:
                return schema


def parse(text: str, references: Sequence[str] = ()) -> Parsed:
    """Return the schema of a text; `references` are parsed before it. Raise ValueError for an invalid schema."""
    names: dict[str, Schema] = {}
    try:
        for reference in references:
            fastavro.parse_schema(with_logical_types(msgspec.json.decode(reference)), named_schemas=names)
        schema = fastavro.parse_schema(with_logical_types(msgspec.json.decode(text)), named_schemas=names)
        return Parsed(schema, names)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except Exception as error:  # fastavro raises many kinds
        raise ValueError(str(error) or type(error).__name__) from None


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the writer's schema, and the columns that get its values with their conversions."""

    name: str
    node: Node
    columns: tuple[tuple[int, Conform | None], ...]


@dataclass(frozen=True, slots=True)
class Resolution:
    """A reader of a writer's records as columns; `constants` are the columns that the writer does not have."""

    columns: tuple[physical.Column, ...]
    fields: tuple[_Field, ...]
    constants: Mapping[int, pa.Array] = field(default_factory=dict)

    def read(self, cursor: Cursor, rows: Rows) -> tuple[list[pa.Array], Failures]:
        """Read the records of some messages; return the columns, and the errors by row."""
        failures: Failures = {}
        count = len(cursor) if rows is None else len(rows)
        arrays: dict[int, pa.Array] = {}
        for index, constant in self.constants.items():
            repeated = constant.take(pa.array(np.zeros(count, np.int64)))
            arrays[index] = _convert(repeated, self.columns[index], failures)
        for entry in self.fields:
            if not entry.columns:
                entry.node.skip(cursor, rows)
                cursor.end_field(entry.name)
                continue
            values = entry.node.read(cursor, rows)
            cursor.end_field(entry.name)
            for index, conform in entry.columns:
                arrays[index] = _convert(values if conform is None else conform(values), self.columns[index], failures)
        return [arrays[index] for index in range(len(self.columns))], failures


def resolve(writer: Parsed, reader: Parsed, columns: Sequence[physical.Column]) -> Resolution:
    """Return the resolution of a writer's schema to columns of the reader's. Raise SchemaMismatchError."""
    writer_schema, reader_schema = writer.schema, reader.schema
    reader_fields = {field["name"]: field for field in reader_schema["fields"]}
    names = [field["name"] for field in writer_schema["fields"]]
    targets: dict[str, list[tuple[int, Conform | None]]] = {name: [] for name in names}
    constants = {}
    for index, column in enumerate(columns):
        wanted = reader_fields[column.name]
        name = _matching_name(wanted, names)
        if name is None:
            constants[index] = _constant(wanted, reader, column.name, nullable=column.nullable)
        else:
            written = writer_schema["fields"][names.index(name)]
            conversion = _conform(written["type"], writer, wanted["type"], reader)
            targets[name].append((index, _column(written["type"], writer, column, conversion)))
    fields = [
        _Field(field["name"], node_of(field["type"], writer.names), tuple(targets[field["name"]]))
        for field in writer_schema["fields"]
    ]
    return Resolution(tuple(columns), tuple(fields), constants)


def _is_record(schema: Schema) -> bool:
    return isinstance(schema, dict) and schema["type"] in ("record", "error")


def _matching_name(wanted: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the name of the writer's field for a field of the reader's; None if the writer has none."""
    return next((name for name in (wanted["name"], *wanted.get("aliases", ())) if name in names), None)


def _constant(wanted: Mapping[str, Any], reader: Parsed, name: str, *, nullable: bool) -> pa.Array:
    """Return the default of a field that the writer does not have. Raise SchemaMismatchError without a default."""
    column = column_of_schema(wanted["type"], reader.names)
    if "default" in wanted:
        return column.array([_raw(wanted["type"], reader, wanted["default"])])
    if nullable:
        return column.array([None])
    raise SchemaMismatchError(f'it has no field "{name}", and the reader\'s schema has no default for it')


def _raw(schema: Schema, reader: Parsed, value: Any) -> Any:
    """Return a default in fastavro's form without logical types; texts are bytes."""
    if isinstance(schema, list):
        return None if value is None else _raw(next(branch for branch in schema if branch != "null"), reader, value)
    schema = reader.follow(schema)
    match schema if isinstance(schema, str) else schema["type"]:
        case "string":
            return value.encode()
        case "bytes" | "fixed":
            return value.encode("latin-1")
        case "float" | "double":
            return float(value)
        case "array":
            return [_raw(schema["items"], reader, item) for item in value]
        case "map":
            return {key: _raw(schema["values"], reader, item) for key, item in value.items()}
        case "record" | "error":
            values = {field["name"]: value.get(field["name"], field.get("default")) for field in schema["fields"]}
            return {field["name"]: _raw(field["type"], reader, values[field["name"]]) for field in schema["fields"]}
        case _:
            return value


def _column(schema: Schema, writer: Parsed, column: physical.Column, conversion: _Conversion) -> Conform | None:
    """Return the conversion of a field's values for a column. Raise SchemaMismatchError if none exists."""
    arrow, declared = conversion.type, column.type
    if writer.follow(schema) == "null":
        return lambda values: pa.nulls(len(values), arrow_type(declared))
    if declared == JSONB and arrow != JSON and not pa.types.is_nested(arrow):
        return _json_texts
    interval = declared == INTERVAL and is_duration(schema, writer)
    promoted = declared.name in FLOATS and inferred_type(arrow) in SIGNED
    if not (declared == JSONB or interval or promoted or is_readable(arrow, declared)):
        raise SchemaMismatchError(f'its field for column "{column.name}" is {inferred_type(arrow)}, not {declared}')
    return conversion.make


def is_duration(schema: Schema, parsed: Parsed) -> bool:
    """Return whether values of a schema are durations."""
    definition = parsed.follow(schema)
    expected = ("fixed", 12, "duration")
    return (
        isinstance(definition, dict)
        and (definition["type"], definition.get("size"), definition.get("logicalType")) == expected
    )


def _json_texts(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else _json_text(value) for value in values.to_pylist()], pa.string())


def _json_text(value: Any) -> str:
    try:
        return json_text(value)
    except ValueError:
        return str(value)  # invalid JSON: decoding the text reports it


@dataclass(frozen=True, slots=True)
class _Conversion:
    """The conversion of arrays to the reader's fields, None if it is not needed, and the type of its result."""

    make: Conform | None
    type: pa.DataType


def _conform(written: Schema, writer: Parsed, wanted: Schema, reader: Parsed) -> _Conversion:
    one, other = writer.follow(written), reader.follow(wanted)
    arrow = column_of_schema(written, writer.names).type
    if arrow == JSON:
        return _Conversion(None, arrow)
    if _is_record(one) and _is_record(other):
        return _conform_record(one, writer, other, reader)
    kinds = [
        schema if isinstance(schema, str) else schema["type"] for schema in (one, other) if not isinstance(schema, list)
    ]
    plain = isinstance(one, str) or "logicalType" not in one
    match kinds:
        case ["array", "array"]:
            return _conform_items(_conform(one["items"], writer, other["items"], reader))
        case ["map", "map"]:
            return _conform_values(_conform(one["values"], writer, other["values"], reader))
        case ["bytes", "string"] | ["string", "bytes"] if plain:
            type_ = pa.string() if kinds[1] == "string" else pa.binary()
            return _Conversion(lambda values: values.view(type_), type_)
    return _Conversion(None, arrow)


def _conform_record(one: Schema, writer: Parsed, other: Schema, reader: Parsed) -> _Conversion:
    names = [entry["name"] for entry in one["fields"]]
    parts: list[tuple[str, int, _Conversion, pa.Array | None]] = []
    for entry in other["fields"]:
        name = _matching_name(entry, names)
        if name is None:
            nullable = isinstance(entry["type"], list) and "null" in entry["type"]
            constant = _constant(entry, reader, entry["name"], nullable=nullable)
            arrow = column_of_schema(entry["type"], reader.names).type
            parts.append((entry["name"], -1, _Conversion(None, arrow), constant))
        else:
            index = names.index(name)
            inner = _conform(one["fields"][index]["type"], writer, entry["type"], reader)
            parts.append((entry["name"], index, inner, None))
    arrow = pa.struct([(name, part.type) for name, _, part, _ in parts])
    same = [name for name, *_ in parts] == names and all(part.make is None for _, _, part, _ in parts)

    def make(values: pa.Array) -> pa.Array:
        children = values.flatten()
        arrays = []
        for _, index, part, constant in parts:
            if constant is not None:
                arrays.append(constant.take(pa.array(np.zeros(len(values), np.int64))))
            else:
                arrays.append(children[index] if part.make is None else part.make(children[index]))
        return pa.StructArray.from_arrays(arrays, names=[name for name, *_ in parts], mask=values.is_null())

    return _Conversion(None if same else make, arrow)


def _conform_items(item: _Conversion) -> _Conversion:
    conform = item.make
    if conform is None:
        return _Conversion(None, pa.list_(item.type))

    def make(values: pa.Array) -> pa.Array:
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, conform(values.values), mask=mask)

    return _Conversion(make, pa.list_(item.type))


def _conform_values(value: _Conversion) -> _Conversion:
    conform = value.make
    if conform is None:
        return _Conversion(None, pa.map_(pa.string(), value.type))

    def make(values: pa.Array) -> pa.Array:
        mask = values.is_null() if values.null_count else None
        return pa.MapArray.from_arrays(values.offsets, values.keys, conform(values.items), mask=mask)

    return _Conversion(make, pa.map_(pa.string(), value.type))


def _convert(values: pa.Array, column: physical.Column, failures: Failures) -> pa.Array:
    errors: Failures = {}
    array = column_of(values, column.type, errors)
    for row, message in errors.items():
        failures.setdefault(row, f'column "{column.name}": {message}')
    if not column.nullable and values.null_count:
        for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
            failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
    return array


ConnectSchema = Any  # decoded JSON: a name, a list of branches, or an object

_TIME = "io.debezium.time."
_LOGICAL = {
    ("int", f"{_TIME}Date"): "date",
    ("int", f"{_TIME}Time"): "time-millis",
    ("long", f"{_TIME}MicroTime"): "time-micros",
    ("long", f"{_TIME}Timestamp"): "local-timestamp-millis",
    ("long", f"{_TIME}MicroTimestamp"): "local-timestamp-micros",
    ("long", f"{_TIME}NanoTimestamp"): "local-timestamp-nanos",
    ("string", f"{_TIME}ZonedTimestamp"): ZONED,
}


def with_logical_types(schema: ConnectSchema) -> ConnectSchema:
    """Return a schema in which Debezium's date and time types have Avro's logical types."""
    if isinstance(schema, list):
        return [with_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    nested = ("type", "items", "values")
    result = {key: with_logical_types(value) if key in nested else value for key, value in schema.items()}
    if isinstance(result.get("fields"), list):
        result["fields"] = [with_logical_types(field) for field in result["fields"]]
    kind, connect_name = result.get("type"), result.get("connect.name")
    if isinstance(kind, str) and isinstance(connect_name, str) and (kind, connect_name) in _LOGICAL:
        result.setdefault("logicalType", _LOGICAL[kind, connect_name])
    return result
