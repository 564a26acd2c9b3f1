"""What a statement changes in the catalog, as an operation: done in it now, or in a draft and then in it.

A catalog → a copy of it in memory, whose changes can be done in the catalog later, all or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, Operation
from sinkql.catalog.coordination.control import wish
from sinkql.catalog.memory import MemoryCatalog, WithBroken
from sinkql.catalog.replan import Definitions, identity, replacements, replan
from sinkql.catalog.row import (
    delete_item,
    edges,
    insert_item,
    insert_secret,
    next_number,
    replace_secret,
    secret_row,
    update_items,
    update_secret,
)
from sinkql.catalog.secret.value import Given
from sinkql.catalog.store import Connection
from sinkql.catalog.system.audit import record
from sinkql.errors import Family, SinkqlError
from sinkql.planner import Planned
from sinkql.planner.dependency import reached
from sinkql.planner.item.statement import implied, own_name
from sinkql.planner.name import inside, short_name
from sinkql.printer import to_sql
from sinkql.script.redaction import without_literal

Check = Callable[[MemoryCatalog, MemoryCatalog], None]
"""Raise SQ5210 where what was found out about a change is not so in the items from before and after it."""


def adding(
    statement: ast.Create, facts: logical.Facts, secret: Given | None, planned: Planned | None = None
) -> Operation[str]:
    """Add an item, whose statement has full names; gives its id. `planned` is what it means where it is added first."""
    stored = without_literal(statement)
    first = [planned]

    def add(catalog: Catalog, connection: Connection) -> str:
        item_id = _insert(catalog, connection, stored, facts, first.pop() if first else None)
        if secret is not None:
            insert_secret(connection, item_id, catalog.cipher.seal(item_id, secret))
        for each in implied(stored, catalog.plans.item(own_name(stored))):
            _insert(catalog, connection, each, {}, None)
        return item_id

    return add


def rotating(full_name: str, given: Given) -> Operation[None]:
    """Change the value of a secret; items that use it stay unchanged. Raise SQ2001 if it does not exist.

    The next `refresh` reads the secret's new text.
    """

    def rotate(catalog: Catalog, connection: Connection) -> None:
        row = secret_row(connection, full_name)
        sealed = catalog.cipher.seal(row.id, given, version=row.version + 1)
        update_secret(connection, row, sealed, given.statement_value)
        catalog.forget_plan(row.id)

    return rotate


def rekeying(full_name: str, changes: Definitions, given: Given, now: logical.CatalogReader) -> Operation[None]:
    """Do what `redefining` does, and give an item that keeps keys of its own others."""
    redefine = redefining(changes, now)

    def rekey(catalog: Catalog, connection: Connection) -> None:
        redefine(catalog, connection)
        row = secret_row(connection, full_name)
        replace_secret(connection, row.id, catalog.cipher.seal(row.id, given, version=row.version + 1))

    return rekey


def redefining(changes: Definitions, now: logical.CatalogReader, *, check: Check | None = None) -> Operation[None]:
    """Put statements with full names in the place of those that items have `now`; a new name is a rename.

    Items keep their ids. All that depends on them is rewritten where it names them and planned again. What the
    statements use goes by the names from before. Raises what planning raises, SQ2016 for dependents that do not plan
    any more, SQ2017 for an item that would read itself, SQ5210 where items have other statements by then,
    and what `check` raises.
    """
    before = {name: _content(now.entry(name)) for name in changes}

    def redefine(catalog: Catalog, connection: Connection) -> None:
        reader = catalog.reader()
        for name, content in before.items():
            if _content(reader.entry(name)) != content:
                raise conflict(f'"{short_name(name)}" was changed')
        users = edges(connection)
        found = replacements(changes, catalog.entries(), lambda name: users.get(name, ()))
        plans = catalog.plans.copy()
        replanned = replan(plans, found, changes=changes)
        if check is not None:
            check(catalog.plans, plans)
        update_items(connection, replanned, catalog.sealing)
        catalog.take(plans)

    return redefine


def sharing_views(
    add: Operation[str], changes: Definitions, ids: Iterable[str], now: logical.CatalogReader
) -> Operation[str]:
    """Add a sink, after the views that it shares with others have become jobs, which have these ids."""
    begin = beginning_jobs(changes, ids, now)

    def share(catalog: Catalog, connection: Connection) -> str:
        begin(catalog, connection)
        return add(catalog, connection)

    return share


def beginning_jobs(
    changes: Definitions, ids: Iterable[str], now: logical.CatalogReader, *, check: Check | None = None
) -> Operation[None]:
    """Do what `redefining` does; the jobs that there are then, which have these ids, are to run."""
    redefine, new = redefining(changes, now, check=check), tuple(ids)

    def begin(catalog: Catalog, connection: Connection) -> None:
        redefine(catalog, connection)
        for each in new:
            wish(connection, each, "running")

    return begin


def extending(
    changes: Definitions, added: Iterable[ast.Create], now: logical.CatalogReader, *, check: Check | None = None
) -> Operation[None]:
    """Do what `redefining` does, and add items whose statements have full names and which have no facts."""
    redefine, new = redefining(changes, now, check=check), tuple(added)

    def extend(catalog: Catalog, connection: Connection) -> None:
        redefine(catalog, connection)
        for each in new:
            _insert(catalog, connection, each, {}, None)

    return extend


def removing(full_names: Iterable[str]) -> Operation[None]:
    """Delete items, in an order in which none is used by a later one; a conflict where others use them by then."""
    names = tuple(full_names)

    def remove(catalog: Catalog, connection: Connection) -> None:
        users = edges(connection)
        known = tuple(catalog.entries())
        held = [each for name in names for each in inside(name, known)]
        for name in sorted({*reached(names, lambda name: users.get(name, ())), *held} - {*names}):
            raise conflict(f'"{short_name(name)}" now depends on what is dropped')
        for name in names:
            if name not in known:
                raise conflict(f'"{short_name(name)}" no longer exists')
            delete_item(connection, name)
            catalog.forget(name)

    return remove


def setting(name: str, value: str) -> Operation[None]:
    """Store a setting."""

    def store(catalog: Catalog, connection: Connection) -> None:
        connection.put("settings", "name", {"name": name, "value": value})
        if name not in catalog.variables:
            catalog.plans.set(name, value)

    return store


def owning(full_name: str, owner: str) -> Operation[None]:
    """Give an item to a role."""

    def give(catalog: Catalog, connection: Connection) -> None:
        row = connection.first("SELECT id, owner FROM items WHERE full_name = ?", full_name)
        if row is None:
            raise conflict(f'"{short_name(full_name)}" no longer exists')
        connection.update("items", {"owner": owner}, "id = ?", row.id)
        if row.owner != owner:
            record(connection, "alter", row.id)

    return give


def commenting(full_name: str, column: int, text: str | None) -> Operation[None]:
    """Comment on an item, or on its column of that position, from 1; None takes a comment away."""

    def comment(catalog: Catalog, connection: Connection) -> None:
        entry = catalog.reader().entry(full_name)
        if entry is None:
            raise conflict(f'"{short_name(full_name)}" no longer exists')
        connection.execute("DELETE FROM comments WHERE item_id = ? AND sub_id = ?", (entry.id, column))
        if text is not None:
            connection.insert("comments", {"item_id": entry.id, "sub_id": column, "comment": text})

    return comment


def conflict(detail: str) -> SinkqlError:
    """Return the error of a transaction that no longer fits the catalog."""
    return SinkqlError(
        "SQ5210",
        "cannot commit the transaction: the catalog has changed in the meantime",
        detail=detail,
        hint="Run it again from BEGIN.",
    )


def _content(entry: logical.Entry | None) -> object:
    return None if entry is None else (to_sql(entry.statement), dict(entry.facts))


def _insert(
    catalog: Catalog, connection: Connection, statement: ast.Create, facts: logical.Facts, planned: Planned | None
) -> str:
    item_id = f"u{next_number(connection)}"
    facts = {**facts, **identity(statement, catalog.plans.identities())}
    if planned is None:
        planned = catalog.plans.add(statement, facts, id=item_id)
    else:
        catalog.plans.keep(planned, statement, facts, id=item_id)
    insert_item(connection, item_id, statement, planned, facts, catalog.sealing)
    for name in ("sink_id", "view_id"):
        if name in facts:
            wish(connection, str(facts[name]), "running")
    return item_id


_T = TypeVar("_T")


class Draft(Catalog):
    """A copy of a catalog in memory. It records what changes it, and `apply` repeats that in the catalog."""

    def __init__(self, original: Catalog) -> None:
        self.operations: list[Operation[Any]] = []
        super().__init__(original.database.copy(), original.registry, project=original.project)
        for name, value in original.variables.items():
            self.set_variable(name, value)
        self._id = original.catalog_id()
        self.before = WithBroken(self.plans.copy())
        self._base = self.generation

    def change(self, operation: Operation[_T]) -> _T:
        """Do an operation in the copy, and record it."""
        result = super().change(operation)
        self.operations.append(operation)
        return result

    def apply(self, catalog: Catalog) -> None:
        """Repeat all operations in a catalog, all or nothing; raises SQ5210 if it changed so that one no longer fits.

        Raises ChangedError as `Catalog.change` does.
        """

        def whole(catalog: Catalog, connection: Connection) -> None:
            for operation in self.operations:
                operation(catalog, connection)

        moved = catalog.generation != self._base
        try:
            catalog.change(whole)
        except SinkqlError as error:
            if moved and error.family is Family.MEANING:
                raise conflict(error.message) from error
            raise
