"""A path → a connection of SQLite, whose rows have their columns by name; its statements for rows of one table."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

BUSY_SECONDS = 30.0
Row: TypeAlias = Any
"""A named tuple of a query's columns; SQLite says no types."""


class Connection(sqlite3.Connection):
    """A connection whose transactions begin where they are told to, not where the driver thinks fit."""

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

    def first(self, query: str, *values: object) -> Row:
        """Return the first row of a query, None where there is none."""
        return self.execute(query, values).fetchone()

    def scalar(self, query: str, *values: object) -> Any:
        """Return the first value of the first row, None where there is none."""
        row = self.first(query, *values)
        return None if row is None else row[0]

    def scalars(self, query: str, *values: object) -> list[Any]:
        """Return the first value of each row."""
        return [row[0] for row in self.execute(query, values)]

    def insert(self, table: str, values: Mapping[str, object]) -> int:
        """Insert a row; return its number."""
        names, places = ", ".join(values), ", ".join("?" * len(values))
        number = self.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", [*values.values()]).lastrowid
        assert number is not None
        return number

    def put(self, table: str, key: str, values: Mapping[str, object]) -> None:
        """Insert a row, or give these values to the one of the same key."""
        names, places = ", ".join(values), ", ".join("?" * len(values))
        changed = ", ".join(f"{name} = excluded.{name}" for name in values if name != key)
        statement = f"INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT ({key}) DO UPDATE SET {changed}"
        self.execute(statement, [*values.values()])

    def update(self, table: str, values: Mapping[str, object], where: str, *given: object) -> int:
        """Give values to the rows that fit a condition; return how many they are."""
        changed = ", ".join(f"{name} = ?" for name in values)
        return self.execute(f"UPDATE {table} SET {changed} WHERE {where}", [*values.values(), *given]).rowcount


def _named(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return _row_type(_names(cursor))(values)


def _names(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(column[0] for column in cursor.description)


@lru_cache(maxsize=256)
def _row_type(names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Row]:
    made = namedtuple("Row", names, rename=True)  # type: ignore[misc]  # the names are those of a query
    return made._make
