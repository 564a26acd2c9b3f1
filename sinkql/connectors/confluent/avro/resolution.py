"""A writer's and a reader's Avro schema → the declared columns of messages, by the rules of schema resolution.

Fields go by name, or by an alias that the reader's schema has; one that the writer does not have is the reader's
default, or NULL. Values of one type become those of another where that has room for them, and says the same.

Avro schemas as Kafka Connect writes them → the same with Avro's own names of dates and times.
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
from sinkql.connectors.confluent.avro.cursor import Rows, Walk
from sinkql.decode.arrow_values import column_of, inferred, json_text, readable
from sinkql.decode.avro_schema import ZONED, column_of_schema
from sinkql.decode.text_column import Failures
from sinkql.logical.numeric_type import FLOATS, SIGNED
from sinkql.logical.type import INTERVAL, JSONB

Conform = Callable[[pa.Array], pa.Array]


class UnfitError(ValueError):
    """No message of the writer's schema can have the declared columns; the text says why."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A schema as fastavro has read it, and what it and those that it refers to define by name."""

    schema: Schema
    names: Mapping[str, Schema]

    @property
    def of_records(self) -> bool:
        """Tell whether values are records."""
        return _record(self.schema)

    def as_record(self, name: str) -> Parsed:
        """Return the schema of records with a field of that name, where values are not records themselves.

        Avro writes both in the same way.
        """
        if self.of_records:
            return self
        return Parsed({"type": "record", "name": "row", "fields": [{"name": name, "type": self.schema}]}, self.names)

    def follow(self, schema: Schema) -> Schema:
        """Return what a name stands for, and of null and another type the other one."""
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
    """Return a schema from its text, after those that it refers to; raises ValueError."""
    names: dict[str, Schema] = {}
    try:
        for reference in references:
            fastavro.parse_schema(named(msgspec.json.decode(reference)), named_schemas=names)
        schema = fastavro.parse_schema(named(msgspec.json.decode(text)), named_schemas=names)
        return Parsed(schema, names)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except Exception as error:  # fastavro raises what comes up in it
        raise ValueError(str(error) or type(error).__name__) from None


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the writer's: which columns have its values, and how these are made of it."""

    name: str
    node: Node
    columns: tuple[tuple[int, Conform | None], ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """How records of a writer's schema become columns; `constants` are those that the writer does not have."""

    columns: tuple[physical.Column, ...]
    fields: tuple[_Field, ...]
    constants: Mapping[int, pa.Array] = field(default_factory=dict)

    def read(self, walk: Walk, rows: Rows) -> tuple[list[pa.Array], Failures]:
        """Read the records of some messages; return the columns, and by the places of rows why one does not fit."""
        failures: Failures = {}
        count = len(walk) if rows is None else len(rows)
        found: dict[int, pa.Array] = {}
        for place, constant in self.constants.items():
            repeated = constant.take(pa.array(np.zeros(count, np.int64)))
            found[place] = _converted(repeated, self.columns[place], failures)
        for each in self.fields:
            if not each.columns:
                each.node.skip(walk, rows)
                walk.after(each.name)
                continue
            values = each.node.read(walk, rows)
            walk.after(each.name)
            for place, conform in each.columns:
                found[place] = _converted(values if conform is None else conform(values), self.columns[place], failures)
        return [found[place] for place in range(len(self.columns))], failures


def fit(writer: Parsed, reader: Parsed, columns: Sequence[physical.Column]) -> Fit:
    """Return how a writer's records become columns; raises UnfitError."""
    wrote, reads = writer.schema, reader.schema
    of_reader = {each["name"]: each for each in reads["fields"]}
    names = [each["name"] for each in wrote["fields"]]
    taken: dict[str, list[tuple[int, Conform | None]]] = {name: [] for name in names}
    constants = {}
    for place, column in enumerate(columns):
        wanted = of_reader[column.name]
        name = _matching(wanted, names)
        if name is None:
            constants[place] = _constant(wanted, reader, column.name, nullable=column.nullable)
        else:
            written = wrote["fields"][names.index(name)]
            conformed = _conform(written["type"], writer, wanted["type"], reader)
            taken[name].append((place, _column(written["type"], writer, column, conformed)))
    fields = [
        _Field(each["name"], node_of(each["type"], writer.names), tuple(taken[each["name"]]))
        for each in wrote["fields"]
    ]
    return Fit(tuple(columns), tuple(fields), constants)


def _record(schema: Schema) -> bool:
    return isinstance(schema, dict) and schema["type"] in ("record", "error")


def _matching(wanted: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return by which name a writer has a field of the reader's."""
    return next((name for name in (wanted["name"], *wanted.get("aliases", ())) if name in names), None)


def _constant(wanted: Mapping[str, Any], reader: Parsed, name: str, *, nullable: bool) -> pa.Array:
    """Return the one value of a field that the writer does not have."""
    column = column_of_schema(wanted["type"], reader.names)
    if "default" in wanted:
        return column.array([_raw(wanted["type"], reader, wanted["default"])])
    if nullable:
        return column.array([None])
    raise UnfitError(f'it has no field "{name}", for which there is no default')


def _raw(schema: Schema, reader: Parsed, value: Any) -> Any:
    """Return a default as fastavro gives values where it knows no logical types, and texts are bytes."""
    if isinstance(schema, list):
        return None if value is None else _raw(next(each for each in schema if each != "null"), reader, value)
    schema = reader.follow(schema)
    match schema if isinstance(schema, str) else schema["type"]:
        case "string":
            return value.encode()
        case "bytes" | "fixed":
            return value.encode("latin-1")
        case "float" | "double":
            return float(value)
        case "array":
            return [_raw(schema["items"], reader, each) for each in value]
        case "map":
            return {key: _raw(schema["values"], reader, each) for key, each in value.items()}
        case "record" | "error":
            given = {each["name"]: value.get(each["name"], each.get("default")) for each in schema["fields"]}
            return {each["name"]: _raw(each["type"], reader, given[each["name"]]) for each in schema["fields"]}
        case _:
            return value


def _column(schema: Schema, writer: Parsed, column: physical.Column, conformed: _Conformed) -> Conform | None:
    """Return what makes values that a column's type can be made of; raises UnfitError."""
    told, declared = conformed.told, column.type
    if writer.follow(schema) == "null":
        return lambda values: pa.nulls(len(values), arrow_type(declared))
    if declared == JSONB and told != JSON and not pa.types.is_nested(told):
        return _json_texts
    interval = declared == INTERVAL and duration(schema, writer)
    promoted = declared.name in FLOATS and inferred(told) in SIGNED
    if not (declared == JSONB or interval or promoted or readable(told, declared)):
        raise UnfitError(f'its field for column "{column.name}" is {inferred(told)}, and not {declared}')
    return conformed.make


def duration(schema: Schema, parsed: Parsed) -> bool:
    """Tell whether values of a schema are intervals."""
    found = parsed.follow(schema)
    whole = ("fixed", 12, "duration")
    return isinstance(found, dict) and (found["type"], found.get("size"), found.get("logicalType")) == whole


def _json_texts(values: pa.Array) -> pa.Array:
    return pa.array([None if each is None else _json_text(each) for each in values.to_pylist()], pa.string())


def _json_text(value: Any) -> str:
    try:
        return json_text(value)
    except ValueError:
        return str(value)  # which is not JSON: an invalid row says so


@dataclass(frozen=True, slots=True)
class _Conformed:
    """What makes arrays of the writer's type have the reader's fields, None where they have them; of which type."""

    make: Conform | None
    told: pa.DataType


def _conform(written: Schema, writer: Parsed, wanted: Schema, reader: Parsed) -> _Conformed:
    one, other = writer.follow(written), reader.follow(wanted)
    told = column_of_schema(written, writer.names).told
    if told == JSON:
        return _Conformed(None, told)
    if _record(one) and _record(other):
        return _conform_record(one, writer, other, reader)
    kinds = [each if isinstance(each, str) else each["type"] for each in (one, other) if not isinstance(each, list)]
    plain = isinstance(one, str) or "logicalType" not in one
    match kinds:
        case ["array", "array"]:
            return _conform_items(_conform(one["items"], writer, other["items"], reader))
        case ["map", "map"]:
            return _conform_values(_conform(one["values"], writer, other["values"], reader))
        case ["bytes", "string"] | ["string", "bytes"] if plain:
            type_ = pa.string() if kinds[1] == "string" else pa.binary()
            return _Conformed(lambda values: values.view(type_), type_)
    return _Conformed(None, told)


def _conform_record(one: Schema, writer: Parsed, other: Schema, reader: Parsed) -> _Conformed:
    names = [each["name"] for each in one["fields"]]
    parts: list[tuple[str, int, _Conformed, pa.Array | None]] = []
    for each in other["fields"]:
        name = _matching(each, names)
        if name is None:
            nullable = isinstance(each["type"], list) and "null" in each["type"]
            constant = _constant(each, reader, each["name"], nullable=nullable)
            told = column_of_schema(each["type"], reader.names).told
            parts.append((each["name"], -1, _Conformed(None, told), constant))
        else:
            place = names.index(name)
            inner = _conform(one["fields"][place]["type"], writer, each["type"], reader)
            parts.append((each["name"], place, inner, None))
    told = pa.struct([(name, part.told) for name, _, part, _ in parts])
    same = [name for name, *_ in parts] == names and all(part.make is None for _, _, part, _ in parts)

    def make(values: pa.Array) -> pa.Array:
        held = values.flatten()
        arrays = []
        for _, place, part, constant in parts:
            if constant is not None:
                arrays.append(constant.take(pa.array(np.zeros(len(values), np.int64))))
            else:
                arrays.append(held[place] if part.make is None else part.make(held[place]))
        return pa.StructArray.from_arrays(arrays, names=[name for name, *_ in parts], mask=values.is_null())

    return _Conformed(None if same else make, told)


def _conform_items(item: _Conformed) -> _Conformed:
    def make(values: pa.Array) -> pa.Array:
        assert item.make is not None
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, item.make(values.values), mask=mask)

    return _Conformed(make if item.make is not None else None, pa.list_(item.told))


def _conform_values(value: _Conformed) -> _Conformed:
    def make(values: pa.Array) -> pa.Array:
        assert value.make is not None
        mask = values.is_null() if values.null_count else None
        return pa.MapArray.from_arrays(values.offsets, values.keys, value.make(values.items), mask=mask)

    return _Conformed(make if value.make is not None else None, pa.map_(pa.string(), value.told))


def _converted(values: pa.Array, column: physical.Column, failures: Failures) -> pa.Array:
    own: Failures = {}
    found = column_of(values, column.type, own)
    for row, message in own.items():
        failures.setdefault(row, f'column "{column.name}": {message}')
    if not column.nullable and values.null_count:
        for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
            failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
    return found


ConnectSchema = Any  # as JSON has it: a name, a list of branches, or an object

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


def named(schema: ConnectSchema) -> ConnectSchema:
    """Return a schema where numbers and texts that Debezium means as dates and times say so."""
    if isinstance(schema, list):
        return [named(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: named(each) if key in ("type", "items", "values") else each for key, each in schema.items()}
    if isinstance(found.get("fields"), list):
        found["fields"] = [named(each) for each in found["fields"]]
    kind, said = found.get("type"), found.get("connect.name")
    if isinstance(kind, str) and isinstance(said, str) and (kind, said) in _LOGICAL:
        found.setdefault("logicalType", _LOGICAL[kind, said])
    return found
