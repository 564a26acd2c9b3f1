"""The items of a catalog file ↔ their plans in memory: what is stored is SQL and facts, loading is planning again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Row

from sinkql import ast, logical
from sinkql.catalog import schema
from sinkql.catalog.change import (
    Operation,
    adding,
    commenting,
    owning,
    removing,
    rotating,
    setting,
    updating,
)
from sinkql.catalog.control import Control
from sinkql.catalog.database import Database
from sinkql.catalog.journal import Journal
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.reader import WithBroken
from sinkql.catalog.row import (
    Stamp,
    Stored,
    facts_of,
    generation_of,
    in_order,
    opened,
    opened_sql,
    parsed,
    secret_row,
    stamp,
    stamps,
)
from sinkql.catalog.secret import Given, Sealed, SecretValue, Vault
from sinkql.catalog.system import create_views
from sinkql.catalog.update import Changes, Replanned
from sinkql.connector.registry import Registry
from sinkql.errors import SinkqlError
from sinkql.planner.name import inside, split_name

_T = TypeVar("_T")
_DECIDING = ("enable_iceberg_sink",)  # settings without which stored items would plan otherwise


class ChangedError(Exception):
    """Say that another process changed the catalog since it was read: read it again, and plan again."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Hold a stored item that plans no more, and why."""

    entry: logical.Entry
    error: SinkqlError


class Catalog:
    """Hold an open catalog: `plans` are its items as of the last `refresh`, `broken` those that plan no more."""

    def __init__(self, file: Path | Database, registry: Registry) -> None:
        self.registry = registry
        self.database = Database(file, create_views) if isinstance(file, Path) else file
        self.control = Control(self.database)
        self.journal = Journal(self.database)
        self.vault = Vault(self.database.path, self.catalog_id)
        self.plans = MemoryCatalog(registry)
        self.broken: dict[str, Broken] = {}
        self.variables: dict[str, str] = {}
        self._generation = -1
        self._read: dict[str, Stamp] = {}
        self._settings: dict[str, str] = {}
        self._stale: set[str] = set()
        self._id: str | None = None
        self.refresh()

    @property
    def identity(self) -> str:
        """Return the id of the catalog, which no other has."""
        return self.catalog_id()

    # --- reading ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read what other processes changed; raises SQ4106 for an item whose text does not parse.

        Items are planned again if they or what they use changed, or if a setting did that plans depend on.
        """
        with self.database.read() as connection:
            generation = generation_of(connection)
            if generation == self._generation:
                return
            rows, uses = in_order(connection)
            settings = {row.name: row.value for row in connection.execute(sa.select(schema.settings))}
        plans, broken = self._kept(rows, uses, settings), dict[str, Broken]()
        for row in rows:
            if plans.entry(row.full_name) is not None:
                continue
            statement, facts = parsed(row), facts_of(row)
            try:
                statement = opened(row, statement, self.vault)
                plans.add(statement, facts, id=row.id)
            except SinkqlError as error:
                entry = logical.Entry(row.id, row.full_name, row.kind, statement, facts)
                broken[entry.name] = Broken(entry, error.within(path=None, text=row.create_sql))
        self.plans, self.broken, self._generation = plans, broken, generation
        self._read, self._settings = {row.id: stamp(row) for row in rows}, settings

    def _kept(
        self, rows: Iterable[Row[Any]], uses: Mapping[str, Iterable[str]], settings: Mapping[str, str]
    ) -> MemoryCatalog:
        """Return the plans that still hold, under the settings of now."""
        names = {entry.id: entry.name for entry in self.plans.entries()}
        kept: set[str] = set()
        if all(self._settings.get(name) == settings.get(name) for name in _DECIDING):
            for row in rows:
                same = self._read.get(row.id) == stamp(row) and names.get(row.id) == row.full_name
                if same and kept.issuperset(uses[row.id]):
                    kept.add(row.id)
        plans = self.plans.copy() if kept else MemoryCatalog(self.registry)
        for entry in plans.entries():
            if entry.id.startswith("u") and entry.id not in kept:
                plans.remove(entry.name)
        plans.reset({**settings, **self.variables})
        return plans

    @property
    def generation(self) -> int:
        """Return the number of the file's state that `refresh` read; it moves with every change of an item."""
        return self._generation

    def reader(self) -> logical.CatalogReader:
        """Return the catalog as DROP sees it: with the items that plan no more."""
        return WithBroken(self.plans, {name: broken.entry for name, broken in self.broken.items()})

    def entries(self) -> dict[str, logical.Entry]:
        """Return all items by their full names, also those that plan no more."""
        broken = {name: broken.entry for name, broken in self.broken.items()}
        return broken | {entry.name: entry for entry in self.plans.entries()}

    def stored(self, full_name: str) -> Stored | None:
        """Return an item as it is stored; of the built-in cluster nothing is."""
        with self.database.read() as connection:
            row = connection.execute(sa.select(schema.items).where(schema.items.c.full_name == full_name)).one_or_none()
        if row is None:
            return None
        text, facts = opened_sql(row, self.vault), facts_of(row)
        return Stored(row.id, row.full_name, row.kind, text, row.redacted_sql, facts)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or are in it."""
        user, used = schema.items.alias(), schema.items.alias()
        edge = schema.dependencies
        if full_name.endswith("."):
            with self.database.read() as connection:
                names = connection.scalars(sa.select(schema.items.c.full_name).order_by(schema.items.c.number))
                return inside(full_name, tuple(names))
        query = (
            sa.select(user.c.full_name)
            .join(edge, edge.c.item_id == user.c.id)
            .join(used, edge.c.referenced_id == used.c.id)
            .where(used.c.full_name == full_name)
            .order_by(user.c.number)
        )
        with self.database.read() as connection:
            return tuple(connection.scalars(query))

    def secret(self, full_name: str) -> SecretValue:
        """Return a secret's value now; raises SQ2001, SQ4107 to SQ4112 and SQ412x where it cannot be had."""
        with self.database.read() as connection:
            row = secret_row(connection, full_name)
        sealed = Sealed(row.kind, row.version, row.reference, row.nonce, row.ciphertext)
        return self.vault.open(row.id, split_name(full_name)[-1], sealed)

    def secret_versions(self) -> dict[str, int]:
        """Return how often the value of each secret was given, by its full name."""
        query = sa.select(schema.items.c.full_name, schema.secrets.c.version).join(schema.secrets)
        with self.database.read() as connection:
            return {row.full_name: row.version for row in connection.execute(query)}

    # --- writing ---------------------------------------------------------------------------------------------------

    def add(self, statement: ast.Create, facts: logical.Facts, *, secret: Given | None = None) -> str:
        """Store an item and return its id.

        `statement` has full names. Raises ChangedError if the catalog is not what `refresh` read.
        """
        return self.change(adding(statement, facts, secret))

    def rotate(self, full_name: str, given: Given) -> None:
        """Put a new value in the place of a secret's; items that use it stay as they are.

        Raises SQ2001 if it is gone, ChangedError as `add` does. The next `refresh` reads the secret's new text.
        """
        self.change(rotating(full_name, given))

    def update(self, changes: Changes) -> None:
        """Put statements with full names in the place of items, by their full names; a new name is a rename.

        Items keep their ids. All that depends on them is rewritten where it names them and planned again, all or
        nothing. What the statements use goes by the names from before. Raises ChangedError as `add` does, what planning
        raises, SQ2016 for dependents that do not plan any more, SQ2017 for an item that would read itself.
        """
        self.change(updating(changes, self.reader()))

    def remove(self, full_names: Iterable[str]) -> None:
        """Delete items, in an order in which none is used by a later one; raises ChangedError as `add` does."""
        self.change(removing(full_names))

    def set_system(self, name: str, value: str) -> None:
        """Store a setting; raises ChangedError as `add` does."""
        self.change(setting(name, value))

    def set_owner(self, full_name: str, owner: str) -> None:
        """Give an item to a role; raises ChangedError as `add` does."""
        self.change(owning(full_name, owner))

    def comment(self, full_name: str, text: str | None, *, column: int = 0) -> None:
        """Comment on an item, or on its column of that position, from 1; raises ChangedError as `add` does."""
        self.change(commenting(full_name, column, text))

    def set_variable(self, name: str, value: str) -> None:
        """Set a setting for as long as this object lives."""
        self.variables[name] = value
        self.plans.set(name, value)

    def change(self, operation: Operation[_T]) -> _T:
        """Do an operation in a transaction of its own; raises ChangedError if the catalog is not what was read."""
        try:
            with self.database.write() as connection:
                generation = generation_of(connection)
                if generation != self._generation:
                    raise ChangedError
                result = operation(self, connection)
                connection.execute(schema.identity.update().values(generation=generation + 1))
                read = stamps(connection)
        except ChangedError:
            self._generation = -1
            raise
        except BaseException:
            self.forget_plans()  # they may hold what was not stored
            raise
        self._read = {item_id: found for item_id, found in read.items() if item_id not in self._stale}
        self._generation = -1 if self._stale else generation + 1
        self._stale = set()
        return result

    # --- for operations: the plans in memory follow the file -------------------------------------------------------

    def take(self, plans: MemoryCatalog, replanned: Iterable[Replanned]) -> None:
        """Go on with plans in which some items were planned again."""
        found = tuple(replanned)
        for each in found:
            self.broken.pop(each.step.old.name, None)
        for each in found:
            if each.error is not None:
                self.broken[each.step.new.name] = Broken(each.step.new, each.error)
        self.plans = plans

    def forget(self, full_name: str) -> None:
        """Go on without an item."""
        if self.plans.entry(full_name) is not None:
            self.plans.remove(full_name)
        self.broken.pop(full_name, None)

    def forget_plan(self, item_id: str) -> None:
        """Make the next `refresh` plan an item again, and what uses it: its plan is not that of the file."""
        self._stale.add(item_id)

    def forget_plans(self) -> None:
        """Make the next `refresh` plan everything again: the plans are not those of the file."""
        self._generation, self._read, self._stale = -1, {}, set()

    def catalog_id(self) -> str:
        """Return the id that never changes: it may be asked for within a transaction."""
        if self._id is None:
            self._id = self._read_id()
        return self._id

    def _read_id(self) -> str:
        with self.database.read() as connection:
            return str(connection.scalar(sa.select(schema.identity.c.catalog_id)))
