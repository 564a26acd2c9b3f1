"""Statement, facts and catalog → `logical`: what a statement means. No network, no effects.

* `statement`: `plan`: one item's meaning, what it depends on, and what the user should know.
* `scope`, `name`: what one statement depends on, and its notices; names → items of the catalog.
* `secret`, `connection`, `cluster`, `source`, `view`, `sink`: one statement family each.
* `rule`: what must hold of a sink, in the order it is checked.
* `query`: a view's SELECT → `logical.Relation`; `query_syntax`: its text as a tree; `query_name`: what columns without
  a name are called.
* `query_select`, `query_scope`, `query_aggregate`, `query_relation`: a SELECT's clauses, what its names stand for, its
  groups, the relations that come of it.
* `expressions`: an expression → Spark SQL of an exact type; a kind of expression each: `expressions_literal`,
  `expressions_operator`, `expressions_predicate`, `expressions_cast`, `expressions_interval`, `expressions_json`;
  `expressions_typed`, `expressions_refusal`: what they give, what they refuse.
* `functions`, `functions_overload`: which one a call means; a family each: `functions_condition`, `functions_format`,
  `functions_json`, `functions_number`, `functions_pattern`, `functions_text`, `functions_time`.
* `pattern`: a regular expression of Postgres → one of Java; `types`: SQL types, what they have in common.
* `qualify`: the statement with every name written in full, as the catalog stores it, or with names as they are now;
  `query_text`: the same within a query.
* `rename`: new names, and what ALTER … OWNER TO and COMMENT ON speak of; `transaction`: what is said of transactions.
* `drop`: what DROP takes away, in which order.
* `later`, `later_form`: statements, and forms of statements, that are understood and not run yet.
* `alter`: an item's statement as ALTER makes it; `alter_option`: its options; `alter_later`: what is not run.
* `setting`: settings, their defaults and what values they take.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.planner.drop import plan_drop
from sinkql.planner.qualify import qualify
from sinkql.planner.scope import Planned
from sinkql.planner.statement import plan

if TYPE_CHECKING:
    from sinkql.planner.change import Deleted, Inserted, Updated


def plan_change(statement: ast.Change, catalog: logical.CatalogReader, now: datetime) -> Inserted | Updated | Deleted:
    """Plan a statement that changes rows at a time (UTC)."""
    from sinkql.planner import change  # sqlglot loads only where there is a statement for it

    match statement:
        case ast.Insert():
            return change.plan_insert(statement, catalog, now)
        case ast.Update():
            return change.plan_update(statement, catalog, now)
        case ast.Delete():
            return change.plan_delete(statement, catalog, now)


__all__ = ["Planned", "plan", "plan_change", "plan_drop", "qualify"]
