"""The interface of a catalog's database: transactions over the same tables in SQLite and Postgres."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sinkql.catalog.address import Address

Row: TypeAlias = Any
"""A named tuple of a query's columns; databases do not declare their types."""


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """Return how many rows a statement changed."""

    def fetchone(self) -> Any:
        """Return the next row; None after the last one."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""


class Connection(ABC):
    """A connection in a transaction.

    Statements are in the common subset of SQLite and Postgres, with `?` for values.
    """

    shared: bool
    """Whether processes on several hosts may use the database."""

    @abstractmethod
    def execute(self, query: str, values: Sequence[Any] = (), /) -> Any:
        """Run a statement; return its `Cursor`."""

    @abstractmethod
    def clock(self) -> float:
        """Return the time for leases in seconds since 1970: one clock for all users of the database."""

    @abstractmethod
    def last_number(self, table: str) -> int:
        """Return the highest `number` that a row of a table ever had; 0 if it never had rows."""

    def all(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        return self._run(query, values).fetchall()

    def first(self, query: str, *values: object) -> Row:
        """Return the first row of a query; None if it has no rows."""
        return self._run(query, values).fetchone()

    def scalar(self, query: str, *values: object) -> Any:
        """Return the first value of the first row; None if no row exists."""
        row = self.first(query, *values)
        return None if row is None else row[0]

    def scalars(self, query: str, *values: object) -> list[Any]:
        """Return the first value of each row."""
        return [row[0] for row in self._run(query, values).fetchall()]

    def insert(self, table: str, values: Mapping[str, object]) -> None:
        """Insert a row."""
        self.execute(insertion(table, values), [*values.values()])

    def insert_numbered(self, table: str, values: Mapping[str, object]) -> int:
        """Insert a row into a table with numbered rows; return the row's number."""
        return int(self.scalar(f"{insertion(table, values)} RETURNING number", *values.values()))

    def put(self, table: str, key: str, values: Mapping[str, object]) -> None:
        """Insert a row, or update the row with the same key."""
        changed = ", ".join(f"{name} = excluded.{name}" for name in values if name != key)
        self.execute(f"{insertion(table, values)} ON CONFLICT ({key}) DO UPDATE SET {changed}", [*values.values()])

    def update(self, table: str, values: Mapping[str, object], where: str, *condition_values: object) -> int:
        """Update the rows that match a condition; return their number."""
        changed = ", ".join(f"{name} = ?" for name in values)
        return self._run(f"UPDATE {table} SET {changed} WHERE {where}", (*values.values(), *condition_values)).rowcount

    def _run(self, query: str, values: Sequence[object]) -> Cursor:
        cursor: Cursor = self.execute(query, values)
        return cursor


def insertion(table: str, values: Iterable[str]) -> str:
    """Return the statement that inserts a row with these columns."""
    names = [*values]
    columns = ", ".join(f'"{name}"' for name in names)  # Postgres reads a bare "user" as a function
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(names))})"


class Store(Protocol):
    """A database that holds a catalog, or a copy of one in memory."""

    @property
    def address(self) -> Address:
        """Return the address of the database."""

    @property
    def folder(self) -> Path:
        """Return this machine's folder for tables, logs and the state of sinks."""

    def write(self) -> AbstractContextManager[Connection]:
        """Open the only transaction that may write."""

    def read(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction over one state of the database."""

    def views(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a read-only SQLite transaction over the system relations."""

    def copy(self) -> Store:
        """Return a copy of the current content in memory, for one thread."""

    def damage(self) -> list[str]:
        """Return descriptions of damage to the database."""

    def close(self) -> None:
        """Close idle connections; the next transaction opens a new one."""
