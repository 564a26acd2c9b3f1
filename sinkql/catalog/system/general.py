"""A query over system relations for which SQLite's way has no form → what is wrong with it as with any query."""

from __future__ import annotations

from datetime import datetime

from sinkql import ast, logical
from sinkql.catalog.system.item import WithSystem
from sinkql.errors import NoFormError, SinkqlError, UnknownNameError
from sinkql.planner.query.once import plan_once


def check_general(query: ast.Query, plans: logical.CatalogReader, now: datetime, refused: SinkqlError) -> None:
    """Raise what is wrong with a query over system relations, which SQLite's way has refused.

    One that SQLite's way has no form of is wrong as any query is, unless it names what only system relations have.
    """
    if not isinstance(refused, NoFormError):
        raise refused
    try:
        plan_once(query, WithSystem(plans), now)
    except UnknownNameError:
        raise refused from None
