"""What a catalog asks of where it is stored: transactions over the same tables, whichever database has them."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sinkql.catalog.address import Address

Row: TypeAlias = Any
"""A named tuple of a query's columns, whose types no database says."""


class Cursor(Protocol):
    """What a statement gives."""

    @property
    def rowcount(self) -> int:
        """Return how many rows a statement changed."""

    def fetchone(self) -> Any:
        """Return the next row, None after the last one."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""


class Connection(ABC):
    """A transaction's connection; its statements are SQLite's, with `?` for values, as far as Postgres has the same."""

    shared: bool
    """Whether processes of several hosts may use the database."""

    @abstractmethod
    def execute(self, query: str, values: Sequence[Any] = (), /) -> Any:
        """Run a statement; return its `Cursor`."""

    @abstractmethod
    def clock(self) -> float:
        """Return the time that leases go by, in seconds since 1970: one clock for all who use the database."""

    @abstractmethod
    def last_number(self, table: str) -> int:
        """Return the highest `number` that a row of a table ever had, 0 without one."""

    def all(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        return self._run(query, values).fetchall()

    def first(self, query: str, *values: object) -> Row:
        """Return the first row of a query, None where there is none."""
        return self._run(query, values).fetchone()

    def scalar(self, query: str, *values: object) -> Any:
        """Return the first value of the first row, None where there is none."""
        row = self.first(query, *values)
        return None if row is None else row[0]

    def scalars(self, query: str, *values: object) -> list[Any]:
        """Return the first value of each row."""
        return [row[0] for row in self._run(query, values).fetchall()]

    def insert(self, table: str, values: Mapping[str, object]) -> None:
        """Insert a row."""
        self.execute(insertion(table, values), [*values.values()])

    def insert_numbered(self, table: str, values: Mapping[str, object]) -> int:
        """Insert a row into a table whose rows have numbers; return its own."""
        return int(self.scalar(f"{insertion(table, values)} RETURNING number", *values.values()))

    def put(self, table: str, key: str, values: Mapping[str, object]) -> None:
        """Insert a row, or give these values to the one of the same key."""
        changed = ", ".join(f"{name} = excluded.{name}" for name in values if name != key)
        self.execute(f"{insertion(table, values)} ON CONFLICT ({key}) DO UPDATE SET {changed}", [*values.values()])

    def update(self, table: str, values: Mapping[str, object], where: str, *given: object) -> int:
        """Give values to the rows that fit a condition; return how many they are."""
        changed = ", ".join(f"{name} = ?" for name in values)
        return self._run(f"UPDATE {table} SET {changed} WHERE {where}", (*values.values(), *given)).rowcount

    def _run(self, query: str, values: Sequence[object]) -> Cursor:
        cursor: Cursor = self.execute(query, values)
        return cursor


def insertion(table: str, values: Iterable[str]) -> str:
    """Return the statement that inserts a row of these columns."""
    names = [*values]
    columns = ", ".join(f'"{name}"' for name in names)  # Postgres takes a bare "user" for a function
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(names))})"


class Store(Protocol):
    """A database that holds a catalog, or a copy of one in memory."""

    @property
    def address(self) -> Address:
        """Return what the database is opened by."""

    @property
    def folder(self) -> Path:
        """Return where this machine keeps what items have beside the catalog: tables, logs, the state of sinks."""

    def write(self) -> AbstractContextManager[Connection]:
        """Open the only transaction that may write."""

    def read(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction, which sees one state of the database."""

    def views(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a read-only transaction of SQLite over the system relations."""

    def copy(self) -> Store:
        """Return a copy of what it holds now, in memory, for one thread."""

    def damage(self) -> list[str]:
        """Return what is wrong with the database itself."""

    def close(self) -> None:
        """Close the connections that are kept; the next transaction opens one again."""
