"""INTERSECT and EXCEPT → the rows of both sides together, grouped by all columns, with how often each side has them."""

from __future__ import annotations

from typing import Literal

from sinkql import logical
from sinkql.errors import Span
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, call, column, constant
from sinkql.planner.query import relation as query_relation

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
