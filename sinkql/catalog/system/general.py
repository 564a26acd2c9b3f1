"""Run a query over system relations in SQLite, or like any other query if SQLite cannot run it."""

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
    """Run a query in SQLite, or by `general`, like any other query, if SQLite has no form for it.

    The error for unsupported forms is only shown if the query names something that only system relations have.
    """
    schemas = tuple(split_name(schema)[-1] for schema in path(plans))
    try:
        return select(query, database, current=(plans.setting("database"), schemas))
    except NoFormError as refused:
        try:
            return general()
        except UnknownNameError:
            raise refused from None
