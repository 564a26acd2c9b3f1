"""What planning one statement gathers: its dependencies and notices; connectors see it as `Planning`."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql import ast, logical
from sinkql.connector.registry import Registry
from sinkql.errors import Notice, SinkqlError
from sinkql.planner.name import find


@dataclass(frozen=True, slots=True)
class Planned:
    """Hold a planned item, what the user should know, and the full names of the items it needs."""

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

    def connection(self, name: ast.Name, kind: str) -> logical.Connection:
        entry = find(self.catalog, name, "CONNECTION")
        item = self.catalog.item(entry.name)
        assert isinstance(item, logical.Connection)
        if item.kind != kind:
            raise SinkqlError(
                "SQ2501",
                f'connection "{name.text}" is to {item.kind}, not to {kind}',
                name.span,
                hint=f"Name a connection made with CREATE CONNECTION … TO {kind} (…).",
            )
        self.use(entry.name)
        return item

    def planned(self, item: logical.Item) -> Planned:
        """Return the item with all that was gathered."""
        return Planned(item, tuple(self.notices), tuple(self.dependencies))
