"""FORMAT … USING: which schema a source is planned with, from the statement or the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SourceMessages
from sinkql.connectors.confluent.connection import KIND
from sinkql.errors import SinkqlError, UnaskedError


@dataclass(frozen=True, slots=True)
class Known:
    """A schema's text, and the texts of those that it refers to, by the name that it has for them."""

    text: str
    references: Mapping[str, str]
    message: str | None = None


def ask(messages: SourceMessages, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """Return the text and the references of the schema, where the statement does not have it; raises SQ2482, SQ426x."""
    given = _checked(messages)
    if given.registry is None or _written(messages, given) is not None:
        return {}
    from sinkql.connector_api.tunnel import planned_tunnel
    from sinkql.connectors.confluent.registry import Registry, UnknownSchemaError  # only where one is asked

    assert given.connection is not None
    connection = planning.connection(given.connection, KIND)
    strategy = _strategy(messages, given)
    subject = f"{messages.topic}-{messages.part}"
    try:
        tunnel = planned_tunnel(connection, access)
        with closing(Registry(connection.name, connection.options, access.secret, tunnel)) as registry:
            id_ = _id(strategy)
            found = registry.latest(subject) if id_ is None else registry.schema(id_)
    except UnknownSchemaError:
        wanted = (
            f"schema {_id(strategy)}" if strategy is not None and _id(strategy) is not None else f'subject "{subject}"'
        )
        part = messages.part.upper()
        raise SinkqlError(
            "SQ2482",
            f'the schema registry of connection "{connection.name}" has no {wanted}',
            given.span,
            hint=f"Register a schema of the topic's {messages.part}s, or name one: {part} STRATEGY ID 1.",
        ) from None
    except SinkqlError as error:
        error.span = error.span or given.connection.span
        raise
    if found.kind != messages.format.name:
        raise SinkqlError(
            "SQ2483",
            f"the schema of the topic's {messages.part}s is not one of {messages.format.name}, but of {found.kind}",
            given.span,
            hint=f"Write FORMAT {found.kind} USING CONFLUENT SCHEMA REGISTRY CONNECTION name.",
        )
    return {"schema": found.text, "references": [list(each) for each in found.references.items()]}


def known(messages: SourceMessages) -> Known:
    """Return the schema of the statement, or of the facts; raises UnaskedError where these were not asked for."""
    given = _checked(messages)
    written = _written(messages, given)
    if written is not None:
        return written
    if "schema" not in messages.facts:
        raise UnaskedError(
            "SQ2481",
            "the columns are in the schema registry, which is asked only where the source is created",
            messages.format.span,
            hint="Write the schema in the statement: VALUE STRATEGY INLINE '…'.",
        )
    return Known(messages.facts["schema"], dict(messages.facts["references"]))


def registry_options(messages: SourceMessages, planning: PlanningContext) -> dict[str, Any]:
    """Return what opens the registry where messages are decoded, which decides no rows; nothing without one."""
    given = _checked(messages)
    if given.registry is None:
        return {}
    assert given.connection is not None
    return {"tuning": {"registry": registry_of(given.connection, planning)}}


def registry_of(name: ast.Name, planning: PlanningContext) -> dict[str, Any]:
    """Return what opens the registry of a connection: its name, its options, and those of its tunnel."""
    connection = planning.connection(name, KIND)
    found: dict[str, Any] = {"name": connection.name, "options": dict(connection.options)}
    through = connection.options.get("ssh_tunnel")
    if through is not None:
        tunnel = planning.catalog.item(through["connection"])
        assert isinstance(tunnel, logical.Connection)
        found["tunnel"] = dict(tunnel.options)
    return found


def unusable(messages: SourceMessages, error: ValueError) -> SinkqlError:
    """Return the error for a schema that is not right."""
    strategy = f"{messages.part.upper()} STRATEGY ID 1"
    return SinkqlError(
        "SQ2485",
        f"the schema of the topic's {messages.part}s cannot be used: {error}",
        messages.format.span,
        hint=f"Correct the schema, or name another one that the registry has: {strategy}.",
    )


def check_declared(messages: SourceMessages, columns: Sequence[logical.Column]) -> None:
    """Refuse a column that the schema does not have; whether values fit into its type, each message tells."""
    names = [each.name for each in columns]
    for column in messages.columns:
        if column.name not in names:
            raise SinkqlError(
                "SQ2470",
                f'the schema of the topic\'s {messages.part}s has no field "{column.name}"',
                messages.format.span,
                hint=f"Its fields are {', '.join(names)}; without a list of columns the source has them all.",
            )


def _checked(messages: SourceMessages) -> ast.Schema:
    """Return where the schema is; raises SQ2480 where that is nowhere, and for registries that are not supported."""
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
            "SQ2484", f"option {option.name} is one of sinks", option.name_span, hint=f"Leave out {option.name}."
        )
    return schema


def _strategy(messages: SourceMessages, schema: ast.Schema) -> ast.Phrase | None:
    return schema.key_strategy if messages.part == "key" else schema.value_strategy


def _id(strategy: ast.Phrase | None) -> int | None:
    if strategy is not None and strategy.words == "ID" and isinstance(strategy.value, ast.Number):
        return int(strategy.value.text)
    return None


def _written(messages: SourceMessages, schema: ast.Schema) -> Known | None:
    """Return the schema that stands in the statement."""
    if schema.text is not None:
        return Known(schema.text, {}, schema.message)
    strategy = _strategy(messages, schema)
    if strategy is not None and strategy.words == "INLINE" and isinstance(strategy.value, ast.Text):
        return Known(strategy.value.value, {})
    seed = schema.key_seed if messages.part == "key" else schema.value_seed
    return None if seed is None else Known(seed.text, {}, seed.message)
