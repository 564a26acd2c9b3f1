"""A query over system relations → what SQLite's way makes of it, or another way where that has no form of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sinkql import ast, logical
from sinkql.catalog.store import Store
from sinkql.catalog.system.query import select
from sinkql.catalog.system.view import Table
from sinkql.errors import NoFormError, UnknownNameError
from sinkql.planner.name import path, split_name

_Found = TypeVar("_Found")


def select_or_plan(
    query: ast.Query, database: Store, plans: logical.CatalogReader, general: Callable[[], _Found]
) -> Table | _Found:
    """Run a query by SQLite, or by `general`, as any other query, where SQLite's way has no form of it.

    Such a one is wrong as any query is, unless it names what only system relations have.
    """
    schemas = tuple(split_name(each)[-1] for each in path(plans))
    try:
        return select(query, database, current=(plans.setting("database"), schemas))
    except NoFormError as refused:
        try:
            return general()
        except UnknownNameError:
            raise refused from None
