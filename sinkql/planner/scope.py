"""What planning one statement gathers: its dependencies and notices; connectors see it as `PlanningContext`."""

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
    """A planned item, what the user should know, and the full names of the items it needs."""

    item: logical.Item
    notices: tuple[Notice, ...] = ()
    dependencies: tuple[str, ...] = ()


@dataclass(slots=True)
class Scope:
    """Resolve names for one statement, and remember what was used."""

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

    def format(self, given: ast.Format) -> FormatKind:
        return self._format(given, self.registry.formats)

    def message_format(self, given: ast.Format) -> MessageFormat:
        return self._format(given, self.registry.messages)

    def _format(self, given: ast.Format, known: dict[str, K]) -> K:
        if given.name in known:
            return known[given.name]
        formats = one_of([f"FORMAT {name}" for name in sorted(known)])
        if given.name in {**self.registry.formats, **self.registry.messages}:
            message = f"sources of this kind have no FORMAT {given.name}"
            raise SinkqlError("SQ2411", message, given.span, hint=f"Use {formats}.")
        if ("FORMAT", given.name) in self.registry.later:
            message = f"FORMAT {given.name} is not supported yet"
            raise SinkqlError("SQ2973", message, given.span, hint=f"Use {formats}.")
        near = nearest(given.name, tuple(known))
        raise SinkqlError(
            "SQ2411",
            f"no connector has a FORMAT {given.name}",
            given.span,
            hint=f"Write FORMAT {near}." if near else f"Use {formats}.",
        )

    def connection(self, name: ast.Name, kind: str) -> logical.Connection:
        full_name = self.connection_name(name, kind)
        item = self.catalog.item(full_name)
        assert isinstance(item, logical.Connection)
        if item.kind != kind:
            raise SinkqlError(
                "SQ2501",
                f'connection "{name.text}" leads to {item.kind}, not to {kind}',
                name.span,
                hint=f"Name a connection made with CREATE CONNECTION … TO {kind} (…).",
            )
        self.use(full_name)
        return item

    def cluster(self, name: ast.Ident) -> logical.Cluster:
        item = self.catalog.item(cluster_name(self.catalog, name, name.span))
        assert isinstance(item, logical.Cluster)
        return item

    def connection_name(self, name: ast.Name, kind: str) -> str:
        """Return the full name of a connection, of whatever kind; SQ2001 proposes those of the kind that is needed."""
        try:
            return find(self.catalog, name, "CONNECTION").name
        except MissingError as error:
            raise self._no_connection(error, name, kind) from None

    def _no_connection(self, error: MissingError, name: ast.Name, kind: str) -> MissingError:
        """Return the error for a connection that there is not, with the hint of those of the kind that is needed."""
        entries = [(full, self.catalog.entry(full)) for full in self.catalog.names("CONNECTION")]
        if kind not in self.registry.connections:
            return error  # such as FILES: they are read through connections of other kinds
        known = sorted(
            short_name(full, self.catalog)
            for full, entry in entries
            if entry is not None and isinstance(entry.statement, ast.CreateConnection) and entry.statement.kind == kind
        )
        near = nearest(name.text, known)
        if near is not None:
            error.hint = f'Did you mean "{near}"?'
        elif known:
            listed = one_of([f'"{each}"' for each in known[:5]] + (["…"] if len(known) > 5 else []))
            error.hint = f"Use {listed}, or create one with CREATE CONNECTION … TO {kind} (…)."
        else:
            error.hint = f"Create one with CREATE CONNECTION {print_name(name)} TO {kind} (…)."
        return error

    def planned(self, item: logical.Item) -> Planned:
        """Return the item with all that was gathered."""
        return Planned(item, tuple(self.notices), tuple(self.dependencies))


def kinds_hint(written: str, known: Iterable[str], later: Iterable[str] = ()) -> str:
    """Return the hint for a kind that nobody offers: the nearest one, or all that are supported."""
    there = sorted(known)
    near = next((each for each in there if each.startswith(f"{written} ") or each.endswith(f" {written}")), None)
    near = near or nearest(written, [*there, *later])
    return f"Did you mean {near}?" if near else f"The kinds are {listed_kinds(there)}."


def listed_kinds(kinds: Iterable[str]) -> str:
    """Return kinds in order; what some have in common, as LOAD GENERATOR, is there once."""
    found = []
    for _, group in groupby(sorted(each.split() for each in kinds), key=lambda words: words[0]):
        names = list(group)
        same = takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False))
        common = len(list(same)) if len(names) > 1 else 0
        rest = " | ".join(" ".join(each[common:]) for each in names)
        found.append(" ".join([*names[0][:common], rest]))
    return ", ".join(found)
