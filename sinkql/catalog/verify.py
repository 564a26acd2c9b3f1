"""Check a catalog for damage: pages, items, dependencies, and secrets that cannot be decrypted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sinkql.catalog.catalog import Catalog
from sinkql.catalog.row import facts_of, opened, parsed
from sinkql.catalog.store import Connection, Row
from sinkql.catalog.system.relation import DATABASE_ID, PUBLIC_SCHEMA_ID, QUICKSTART_ID
from sinkql.errors import SinkqlError
from sinkql.planner.item.statement import kind_of, own_name
from sinkql.planner.name import around, short_name
from sinkql.printer import to_sql
from sinkql.table.file import table_path

_BUILT_IN = (QUICKSTART_ID, PUBLIC_SCHEMA_ID, DATABASE_ID)
_LOST = "Restore the file from a backup of the folder tables."


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the catalog; `item` is the full name of the item, None for the whole file."""

    code: str
    message: str
    item: str | None = None
    hint: str | None = None


def problems(catalog: Catalog) -> Iterator[Problem]:
    """Yield the problems of an open catalog, without changing anything."""
    for damage in catalog.database.damage():
        yield Problem("SQ4103", damage, hint="Restore a backup of it.")
    with catalog.database.read() as connection:
        rows = connection.all("SELECT * FROM items ORDER BY number")
        yield from _orphans(connection, rows)
        uses = _uses(connection)
        literals = set(connection.scalars("SELECT item_id FROM secrets WHERE reference IS NULL"))
    names = {row.full_name for row in rows}
    for row in rows:
        yield from _item(row, catalog, names)
        if not _planned_uses(row, catalog) & names <= uses.get(row.id, frozenset()):
            yield _changed_problem("the recorded dependencies differ from the item's", row.full_name)
        if row.kind == "TABLE" and "table_id" in facts_of(row) and not _rows(row, catalog).exists():
            yield Problem("SQ3420", "the file with its rows is missing", row.full_name, _LOST)
        if row.id in literals:
            yield from _secret(row.full_name, catalog)
    for name, broken in catalog.plans.broken.items():  # all items were planned above
        yield Problem(broken.error.code, f"cannot be used: {broken.error.message}", name, broken.error.hint)


def _planned_uses(row: Row, catalog: Catalog) -> frozenset[str]:
    """Return the items that an item uses by its plan; an empty set if it has no plan."""
    try:
        entry = catalog.plans.entry(row.full_name)
    except SinkqlError:  # a text does not parse: reported for that item
        return frozenset()
    return frozenset(catalog.plans.dependencies(row.full_name)) if entry is not None else frozenset()


def _rows(row: Row, catalog: Catalog) -> Path:
    """Return the file of a table's rows."""
    return table_path(catalog.database.folder, str(facts_of(row)["table_id"]), row.full_name)


def _orphans(connection: Connection, rows: Any) -> Iterator[Problem]:
    item_ids = {row.id for row in rows}
    secrets = {row.id for row in rows if row.kind == "SECRET"}
    stored = set(connection.scalars("SELECT item_id FROM secrets"))
    for table, column in (("dependencies", "item_id"), ("dependencies", "referenced_id"), ("secrets", "item_id")):
        for _ in sorted(set(connection.scalars(f"SELECT {column} FROM {table}")) - item_ids):
            yield _changed_problem(f"a row of {table} refers to an item that does not exist")
    for item_id in sorted(secrets ^ stored):
        yield _changed_problem(f"secret {item_id} has a value without an item, or an item without a value")
    for item_id in sorted(set(connection.scalars("SELECT item_id FROM comments")) - item_ids - {*_BUILT_IN}):
        yield _changed_problem(f"a comment refers to {item_id}, which does not exist")


def _uses(connection: Connection) -> dict[str, frozenset[str]]:
    uses: dict[str, set[str]] = {}
    query = "SELECT e.item_id, i.full_name FROM dependencies AS e JOIN items AS i ON i.id = e.referenced_id"
    for row in connection.all(query):
        uses.setdefault(row.item_id, set()).add(row.full_name)
    return {item_id: frozenset(names) for item_id, names in uses.items()}


def _item(row: Row, catalog: Catalog, names: set[str]) -> Iterator[Problem]:
    try:
        stored = parsed(row)
        facts_of(row)
        opened(row, stored, cipher=catalog.cipher)
    except SinkqlError as error:
        yield Problem(error.code, error.message, row.full_name, error.hint)
        return
    if (own_name(stored), kind_of(stored)) != (row.full_name, row.kind):
        yield _changed_problem("the text belongs to another item", row.full_name)
    elif to_sql(stored) != row.create_sql:
        yield _changed_problem("the text differs from the form that SinkQL writes", row.full_name)
    elif to_sql(stored, redacted=catalog.registry.keywords) != row.redacted_sql:
        yield _changed_problem("the text and the redacted text differ", row.full_name)
    for place in around(row.full_name):
        if place not in names and catalog.plans.entry(place) is None:
            yield _changed_problem(f'"{short_name(place)}", which contains it, does not exist', row.full_name)


def _secret(name: str, catalog: Catalog) -> Iterator[Problem]:
    """Check that a literal can be decrypted; secrets stored elsewhere are not checked."""
    try:
        catalog.secret(name)
    except SinkqlError as error:
        yield Problem(error.code, error.message, name, error.hint)


def _changed_problem(what: str, item: str | None = None) -> Problem:
    return Problem("SQ4116", what, item, "Another program changed the file. Restore a backup of it.")
