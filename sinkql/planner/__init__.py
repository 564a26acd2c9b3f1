"""Plan a statement: its meaning as `logical`, from the statement, its facts and the catalog.

Planning uses no network and has no effects.

* `scope`: Collects the dependencies and notices of one statement.
* `name`: Resolves names to full names and to entries of the catalog.
* `types`: Finds the common type of types, and parses type names.
* `item`: Plans a CREATE statement as an item.
* `subsource`: Plans the tables of a source with several tables.
* `query`: Plans a query's text as relations.
* `syntax`: Parses queries, and explains syntax errors and unsupported expressions.
* `expression`: Builds typed expressions: operators, casts, literals.
* `function`: Resolves calls of functions.
* `edit`: Plans statements that change items and rows: ALTER, DROP, INSERT, UPDATE, DELETE.
* `unsupported`: Rejects statements and clauses that are not supported.
* `dependency`: Orders items by their dependencies.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.planner.edit.drop import plan_drop
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.item.statement import plan
from sinkql.planner.scope import Planned

if TYPE_CHECKING:
    from sinkql.planner.edit.dml import Deleted, Inserted, Updated


def plan_change(
    statement: ast.RowChange, catalog: logical.CatalogReader, now: datetime
) -> Inserted | Updated | Deleted:
    """Plan a statement that changes rows at a time (UTC)."""
    from sinkql.planner.edit import dml  # deferred: imports sqlglot

    match statement:
        case ast.Insert():
            return dml.plan_insert(statement, catalog, now)
        case ast.Update():
            return dml.plan_update(statement, catalog, now)
        case ast.Delete():
            return dml.plan_delete(statement, catalog, now)


__all__ = ["Planned", "plan", "plan_change", "plan_drop", "qualify"]
