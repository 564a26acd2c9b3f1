"""The items of a catalog ↔ their plans in memory: what is stored is SQL and facts, planned when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from sinkql import __version__, logical
from sinkql.catalog.address import Address, ServerUrl, project_of
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.coordination.intent_log import Journal
from sinkql.catalog.memory import IDENTITY, Broken, Entries, MemoryCatalog, Waiting, WithBroken
from sinkql.catalog.open_store import open_store
from sinkql.catalog.row import (
    Sealing,
    Stamp,
    Stored,
    doubtful,
    facts_of,
    generation_of,
    note_planned,
    opened,
    opened_sql,
    parsed,
    replace_secret,
    rows_in_order,
    secret_row,
    stamp,
    stamps,
    write_details,
    writes,
)
from sinkql.catalog.secret.cipher import Cipher, Sealed
from sinkql.catalog.secret.value import Given, SecretValue
from sinkql.catalog.store import Connection, Row, Store
from sinkql.catalog.system import LAYOUT
from sinkql.connector_api.registry import Registry
from sinkql.planner.dependency import reached
from sinkql.planner.name import inside, split_name

_T = TypeVar("_T")
Operation = Callable[["Catalog", Connection], _T]
"""Changes a catalog's plans and, within a transaction, what is stored. It may be done again in a catalog that moved."""
_DECIDING = ("enable_iceberg_sink",)  # settings without which stored items would plan otherwise


class ChangedError(Exception):
    """Another process changed the catalog after it was read: it must be read and planned with again."""


class Catalog:
    """An open catalog: `plans` has its items as of the last `refresh`, each planned when it is asked for.

    What changes it is an operation (`sinkql.catalog.operation`), done by `change`. A catalog that must be there
    (`existing`) raises SQ4115 where it is not. Relative paths of items begin in `project`, else in that
    of the catalog itself.
    """

    def __init__(
        self, place: Address | Store, registry: Registry, *, existing: bool = False, project: Path | None = None
    ) -> None:
        self.registry = registry
        self.database: Store = (
            open_store(place, LAYOUT, existing=existing) if isinstance(place, Path | ServerUrl) else place
        )
        self.control = Control(self.database)
        self.journal = Journal(self.database)
        self.project = project_of(self.database.address) if project is None else project
        self.cipher = Cipher(self.database.address, self.catalog_id, self.project)
        self.plans = MemoryCatalog(registry)
        self.variables: dict[str, str] = {}
        self._generation = -1
        self._read: dict[str, Stamp] = {}
        self._settings: dict[str, str] = {}
        self._stale: set[str] = set()
        self._id: str | None = None
        self.refresh()
        self._write_details()

    # --- reading ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read what other processes changed.

        Plans are forgotten if their items or what these use changed, or if a setting did that plans depend on. Items
        without a plan get one when they are asked for, which raises SQ4106 for a text that does not parse.
        """
        with self.database.read() as connection:
            generation = generation_of(connection)
            if generation == self._generation:
                return
            rows, uses = rows_in_order(connection)
            settings = {row.name: row.value for row in connection.all("SELECT * FROM settings")}
        plans = self._kept(rows, uses, settings)
        names = {row.id: row.full_name for row in rows}
        new = (row for row in rows if not plans.has(row.full_name))
        plans.wait(self._waiting(row, tuple(names[used] for used in uses[row.id] if used in names)) for row in new)
        self.plans, self._generation = plans, generation
        self._read, self._settings = {row.id: stamp(row) for row in rows}, settings

    def _waiting(self, row: Row, uses: tuple[str, ...]) -> Waiting:
        identity = facts_of(row).get(IDENTITY) if f'"{IDENTITY}"' in row.facts else None
        used = tuple(name for name in uses if not name.endswith("."))
        return Waiting(
            row.id, row.full_name, row.kind, used, identity,
            read=partial(parsed, row), facts=partial(facts_of, row), open=partial(opened, row, cipher=self.cipher),
            writes=partial(writes, row),
        )  # fmt: skip

    def _write_details(self) -> None:
        """Write the items' details again, if those that are stored were written for other views than it has now."""
        with self.database.read() as connection:
            if connection.scalar("SELECT detailed_for FROM identity") == LAYOUT.digest:
                return
        while True:
            with self.database.write() as connection:
                if generation_of(connection) == self._generation:
                    planned = ((entry, self.plans.item(entry.name)) for entry in self.plans.entries())
                    write_details(connection, ((entry, item) for entry, item in planned if item is not None))
                    connection.execute("UPDATE identity SET detailed_for = ?", (LAYOUT.digest,))
                    return
            self.refresh()

    def _kept(
        self, rows: Iterable[Row], uses: Mapping[str, Iterable[str]], settings: Mapping[str, str]
    ) -> MemoryCatalog:
        """Return the plans that are still valid under the present settings."""
        names = {each.id: each.name for each in self.plans.present().values()}
        kept: set[str] = set()
        if all(self._settings.get(name) == settings.get(name) for name in _DECIDING):
            for row in rows:
                same = self._read.get(row.id) == stamp(row) and names.get(row.id) == row.full_name
                if same and kept.issuperset(uses[row.id]):
                    kept.add(row.id)
        plans = self.plans.copy() if kept else MemoryCatalog(self.registry)
        plans.keep_only(kept)
        plans.reset({**settings, **self.variables})
        return plans

    @property
    def generation(self) -> int:
        """Return the number of the state that `refresh` read; every change of an item increases it."""
        return self._generation

    @property
    def sealing(self) -> Sealing:
        """Return what encrypts the literals of secrets in the text of items."""
        return Sealing(self.registry.vocabulary, self.cipher, self._planner)

    def reader(self) -> WithBroken:
        """Return the catalog as DROP sees it: with the items that can no longer be planned."""
        return WithBroken(self.plans)

    def entries(self) -> Mapping[str, logical.Entry]:
        """Return all items by full name, also those that can no longer be planned; each is planned as it is read."""
        return Entries(self.plans)

    def names_by_id(self) -> dict[str, str]:
        """Return the full names of all items by their ids."""
        broken = {each.entry.id: name for name, each in self.plans.broken.items()}
        return broken | {each.id: name for name, each in self.plans.present().items()}

    @property
    def broken(self) -> Mapping[str, Broken]:
        """Return the items that can no longer be planned; of all that may be among them it is tried."""
        planner = self._planner
        with self.database.read() as connection:
            changed, sealed = doubtful(connection, planner)
        roots = [*changed, *(name for name in sealed if self.plans.entry(name) is None)]
        tried = reached(roots, self.plans.dependents)
        fine = [name for name in tried if self.plans.has(name) and self.plans.entry(name) is not None]
        if fine:
            self._note_planned(fine, planner)
        return self.plans.broken

    @property
    def _planner(self) -> str:
        """Return what tells whether a stored item plans as it did: versions, and settings that decide it."""
        return "\0".join([__version__, self.registry.versions, *(self.plans.setting(name) for name in _DECIDING)])

    def _note_planned(self, names: Iterable[str], planner: str) -> None:
        """Write down that items can be planned, unless somebody changed the catalog meanwhile."""
        with self.database.write() as connection:
            if generation_of(connection) == self._generation:
                note_planned(connection, names, planner)

    def stored(self, full_name: str) -> Stored | None:
        """Return the stored form of an item; None if it is built in."""
        with self.database.read() as connection:
            row = connection.first("SELECT * FROM items WHERE full_name = ?", full_name)
        if row is None:
            return None
        text, facts = opened_sql(row, self.cipher), facts_of(row)
        return Stored(row.id, row.full_name, row.kind, text, row.redacted_sql, facts)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or are in it."""
        if full_name.endswith("."):
            with self.database.read() as connection:
                names = connection.scalars("SELECT full_name FROM items ORDER BY number")
                return inside(full_name, tuple(names))
        query = (
            "SELECT reader.full_name FROM items AS reader JOIN dependencies AS edge ON edge.item_id = reader.id"
            " JOIN items AS used ON used.id = edge.referenced_id WHERE used.full_name = ? ORDER BY reader.number"
        )
        with self.database.read() as connection:
            return tuple(connection.scalars(query, full_name))

    def secret(self, full_name: str) -> SecretValue:
        """Return a secret's present value; raises SQ2001, SQ4107 to SQ4112 and SQ412x where it cannot be read."""
        with self.database.read() as connection:
            row = secret_row(connection, full_name)
        sealed = Sealed(row.kind, row.version, row.reference, row.nonce, row.ciphertext)
        return self.cipher.open(row.id, split_name(full_name)[-1], sealed)

    def pin(self, full_name: str, before: str, now: str) -> str:
        """Keep something else for a connection, unless another process has since `before`; return what is kept.

        It is the same version: nothing that uses the connection begins again.
        """
        with self.database.write() as connection:
            row = secret_row(connection, full_name)
            sealed = Sealed(row.kind, row.version, row.reference, row.nonce, row.ciphertext)
            kept = self.cipher.open(row.id, split_name(full_name)[-1], sealed).reveal()
            if kept != before:
                return kept
            given = Given("literal", SecretValue(now))
            replace_secret(connection, row.id, self.cipher.seal(row.id, given, version=row.version))
            return now

    def secret_versions(self) -> dict[str, int]:
        """Return the version of each secret by full name: it grows when the secret gets a new value."""
        query = "SELECT i.full_name, s.version FROM items AS i JOIN secrets AS s ON s.item_id = i.id"
        with self.database.read() as connection:
            return {row.full_name: row.version for row in connection.all(query)}

    def comments(self) -> dict[tuple[str, int], str]:
        """Return all comments, by the item's id and the position of its column, from 1; 0 is the item itself."""
        with self.database.read() as connection:
            rows = connection.all("SELECT * FROM comments")
            return {(row.item_id, row.sub_id): row.comment for row in rows}

    # --- writing ---------------------------------------------------------------------------------------------------

    def set_variable(self, name: str, value: str) -> None:
        """Change a setting for the lifetime of this object."""
        self.variables[name] = value
        self.plans.set(name, value)

    def change(self, operation: Operation[_T]) -> _T:
        """Do an operation in a transaction of its own, all or nothing; return what it does.

        Raises ChangedError if the catalog is not what was read, and what the operation raises.
        """
        try:
            with self.database.write() as connection:
                generation = generation_of(connection)
                if generation != self._generation:
                    raise ChangedError
                before = self._by_id()
                result = operation(self, connection)
                connection.execute("UPDATE identity SET generation = ?", (generation + 1,))
                after = self._by_id()
                read = stamps(connection, [each for each, entry in after.items() if before.get(each) is not entry])
        except ChangedError:
            self._generation = -1
            raise
        except BaseException:
            self.forget_plans()  # they may hold what was not stored
            raise
        known = self._read | read
        self._read = {each: known[each] for each in after if each in known and each not in self._stale}
        self._generation = -1 if self._stale else generation + 1
        self._stale = set()
        return result

    def _by_id(self) -> dict[str, object]:
        """Return what there is by id, as objects that are others after a change; nothing is planned for it."""
        broken = {each.entry.id: each.entry for each in self.plans.broken.values()}
        return broken | {each.id: each for each in self.plans.present().values()}

    # --- for operations: the plans in memory follow what is stored ----------------------------------------------------

    def take(self, plans: MemoryCatalog) -> None:
        """Replace the plans by others."""
        self.plans = plans

    def forget(self, full_name: str) -> None:
        """Remove an item from the plans."""
        self.plans.forget(full_name)

    def forget_plan(self, item_id: str) -> None:
        """Make the next `refresh` plan an item again, and what uses it: its plan is out of date."""
        self._stale.add(item_id)

    def forget_plans(self) -> None:
        """Make the next `refresh` plan everything again: the plans may be out of date."""
        self._generation, self._read, self._stale = -1, {}, set()

    def catalog_id(self) -> str:
        """Return the catalog's id, which never changes; may be called within a transaction."""
        if self._id is None:
            self._id = self._read_id()
        return self._id

    def _read_id(self) -> str:
        with self.database.read() as connection:
            return str(connection.scalar("SELECT catalog_id FROM identity"))
