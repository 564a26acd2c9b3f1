"""The tables and views that a catalog file has; a new or an older file → one that has them.

The number `user_version` of a file says which tables it has: it grows with each release that changes them, and such a
release brings an upgrade from the number before to its own. Views and triggers hold no data and have no number: they
are created again in every file where their text is not that of the program.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.catalog import store
from sinkql.catalog.sqlite.connection import Connection
from sinkql.catalog.sqlite.schema import TABLES
from sinkql.errors import SinkqlError

APPLICATION_ID = 0x53514C31  # "SQL1": what file(1) and we ourselves know the file by
Upgrade = Callable[[store.Connection], None]


def _keep_plain_numerics(connection: store.Connection) -> None:
    """Have the views that are there keep the types of their columns: computed numerics were plain ones in version 1."""
    for row in connection.all("SELECT id, facts FROM items WHERE kind IN ('VIEW', 'MATERIALIZED VIEW')"):
        facts = {**json.loads(row.facts), "plain_numerics": True}
        connection.execute("UPDATE items SET facts = ? WHERE id = ?", (json.dumps(facts), row.id))


UPGRADES: tuple[Upgrade, ...] = (_keep_plain_numerics,)
"""What makes a catalog of version 1 one of version 2, and so on, in SQLite and Postgres alike; one that was released
never changes.
"""
VERSION = 1 + len(UPGRADES)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a catalog file has besides its rows.

    `derived` are the CREATE statements of its views and triggers by their names.
    """

    derived: Mapping[str, str]
    upgrades: tuple[Upgrade, ...] = UPGRADES

    @property
    def version(self) -> int:
        """Return the version of the files that have these tables."""
        return 1 + len(self.upgrades)

    @property
    def digest(self) -> str:
        """Return a hash of these views and triggers."""
        return hashlib.sha256(json.dumps(dict(self.derived), sort_keys=True).encode()).hexdigest()[:16]

    def version_of(self, connection: Connection, path: Path) -> int:
        """Return the version of a file, 0 for an empty one; raises SQ4102 for one that is too new."""
        version = int(connection.scalar("PRAGMA user_version"))
        if version > self.version:
            raise SinkqlError(
                "SQ4102",
                f'catalog file "{path}" was written by a newer SinkQL',
                detail=f"its version is {version}, the newest that this one knows is {self.version}",
                hint="Upgrade with pip install --upgrade sinkql.",
            )
        return version

    def current(self, connection: Connection) -> bool:
        """Tell whether a file of this version has these views and triggers, word for word."""
        return _derived(connection) == self.derived

    def make(self, connection: Connection, version: int) -> None:
        """Bring a file of a version up to date within a transaction."""
        for name, statement in _derived(connection).items():
            connection.execute(f'DROP {statement.split(maxsplit=2)[1]} "{name}"')
        if version == 0:
            self._create(connection)
        else:
            for upgrade in self.upgrades[version - 1 :]:
                upgrade(connection)
        for statement in self.derived.values():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {self.version}")

    def _create(self, connection: Connection) -> None:
        for table in TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        identity = {"catalog_id": str(uuid.uuid4()), "generation": 0, "detailed_for": self.digest}
        connection.insert("identity", identity)


def _derived(connection: Connection) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY rowid"
    return {row.name: row.sql for row in connection.execute(query)}
