"""INTERSECT and EXCEPT → the rows of both sides together, grouped by all columns, with how often each side has them.

VALUES → a relation of as many rows as it lists.
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
    """Return the rows that both sides have, or the left one alone; NULLs are equal.

    With `all_`, a row comes as often as both sides have it, or as the left one has it more often than the right one;
    otherwise once. `scaled` is as in `union`.
    """
    sides = query_relation.alike(word, left, right, span, scaled=scaled)
    keys = [key for side in sides[: 2 if word == "INTERSECT" else 1] for key in side.shape.keys]
    names = [each.name for each in sides[0].shape.columns]
    counted = _counted(sides, span)
    here, there = (column(name, types.BIGINT, nullable=False, span=span) for name in (_LEFT, _RIGHT))
    none = constant(0, types.BIGINT, span)
    found: logical.Relation
    if all_:
        more = call("-(bigint,bigint)", (here, there), span)
        times = ("least(any…)", (here, there)) if word == "INTERSECT" else ("greatest(any…)", (more, none))
        found = logical.Repeat(
            counted,
            call(*times, span, type_=types.BIGINT).tree,
            logical.Shape(counted.shape.columns, (), counted.shape.change),
        )
    else:
        also = call(">(any,any)" if word == "INTERSECT" else "=(any,any)", (there, none), span)
        wanted = call("AND(boolean…)", (call(">(any,any)", (here, none), span), also), span)
        found = query_relation.keep(counted, wanted)
    return query_relation.keyed(query_relation.chosen(found, names, span), keys)


def _counted(sides: tuple[logical.Relation, logical.Relation], span: Span) -> logical.Relation:
    """Return each row once, with how often the left and the right side have it."""
    columns = sides[0].shape.columns
    marked = [
        query_relation.project(
            side,
            [
                *((each.name, query_relation.reference(each, span)) for each in side.shape.columns),
                (_SIDE, constant(left, types.BOOLEAN, span)),
            ],
        )
        for side, left in zip(sides, (True, False), strict=True)
    ]
    both = query_relation.union(marked[0], marked[1], span)
    mark = column(_SIDE, types.BOOLEAN, nullable=False, span=span)
    calls = [
        logical.AggregateCall(name, "count", _unless(mark, other, span).tree, False, types.BIGINT)
        for name, other in ((_LEFT, False), (_RIGHT, True))
    ]
    groups = [(each.name, query_relation.reference(each, span)) for each in both.shape.columns[: len(columns)]]
    return query_relation.group(both, groups, calls, span)


def _unless(mark: Typed, other: bool, span: Span) -> Typed:
    """Return the mark, which is NULL for rows of the other side."""
    return call("nullif(any,any)", (mark, constant(other, types.BOOLEAN, span)), span, type_=types.BOOLEAN)


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
