"""A connection of SQLite, whose rows have their columns by name."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from sinkql.catalog import store
from sinkql.catalog.store import Row
from sinkql.machine import clock

BUSY_SECONDS = 30.0


class Connection(sqlite3.Connection, store.Connection):
    """A connection whose transactions begin explicitly, not by the driver's choice."""

    shared = False

    @classmethod
    def open(cls, path: Path | str) -> Connection:
        """Open a file; the connection may be used by several threads, one at a time."""
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=cls
        )
        connection.row_factory = _named_row
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def all(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        cursor = self.execute(query, values)
        cursor.row_factory = None  # all rows have the same type
        rows = cursor.fetchall()
        return [*map(_row_type(_names(cursor)), rows)] if rows else []

    def clock(self) -> float:
        """Return this machine's time: all users of the file are on it."""
        return clock.time()

    def last_number(self, table: str) -> int:
        """Return the highest number that a row of a table ever had; 0 if it never had rows."""
        return int(self.scalar("SELECT seq FROM sqlite_sequence WHERE name = ?", table) or 0)


def _named_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return _row_type(_names(cursor))(values)


def _names(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(column[0] for column in cursor.description)


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Row]:
    row_class = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # a query determines the names
    return row_class._make
