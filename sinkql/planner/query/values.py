"""VALUES → a relation of as many rows as it lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, alike_narrowed
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.query_context import OuterQuery, QueryPlanner
from sinkql.planner.query.scope import RowContext, Scope
from sinkql.planner.query.subquery.subquery import Subqueries
from sinkql.planner.query.translate import Translator


def plan_values(queries: QueryPlanner, around: OuterQuery, values: Any) -> logical.Relation:
    """Plan VALUES (…), …: a row each, its columns called column1, column2, …"""
    syntax, scope = queries.syntax, Scope(now=queries.once, outer=around.outer)
    rows: list[list[Typed]] = []
    below: list[Subqueries] = []
    for row in values.expressions:
        below.append(Subqueries(queries, around, scope))
        t = Translator(syntax, RowContext(scope, "VALUES", subqueries=below[-1]))
        rows.append([t.translate(node) for node in row.expressions])
    for row, node in zip(rows, values.expressions, strict=True):
        if len(row) != len(rows[0]):
            message = f"each row of VALUES must have the same number of columns, found {len(rows[0])} and {len(row)}"
            raise SinkqlError("SQ2221", message, syntax.span(node))
    columns = [_alike(column, syntax.span(values), scaled=queries.scaled) for column in zip(*rows, strict=True)]
    found: logical.Relation | None = None
    for place, (node, subqueries) in enumerate(zip(values.expressions, below, strict=True)):
        items = [(f"column{number}", column[place]) for number, column in enumerate(columns, 1)]
        one = query_relation.project(subqueries.attached(logical.ONE), items)
        found = one if found is None else query_relation.union(found, one, syntax.span(node))
    assert found is not None
    return found


def _alike(values: Sequence[Typed], span: Span, *, scaled: bool) -> tuple[Typed, ...]:
    """Return the values of a column of VALUES as of one type."""
    if all(each.type == types.UNKNOWN for each in values):
        return tuple(coerced(each, types.TEXT) for each in values)
    found = operators.settled(values, span, "VALUES")[1]
    return alike_narrowed(found) if scaled else found
