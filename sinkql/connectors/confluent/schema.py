"""Find the schema of FORMAT … USING for a source: in the statement or in the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SourceMessages
from sinkql.connectors.confluent.connection import KIND
from sinkql.connectors.confluent.options import RegistryConnection
from sinkql.errors import SinkqlError, UnaskedError


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema's text, the texts of referenced schemas by name, and for Protobuf the name of the message."""

    text: str
    references: Mapping[str, str]
    message: str | None = None


def schema_facts(messages: SourceMessages, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """Return the text and the references of a schema in the registry. Raise SQ2482 or SQ426x.

    Return {} if the statement contains the schema.
    """
    clause = _schema_clause(messages)
    if clause.registry is None or _schema_in_statement(messages, clause) is not None:
        return {}
    from sinkql.connectors.confluent.registry import UnknownSchemaError, planned_registry  # imports httpx

    assert clause.connection is not None
    connection = planning.connection(clause.connection, KIND)
    strategy = _strategy(messages, clause)
    subject = f"{messages.topic}-{messages.part}"
    try:
        with closing(planned_registry(connection, access)) as registry:
            id_ = _id(strategy)
            schema = registry.latest(subject) if id_ is None else registry.schema(id_)
    except UnknownSchemaError:
        missing = (
            f"schema {_id(strategy)}" if strategy is not None and _id(strategy) is not None else f'subject "{subject}"'
        )
        part = messages.part.upper()
        raise SinkqlError(
            "SQ2482",
            f'the schema registry of connection "{connection.name}" has no {missing}',
            clause.span,
            hint=f"Register a schema of the topic's {messages.part}s, or specify one: {part} STRATEGY ID 1.",
        ) from None
    except SinkqlError as error:
        error.span = error.span or clause.connection.span
        raise
    if schema.kind != messages.format.name:
        raise SinkqlError(
            "SQ2483",
            f"the schema of the topic's {messages.part}s has the format {schema.kind}, not {messages.format.name}",
            clause.span,
            hint=f"Write FORMAT {schema.kind} USING CONFLUENT SCHEMA REGISTRY CONNECTION name.",
        )
    return {"schema": schema.text, "references": [list(reference) for reference in schema.references.items()]}


def planned_schema(messages: SourceMessages) -> SchemaText:
    """Return the schema of the statement or of the facts. Raise UnaskedError without facts."""
    clause = _schema_clause(messages)
    text = _schema_in_statement(messages, clause)
    if text is not None:
        return text
    if "schema" not in messages.facts:
        raise UnaskedError(
            "SQ2481",
            "the columns are in the schema registry, which is read only when the source is created",
            messages.format.span,
            hint="Write the schema in the statement: VALUE STRATEGY INLINE '…'.",
        )
    return SchemaText(messages.facts["schema"], dict(messages.facts["references"]))


def registry_options(messages: SourceMessages, planning: PlanningContext) -> dict[str, Any]:
    """Return the options for opening the registry while messages are decoded; {} without a registry."""
    clause = _schema_clause(messages)
    if clause.registry is None:
        return {}
    assert clause.connection is not None
    return {"tuning": {"registry": registry_of(clause.connection, planning)}}


def registry_of(name: ast.Name, planning: PlanningContext) -> dict[str, Any]:
    """Return the plan of a registry connection (`options.RegistryAccess`)."""
    connection = planning.connection(name, KIND)
    access: dict[str, Any] = {"name": connection.name, "options": dict(connection.options)}
    tunnel_name = RegistryConnection.from_plan(connection.options).ssh_tunnel
    if tunnel_name is not None:
        tunnel = planning.catalog.item(tunnel_name["connection"])
        assert isinstance(tunnel, logical.Connection)
        access["tunnel"] = dict(tunnel.options)
    return access


def invalid_schema_error(messages: SourceMessages, error: ValueError) -> SinkqlError:
    """Return the error for an invalid schema."""
    strategy = f"{messages.part.upper()} STRATEGY ID 1"
    return SinkqlError(
        "SQ2485",
        f"the schema of the topic's {messages.part}s is invalid: {error}",
        messages.format.span,
        hint=f"Correct the schema, or specify another schema of the registry: {strategy}.",
    )


def check_declared(messages: SourceMessages, columns: Sequence[logical.Column]) -> None:
    """Raise SQ2470 for a column that the schema does not have. Types are checked when messages are decoded."""
    names = [column.name for column in columns]
    for declared in messages.columns:
        if declared.name not in names:
            raise SinkqlError(
                "SQ2470",
                f'the schema of the topic\'s {messages.part}s has no field "{declared.name}"',
                messages.format.span,
                hint=f"Its fields are {', '.join(names)}; without a column list, the source has all of them.",
            )


def _schema_clause(messages: SourceMessages) -> ast.Schema:
    """Return the clause with the schema. Raise SQ2480 without one, SQ2902 for other registries, or SQ2484."""
    schema, name = messages.format.schema, messages.format.name
    if schema is None:
        raise SinkqlError(
            "SQ2480",
            f"FORMAT {name} of messages requires a schema",
            messages.format.span,
            hint=f"Write FORMAT {name} USING CONFLUENT SCHEMA REGISTRY CONNECTION name.",
        )
    if schema.registry not in (None, KIND):
        raise SinkqlError(
            "SQ2902",
            f"{schema.registry} is not supported yet",
            schema.span,
            hint=f"Write FORMAT {name} USING {KIND} CONNECTION name.",
        )
    if schema.registry is not None and schema.options:
        option = schema.options[0]
        raise SinkqlError(
            "SQ2484", f"option {option.name} is only for sinks", option.name_span, hint=f"Leave out {option.name}."
        )
    return schema


def _strategy(messages: SourceMessages, schema: ast.Schema) -> ast.Phrase | None:
    return schema.key_strategy if messages.part == "key" else schema.value_strategy


def _id(strategy: ast.Phrase | None) -> int | None:
    if strategy is not None and strategy.words == "ID" and isinstance(strategy.value, ast.Number):
        return int(strategy.value.text)
    return None


def _schema_in_statement(messages: SourceMessages, schema: ast.Schema) -> SchemaText | None:
    """Return the schema that the statement contains; None if it contains none."""
    if schema.text is not None:
        return SchemaText(schema.text, {}, schema.message)
    strategy = _strategy(messages, schema)
    if strategy is not None and strategy.words == "INLINE" and isinstance(strategy.value, ast.Text):
        return SchemaText(strategy.value.value, {})
    seed = schema.key_seed if messages.part == "key" else schema.value_seed
    return None if seed is None else SchemaText(seed.text, {}, seed.message)
