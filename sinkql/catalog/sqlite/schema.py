"""The tables, views and triggers of a catalog file, and their creation and upgrades.

The tables are in SQLite's SQL. A change of them needs an upgrade in `layout`. A file's `user_version` identifies its
tables: each release that changes them increases it, and has an upgrade from the previous number. Views and triggers
hold no data and have no number. They are created again in each file in which their text differs from the program's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.catalog import store
from sinkql.catalog.sqlite.connection import Connection
from sinkql.errors import SinkqlError
from sinkql.machine.randomness import new_uuid

TABLES = (
    # One row: the catalog's id, to which secrets are bound; a number that every change of items or settings increases,
    # so that other processes notice the change; and the digest of the views for which items' details were written.
    """
    CREATE TABLE identity (
      catalog_id TEXT NOT NULL PRIMARY KEY,
      generation INTEGER NOT NULL,
      detailed_for TEXT NOT NULL
    )
    """,
    # `planned_for` is a hash of the inputs of the last successful plan of an item; empty if planning failed.
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
    # `sub_id` is a column's position, from 1, and 0 for the item. Built-in items have ids too, but no row.
    """
    CREATE TABLE comments (
      item_id TEXT NOT NULL,
      sub_id INTEGER NOT NULL,
      comment TEXT NOT NULL,
      PRIMARY KEY (item_id, sub_id)
    )
    """,
    # One row per change of an item, which `row` and `operation` write with it.
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
    # `expires` is in seconds since 1970; `process` distinguishes processes with one pid. A released lease has no owner,
    # but keeps its epoch.
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
      committed_at TEXT NOT NULL,
      in_spark INTEGER
    )
    """,
    # The lag of sinks by source name, and of captures by the source's id, as JSON.
    """
    CREATE TABLE measures (
      id TEXT NOT NULL PRIMARY KEY,
      figures TEXT NOT NULL,
      measured_at TEXT NOT NULL
    )
    """,
    # The totals of all compactions of a sink's table; `problem` is the error of the last one. Each OPTIMIZE SINK has a
    # number: the last `asked`, `begun` and `done` number, with its outcome.
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
    # The offsets of sources at each tick of the timeline, as JSON.
    """
    CREATE TABLE ticks (
      number INTEGER NOT NULL PRIMARY KEY,
      tick TEXT NOT NULL
    )
    """,
    # Messages between processes that run sinks, capture sources or make requests, by the id of the sink or source, if
    # hosts share the catalog.
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
"""The names of the tables, each after the tables that it refers to."""


APPLICATION_ID = 0x53514C31  # "SQL1": identifies the file for file(1) and for SinkQL
Upgrade = Callable[[store.Connection], None]


def _keep_plain_numerics(connection: store.Connection) -> None:
    """Keep the column types of existing views: version 1 had no scale for computed numerics."""
    for row in connection.all("SELECT id, facts FROM items WHERE kind IN ('VIEW', 'MATERIALIZED VIEW')"):
        facts = {**json.loads(row.facts), "plain_numerics": True}
        connection.execute("UPDATE items SET facts = ? WHERE id = ?", (json.dumps(facts), row.id))


def _add_place_of_batch(connection: store.Connection) -> None:
    """Add whether Spark computed a sink's last commit, which is unknown until the next one."""
    connection.execute("ALTER TABLE progress ADD COLUMN in_spark INTEGER")


UPGRADES: tuple[Upgrade, ...] = (_keep_plain_numerics, _add_place_of_batch)
"""The upgrades from version 1 to 2 and so on, for SQLite and Postgres; a released upgrade never changes."""
VERSION = 1 + len(UPGRADES)


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables, views and triggers of a catalog file; `derived` holds CREATE statements of views and triggers by
    name.
    """

    derived: Mapping[str, str]
    upgrades: tuple[Upgrade, ...] = UPGRADES

    @property
    def version(self) -> int:
        """Return the version of files with these tables."""
        return 1 + len(self.upgrades)

    @property
    def digest(self) -> str:
        """Return a hash of the views and triggers."""
        return hashlib.sha256(json.dumps(dict(self.derived), sort_keys=True).encode()).hexdigest()[:16]

    def version_of(self, connection: Connection, path: Path) -> int:
        """Return the version of a file; 0 for an empty file. Raises SQ4102 for a newer version."""
        version = int(connection.scalar("PRAGMA user_version"))
        if version > self.version:
            raise SinkqlError(
                "SQ4102",
                f'catalog file "{path}" was written by a newer SinkQL',
                detail=f"its version is {version}, this SinkQL supports up to {self.version}",
                hint="Upgrade with pip install --upgrade sinkql.",
            )
        return version

    def current(self, connection: Connection) -> bool:
        """Return whether a file of this version has exactly these views and triggers."""
        return _derived(connection) == self.derived

    def make(self, connection: Connection, version: int) -> None:
        """Create the content of an empty file, or upgrade it from a version, in a transaction."""
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
        identity = {"catalog_id": new_uuid(), "generation": 0, "detailed_for": self.digest}
        connection.insert("identity", identity)


def _derived(connection: Connection) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY rowid"
    return {row.name: row.sql for row in connection.execute(query)}
