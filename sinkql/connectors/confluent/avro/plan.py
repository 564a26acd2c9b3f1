"""FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY of a sink → what its encoder registers, and where.

Columns → the schema of Avro that a sink registers for them.

Unsigned integers are the next greater type of Avro's, `interval` and ranges are strings, `timestamp` and `timestamptz`
have microseconds. A name that Avro does not take has underscores in the place of other characters.

FORMAT AVRO USING → the columns that the schema has, and the decoder's options.
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
from sinkql.connectors.confluent.schema import check_declared, known, registry_of, registry_options, unusable
from sinkql.errors import SinkqlError, nearest
from sinkql.planner.name import split_name

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


def plan_avro(encoded: SinkMessages, planning: PlanningContext) -> Mapping[str, Any]:
    """Plan the schema of the columns, under the topic's subject; raises SQ2366."""
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
                f"formats of sinks do not take {part} STRATEGY",
                strategy.span,
                hint="Leave it out: sinks register the schema of their columns.",
            )
    plain = [each for each in schema.options if not _about(each)]
    options = bind(plain, SchemaOptions, owner="formats of sinks", span=schema.span)
    key = encoded.part == "key"
    fullname = options.avro_key_fullname if key else options.avro_value_fullname
    if fullname is not None and _FULLNAME.fullmatch(fullname) is None:
        name = f"AVRO {encoded.part.upper()} FULLNAME"
        raise SinkqlError(
            "SQ2366",
            f'invalid name of a record "{fullname}"',
            option_span(schema.options, name, schema.span),
            hint="Write letters, digits and underscores, with dots between them for a namespace.",
        )
    debezium = encoded.statement.mode is not None and encoded.statement.mode.mode == "debezium"
    level = options.key_compatibility_level if key else options.value_compatibility_level
    planned = {
        "subject": f"{encoded.topic}-{encoded.part}",
        "fullname": fullname or ("row" if key else "envelope"),
        "debezium": debezium and not key,
        "null_defaults": options.null_defaults,
        "compatibility": level,
        "docs": _docs(encoded, planning) or None,
        "tuning": {"registry": registry_of(schema.connection, planning)},
    }
    return {name: value for name, value in planned.items() if value is not None}


def _about(option: ast.Option) -> bool:
    """Tell whether an option is DOC ON, which names what it is about."""
    return option.name.endswith(("DOC ON TYPE", "DOC ON COLUMN"))


def _docs(encoded: SinkMessages, planning: PlanningContext) -> dict[str, str]:
    """Return the text about each column, and under the empty name that about the relation.

    KEY or VALUE goes first, then DOC ON alone, then what COMMENT ON had said when the sink was made. Raises SQ2366 for
    other relations, and columns that there are not.
    """
    assert encoded.format.schema is not None
    found = dict(encoded.comments)
    for option in sorted(filter(_about, encoded.format.schema.options), key=lambda each: not each.name.startswith("D")):
        name, text = _written(option)
        column = name.parts[-1].value if option.name.endswith("COLUMN") else ""
        relation = name.parts[:-1] if column else name.parts
        own = split_name(planning.catalog.resolve(encoded.statement.relation))
        if not relation or tuple(each.value for each in relation) != tuple(own)[-len(relation) :]:
            hint = f"Write {option.name} {own[-1]}{'.column' if column else ''}."
            raise SinkqlError("SQ2366", f"{option.name} is not about what the sink reads", option.span, hint=hint)
        if column and column not in encoded.relation:
            near = nearest(column, encoded.relation)
            raise SinkqlError(
                "SQ2366",
                f'"{own[-1]}" has no column "{column}"',
                option.span,
                hint=f'Did you mean "{near}"?' if near else f"Its columns are {', '.join(encoded.relation)}.",
            )
        if option.name.split()[0] in ("DOC", encoded.part.upper()):
            found[column] = text
    return found


def _written(option: ast.Option) -> tuple[ast.Name, str]:
    """Return what DOC ON names, and what it says."""
    match option.value:
        case ast.Phrase(value=ast.Word(name=name), then=ast.Phrase(value=ast.Text(value=text))):
            return name, text
        case _:
            raise AssertionError("the grammar makes it so")


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

_NONE: Mapping[str, str] = {}


def derived(columns: Iterable[physical.Column], options: Mapping[str, Any]) -> Any:
    """Return the schema of a record of these columns; with `debezium` of a change, whose rows have one type.

    `options` are those that `avro_sink` planned.
    """
    fullname, docs = options["fullname"], options.get("docs", {})
    making = _Making(options["null_defaults"], {fullname.rpartition(".")[2]})
    types = [(column.name, column.type, column.nullable) for column in columns]
    if not options["debezium"]:
        return making.record(fullname, types, docs)
    (_, row, _), _ = types
    own = making.free(["row", "row0"])
    before = making.record(own, [(each.name, each.type, each.nullable) for each in row.fields], docs)
    default = {"default": None} if options["null_defaults"] else {}
    fields = [
        {"name": "before", "type": ["null", before], **default}, {"name": "after", "type": ["null", own], **default}
    ]  # fmt: skip
    return {"type": "record", "name": fullname, "fields": fields}


def _doc(docs: Mapping[str, str], name: str) -> dict[str, str]:
    return {"doc": docs[name]} if name in docs else {}


def avro_names(names: Iterable[str]) -> list[str]:
    """Return what Avro calls columns or fields of these names: each its own."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        number, wanted = 0, plain
        while wanted in found:
            number += 1
            wanted = f"{plain}{number}"
        found.append(wanted)
    return found


@dataclass(slots=True)
class _Making:
    """Make one schema; records in it are called `record0` and so on, none by a name that is taken."""

    null_defaults: bool
    taken: set[str]

    def free(self, names: Iterable[str]) -> str:
        """Return the first name that no record has yet, and take it."""
        found = next(each for each in names if each not in self.taken)
        self.taken.add(found)
        return found

    def record(
        self, name: str, members: list[tuple[str, logical.Type, bool]], docs: Mapping[str, str] = _NONE
    ) -> dict[str, Any]:
        """Return a record; `docs` are texts about its members, the empty name that about itself."""
        called = avro_names(member[0] for member in members)
        fields = [
            {**self.field(avro, type_, nullable=nullable), **_doc(docs, own)}
            for avro, (own, type_, nullable) in zip(called, members, strict=True)
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
                name = self.free(map("record{}".format, count()))
                return self.record(name, [(each.name, each.type, each.nullable) for each in type_.fields])
            case name:
                return _PLAIN.get(name, "string")


@dataclass(frozen=True, slots=True)
class InlineOptions:
    """The options of FORMAT AVRO USING SCHEMA: whether a zero and the id of a schema stand before each message."""

    confluent_wire_format: bool = True


def plan(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the columns of a schema's fields, or those that are declared; raises SQ2413 and SQ248x.

    The options: `schema` and `references` are texts, `wire` tells whether ids stand before messages, `name` what a
    value is called that is no record.
    """
    registry = registry_options(messages, planning)
    schema = known(messages)
    given = messages.format.schema
    wire = True
    if given is not None and given.registry is None:
        wire = bind(given.options, InlineOptions, owner="schemas in statements", span=given.span).confluent_wire_format
    name = "key" if messages.part == "key" else "data"
    references = list(schema.references.values())
    options: dict[str, Any] = {"schema": schema.text, "references": references, "wire": wire, "name": name}
    columns = _columns(messages, options)
    options |= registry
    if not messages.columns:
        return FormatPlan(options, columns)
    check_declared(messages, columns)
    return FormatPlan(options)


def _columns(messages: SourceMessages, options: dict[str, Any]) -> tuple[logical.Column, ...]:
    """Return the columns of the schema; with ENVELOPE DEBEZIUM of the rows in it."""
    from sinkql.connectors.confluent.avro.columns import columns_of, rows_of  # fastavro, only where it is planned
    from sinkql.connectors.confluent.avro.resolution import parse

    try:
        parsed = parse(options["schema"], options["references"]).as_record(options["name"])
        if messages.part == "value" and messages.statement.envelope == "DEBEZIUM":
            parsed = rows_of(parsed)
        return columns_of(parsed)
    except ValueError as error:
        raise unusable(messages, error) from None
