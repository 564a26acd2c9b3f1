"""The functions of Postgres that its tools call when they list relations, for SQLite to run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from sinkql import __version__
from sinkql.catalog.system.pg_type import TYPES
from sinkql.logical import Type
from sinkql.planner.types import BOOLEAN, TEXT

DIALECT_VERSION = f"PostgreSQL 9.5 on SinkQL {__version__}"
"""What version() says: tools look for the number of the Postgres whose catalog this resembles."""

CLIENT: Mapping[str, tuple[tuple[int, ...], Type]] = MappingProxyType(
    {
        **dict.fromkeys(("current_database", "current_catalog", "current_schema", "current_user"), ((0,), TEXT)),
        **dict.fromkeys(("session_user", "version", "mz_version"), ((0,), TEXT)),
        **dict.fromkeys(("pg_get_userbyid", "pg_encoding_to_char"), ((1,), TEXT)),
        "format_type": ((2,), TEXT),
        **dict.fromkeys(("pg_table_is_visible", "pg_type_is_visible"), ((1,), BOOLEAN)),
        **dict.fromkeys(("has_schema_privilege", "has_table_privilege"), ((2,), BOOLEAN)),
        **dict.fromkeys(("pg_get_expr", "pg_get_constraintdef", "obj_description"), ((1, 2, 3), TEXT)),
        **dict.fromkeys(("shobj_description", "col_description"), ((1, 2, 3), TEXT)),
    }
)
"""What `register` makes known: how many arguments each function takes, and the type of what it gives."""

_NAMES = {each.oid: each.name for each in TYPES}
_ALWAYS_ON_PATH = ("mz_catalog", "pg_catalog")
_MODIFIED = 4  # what a modifier is above ((precision << 16) | scale)


def register(connection: sqlite3.Connection, *, database: str, path: Sequence[str]) -> None:
    """Make the functions known to a connection; `database` is the current one, `path` its schemas on the path."""

    def add(name: str, count: int, function: Callable[..., str | int | None]) -> None:
        connection.create_function(name, count, function, deterministic=True)

    add("current_database", 0, lambda: database)
    add("current_catalog", 0, lambda: database)
    add("current_schema", 0, lambda: next(iter(path), None))
    add("current_user", 0, lambda: "materialize")
    add("session_user", 0, lambda: "materialize")
    add("version", 0, lambda: DIALECT_VERSION)
    add("mz_version", 0, lambda: __version__)
    add("format_type", 2, _format_type)
    add("pg_get_userbyid", 1, lambda oid: "materialize")
    add("pg_encoding_to_char", 1, lambda encoding: "UTF8")
    visible = _Visible(connection, database, path)
    add("pg_table_is_visible", 1, visible)
    add("pg_type_is_visible", 1, lambda oid: 1)
    add("has_schema_privilege", 2, lambda name, privilege: 1)
    add("has_table_privilege", 2, lambda name, privilege: 1)
    for name in ("pg_get_expr", "pg_get_constraintdef", "obj_description", "shobj_description", "col_description"):
        for count in (1, 2, 3):
            add(name, count, _first_if_text)


class _Visible:
    """Tell which relations a name alone finds: of several of one name that in the first schema on the path."""

    def __init__(self, connection: sqlite3.Connection, database: str, path: Sequence[str]) -> None:
        self._connection, self._database, self._path = connection, database, path

    def __call__(self, oid: int | None) -> int:
        return int(oid in self._oids)

    @cached_property
    def _oids(self) -> set[int]:
        query = (
            "SELECT r.oid, r.name, s.name, d.name FROM mz_relations AS r JOIN mz_schemas AS s ON s.id = r.schema_id"
            " LEFT JOIN mz_databases AS d ON d.id = s.database_id"
        )
        found: dict[str, tuple[int, int]] = {}
        for oid, name, schema, database in self._connection.execute(query).fetchall():
            if database is None and schema in _ALWAYS_ON_PATH:
                place = len(self._path)
            elif database == self._database and schema in self._path:
                place = self._path.index(schema)
            else:
                continue
            found[name] = min(found.get(name, (place, oid)), (place, oid))
        return {oid for _, oid in found.values()}


def _format_type(oid: int | None, modifier: int | None) -> str | None:
    if oid is None:
        return None
    name = _NAMES.get(int(oid), "???")
    if name == "numeric" and modifier is not None and int(modifier) >= _MODIFIED:
        packed = int(modifier) - _MODIFIED
        return f"numeric({packed >> 16},{packed & 0xFFFF})"
    return name


def _first_if_text(*arguments: object) -> str | None:
    """Return what is text already: expressions are stored as such; comments by oid are in pg_description."""
    return arguments[0] if isinstance(arguments[0], str) else None
