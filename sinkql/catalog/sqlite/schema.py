"""The tables of the catalog, in SQLite's SQL. Whoever changes them adds an upgrade to `layout`.

The tables and views that a catalog file has; a new or an older file → one that has them.

The number `user_version` of a file says which tables it has: it grows with each release that changes them, and such a
release brings an upgrade from the number before to its own. Views and triggers hold no data and have no number: they
are created again in every file where their text is not that of the program.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.catalog import store
from sinkql.catalog.sqlite.connection import Connection
from sinkql.errors import SinkqlError

TABLES = (
    # One row a catalog: its id (part of what secrets are bound to), a number that grows with every change of items or
    # settings, by which other processes see that what they have read is old, and the digest of the views that the
    # items' details were written for.
    """
    CREATE TABLE identity (
      catalog_id TEXT NOT NULL PRIMARY KEY,
      generation INTEGER NOT NULL,
      detailed_for TEXT NOT NULL
    )
    """,
    # `planned_for` says with what an item was planned last, and that it could be; it is empty where it could not.
    """
    CREATE TABLE items (
      number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      database_name TEXT,
      schema_name TEXT,
      name TEXT NOT NULL,
      full_name TEXT NOT NULL UNIQUE,
      kind TEXT NOT NULL,
      create_sql TEXT NOT NULL,
      redacted_sql TEXT NOT NULL,
      facts TEXT NOT NULL,
      details TEXT NOT NULL,
      planned_for TEXT NOT NULL,
      created_at TEXT NOT NULL,
      owner TEXT NOT NULL
    )
    """,
    # `sub_id` is a column's position, from 1, and 0 for the item itself. Built-in items, which have no row, have ids
    # too.
    """
    CREATE TABLE comments (
      item_id TEXT NOT NULL,
      sub_id INTEGER NOT NULL,
      comment TEXT NOT NULL,
      PRIMARY KEY (item_id, sub_id)
    )
    """,
    # One row a change of an item, which `row` and `operation` write with it.
    """
    CREATE TABLE audit_events (
      number INTEGER NOT NULL PRIMARY KEY,
      event_type TEXT NOT NULL,
      object_type TEXT NOT NULL,
      details TEXT NOT NULL,
      user TEXT NOT NULL,
      occurred_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE dependencies (
      item_id TEXT NOT NULL REFERENCES items (id) ON DELETE CASCADE,
      referenced_id TEXT NOT NULL REFERENCES items (id),
      PRIMARY KEY (item_id, referenced_id)
    )
    """,
    """
    CREATE TABLE secrets (
      item_id TEXT NOT NULL PRIMARY KEY REFERENCES items (id) ON DELETE CASCADE,
      version INTEGER NOT NULL,
      kind TEXT NOT NULL,
      reference TEXT,
      nonce BLOB,
      ciphertext BLOB
    )
    """,
    """
    CREATE TABLE settings (
      name TEXT NOT NULL PRIMARY KEY,
      value TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE journal (
      number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
      intent TEXT NOT NULL,
      content TEXT NOT NULL,
      host TEXT NOT NULL,
      pid INTEGER NOT NULL,
      process TEXT NOT NULL,
      started_at TEXT NOT NULL,
      done_at TEXT
    )
    """,
    """
    CREATE TABLE desired (
      sink_id TEXT NOT NULL PRIMARY KEY,
      desired TEXT NOT NULL,
      changed_at TEXT NOT NULL
    )
    """,
    # `expires` is in seconds since 1970; `process` tells processes of one pid apart. A released lease has no owner, but
    # keeps its epoch.
    """
    CREATE TABLE leases (
      sink_id TEXT NOT NULL PRIMARY KEY,
      epoch INTEGER NOT NULL,
      owner TEXT,
      host TEXT NOT NULL,
      pid INTEGER NOT NULL,
      process TEXT NOT NULL,
      expires REAL NOT NULL
    )
    """,
    """
    CREATE TABLE statuses (
      sink_id TEXT NOT NULL PRIMARY KEY,
      status TEXT NOT NULL,
      error TEXT,
      hint TEXT,
      details TEXT,
      changed_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE status_history (
      number INTEGER NOT NULL PRIMARY KEY,
      sink_id TEXT NOT NULL,
      status TEXT NOT NULL,
      error TEXT,
      hint TEXT,
      details TEXT,
      occurred_at TEXT NOT NULL
    )
    """,
    "CREATE INDEX status_history_by_sink ON status_history (sink_id, number)",
    """
    CREATE TABLE progress (
      sink_id TEXT NOT NULL PRIMARY KEY,
      messages INTEGER NOT NULL,
      bytes INTEGER NOT NULL,
      read_rows INTEGER NOT NULL,
      removed_rows INTEGER NOT NULL,
      superseded_rows INTEGER NOT NULL,
      filtered_rows INTEGER NOT NULL,
      dropped_rows INTEGER NOT NULL,
      failed_rows INTEGER NOT NULL,
      stale_rows INTEGER NOT NULL,
      commits INTEGER NOT NULL,
      epoch INTEGER NOT NULL,
      snapshot INTEGER,
      lag REAL,
      offsets TEXT NOT NULL,
      committed_at TEXT NOT NULL
    )
    """,
    # How far sinks are in their sources, by the names that offsets are kept under, and captures in their servers (by
    # the source's id, under no name), as JSON.
    """
    CREATE TABLE measures (
      id TEXT NOT NULL PRIMARY KEY,
      figures TEXT NOT NULL,
      measured_at TEXT NOT NULL
    )
    """,
    # What compactions of a sink's table did, all in all; `problem` is why the last one failed. The OPTIMIZE SINK of a
    # sink have numbers: the last one that was `asked` for, that was `begun`, and that is `done`, with its outcome.
    """
    CREATE TABLE maintenance (
      sink_id TEXT NOT NULL PRIMARY KEY,
      compactions INTEGER NOT NULL DEFAULT 0,
      files_before INTEGER NOT NULL DEFAULT 0,
      files_after INTEGER NOT NULL DEFAULT 0,
      bytes_before INTEGER NOT NULL DEFAULT 0,
      bytes_after INTEGER NOT NULL DEFAULT 0,
      compacted_at TEXT,
      problem TEXT,
      asked INTEGER NOT NULL DEFAULT 0,
      begun INTEGER NOT NULL DEFAULT 0,
      done INTEGER NOT NULL DEFAULT 0,
      outcome TEXT
    )
    """,
    # How far sources are read at each tick of the timeline, as JSON.
    """
    CREATE TABLE ticks (
      number INTEGER NOT NULL PRIMARY KEY,
      tick TEXT NOT NULL
    )
    """,
    # What those who run sinks, capture sources and ask for something leave for each other, by the id of the sink or the
    # source, where hosts share the catalog.
    """
    CREATE TABLE notes (
      owner TEXT NOT NULL,
      name TEXT NOT NULL,
      note TEXT NOT NULL,
      PRIMARY KEY (owner, name)
    )
    """,
)

NAMES = tuple(name for table in TABLES for name in re.findall(r"CREATE TABLE (\w+)", table))
"""The names of the tables, each after those that it refers to."""


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
