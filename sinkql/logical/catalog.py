"""What planning reads: stored items with their facts, and the catalog that has them."""

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
"""What purification found out from the world for one item, JSON-able; stored with it, to plan again offline."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An item as the catalog keeps it: identity, kind (as in DROP), canonical statement, facts."""

    id: str
    name: str
    kind: str
    statement: ast.Create
    facts: Facts


class CatalogReader(Protocol):
    """Read the catalog while planning.

    Full names are `database.schema.item`, of a schema `database.schema.`, of a database `database.`; clusters have a
    plain name.
    """

    def resolve(self, name: ast.Name) -> str:
        """Return the full name that `name` stands for, whether or not such an item exists."""

    def locate(self, name: ast.Name) -> str:
        """Return the full name that a new item called `name` gets."""

    def has(self, full_name: str) -> bool:
        """Tell whether there is an item of that full name, without planning it: it may turn out not to plan."""

    def entry(self, full_name: str) -> Entry | None:
        """Return the stored item of that full name."""

    def item(self, full_name: str) -> Item | None:
        """Return the planned item of that full name."""

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the full names of all items of a kind (SECRET, CONNECTION, SOURCE, …), for hints."""

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or are in it."""

    def setting(self, name: str) -> str:
        """Return the system setting of that name, its default if it was never set."""

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
