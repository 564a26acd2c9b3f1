"""The changes of a catalog by statements, as operations.

An operation is executed immediately, or first in a draft: a copy of the catalog in memory whose operations are repeated
in the catalog later, all or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, Operation
from sinkql.catalog.coordination.control import write_desired_state
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
from sinkql.catalog.secret.value import SecretInput
from sinkql.catalog.store import Connection
from sinkql.catalog.system.audit import record
from sinkql.errors import Family, SinkqlError
from sinkql.planner import Planned
from sinkql.planner.dependency import reached
from sinkql.planner.item.secret import without_literal
from sinkql.planner.item.statement import implied, own_name
from sinkql.planner.name import inside, short_name
from sinkql.printer import to_sql

Check = Callable[[MemoryCatalog, MemoryCatalog], None]
"""Raise SQ5210 if facts about a change do not hold for the items before and after it."""


def adding(
    statement: ast.Create, facts: logical.Facts, secret: SecretInput | None, planned: Planned | None = None
) -> Operation[str]:
    """Add an item, whose statement has full names, and return its id; `planned` is its plan in the first catalog."""
    stored = without_literal(statement)
    first = [planned]

    def add(catalog: Catalog, connection: Connection) -> str:
        item_id = _insert(catalog, connection, stored, facts, first.pop() if first else None)
        if secret is not None:
            insert_secret(connection, item_id, catalog.cipher.seal(item_id, secret))
        for item in implied(stored, catalog.plans.item(own_name(stored))):
            _insert(catalog, connection, item, {}, None)
        return item_id

    return add


def rotating(full_name: str, secret_input: SecretInput) -> Operation[None]:
    """Change the value of a secret; items that use it stay unchanged. Raise SQ2001 if it does not exist.

    The next `refresh` reads the secret's new text.
    """

    def rotate(catalog: Catalog, connection: Connection) -> None:
        row = secret_row(connection, full_name)
        sealed = catalog.cipher.seal(row.id, secret_input, version=row.version + 1)
        update_secret(connection, row, sealed, secret_input.statement_value)
        catalog.forget_plan(row.id)

    return rotate


def rekeying(
    full_name: str, changes: Definitions, secret_input: SecretInput, now: logical.CatalogReader
) -> Operation[None]:
    """Do the same as `redefining`, and replace the keys that an item stores."""
    redefine = redefining(changes, now)

    def rekey(catalog: Catalog, connection: Connection) -> None:
        redefine(catalog, connection)
        row = secret_row(connection, full_name)
        replace_secret(connection, row.id, catalog.cipher.seal(row.id, secret_input, version=row.version + 1))

    return rekey


def redefining(changes: Definitions, now: logical.CatalogReader, *, check: Check | None = None) -> Operation[None]:
    """Replace the statements that items have `now` by statements with full names; a new name is a rename.

    Items keep their ids. The statements in `changes` use the old names. Dependent items are rewritten if they name a
    renamed item, and planned again. Raises the errors of planning, SQ2016 for dependent items that can no longer be
    planned, and SQ2017 for an item that would read itself. Raises SQ5210 if an item has another statement than in
    `now`, and the errors of `check`.
    """
    before = {name: _content(now.entry(name)) for name in changes}

    def redefine(catalog: Catalog, connection: Connection) -> None:
        reader = catalog.reader()
        for name, content in before.items():
            if _content(reader.entry(name)) != content:
                raise conflict(f'"{short_name(name)}" was changed')
        users = edges(connection)
        replaced_items = replacements(changes, catalog.entries(), lambda name: users.get(name, ()))
        plans = catalog.plans.copy()
        replanned = replan(plans, replaced_items, changes=changes)
        if check is not None:
            check(catalog.plans, plans)
        update_items(connection, replanned, catalog.sealing)
        catalog.take(plans)

    return redefine


def sharing_views(
    add: Operation[str], changes: Definitions, ids: Iterable[str], now: logical.CatalogReader
) -> Operation[str]:
    """Add a sink after its shared views have become jobs, which have these ids."""
    begin = beginning_jobs(changes, ids, now)

    def share(catalog: Catalog, connection: Connection) -> str:
        begin(catalog, connection)
        return add(catalog, connection)

    return share


def beginning_jobs(
    changes: Definitions, ids: Iterable[str], now: logical.CatalogReader, *, check: Check | None = None
) -> Operation[None]:
    """Do the same as `redefining`, and set the desired state of the new jobs with these ids to running."""
    redefine, new = redefining(changes, now, check=check), tuple(ids)

    def begin(catalog: Catalog, connection: Connection) -> None:
        redefine(catalog, connection)
        for job_id in new:
            write_desired_state(connection, job_id, "running")

    return begin


def extending(
    changes: Definitions, added: Iterable[ast.Create], now: logical.CatalogReader, *, check: Check | None = None
) -> Operation[None]:
    """Do the same as `redefining`, and add items without facts whose statements have full names."""
    redefine, new = redefining(changes, now, check=check), tuple(added)

    def extend(catalog: Catalog, connection: Connection) -> None:
        redefine(catalog, connection)
        for item in new:
            _insert(catalog, connection, item, {}, None)

    return extend


def removing(full_names: Iterable[str]) -> Operation[None]:
    """Delete items, each before the items that it uses; raise SQ5210 if other items use them by then."""
    names = tuple(full_names)

    def remove(catalog: Catalog, connection: Connection) -> None:
        users = edges(connection)
        present = tuple(catalog.entries())
        contained = [contained_name for name in names for contained_name in inside(name, present)]
        for name in sorted({*reached(names, lambda name: users.get(name, ())), *contained} - {*names}):
            raise conflict(f'"{short_name(name)}" now depends on a dropped item')
        for name in names:
            if name not in present:
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
    """Set the owner of an item."""

    def give(catalog: Catalog, connection: Connection) -> None:
        row = connection.first("SELECT id, owner FROM items WHERE full_name = ?", full_name)
        if row is None:
            raise conflict(f'"{short_name(full_name)}" no longer exists')
        connection.update("items", {"owner": owner}, "id = ?", row.id)
        if row.owner != owner:
            record(connection, "alter", row.id)

    return give


def commenting(full_name: str, column: int, text: str | None) -> Operation[None]:
    """Comment on an item, or on its column at that position, from 1; None removes the comment."""

    def comment(catalog: Catalog, connection: Connection) -> None:
        entry = catalog.reader().entry(full_name)
        if entry is None:
            raise conflict(f'"{short_name(full_name)}" no longer exists')
        connection.execute("DELETE FROM comments WHERE item_id = ? AND sub_id = ?", (entry.id, column))
        if text is not None:
            connection.insert("comments", {"item_id": entry.id, "sub_id": column, "comment": text})

    return comment


def conflict(detail: str) -> SinkqlError:
    """Return the error for a transaction that no longer fits the catalog."""
    return SinkqlError(
        "SQ5210",
        "cannot commit the transaction: the catalog has changed since it began",
        detail=detail,
        hint="Run the transaction again from BEGIN.",
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
            write_desired_state(connection, str(facts[name]), "running")
    return item_id


_T = TypeVar("_T")


class Draft(Catalog):
    """A copy of a catalog in memory that records its operations; `apply` repeats them in the catalog."""

    def __init__(self, original: Catalog) -> None:
        self.operations: list[Operation[Any]] = []
        super().__init__(original.database.copy(), original.registry, project=original.project)
        for name, value in original.variables.items():
            self.set_variable(name, value)
        self._id = original.catalog_id()
        self.before = WithBroken(self.plans.copy())
        self._base = self.generation

    def change(self, operation: Operation[_T]) -> _T:
        """Execute an operation in the copy, and record it."""
        result = super().change(operation)
        self.operations.append(operation)
        return result

    def apply(self, catalog: Catalog) -> None:
        """Repeat all operations in a catalog, all or none.

        Raises SQ5210 if the catalog changed so that an operation no longer fits, and ChangedError as `Catalog.change`
        does.
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
