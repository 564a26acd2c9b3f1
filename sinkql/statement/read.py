"""Check queries, SHOW and EXPLAIN without rows: raise the errors of planning them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.sqlite.database import Memory
from sinkql.catalog.system import LAYOUT
from sinkql.catalog.system.general import select_or_plan
from sinkql.catalog.system.item import SystemCatalog
from sinkql.catalog.system.query import select
from sinkql.catalog.system.show import LISTINGS, check_variable, checked_query, conditions_of
from sinkql.catalog.system.system_names import System, over_system
from sinkql.lowering.explain import explained
from sinkql.machine import clock
from sinkql.planner.query.plan import plan_one_shot
from sinkql.planner.scope import Scope
from sinkql.planner.syntax.file_query import NamedFile, may_name_files, named_files
from sinkql.statement.operation import ReadRows


def check_read(operation: ReadRows, plans: MemoryCatalog) -> None:
    """Raise the errors that executing the operation raises before it reads rows."""
    statement, registry = operation.statement, plans.registry
    match statement:
        case ast.Select(query=query):
            files = named_files(query, registry.scans) if may_name_files(query, registry.scans) else ()
            if files:
                _check_connections(files, Scope(plans, registry))
            else:
                _check_query(query, plans)
        case ast.Show():
            _check_show(statement, plans)
        case ast.ShowVariable():
            check_variable(statement)
        case ast.Explain():
            explained(statement, plans, registry, {})


def _check_connections(files: Iterable[NamedFile], scope: Scope) -> None:
    for file in files:
        if file.connection is not None and file.function is not None:
            scope.connection(file.connection, scope.registry.scans[file.function].connection)


def _check_query(query: ast.Query, plans: MemoryCatalog) -> None:
    now = clock.now().replace(tzinfo=None)
    match over_system(query, plans):
        case System.NONE:
            plan_one_shot(query, plans, now)
        case System.BESIDE:
            plan_one_shot(query, SystemCatalog(plans), now)
        case System.ALONE:
            select_or_plan(query, _empty(), plans, lambda: plan_one_shot(query, SystemCatalog(plans), now))


def _check_show(statement: ast.Show, plans: MemoryCatalog) -> None:
    """Check the conditions of SHOW by running it on an empty catalog."""
    listing = LISTINGS[statement.kind]
    query = checked_query(statement, listing, list(conditions_of(statement, listing, plans)), plans)
    if statement.where is not None:
        select(query, _empty(), within=statement.where.span)


@cache
def _empty() -> Memory:
    return Memory.empty(LAYOUT)
