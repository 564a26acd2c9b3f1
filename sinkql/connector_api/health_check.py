"""What `doctor` says of a machine and of servers: checks; and what a connector is told to examine of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sinkql import ast, logical

State = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check: what was looked at, what was found, and how to fix it."""

    name: str
    state: State
    found: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class SourceUnderCheck:
    """A source that reads through a connection: its name, its statement, and its facts, if it has been created.

    `tables` are the upstream names of the tables that CREATE TABLE … FROM SOURCE reads of it, as they are written.
    `positions` are how far the sinks of the source were at their last commits, by their names.
    """

    name: str
    statement: ast.CreateSource
    facts: logical.Facts = field(default_factory=dict)
    tables: tuple[tuple[str, ...], ...] = ()
    positions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def text(self, option: str) -> str | None:
        """Return the text of an option; None where it has none."""
        value = next((each.value for each in self.statement.options if each.name == option), None)
        match value:
            case ast.Text():
                return value.value
            case ast.Word():
                return value.name.value
            case _:
                return None

    @property
    def references(self) -> tuple[tuple[str, ...], ...]:
        """Return the upstream tables that are read by their names, as these are written."""
        wanted = self.statement.subsources
        listed = wanted.references if wanted is not None else ()
        return (*(tuple(part.value for part in each.upstream.parts) for each in listed), *self.tables)

    def reads(self, *name: str) -> bool:
        """Tell whether a table of an upstream schema and name is read."""
        wanted = self.statement.subsources
        if wanted is not None and not wanted.references:
            schemas = [each.value for each in wanted.schemas]
            if not schemas or name[0] in schemas:
                return True
        return any(name[-len(each) :] == each for each in self.references)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What reads through a connection, and the ids of all sources of the catalog, None where there is no catalog.

    `sinks` are those that write through it.
    """

    readings: tuple[SourceUnderCheck, ...] = ()
    source_ids: frozenset[str] | None = None
    sinks: tuple[logical.Sink, ...] = ()
