"""A query over system relations for which SQLite's way has no form → what is wrong with it as with any query."""

from __future__ import annotations

from datetime import datetime

from sinkql import ast, logical
from sinkql.catalog.system.item import WithSystem
from sinkql.catalog.system.value import UnsureValueError
from sinkql.errors import SinkqlError
from sinkql.planner.query.once import plan_once

_NO_FORM = [f"SQ{number}" for number in (2284, 2932, 2980, 2215, 2928, 2214)]
_OF_CLIENTS = [f"SQ{number}" for number in (2210, 2223)]
"""Of functions and types that only the system catalog has."""


def check_general(query: ast.Query, plans: logical.CatalogReader, now: datetime, refused: SinkqlError) -> None:
    """Raise what is wrong with a query over system relations, which SQLite's way has refused, as any query."""
    if refused.code not in _NO_FORM or isinstance(refused, UnsureValueError):
        raise refused
    try:
        plan_once(query, WithSystem(plans), now)
    except SinkqlError as error:
        raise (refused if error.code in _OF_CLIENTS else error) from None
