"""Collect the dependencies and notices of one statement; connectors use it as `PlanningContext`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import TypeVar

from sinkql import ast, logical
from sinkql.connector_api.planning import FormatKind, MessageFormat
from sinkql.connector_api.registry import Registry
from sinkql.errors import MissingError, Notice, SinkqlError, nearest, one_of
from sinkql.planner.name import cluster_name, find, short_name
from sinkql.printer.clause import name as print_name

K = TypeVar("K", FormatKind, MessageFormat)


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned item, notices for the user, and the full names of the items that it depends on."""

    item: logical.Item
    notices: tuple[Notice, ...] = ()
    dependencies: tuple[str, ...] = ()


@dataclass(slots=True)
class Scope:
    """The name resolution of one statement, which records dependencies and notices."""

    catalog: logical.CatalogReader
    registry: Registry
    notices: list[Notice] = field(default_factory=list)
    dependencies: dict[str, None] = field(default_factory=dict)

    def use(self, full_name: str) -> None:
        """Record that the statement depends on an item."""
        self.dependencies[full_name] = None

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def secret(self, name: ast.Name) -> logical.SecretName:
        entry = find(self.catalog, name, "SECRET")
        self.use(entry.name)
        return logical.SecretName(entry.name)

    def format(self, format_: ast.Format) -> FormatKind:
        return self._format(format_, self.registry.formats)

    def message_format(self, format_: ast.Format) -> MessageFormat:
        return self._format(format_, self.registry.messages)

    def _format(self, format_: ast.Format, supported: dict[str, K]) -> K:
        if format_.name in supported:
            return supported[format_.name]
        formats = one_of([f"FORMAT {name}" for name in sorted(supported)])
        if format_.name in {**self.registry.formats, **self.registry.messages}:
            message = f"sources of this kind do not support FORMAT {format_.name}"
            raise SinkqlError("SQ2411", message, format_.span, hint=f"Use {formats}.")
        if ("FORMAT", format_.name) in self.registry.later:
            message = f"FORMAT {format_.name} is not supported yet"
            raise SinkqlError("SQ2973", message, format_.span, hint=f"Use {formats}.")
        near = nearest(format_.name, tuple(supported))
        raise SinkqlError(
            "SQ2411",
            f"no connector supports FORMAT {format_.name}",
            format_.span,
            hint=f"Write FORMAT {near}." if near else f"Use {formats}.",
        )

    def connection(self, name: ast.Name, kind: str) -> logical.Connection:
        full_name = self.connection_name(name, kind)
        item = logical.get_item(self.catalog, full_name, logical.Connection)
        if item.kind != kind:
            raise SinkqlError(
                "SQ2501",
                f'connection "{name.text}" is to {item.kind}, not to {kind}',
                name.span,
                hint=f"Name a connection made with CREATE CONNECTION … TO {kind} (…).",
            )
        self.use(full_name)
        return item

    def cluster(self, name: ast.Ident) -> logical.Cluster:
        return logical.get_item(self.catalog, cluster_name(self.catalog, name, name.span), logical.Cluster)

    def connection_name(self, name: ast.Name, kind: str) -> str:
        """Return the full name of a connection of any kind; the hint of SQ2001 suggests names of this `kind`."""
        try:
            return find(self.catalog, name, "CONNECTION").name
        except MissingError as error:
            raise self._missing_connection_error(error, name, kind) from None

    def _missing_connection_error(self, error: MissingError, name: ast.Name, kind: str) -> MissingError:
        """Return the error for a missing connection, with a hint that lists connections of `kind`."""
        entries = [(full, self.catalog.entry(full)) for full in self.catalog.names("CONNECTION")]
        if kind not in self.registry.connections:
            return error  # FILES has no connections; other kinds provide access
        names = sorted(
            short_name(full, self.catalog)
            for full, entry in entries
            if entry is not None and isinstance(entry.statement, ast.CreateConnection) and entry.statement.kind == kind
        )
        match = nearest(name.text, names)
        if match is not None:
            error.hint = f'Did you mean "{match}"?'
        elif names:
            choices = one_of([f'"{choice}"' for choice in names[:5]] + (["…"] if len(names) > 5 else []))
            error.hint = f"Use {choices}, or create one with CREATE CONNECTION … TO {kind} (…)."
        else:
            error.hint = f"Create one with CREATE CONNECTION {print_name(name)} TO {kind} (…)."
        return error

    def planned(self, item: logical.Item) -> Planned:
        """Return the item with the collected notices and dependencies."""
        return Planned(item, tuple(self.notices), tuple(self.dependencies))


def kinds_hint(written: str, names: Iterable[str], later: Iterable[str] = ()) -> str:
    """Return the hint for an unknown kind: the nearest kind, or all supported kinds."""
    kinds = sorted(names)
    match = next((kind for kind in kinds if kind.startswith(f"{written} ") or kind.endswith(f" {written}")), None)
    match = match or nearest(written, [*kinds, *later])
    return f"Did you mean {match}?" if match else f"The kinds are {listed_kinds(kinds)}."


def listed_kinds(kinds: Iterable[str]) -> str:
    """Return kinds in order; a common prefix such as LOAD GENERATOR appears once."""
    entries = []
    for _, group in groupby(sorted(kind.split() for kind in kinds), key=lambda words: words[0]):
        names = list(group)
        common_words = takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False))
        common = len(list(common_words)) if len(names) > 1 else 0
        rest = " | ".join(" ".join(name[common:]) for name in names)
        entries.append(" ".join([*names[0][:common], rest]))
    return ", ".join(entries)
