"""The schema of a catalog's tables in Postgres: looked at, made, brought up to date.

The rows of a catalog's tables in Postgres ↔ those of a copy in memory.
"""

from __future__ import annotations

import uuid

from sinkql.catalog.address import ServerUrl
from sinkql.catalog.postgres.connection import Connection as ServerConnection
from sinkql.catalog.postgres.failure import foreign
from sinkql.catalog.sqlite.connection import Connection as FileConnection
from sinkql.catalog.sqlite.schema import NAMES, TABLES, Layout
from sinkql.catalog.store import Connection
from sinkql.errors import SinkqlError

_VERSION = "catalog_version"
"""The table whose only row says which tables there are; by it SinkQL knows its schema."""


def version_of(connection: Connection, url: ServerUrl, newest: int) -> int:
    """Return the version of the tables, 0 where there are none.

    Raises SQ4154 for a schema of another program, SQ4102 for one of a newer version.
    """
    query = (
        "SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    )
    found = set(connection.scalars(query, url.schema))
    if not found:
        return 0
    if _VERSION not in found:
        raise foreign(url)
    version = int(connection.scalar(f"SELECT version FROM {quoted(url.schema)}.{_VERSION}"))
    if version > newest:
        raise SinkqlError(
            "SQ4102",
            f'catalog "{url}" was written by a newer SinkQL',
            detail=f"its version is {version}, the newest that this one knows is {newest}",
            hint="Upgrade with pip install --upgrade sinkql.",
        )
    return version


def make(connection: Connection, url: ServerUrl, layout: Layout, version: int) -> None:
    """Bring tables of a version up to date within a transaction."""
    if version == 0:
        _create(connection, url, layout)
    else:
        for upgrade in layout.upgrades[version - 1 :]:
            upgrade(connection)
    connection.execute(f"UPDATE {_VERSION} SET version = ?", (layout.version,))


def _create(connection: Connection, url: ServerUrl, layout: Layout) -> None:
    if connection.first("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ?", url.schema) is None:
        connection.execute(f"CREATE SCHEMA {quoted(url.schema)}")
    for table in TABLES:
        connection.execute(table)
    connection.execute(f"CREATE TABLE {_VERSION} (version INTEGER NOT NULL)")
    connection.insert(_VERSION, {"version": layout.version})
    identity = {"catalog_id": str(uuid.uuid4()), "generation": 0, "detailed_for": layout.digest}
    connection.insert("identity", identity)


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


_NUMBERED = ("items", "journal", "status_history", "audit_events")
_LOGS = ("audit_events", "status_history")
"""Tables that may be long, and whose rows never change: what a copy has of them is not read again."""
_OF_ITEMS = ("identity", "items", "comments", "dependencies", "secrets", "settings")
"""Tables that change only with the catalog's generation, or with what items' details were written for."""
_UNSHOWN = ("journal", "ticks", "notes")
"""Tables that no relation shows."""
_CLOCK = "(julianday('now') - 2440587.5) * 86400.0"
"""What the relations take for the time."""
_STATE = "SELECT catalog_id, generation, detailed_for FROM identity"


def fill(copy: FileConnection, connection: Connection) -> None:
    """Give a copy all rows of the tables, and the numbers that rows had."""
    for table in reversed(NAMES):
        copy.execute(f"DELETE FROM {table}")
    for table in NAMES:
        _take(copy, connection, table)
    copy.execute("DELETE FROM sqlite_sequence")
    for table in _NUMBERED[:2]:  # the others' numbers are those of SQLite's rows
        copy.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, connection.last_number(table)))


def refresh(copy: FileConnection, connection: Connection) -> None:
    """Give a copy the rows that have come since, as far as system relations show them.

    Leases in the copy run out by this machine's clock, which the relations go by.
    """
    if copy.all(_STATE) != connection.all(_STATE):
        for table in reversed(_OF_ITEMS):
            copy.execute(f"DELETE FROM {table}")
        for table in _OF_ITEMS:
            _take(copy, connection, table)
    for table in _LOGS:
        _take_newer(copy, connection, table)
    for table in sorted({*NAMES} - {*_OF_ITEMS, *_LOGS, *_UNSHOWN}):
        copy.execute(f"DELETE FROM {table}")
        _take(copy, connection, table)
    copy.execute(f"UPDATE leases SET expires = expires + {_CLOCK} - ?", (connection.clock(),))


def replace(connection: ServerConnection, copy: FileConnection) -> None:
    """Give the tables the rows of a copy, in place of their own."""
    before = connection.scalar("SELECT generation FROM identity")
    for table in reversed(NAMES):
        connection.execute(f"DELETE FROM {table}")
    for table in NAMES:
        columns = _columns(copy, table)
        connection.insert_all(table, columns, copy.all(f"SELECT {_listed(columns)} FROM {table}"))
    generation = max(before, connection.scalar("SELECT generation FROM identity")) + 1
    connection.execute("UPDATE identity SET generation = ?", (generation,))  # who has read it sees that it is another
    for table in _NUMBERED:
        last = copy.scalar(f"SELECT coalesce(max(number), 0) FROM {table}")
        if table in _NUMBERED[:2]:
            last = max(last, copy.last_number(table))
        connection.execute(f"SELECT setval('{table}_number_seq', ?, ?)", (max(last, 1), last > 0))


def _take(copy: FileConnection, connection: Connection, table: str, where: str = "true", *values: object) -> None:
    columns = _columns(copy, table)
    rows = connection.all(f"SELECT {_listed(columns)} FROM {table} WHERE {where}", *values)
    copy.executemany(
        f"INSERT INTO {table} ({_listed(columns)}) VALUES ({', '.join('?' * len(columns))})", map(tuple, rows)
    )


def _take_newer(copy: FileConnection, connection: Connection, table: str) -> None:
    bounds = f"SELECT coalesce(min(number), 0) AS oldest, coalesce(max(number), 0) AS newest FROM {table}"
    theirs, mine = connection.first(bounds), copy.first(bounds)
    if theirs.newest < mine.newest:  # the catalog was restored
        copy.execute(f"DELETE FROM {table}")
        mine = copy.first(bounds)
    _take(copy, connection, table, "number > ?", mine.newest)
    copy.execute(f"DELETE FROM {table} WHERE number < ?", (theirs.oldest,))


def _columns(copy: FileConnection, table: str) -> list[str]:
    return [row.name for row in copy.all(f"PRAGMA table_info({table})")]


def _listed(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)
