"""Plan INTERSECT and EXCEPT: group the rows of both sides by all columns, and count the rows of each side.

Also plans VALUES as a relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, alike_narrowed, call, column, constant
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.query_context import OuterQuery, QueryPlanner
from sinkql.planner.query.scope import RowContext, Scope
from sinkql.planner.query.subquery.subquery import Subqueries
from sinkql.planner.query.translate import Translator

Word = Literal["INTERSECT", "EXCEPT"]
_SIDE, _LEFT, _RIGHT = "$left", "$l", "$r"


def combined(
    word: Word, left: logical.Relation, right: logical.Relation, span: Span, *, all_: bool, scaled: bool
) -> logical.Relation:
    """Return the rows of both sides (INTERSECT), or of the left side only (EXCEPT); NULL equals NULL.

    With `all_`, a row repeats as often as both sides have it, or by as much as the left count exceeds the right.
    Otherwise rows are distinct. `scaled` is as in `union`.
    """
    sides = query_relation.alike(word, left, right, span, scaled=scaled)
    keys = [key for side in sides[: 2 if word == "INTERSECT" else 1] for key in side.shape.keys]
    names = [column_.name for column_ in sides[0].shape.columns]
    counted = _count_rows(sides, span)
    left_count, right_count = (column(name, types.BIGINT, nullable=False, span=span) for name in (_LEFT, _RIGHT))
    zero = constant(0, types.BIGINT, span)
    rows: logical.Relation
    if all_:
        more = call("-(bigint,bigint)", (left_count, right_count), span)
        times = ("least(any…)", (left_count, right_count)) if word == "INTERSECT" else ("greatest(any…)", (more, zero))
        rows = logical.Repeat(
            counted,
            call(*times, span, type_=types.BIGINT).tree,
            logical.Shape(counted.shape.columns, (), counted.shape.change),
        )
    else:
        right_condition = call(">(any,any)" if word == "INTERSECT" else "=(any,any)", (right_count, zero), span)
        condition = call("AND(boolean…)", (call(">(any,any)", (left_count, zero), span), right_condition), span)
        rows = query_relation.keep(counted, condition)
    return query_relation.keyed(query_relation.chosen(rows, names, span), keys)


def _count_rows(sides: tuple[logical.Relation, logical.Relation], span: Span) -> logical.Relation:
    """Return the distinct rows with their counts on the left and on the right side."""
    columns = sides[0].shape.columns
    marked = [
        query_relation.project(
            side,
            [
                *((column_.name, query_relation.reference(column_, span)) for column_ in side.shape.columns),
                (_SIDE, constant(left, types.BOOLEAN, span)),
            ],
        )
        for side, left in zip(sides, (True, False), strict=True)
    ]
    both = query_relation.union(marked[0], marked[1], span)
    mark = column(_SIDE, types.BOOLEAN, nullable=False, span=span)
    calls = [
        logical.AggregateCall(name, "count", _mark_of_side(mark, other, span).tree, False, types.BIGINT)
        for name, other in ((_LEFT, False), (_RIGHT, True))
    ]
    groups = [(column_.name, query_relation.reference(column_, span)) for column_ in both.shape.columns[: len(columns)]]
    return query_relation.group(both, groups, calls, span)


def _mark_of_side(mark: Typed, other: bool, span: Span) -> Typed:
    """Return the mark, or NULL for rows of the opposite side."""
    return call("nullif(any,any)", (mark, constant(other, types.BOOLEAN, span)), span, type_=types.BOOLEAN)


def plan_values(queries: QueryPlanner, around: OuterQuery, values: Any) -> logical.Relation:
    """Plan VALUES (…), … as one row each, with columns column1, column2, …"""
    syntax, scope = queries.syntax, Scope(now=queries.once, outer=around.outer)
    rows: list[list[Typed]] = []
    contexts: list[Subqueries] = []
    for row in values.expressions:
        contexts.append(Subqueries(queries, around, scope))
        t = Translator(syntax, RowContext(scope, "VALUES", subqueries=contexts[-1]))
        rows.append([t.translate(node) for node in row.expressions])
    for row, node in zip(rows, values.expressions, strict=True):
        if len(row) != len(rows[0]):
            message = f"each row of VALUES must have the same number of columns, found {len(rows[0])} and {len(row)}"
            raise SinkqlError("SQ2221", message, syntax.span(node))
    columns = [_common_column(column, syntax.span(values), scaled=queries.scaled) for column in zip(*rows, strict=True)]
    single_rows = []
    for index, subqueries in enumerate(contexts):
        items = [(f"column{number}", column[index]) for number, column in enumerate(columns, 1)]
        single_rows.append(query_relation.project(subqueries.attached(logical.ONE), items))
    union = single_rows[0]
    for node, single_row in zip(values.expressions[1:], single_rows[1:], strict=True):
        union = query_relation.union(union, single_row, syntax.span(node))
    return union


def _common_column(values: Sequence[Typed], span: Span, *, scaled: bool) -> tuple[Typed, ...]:
    """Return the values of a VALUES column with one common type."""
    if all(value.type == types.UNKNOWN for value in values):
        return tuple(coerced(value, types.TEXT) for value in values)
    common = operators.settled(values, span, "VALUES")[1]
    return alike_narrowed(common) if scaled else common
