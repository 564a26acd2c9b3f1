"""FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY of a sink → what its encoder registers, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import ast
from sinkql.connectors.confluent.connection import KIND
from sinkql.connectors.confluent.schema import registry_of
from sinkql.errors import SinkqlError, nearest
from sinkql.extension.options import bind, described, option_span
from sinkql.extension.plan import Encoded, Planning
from sinkql.planner.name import split_name

_Level = Literal[
    "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"
]  # fmt: skip
_FULLNAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options of FORMAT AVRO USING of sinks."""

    null_defaults: bool = described("nullable fields have the default NULL", default=False)
    avro_key_fullname: str | None = described("the record name of keys; `row` by default", default=None)
    avro_value_fullname: str | None = described("the record name of values; `envelope` by default", default=None)
    key_compatibility_level: _Level | None = described(
        "the compatibility level of key schemas in the registry", default=None
    )
    value_compatibility_level: _Level | None = described(
        "the compatibility level of value schemas in the registry", default=None
    )


def plan_avro(encoded: Encoded, planning: Planning) -> Mapping[str, Any]:
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


def _docs(encoded: Encoded, planning: Planning) -> dict[str, str]:
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
