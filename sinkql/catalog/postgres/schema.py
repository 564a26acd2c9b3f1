"""Check, create and upgrade the tables of a catalog in Postgres, and copy their rows to or from memory."""

from __future__ import annotations

from sinkql.catalog.address import ServerUrl
from sinkql.catalog.postgres.connection import Connection as ServerConnection
from sinkql.catalog.postgres.failure import foreign
from sinkql.catalog.sqlite.connection import Connection as FileConnection
from sinkql.catalog.sqlite.schema import NAMES, TABLES, Layout
from sinkql.catalog.store import Connection
from sinkql.errors import SinkqlError
from sinkql.machine.randomness import new_uuid

_VERSION = "catalog_version"
"""The table whose only row is the version of the tables; it identifies SinkQL's schema."""


def version_of(connection: Connection, url: ServerUrl, newest: int) -> int:
    """Return the version of the tables; 0 if the schema has none.

    Raises SQ4154 for a schema of another program, SQ4102 for a newer version.
    """
    query = (
        "SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    )
    relations = set(connection.scalars(query, url.schema))
    if not relations:
        return 0
    if _VERSION not in relations:
        raise foreign(url)
    version = int(connection.scalar(f"SELECT version FROM {quoted(url.schema)}.{_VERSION}"))
    if version > newest:
        raise SinkqlError(
            "SQ4102",
            f'catalog "{url}" was written by a newer SinkQL',
            detail=f"its version is {version}, this SinkQL supports up to {newest}",
            hint="Upgrade with pip install --upgrade sinkql.",
        )
    return version


def make(connection: Connection, url: ServerUrl, layout: Layout, version: int) -> None:
    """Create the tables, or upgrade them from a version, in a transaction."""
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
    identity = {"catalog_id": new_uuid(), "generation": 0, "detailed_for": layout.digest}
    connection.insert("identity", identity)


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


_NUMBERED = ("items", "journal", "status_history", "audit_events")
_LOGS = ("audit_events", "status_history")
"""Tables that may be long and whose rows never change: a copy reads only new rows."""
_OF_ITEMS = ("identity", "items", "comments", "dependencies", "secrets", "settings")
"""Tables that change only with the catalog's generation, or when items' details are written again."""
_HIDDEN = ("journal", "ticks", "notes")
"""Tables that no system relation shows."""
_CLOCK = "(julianday('now') - 2440587.5) * 86400.0"
"""The current time in system relations."""
_STATE = "SELECT catalog_id, generation, detailed_for FROM identity"


def fill(copy: FileConnection, connection: Connection) -> None:
    """Copy all rows of the tables, and the highest row numbers."""
    for table in reversed(NAMES):
        copy.execute(f"DELETE FROM {table}")
    for table in NAMES:
        _copy_rows(copy, connection, table)
    copy.execute("DELETE FROM sqlite_sequence")
    for table in _NUMBERED[:2]:  # SQLite numbers the rows of all remaining tables without it
        copy.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, connection.last_number(table)))


def refresh(copy: FileConnection, connection: Connection) -> None:
    """Update the rows of a copy that system relations show.

    Leases in the copy expire by this machine's clock, which the relations use.
    """
    if copy.all(_STATE) != connection.all(_STATE):
        for table in reversed(_OF_ITEMS):
            copy.execute(f"DELETE FROM {table}")
        for table in _OF_ITEMS:
            _copy_rows(copy, connection, table)
    for table in _LOGS:
        _copy_new_rows(copy, connection, table)
    for table in sorted({*NAMES} - {*_OF_ITEMS, *_LOGS, *_HIDDEN}):
        copy.execute(f"DELETE FROM {table}")
        _copy_rows(copy, connection, table)
    copy.execute(f"UPDATE leases SET expires = expires + {_CLOCK} - ?", (connection.clock(),))


def replace(connection: ServerConnection, copy: FileConnection) -> None:
    """Replace the rows of the tables by a copy's."""
    before = connection.scalar("SELECT generation FROM identity")
    for table in reversed(NAMES):
        connection.execute(f"DELETE FROM {table}")
    for table in NAMES:
        columns = _columns(copy, table)
        connection.insert_all(table, columns, copy.all(f"SELECT {_column_list(columns)} FROM {table}"))
    generation = max(before, connection.scalar("SELECT generation FROM identity")) + 1
    connection.execute("UPDATE identity SET generation = ?", (generation,))  # other processes notice the change
    for table in _NUMBERED:
        last = copy.scalar(f"SELECT coalesce(max(number), 0) FROM {table}")
        if table in _NUMBERED[:2]:
            last = max(last, copy.last_number(table))
        connection.execute(f"SELECT setval('{table}_number_seq', ?, ?)", (max(last, 1), last > 0))


def _copy_rows(copy: FileConnection, connection: Connection, table: str, where: str = "true", *values: object) -> None:
    columns = _columns(copy, table)
    rows = connection.all(f"SELECT {_column_list(columns)} FROM {table} WHERE {where}", *values)
    copy.executemany(
        f"INSERT INTO {table} ({_column_list(columns)}) VALUES ({', '.join('?' * len(columns))})", map(tuple, rows)
    )


def _copy_new_rows(copy: FileConnection, connection: Connection, table: str) -> None:
    bounds = f"SELECT coalesce(min(number), 0) AS oldest, coalesce(max(number), 0) AS newest FROM {table}"
    source_bounds, copied_bounds = connection.first(bounds), copy.first(bounds)
    if source_bounds.newest < copied_bounds.newest:  # the catalog was restored
        copy.execute(f"DELETE FROM {table}")
        copied_bounds = copy.first(bounds)
    _copy_rows(copy, connection, table, "number > ?", copied_bounds.newest)
    copy.execute(f"DELETE FROM {table} WHERE number < ?", (source_bounds.oldest,))


def _columns(copy: FileConnection, table: str) -> list[str]:
    return [row.name for row in copy.all(f"PRAGMA table_info({table})")]


def _column_list(columns: list[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)
