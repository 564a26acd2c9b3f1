"""Describe the checks of `sinkql doctor`, and what a connector needs to know to check a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sinkql import ast, logical

State = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check: its name, the state and the facts that were found, and how to fix a problem."""

    name: str
    state: State
    found: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class SourceUnderCheck:
    """A source that reads through a connection: its name, its statement, and its facts, if it was created.

    `tables` are the upstream names in CREATE TABLE … FROM SOURCE, as written. `positions` has the offsets of the
    source in the last commit of each sink, by the sink's name.
    """

    name: str
    statement: ast.CreateSource
    facts: logical.Facts = field(default_factory=dict)
    tables: tuple[tuple[str, ...], ...] = ()
    positions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Return the text of an option; None if it is absent or no text."""
        value = next((option.value for option in self.statement.options if option.name == name), None)
        match value:
            case ast.Text():
                return value.value
            case ast.Word():
                return value.name.value
            case _:
                return None

    @property
    def references(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the upstream tables that the source lists, as written."""
        subsources = self.statement.subsources
        listed = subsources.references if subsources is not None else ()
        return (*(tuple(part.value for part in reference.upstream.parts) for reference in listed), *self.tables)

    def reads(self, *name: str) -> bool:
        """Return whether the source reads the table with an upstream schema and name."""
        subsources = self.statement.subsources
        if subsources is not None and not subsources.references:
            schemas = [schema.value for schema in subsources.schemas]
            if not schemas or name[0] in schemas:
                return True
        return any(name[-len(reference) :] == reference for reference in self.references)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The sources that read through a connection (`readings`) and the `sinks` that write through it.

    `source_ids` are the ids of all sources of the catalog; None without a catalog.
    """

    readings: tuple[SourceUnderCheck, ...] = ()
    source_ids: frozenset[str] | None = None
    sinks: tuple[logical.Sink, ...] = ()
