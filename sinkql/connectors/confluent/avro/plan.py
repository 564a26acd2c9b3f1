"""Plan FORMAT AVRO of sources and sinks, and derive the schema that a sink registers.

In derived schemas, an unsigned integer has the next larger type of Avro, `interval` and ranges are strings, and
`timestamp` and `timestamptz` have microseconds. In names, underscores replace characters that Avro does not allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from sinkql import ast, logical, physical
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import FormatPlan, PlanningContext, SinkMessages, SourceMessages
from sinkql.connectors.confluent.connection import KIND
from sinkql.connectors.confluent.options import AvroReadOptions, AvroWriteOptions
from sinkql.connectors.confluent.schema import (
    check_declared,
    invalid_schema_error,
    planned_schema,
    registry_of,
    registry_options,
)
from sinkql.errors import SinkqlError, nearest
from sinkql.keywords import split_name

_Level = Literal[
    "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"
]  # fmt: skip
_FULLNAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options of FORMAT AVRO USING of sinks."""

    null_defaults: bool = option_field("nullable fields have the default NULL", default=False)
    avro_key_fullname: str | None = option_field("the record name of keys; `row` by default", default=None)
    avro_value_fullname: str | None = option_field("the record name of values; `envelope` by default", default=None)
    key_compatibility_level: _Level | None = option_field(
        "the compatibility level of key schemas in the registry", default=None
    )
    value_compatibility_level: _Level | None = option_field(
        "the compatibility level of value schemas in the registry", default=None
    )


def plan_sink(encoded: SinkMessages, planning: PlanningContext) -> Mapping[str, Any]:
    """Plan the schema of the columns and its subject (`options.AvroWriteOptions`). Raise SQ2366."""
    schema = encoded.format.schema
    if schema is None or schema.registry != KIND or schema.connection is None:
        raise SinkqlError(
            "SQ2366",
            "FORMAT AVRO of sinks requires a schema registry",
            encoded.format.span,
            hint=f"Write FORMAT AVRO USING {KIND} CONNECTION name.",
        )
    for part, strategy in (("KEY", schema.key_strategy), ("VALUE", schema.value_strategy)):
        if strategy is not None:
            raise SinkqlError(
                "SQ2366",
                f"formats of sinks do not support {part} STRATEGY",
                strategy.span,
                hint="Leave it out: sinks register the schema of their columns.",
            )
    plain = [option for option in schema.options if not _is_doc(option)]
    options = bind(plain, SchemaOptions, owner="formats of sinks", span=schema.span)
    key = encoded.part == "key"
    fullname = options.avro_key_fullname if key else options.avro_value_fullname
    if fullname is not None and _FULLNAME.fullmatch(fullname) is None:
        name = f"AVRO {encoded.part.upper()} FULLNAME"
        raise SinkqlError(
            "SQ2366",
            f'invalid record name "{fullname}"',
            option_span(schema.options, name, schema.span),
            hint="Write an identifier with an optional namespace, for example 'com.example.Row'.",
        )
    debezium = encoded.statement.mode is not None and encoded.statement.mode.mode == "debezium"
    level = options.key_compatibility_level if key else options.value_compatibility_level
    planned = {
        "subject": f"{encoded.topic}-{encoded.part}",
        "fullname": fullname or ("row" if key else "envelope"),
        "debezium": debezium and not key,
        "null_defaults": options.null_defaults,
        "compatibility": level,
        "docs": _docs(encoded, schema, planning) or None,
        "tuning": {"registry": registry_of(schema.connection, planning)},
    }
    return {name: value for name, value in planned.items() if value is not None}


def _is_doc(option: ast.Option) -> bool:
    """Return whether an option is DOC ON."""
    return option.name.endswith(("DOC ON TYPE", "DOC ON COLUMN"))


def _docs(encoded: SinkMessages, schema: ast.Schema, planning: PlanningContext) -> dict[str, str]:
    """Return the documentation of each column, and of the relation under the empty name.

    KEY DOC ON and VALUE DOC ON have the highest priority, then DOC ON, then the comments at the sink's creation. Raise
    SQ2366 for other relations and for columns that do not exist.
    """
    docs = dict(encoded.comments)
    options = filter(_is_doc, schema.options)
    for option in sorted(options, key=lambda option: not option.name.startswith("D")):
        name, text = _doc_parts(option)
        column = name.parts[-1].value if option.name.endswith("COLUMN") else ""
        relation = name.parts[:-1] if column else name.parts
        full_name = split_name(planning.catalog.resolve(encoded.statement.relation))
        if not relation or tuple(ident.value for ident in relation) != tuple(full_name)[-len(relation) :]:
            hint = f"Write {option.name} {full_name[-1]}{'.column' if column else ''}."
            raise SinkqlError("SQ2366", f"{option.name} does not name the relation of the sink", option.span, hint=hint)
        if column and column not in encoded.relation:
            near = nearest(column, encoded.relation)
            raise SinkqlError(
                "SQ2366",
                f'"{full_name[-1]}" has no column "{column}"',
                option.span,
                hint=f'Did you mean "{near}"?' if near else f"Its columns are {', '.join(encoded.relation)}.",
            )
        if option.name.split()[0] in ("DOC", encoded.part.upper()):
            docs[column] = text
    return docs


def _doc_parts(option: ast.Option) -> tuple[ast.Name, str]:
    """Return the name and the text of DOC ON."""
    match option.value:
        case ast.Phrase(value=ast.Word(name=name), then=ast.Phrase(value=ast.Text(value=text))):
            return name, text
        case _:
            raise AssertionError("the grammar allows no other value")


_PLAIN: Mapping[str, Any] = {
    "boolean": "boolean", "smallint": "int", "integer": "int", "bigint": "long", "uint2": "int", "uint4": "long",
    "uint8": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0},
    "real": "float", "double precision": "double", "bytea": "bytes", "text": "string",
    "date": {"type": "int", "logicalType": "date"}, "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros"},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "jsonb": {"type": "string", "connect.name": "io.debezium.data.Json"},
}  # fmt: skip

_NO_DOCS: Mapping[str, str] = {}


def derive_schema(columns: Iterable[physical.Column], options: AvroWriteOptions) -> Any:
    """Return the schema of a record of the columns; with `debezium`, of a change whose two rows share a type."""
    fullname, docs = options.fullname, options.docs
    builder = _SchemaBuilder(options.null_defaults, {fullname.rpartition(".")[2]})
    types = [(column.name, column.type, column.nullable) for column in columns]
    if not options.debezium:
        return builder.record(fullname, types, docs)
    (_, row, _), _ = types
    row_name = builder.unused_name(["row", "row0"])
    before = builder.record(row_name, [(field.name, field.type, field.nullable) for field in row.fields], docs)
    default = {"default": None} if options.null_defaults else {}
    fields = [
        {"name": "before", "type": ["null", before], **default},
        {"name": "after", "type": ["null", row_name], **default},
    ]
    return {"type": "record", "name": fullname, "fields": fields}


def _doc(docs: Mapping[str, str], name: str) -> dict[str, str]:
    return {"doc": docs[name]} if name in docs else {}


def avro_names(names: Iterable[str]) -> list[str]:
    """Return valid and distinct Avro names for columns or fields."""
    unique: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        number, candidate = 0, plain
        while candidate in unique:
            number += 1
            candidate = f"{plain}{number}"
        unique.append(candidate)
    return unique


@dataclass(slots=True)
class _SchemaBuilder:
    """A builder of one schema; nested records get the names `record0` and so on, without names in `used`."""

    null_defaults: bool
    used: set[str]

    def unused_name(self, names: Iterable[str]) -> str:
        """Return the first unused name, and mark it as used."""
        name = next(name for name in names if name not in self.used)
        self.used.add(name)
        return name

    def record(
        self, name: str, members: list[tuple[str, logical.Type, bool]], docs: Mapping[str, str] = _NO_DOCS
    ) -> dict[str, Any]:
        """Return a record; `docs` has the texts of its members, and of the record under the empty name."""
        names = avro_names(member[0] for member in members)
        fields = [
            {**self.field(avro, type_, nullable=nullable), **_doc(docs, column)}
            for avro, (column, type_, nullable) in zip(names, members, strict=True)
        ]
        return {"type": "record", "name": name, **_doc(docs, ""), "fields": fields}

    def field(self, name: str, type_: logical.Type, *, nullable: bool) -> dict[str, Any]:
        if not nullable:
            return {"name": name, "type": self.type(type_)}
        default = {"default": None} if self.null_defaults else {}
        return {"name": name, "type": ["null", self.type(type_)], **default}

    def type(self, type_: logical.Type) -> Any:
        match type_.name:
            case "numeric":
                scale = {"precision": type_.precision, "scale": type_.scale}
                return {"type": "bytes", "logicalType": "decimal", **scale}
            case "array" | "list":
                assert type_.element is not None
                return {"type": "array", "items": ["null", self.type(type_.element)]}
            case "map":
                return {"type": "map", "values": ["null", self.type(type_.value)]}
            case "record":
                name = self.unused_name(map("record{}".format, count()))
                return self.record(name, [(field.name, field.type, field.nullable) for field in type_.fields])
            case name:
                return _PLAIN.get(name, "string")


@dataclass(frozen=True, slots=True)
class InlineOptions:
    """The options of FORMAT AVRO USING SCHEMA: whether a zero byte and a schema's id precede each message."""

    confluent_wire_format: bool = True


def plan_source(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the columns of a schema's fields, or the declared columns. Raise SQ2413 or SQ248x.

    The planned options are `options.AvroReadOptions`.
    """
    registry = registry_options(messages, planning)
    schema = planned_schema(messages)
    clause = messages.format.schema
    wire = True
    if clause is not None and clause.registry is None:
        wire = bind(
            clause.options, InlineOptions, owner="schemas in statements", span=clause.span
        ).confluent_wire_format
    name = "key" if messages.part == "key" else "data"
    references = list(schema.references.values())
    options: dict[str, Any] = {"schema": schema.text, "references": references, "wire": wire, "name": name}
    columns = _columns(messages, AvroReadOptions.from_plan(options))
    options |= registry
    if not messages.columns:
        return FormatPlan(options, columns)
    check_declared(messages, columns)
    return FormatPlan(options)


def _columns(messages: SourceMessages, options: AvroReadOptions) -> tuple[logical.Column, ...]:
    """Return the columns of the schema; with ENVELOPE DEBEZIUM, the columns of its rows."""
    from sinkql.connectors.confluent.avro.columns import columns_of, rows_of  # imports fastavro
    from sinkql.connectors.confluent.avro.resolution import parse

    try:
        parsed = parse(options.schema, options.references).as_record(options.name)
        if messages.part == "value" and messages.statement.envelope == "DEBEZIUM":
            parsed = rows_of(parsed)
        return columns_of(parsed)
    except ValueError as error:
        raise invalid_schema_error(messages, error) from None
