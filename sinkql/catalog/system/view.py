"""Run SinkQL's SQLite queries over the views of the system relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sinkql.catalog.store import Store


@dataclass(frozen=True, slots=True)
class Table:
    """A query's result: names of columns, and rows of text, numbers, booleans and None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def select_views(sql: str, database: Store, *, booleans: frozenset[int] = frozenset()) -> Table:
    """Run a query; `booleans` are the positions of boolean outputs, which SQLite returns as numbers."""
    with database.views() as connection:
        result = connection.execute(sql)
        columns = tuple(column[0] for column in result.description)
        return Table(columns, tuple(_with_booleans(row, booleans) for row in result))


def _with_booleans(row: Sequence[Any], booleans: frozenset[int]) -> tuple[Any, ...]:
    return tuple(bool(value) if place in booleans and value is not None else value for place, value in enumerate(row))
