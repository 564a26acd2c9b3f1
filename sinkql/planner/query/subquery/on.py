"""A join's ON that has subqueries → conditions without any, over sides that have what the subqueries give.

An inner join keeps the pairs of rows for which the condition is true, as WHERE does. Of an outer join the value of a
subquery stands behind the columns of the side that it speaks of. One that speaks of both sides is computed for the
pairs of what it speaks of: the distinct values of the side that is kept, with the rows of the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.logical import Expression, JoinKind
from sinkql.logical.expression import NOWHERE, Reference
from sinkql.logical.function import call
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, settled
from sinkql.planner.query import join as joins
from sinkql.planner.query import pushdown
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.expression_context import Translation
from sinkql.planner.query.subquery.decorrelate import Fresh, reference, same
from sinkql.planner.query.subquery.subquery import PendingColumns, Subqueries, has_query
from sinkql.planner.query.temporal_filter import conjuncts

_SAME = "IS NOT DISTINCT FROM(any,any)"


@dataclass(frozen=True, slots=True)
class Condition:
    """What ON says: conditions without subqueries, and those that have some."""

    plain: tuple[Expression, ...]
    queries: tuple[Any, ...]


def split_on(t: Translation, on: Any) -> Condition:
    """Return an ON as conditions that have subqueries, and others."""
    if not has_query(on):
        return Condition((settled(t.boolean(on, "ON")),), ())
    nodes = list(conjuncts(on))
    plain = tuple(settled(t.boolean(each, "ON")) for each in nodes if not has_query(each))
    return Condition(plain, tuple(each for each in nodes if has_query(each)))


def inner(subqueries: Subqueries, t: Translation, relation: logical.Relation, nodes: Sequence[Any]) -> logical.Relation:
    """Return the pairs of rows of a join for which conditions with subqueries are true."""
    for each in nodes:
        relation = subqueries.kept(relation, t, each, "ON")
    return relation


def outer(
    subqueries: Subqueries,
    t: Translation,
    kind: JoinKind,
    left: logical.Relation,
    right: logical.Relation,
    condition: Condition,
) -> logical.Relation:
    """Join relations by an outer join; raises SQ2926 for a FULL JOIN on a subquery that speaks of both sides."""
    sides = _Sides(joins.names_of(left), joins.names_of(right))
    conditions = list(condition.plain)
    for node in condition.queries:
        value = settled(t.boolean(node, "ON"))
        conditions.append(value)
        for each in subqueries.waiting():
            sides.put(each, joins.references(value))
            if kind is JoinKind.FULL and each in sides.pairs:
                message = "a subquery in ON of FULL JOIN can use columns of one side only"
                hint = "Write LEFT JOIN, and add the rows of the right side that have no match by UNION ALL."
                raise SinkqlError("SQ2926", message, t.span(node), hint=hint)
    if sides.pairs:
        if kind is JoinKind.RIGHT:
            sides, left, right = sides.turned(), right, left
        return _by_pairs(sides, left, right, conditions, subqueries.queries.fresh)
    return joins.with_keys(
        kind, _with(left, sides.lefts), _with(right, sides.rights), (), joins.conjunction(conditions)
    )


@dataclass(slots=True)
class _Sides:
    """The sides of a join by the names of their columns, and the subqueries that are computed for one, or for pairs."""

    left: frozenset[str]
    right: frozenset[str]
    lefts: list[PendingColumns] = field(default_factory=list)
    rights: list[PendingColumns] = field(default_factory=list)
    pairs: list[PendingColumns] = field(default_factory=list)

    def put(self, waiting: PendingColumns, beside: frozenset[str]) -> None:
        """Put a subquery to the side that it speaks of; one that speaks of none to that of what stands beside it."""
        over = waiting.over & (self.left | self.right)
        of_pairs = waiting.over & _names(self.pairs)
        if not over and not of_pairs:
            over = beside & (self.left | self.right)
            if not over <= self.right:
                over = frozenset()
        if of_pairs or (over & self.left and over & self.right):
            self.pairs.append(waiting)
        elif over & self.right:
            self.rights.append(waiting)
            self.right |= waiting.names
        else:
            self.lefts.append(waiting)
            self.left |= waiting.names

    def turned(self) -> _Sides:
        return _Sides(self.right, self.left, self.rights, self.lefts, self.pairs)


def _names(waiting: Sequence[PendingColumns]) -> frozenset[str]:
    return frozenset[str]().union(*(each.names for each in waiting))


def _with(relation: logical.Relation, waiting: Sequence[PendingColumns]) -> logical.Relation:
    for each in waiting:
        relation = each.put(relation)
    return relation


def _by_pairs(
    sides: _Sides, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression], fresh: Fresh
) -> logical.Relation:
    """Join the left side with the rows of the right one that each of its values meets."""
    spoken = frozenset[str]().union(*map(joins.references, conditions))
    spoken = spoken.union(*(each.over for each in (*sides.lefts, *sides.pairs)))
    used = [each for each in left.shape.columns if each.name in spoken]
    values = query_relation.distinct(query_relation.project(left, list(map(same, used))), NOWHERE)
    now = _with(values, sides.lefts), _with(right, sides.rights)
    late = _names(sides.pairs)
    early = [each for each in conditions if not joins.references(each) & late]
    pairs = _with(pushdown.joined(JoinKind.INNER, *now, early), sides.pairs)
    rest = [each for each in conditions if each not in early]
    pairs = query_relation.keep(pairs, Typed(joins.conjunction(rest), types.BOOLEAN))
    named = [(fresh(), each) for each in used]
    items = [(name, Typed(reference(each), each.type)) for name, each in named]
    met = query_relation.project(pairs, [*items, *map(same, right.shape.columns)])
    alike = [call(_SAME, (reference(each), Reference(name, each.type, each.nullable))) for name, each in named]
    return joins.with_keys(JoinKind.LEFT, left, met, (), joins.conjunction(alike))
