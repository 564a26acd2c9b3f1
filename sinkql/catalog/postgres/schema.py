"""The schema of a catalog's tables in Postgres: looked at, made, brought up to date."""

from __future__ import annotations

import uuid

from sinkql.catalog.address import ServerUrl
from sinkql.catalog.postgres.failure import foreign
from sinkql.catalog.sqlite.layout import Layout
from sinkql.catalog.sqlite.schema import TABLES
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
