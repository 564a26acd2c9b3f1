"""SQL of SQLite over the views that are the system relations → columns and rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sinkql.catalog.file.database import Database
from sinkql.catalog.system.sqlite_function import register
from sinkql.errors import SinkqlError
from sinkql.planner.name import DATABASE, SCHEMA


@dataclass(frozen=True, slots=True)
class Table:
    """A query's result: names of columns, and rows of text, numbers, booleans and None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def select_views(
    sql: str,
    database: Database,
    *,
    booleans: frozenset[int] = frozenset(),
    current: tuple[str, tuple[str, ...]] = (DATABASE, (SCHEMA,)),
    refused: Callable[[str], SinkqlError] | None = None,
) -> Table:
    """Run a query; `booleans` are the places of outputs that are, for which SQLite gives numbers.

    `current` are the session's database and the schemas on its path; `refused` gives the error for a reason of SQLite's
    not to run the query.
    """
    with database.read() as connection:
        connection.execute("PRAGMA case_sensitive_like = ON")  # as LIKE is in the user's dialect
        register(connection, database=current[0], path=current[1])
        try:
            result = connection.execute(sql)
            columns = tuple(column[0] for column in result.description)
            return Table(columns, tuple(_typed(row, booleans) for row in result))
        except sqlite3.Error as error:
            if refused is None:
                raise
            raise refused(str(error)) from error


def _typed(row: Sequence[Any], booleans: frozenset[int]) -> tuple[Any, ...]:
    return tuple(bool(value) if place in booleans and value is not None else value for place, value in enumerate(row))
