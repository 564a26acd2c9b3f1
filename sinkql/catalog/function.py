"""The functions of Postgres that its tools call when they list relations, for SQLite to run."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

from sinkql import __version__
from sinkql.catalog.system.types import TYPES

DIALECT_VERSION = f"PostgreSQL 9.5 on SinkQL {__version__}"
"""What version() says: tools look for the number of the Postgres whose catalog this resembles."""

_NAMES = {each.oid: each.name for each in TYPES}
_MODIFIED = 4  # what a modifier is above ((precision << 16) | scale)


def register(connection: sqlite3.Connection, *, database: str, schema: str) -> None:
    """Make the functions known to a connection; `database` and `schema` are the current ones."""

    def add(name: str, count: int, function: Callable[..., str | int | None]) -> None:
        connection.create_function(name, count, function, deterministic=True)

    add("current_database", 0, lambda: database)
    add("current_catalog", 0, lambda: database)
    add("current_schema", 0, lambda: schema)
    add("current_user", 0, lambda: "materialize")
    add("session_user", 0, lambda: "materialize")
    add("version", 0, lambda: DIALECT_VERSION)
    add("mz_version", 0, lambda: __version__)
    add("regexp", 2, _matches)
    add("regexp_i", 2, lambda pattern, value: _matches(pattern, value, re.IGNORECASE))
    add("format_type", 2, _format_type)
    add("pg_get_userbyid", 1, lambda oid: "materialize")
    add("pg_encoding_to_char", 1, lambda encoding: "UTF8")
    add("pg_table_is_visible", 1, lambda oid: 1)
    add("pg_type_is_visible", 1, lambda oid: 1)
    add("has_schema_privilege", 2, lambda name, privilege: 1)
    add("has_table_privilege", 2, lambda name, privilege: 1)
    for name in ("pg_get_expr", "pg_get_constraintdef", "obj_description", "shobj_description", "col_description"):
        for count in (1, 2, 3):
            add(name, count, _first_if_text)


def _matches(pattern: str | None, value: str | None, flags: re.RegexFlag = re.NOFLAG) -> int | None:
    if pattern is None or value is None:
        return None
    return int(re.search(str(pattern), str(value), flags) is not None)


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
