"""A path → a connection of SQLite, whose rows have their columns by name."""

from __future__ import annotations

import sqlite3
import time
from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from sinkql.catalog import store
from sinkql.catalog.store import Row

BUSY_SECONDS = 30.0


class Connection(sqlite3.Connection, store.Connection):
    """A connection whose transactions begin where they are told to, not where the driver thinks fit."""

    shared = False

    @classmethod
    def open(cls, path: Path | str) -> Connection:
        """Open a file, for one thread at a time, which may be another one later."""
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=cls
        )
        connection.row_factory = _named
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def all(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        cursor = self.execute(query, values)
        cursor.row_factory = None  # one type fits all of them
        rows = cursor.fetchall()
        return [*map(_row_type(_names(cursor)), rows)] if rows else []

    def clock(self) -> float:
        """Return this machine's time: all who use the file are on it."""
        return time.time()

    def last_number(self, table: str) -> int:
        """Return the highest number that a row of a table ever had, 0 without one."""
        return int(self.scalar("SELECT seq FROM sqlite_sequence WHERE name = ?", table) or 0)


def _named(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return _row_type(_names(cursor))(values)


def _names(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(column[0] for column in cursor.description)


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Row]:
    made = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # the names are those of a query
    return made._make
