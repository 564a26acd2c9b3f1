"""The catalog as the planner reads it: stored items, and their facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sinkql import ast
from sinkql.keywords import Keywords
from sinkql.logical.item import Item, Source, View

ItemKind = TypeVar("ItemKind", bound=Item)
StatementKind = TypeVar("StatementKind", bound=ast.Create)
Facts = Mapping[str, Any]
"""The facts that purification found for one item, JSON-able; stored with it, so that it can be planned offline."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored item: identity, kind (as in DROP), canonical statement, facts."""

    id: str
    name: str
    kind: str
    statement: ast.Create
    facts: Facts


class CatalogReader(Protocol):
    """Read access to the catalog for the planner.

    Full names are `database.schema.item` for items, `database.schema.` for schemas and `database.` for databases;
    clusters have a plain name.
    """

    def resolve(self, name: ast.Name) -> str:
        """Return the full name of `name`, whether or not the item exists."""

    def locate(self, name: ast.Name) -> str:
        """Return the full name for a new item called `name`."""

    def has(self, full_name: str) -> bool:
        """Return whether an item of that full name exists, without planning it, so its plan may still fail."""

    def entry(self, full_name: str) -> Entry | None:
        """Return the stored item of that full name."""

    def item(self, full_name: str) -> Item | None:
        """Return the planned item of that full name."""

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the full names of all items of a kind (SECRET, CONNECTION, SOURCE, …), for hints."""

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that depend directly on an item, or are inside it."""

    def setting(self, name: str) -> str:
        """Return the value of a system setting, its default if it was never set."""

    @property
    def words(self) -> Keywords:
        """Return the words of the installed connectors."""


def get_entry(catalog: CatalogReader, full_name: str) -> Entry:
    """Return the stored item of that full name; raise LookupError if it does not exist."""
    entry = catalog.entry(full_name)
    if entry is None:
        raise LookupError(full_name)
    return entry


def get_item(catalog: CatalogReader, full_name: str, kind: type[ItemKind]) -> ItemKind:
    """Return the planned item of that full name; raise LookupError if it does not exist or has another kind."""
    item = catalog.item(full_name)
    if not isinstance(item, kind):
        raise LookupError(f"{kind.__name__.lower()} {full_name}")
    return item


def get_relation(catalog: CatalogReader, full_name: str) -> Source | View:
    """Return the planned source or view of that full name; raise LookupError if the item is neither."""
    item = catalog.item(full_name)
    if not isinstance(item, Source | View):
        raise LookupError(f"relation {full_name}")
    return item


def get_statement(catalog: CatalogReader, full_name: str, kind: type[StatementKind]) -> StatementKind:
    """Return the statement of a stored item; raise LookupError if it does not exist or has another kind."""
    statement = get_entry(catalog, full_name).statement
    if not isinstance(statement, kind):
        raise LookupError(f"{kind.__name__} {full_name}")
    return statement
