"""A query that runs once and gives rows → its relation, order and limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sinkql import ast, logical
from sinkql.errors import too_deep
from sinkql.planner.query.order_by import Order, Terms, row_count
from sinkql.planner.query.plan import Planner
from sinkql.planner.query.query_context import OuterQuery
from sinkql.planner.query.select import SAME
from sinkql.planner.syntax.sqlglot_tree import parse


@dataclass(frozen=True, slots=True)
class OneShotQuery:
    """What a query means; of the relation's columns the first `width` are shown, all others only ordered by."""

    relation: logical.Relation
    dependencies: tuple[str, ...]
    width: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns that are shown, which may be there twice."""
        return tuple(column.name.partition(SAME)[0] for column in self.relation.shape.columns[: self.width])

    @property
    def types(self) -> tuple[logical.Type, ...]:
        """Return the types of the columns that are shown."""
        return tuple(column.type for column in self.relation.shape.columns[: self.width])


def plan_one_shot(query: ast.Query, catalog: logical.CatalogReader, now: datetime) -> OneShotQuery:
    """Plan a query that runs once; beyond what a view may it orders, limits, reads sinks and the clock."""
    syntax = parse(query)
    tree = syntax.tree
    limit, offset = (row_count(syntax, tree.args.get(each), each.upper()) for each in ("limit", "offset"))
    order = Terms(syntax, tree)
    try:
        planner = Planner(syntax, catalog, now, order.hidden)
        relation = planner.plan(tree, OuterQuery())
        places = order.places(relation)
    except RecursionError:
        raise too_deep(query.span) from None
    return OneShotQuery(relation, tuple(planner.dependencies), order.width(relation), places, limit, offset or 0)
