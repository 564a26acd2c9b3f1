"""Statement, facts and catalog → `logical`: what a statement means. No network, no effects.

* `item`: one CREATE statement → its item, what it depends on, and what the user should know.
* `query`: a query's text → relations.
* `function`: which function a call means, and what it refuses.
* `expression`: typed expressions put together: operators, casts, literals.
* `edit`: statements that change what is there: ALTER, DROP, renaming, INSERT, UPDATE, DELETE.
* `syntax`: what is understood and not run → an error that says what to use instead.
* `subsource`: the tables of a source of several: which are read, under which names.
* `scope`, `name`, `dependency`, `types`: what one statement depends on; names → items; the order of items; what types
  have in common.
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
    from sinkql.planner.edit import dml  # sqlglot loads only where there is a statement for it

    match statement:
        case ast.Insert():
            return dml.plan_insert(statement, catalog, now)
        case ast.Update():
            return dml.plan_update(statement, catalog, now)
        case ast.Delete():
            return dml.plan_delete(statement, catalog, now)


__all__ = ["Planned", "plan", "plan_change", "plan_drop", "qualify"]
