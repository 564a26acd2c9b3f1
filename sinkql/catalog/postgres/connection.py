"""A transaction in Postgres, with what the catalog asks of a connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from sinkql.catalog import store
from sinkql.catalog.postgres.dialect import for_postgres

Link = psycopg.Connection[Any]
"""An open connection of psycopg, whose rows are named tuples."""
_NO_NUL = str.maketrans({"\0": "\N{SYMBOL FOR NULL}"})


class Connection(store.Connection):
    """A connection while a transaction is open in it."""

    shared = True

    def __init__(self, link: Link) -> None:
        self._link = link

    def execute(self, query: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """Run a statement of SQLite's, with `?` for values."""
        return self._link.execute(for_postgres(query), [*map(_storable, values)])

    def insert_all(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Insert rows of these columns."""
        query = for_postgres(store.insertion(table, columns))
        with self._link.cursor() as cursor:
            cursor.executemany(query, ([*map(_storable, row)] for row in rows))

    def clock(self) -> float:
        """Return the server's time, in seconds since 1970."""
        return float(self.scalar("SELECT extract(epoch FROM clock_timestamp())::float8"))

    def last_number(self, table: str) -> int:
        """Return the highest number that a row of a table ever had, or might have had; 0 without one."""
        query = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {table}_number_seq"
        return int(self.scalar(query))


def _storable(value: object) -> object:
    """Return a value as Postgres stores it, which has no text with a NUL, as an error's message may be."""
    return value.translate(_NO_NUL) if isinstance(value, str) and "\0" in value else value
