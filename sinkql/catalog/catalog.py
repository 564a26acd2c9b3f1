"""The items of a catalog and their plans in memory: SQL and facts are stored, and planned on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from sinkql import __version__, logical
from sinkql.catalog.address import Address, ServerUrl, project_of
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.coordination.intent_log import IntentLog
from sinkql.catalog.memory import IDENTITY, Broken, Entries, MemoryCatalog, Waiting, WithBroken
from sinkql.catalog.open_store import open_store
from sinkql.catalog.row import (
    Sealing,
    Stamp,
    Stored,
    doubtful,
    facts_of,
    generation_of,
    opened,
    opened_sql,
    parsed,
    record_planned,
    replace_secret,
    rows_in_order,
    secret_row,
    stamp,
    stamps,
    write_details,
    writes,
)
from sinkql.catalog.secret.cipher import Cipher, Sealed
from sinkql.catalog.secret.value import SecretInput, SecretValue
from sinkql.catalog.store import Connection, Row, Store
from sinkql.catalog.system import LAYOUT
from sinkql.connector_api.registry import Registry
from sinkql.planner.dependency import reached
from sinkql.planner.name import inside, split_name

_T = TypeVar("_T")
Operation = Callable[["Catalog", Connection], _T]
"""A change of a catalog's plans and, in a transaction, of its rows. It may be repeated in a newer catalog."""
_DECIDING = ("enable_iceberg_sink",)  # settings that decide whether stored items can be planned


class ChangedError(Exception):
    """Another process changed the catalog after it was read: refresh it and plan again."""


class Catalog:
    """An open catalog: `plans` has its items as of the last `refresh`, each planned on first use.

    An operation (`sinkql.catalog.operation`) changes it, executed by `change`. If `existing` is set, a missing catalog
    raises SQ4115. Relative paths of items start from `project`, by default the catalog's project folder.
    """

    def __init__(
        self, place: Address | Store, registry: Registry, *, existing: bool = False, project: Path | None = None
    ) -> None:
        self.registry = registry
        self.database: Store = (
            open_store(place, LAYOUT, existing=existing) if isinstance(place, Path | ServerUrl) else place
        )
        self.control = Control(self.database)
        self.intent_log = IntentLog(self.database)
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
        """Read the changes of other processes.

        Plans are dropped if their items or the items that these use changed, or if a setting that decides plans
        changed. An item without a plan is planned on first use, which raises SQ4106 if its text does not parse.
        """
        with self.database.read() as connection:
            generation = generation_of(connection)
            if generation == self._generation:
                return
            rows, uses = rows_in_order(connection)
            settings = {row.name: row.value for row in connection.all("SELECT * FROM settings")}
        plans = self._valid_plans(rows, uses, settings)
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
        """Write the items' details again if the stored ones were written for other views."""
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

    def _valid_plans(
        self, rows: Iterable[Row], uses: Mapping[str, Iterable[str]], settings: Mapping[str, str]
    ) -> MemoryCatalog:
        """Return the plans that are still valid under the current settings."""
        names = {entry.id: entry.name for entry in self.plans.present().values()}
        valid: set[str] = set()
        if all(self._settings.get(name) == settings.get(name) for name in _DECIDING):
            for row in rows:
                same = self._read.get(row.id) == stamp(row) and names.get(row.id) == row.full_name
                if same and valid.issuperset(uses[row.id]):
                    valid.add(row.id)
        plans = self.plans.copy() if valid else MemoryCatalog(self.registry)
        plans.keep_only(valid)
        plans.reset({**settings, **self.variables})
        return plans

    @property
    def generation(self) -> int:
        """Return the number of the state that `refresh` read; every change of an item increases it."""
        return self._generation

    @property
    def sealing(self) -> Sealing:
        """Return the means to encrypt secret literals in the text of items."""
        return Sealing(self.registry.keywords, self.cipher, self._planner)

    def reader(self) -> WithBroken:
        """Return the catalog for DROP: it includes items that can no longer be planned."""
        return WithBroken(self.plans)

    def entries(self) -> Mapping[str, logical.Entry]:
        """Return all items by full name, including broken ones; each is planned when it is read."""
        return Entries(self.plans)

    def names_by_id(self) -> dict[str, str]:
        """Return the full names of all items by their ids."""
        broken = {entry.entry.id: name for name, entry in self.plans.broken.items()}
        return broken | {entry.id: name for name, entry in self.plans.present().items()}

    @property
    def broken(self) -> Mapping[str, Broken]:
        """Return the items that can no longer be planned, after planning all doubtful items."""
        planner = self._planner
        with self.database.read() as connection:
            changed, sealed = doubtful(connection, planner)
        roots = [*changed, *(name for name in sealed if self.plans.entry(name) is None)]
        doubtful_names = reached(roots, self.plans.dependents)
        plannable = [name for name in doubtful_names if self.plans.has(name) and self.plans.entry(name) is not None]
        if plannable:
            self._record_planned(plannable, planner)
        return self.plans.broken

    @property
    def _planner(self) -> str:
        """Return the versions and settings that decide how a stored item is planned."""
        return "\0".join([__version__, self.registry.versions, *(self.plans.setting(name) for name in _DECIDING)])

    def _record_planned(self, names: Iterable[str], planner: str) -> None:
        """Record that items can be planned, unless another process has changed the catalog."""
        with self.database.write() as connection:
            if generation_of(connection) == self._generation:
                record_planned(connection, names, planner)

    def stored(self, full_name: str) -> Stored | None:
        """Return the stored form of an item; None if it is built in."""
        with self.database.read() as connection:
            row = connection.first("SELECT * FROM items WHERE full_name = ?", full_name)
        if row is None:
            return None
        text, facts = opened_sql(row, self.cipher), facts_of(row)
        return Stored(row.id, row.full_name, row.kind, text, row.redacted_sql, facts)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or belong to it."""
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
        """Return a secret's current value; raise SQ2001, SQ4107 to SQ4112 or SQ412x if it cannot be read."""
        with self.database.read() as connection:
            row = secret_row(connection, full_name)
        sealed = Sealed(row.kind, row.version, row.reference, row.nonce, row.ciphertext)
        return self.cipher.open(row.id, split_name(full_name)[-1], sealed)

    def pin(self, full_name: str, before: str, now: str) -> str:
        """Replace the stored value of a connection if it is still `before`; return the stored value.

        Its version stays the same, so that no user of the connection restarts.
        """
        with self.database.write() as connection:
            row = secret_row(connection, full_name)
            sealed = Sealed(row.kind, row.version, row.reference, row.nonce, row.ciphertext)
            stored = self.cipher.open(row.id, split_name(full_name)[-1], sealed).reveal()
            if stored != before:
                return stored
            secret_input = SecretInput("literal", SecretValue(now))
            replace_secret(connection, row.id, self.cipher.seal(row.id, secret_input, version=row.version))
            return now

    def secret_versions(self) -> dict[str, int]:
        """Return the version of each secret by full name; a new value increases it."""
        query = "SELECT i.full_name, s.version FROM items AS i JOIN secrets AS s ON s.item_id = i.id"
        with self.database.read() as connection:
            return {row.full_name: row.version for row in connection.all(query)}

    def comments(self) -> dict[tuple[str, int], str]:
        """Return all comments, by the item's id and the position of its column, from 1; 0 is the item."""
        with self.database.read() as connection:
            rows = connection.all("SELECT * FROM comments")
            return {(row.item_id, row.sub_id): row.comment for row in rows}

    # --- writing ---------------------------------------------------------------------------------------------------

    def set_variable(self, name: str, value: str) -> None:
        """Change a setting for the lifetime of this object."""
        self.variables[name] = value
        self.plans.set(name, value)

    def change(self, operation: Operation[_T]) -> _T:
        """Execute an operation in one transaction, and return its result.

        Raises ChangedError if the catalog has changed since it was read, and the operation's errors.
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
                read = stamps(
                    connection, [item_id for item_id, entry in after.items() if before.get(item_id) is not entry]
                )
        except ChangedError:
            self._generation = -1
            raise
        except BaseException:
            self.forget_plans()  # they may contain unstored changes
            raise
        stamps_by_id = self._read | read
        self._read = {
            item_id: stamps_by_id[item_id]
            for item_id in after
            if item_id in stamps_by_id and item_id not in self._stale
        }
        self._generation = -1 if self._stale else generation + 1
        self._stale = set()
        return result

    def _by_id(self) -> dict[str, object]:
        """Return an object for each item by id, which another object replaces when the item changes.

        No item is planned for it.
        """
        broken = {entry.entry.id: entry.entry for entry in self.plans.broken.values()}
        return broken | {entry.id: entry for entry in self.plans.present().values()}

    # --- for operations: the plans in memory follow the stored items --------------------------------------------------

    def take(self, plans: MemoryCatalog) -> None:
        """Replace the plans."""
        self.plans = plans

    def forget(self, full_name: str) -> None:
        """Remove an item from the plans."""
        self.plans.forget(full_name)

    def forget_plan(self, item_id: str) -> None:
        """Make the next `refresh` plan an item and its users again, because the plan is outdated."""
        self._stale.add(item_id)

    def forget_plans(self) -> None:
        """Make the next `refresh` plan all items again, because their plans may be outdated."""
        self._generation, self._read, self._stale = -1, {}, set()

    def catalog_id(self) -> str:
        """Return the catalog's id, which never changes; may be called in a transaction."""
        if self._id is None:
            self._id = self._read_id()
        return self._id

    def _read_id(self) -> str:
        with self.database.read() as connection:
            return str(connection.scalar("SELECT catalog_id FROM identity"))
