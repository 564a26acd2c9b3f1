"""What a statement changes in the catalog, as an operation: done in the file now, or in a draft and then in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import Connection

from sinkql import ast, logical
from sinkql.catalog import schema
from sinkql.catalog.control import wish
from sinkql.catalog.row import (
    delete_item,
    edges,
    insert_item,
    insert_secret,
    next_number,
    secret_row,
    update_items,
    update_secret,
)
from sinkql.catalog.secret import Given
from sinkql.catalog.update import Changes, canonical, closure, identity, replan, steps
from sinkql.errors import SinkqlError
from sinkql.planner.name import inside, short_name
from sinkql.planner.statement import implied
from sinkql.printer import to_sql

if TYPE_CHECKING:
    from sinkql.catalog.store import Catalog

_T = TypeVar("_T")

Operation = Callable[["Catalog", Connection], _T]
"""Changes a catalog's plans and, within a transaction, its file alike. It may be done again in a catalog that moved."""


def adding(statement: ast.Create, facts: logical.Facts, secret: Given | None) -> Operation[str]:
    """Add an item; gives its id."""
    stored = canonical(statement)

    def add(catalog: Catalog, connection: Connection) -> str:
        item_id = _insert(catalog, connection, stored, facts)
        if secret is not None:
            insert_secret(connection, item_id, catalog.vault.seal(item_id, secret))
        for each in implied(stored):
            _insert(catalog, connection, each, {})
        return item_id

    return add


def rotating(full_name: str, given: Given) -> Operation[None]:
    """Give a secret a new value."""

    def rotate(catalog: Catalog, connection: Connection) -> None:
        row = secret_row(connection, full_name)
        sealed = catalog.vault.seal(row.id, given, version=row.version + 1)
        update_secret(connection, row, sealed, given.statement_value)
        catalog.forget_plan(row.id)

    return rotate


def updating(changes: Changes, now: logical.CatalogReader) -> Operation[None]:
    """Put statements in the place of those that items have `now`; a conflict where they have others by then."""
    before = {name: _content(now.entry(name)) for name in changes}

    def update(catalog: Catalog, connection: Connection) -> None:
        reader = catalog.reader()
        for name, content in before.items():
            if _content(reader.entry(name)) != content:
                raise conflict(f'"{short_name(name)}" was changed')
        found = steps(changes, catalog.entries(), edges(connection))
        plans = catalog.plans.copy()
        replanned = replan(plans, found, changes=changes, broken=frozenset(catalog.broken))
        update_items(connection, replanned, catalog.vault)
        catalog.take(plans, replanned)

    return update


def removing(full_names: Iterable[str]) -> Operation[None]:
    """Delete items, in an order in which none is used by a later one; a conflict where others use them by then."""
    names = tuple(full_names)

    def remove(catalog: Catalog, connection: Connection) -> None:
        users = edges(connection)
        known = tuple(catalog.entries())
        held = [each for name in names for each in inside(name, known)]
        for name in sorted({*closure(names, users), *held} - {*names}):
            raise conflict(f'"{short_name(name)}" came to depend on what is dropped')
        for name in names:
            if name not in known:
                raise conflict(f'"{short_name(name)}" is gone')
            delete_item(connection, name)
            catalog.forget(name)

    return remove


def setting(name: str, value: str) -> Operation[None]:
    """Store a setting."""

    def store(catalog: Catalog, connection: Connection) -> None:
        statement = insert(schema.settings).values(name=name, value=value)
        connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": value}))
        if name not in catalog.variables:
            catalog.plans.set(name, value)

    return store


def owning(full_name: str, owner: str) -> Operation[None]:
    """Give an item to a role."""

    def give(catalog: Catalog, connection: Connection) -> None:
        mine = schema.items.c.full_name == full_name
        if connection.execute(schema.items.update().where(mine).values(owner=owner)).rowcount == 0:
            raise conflict(f'"{short_name(full_name)}" is gone')

    return give


def commenting(full_name: str, column: int, text: str | None) -> Operation[None]:
    """Comment on an item, or on its column of that position, from 1; None takes a comment away."""

    def comment(catalog: Catalog, connection: Connection) -> None:
        entry = catalog.reader().entry(full_name)
        if entry is None:
            raise conflict(f'"{short_name(full_name)}" is gone')
        table = schema.comments
        connection.execute(table.delete().where(table.c.item_id == entry.id, table.c.sub_id == column))
        if text is not None:
            connection.execute(table.insert().values(item_id=entry.id, sub_id=column, comment=text))

    return comment


def conflict(detail: str) -> SinkqlError:
    """Return the error of a transaction that no longer fits the catalog."""
    return SinkqlError(
        "SQ5210",
        "the transaction cannot be committed: the catalog changed meanwhile",
        detail=detail,
        hint="Run it again from BEGIN.",
    )


def _content(entry: logical.Entry | None) -> object:
    return None if entry is None else (to_sql(entry.statement), dict(entry.facts))


def _insert(catalog: Catalog, connection: Connection, statement: ast.Create, facts: logical.Facts) -> str:
    item_id = f"u{next_number(connection)}"
    facts = {**facts, **identity(statement, catalog.entries().values())}
    planned = catalog.plans.add(statement, facts, id=item_id)
    insert_item(connection, item_id, statement, planned, facts, catalog.vault)
    if isinstance(planned.item, logical.Sink):
        wish(connection, str(facts["sink_id"]), "running")
    return item_id
