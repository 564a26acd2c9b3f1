"""Conditions over a FROM → each at the lowest relation that has its columns, joins in the order in which they run.

A condition goes past no outer join to the side that is filled with NULLs: it stays above, unless it is not true of
those NULLs, where the join becomes an inner one. Inner joins are done one after the other from the first relation of
the text on, those first that add nothing to a row but columns; outer joins keep the text's order.

A condition that may fail on a row (`failing`) goes below no join and past no filter, which may leave out that row: it
waits until all relations are joined that are so where it was written. Only an equality without which relations would be
joined by all pairs of rows does not wait.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from sinkql import logical
from sinkql.logical import Expression, JoinKind
from sinkql.logical.expression import Reference, children, with_children
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.query import join as joins
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.can_fail import can_fail
from sinkql.planner.query.join import rejects_nulls
from sinkql.planner.query.keys import filtered, injective, unique
from sinkql.planner.query.top_n import as_top_n


def filter_rows(relation: logical.Relation, predicate: Typed) -> logical.Relation:
    """Keep the rows of which a condition is true."""
    if not _has_join(relation):
        return query_relation.keep(relation, predicate)
    return push_down(relation, joins.conjuncts(predicate.tree))


def order_joins(relation: logical.Relation) -> logical.Relation:
    """Return a FROM of which nothing is left out, its joins as they are best done."""
    return push_down(relation, []) if _has_join(relation) else relation


def joined(
    kind: JoinKind, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression]
) -> logical.Relation:
    """Join relations whose columns have unlike names on conditions over the columns of both, whatever these are."""
    return push_down(joins.with_keys(kind, left, right, (), joins.conjunction(conditions)), [])


def push_down(relation: logical.Relation, conditions: Sequence[Expression]) -> logical.Relation:
    """Put conditions, all of which must be true, where they belong in a relation."""
    match relation:
        case logical.Join(kind=JoinKind.INNER):
            return _inner(relation, conditions)
        case logical.Join():
            return _outer(relation, conditions)
        case logical.Filter() if _has_join(relation):
            every = [*joins.conjuncts(relation.predicate), *conditions]
            sure, unsure = _parted(every)
            return _filter(push_down(relation.input, sure), unsure)
        case logical.Project():
            return _through(relation, conditions)
        case _:
            return _filter(relation, conditions)


def _has_join(relation: logical.Relation) -> bool:
    while isinstance(relation, logical.Project | logical.Filter):
        relation = relation.input
    return isinstance(relation, logical.Join)


def _parted(conditions: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
    """Return conditions that fail on no row, and those that may."""
    sure: list[Expression] = []
    unsure: list[Expression] = []
    for each in conditions:
        (unsure if can_fail(each) else sure).append(each)
    return sure, unsure


def _filter(relation: logical.Relation, conditions: Sequence[Expression]) -> logical.Relation:
    sure, unsure = _parted(_others(list(dict.fromkeys(conditions)), _kept(relation)))
    if sure:
        known = joins.conjuncts(relation.predicate) if isinstance(relation, logical.Filter) else []
        below = relation.input if isinstance(relation, logical.Filter) else relation
        every = [*known, *sure]
        relation = as_top_n(logical.Filter(below, joins.conjunction(every), filtered(below.shape, every)))
    if unsure:  # of what is left, row by row
        relation = as_top_n(logical.Filter(relation, joins.conjunction(unsure), filtered(relation.shape, unsure)))
    return relation


def _kept(relation: logical.Relation) -> list[Expression]:
    """Return what is true of all rows, as filters say one above the other."""
    found: list[Expression] = []
    while isinstance(relation, logical.Filter):
        found += joins.conjuncts(relation.predicate)
        relation = relation.input
    return found


def _through(project: logical.Project, conditions: Sequence[Expression]) -> logical.Relation:
    """Put conditions below a projection where they are over columns that it only renames."""
    plain = {each.name: each.expression for each in project.outputs if isinstance(each.expression, Reference)}
    below: list[Expression] = []
    above: list[Expression] = []
    for each in conditions:
        (below if joins.references(each) <= plain.keys() else above).append(each)
    given = push_down(project.input, [_replaced(each, plain) for each in below])
    items = [(each.name, Typed(each.expression, each.expression.type)) for each in project.outputs]
    found = query_relation.project(given, items)
    keys = tuple(dict.fromkeys((*found.shape.keys, *project.shape.keys)))
    if keys != found.shape.keys:  # some are known that do not follow from those below
        found = replace(found, shape=replace(found.shape, keys=keys))
    return _filter(found, above)


def _replaced(expression: Expression, by: dict[str, Reference]) -> Expression:
    if isinstance(expression, Reference):
        new = by[expression.name]
        return Reference(new.name, new.type, new.nullable, expression.span)
    return with_children(expression, tuple(_replaced(each, by) for each in children(expression)))


def _within(conditions: Sequence[Expression], names: Set[str]) -> list[Expression]:
    return [each for each in conditions if joins.references(each) <= names]


def _others(conditions: Sequence[Expression], *taken: Sequence[Expression]) -> list[Expression]:
    gone = {each for some in taken for each in some}
    return [each for each in conditions if each not in gone]


def _outer(join: logical.Join, conditions: Sequence[Expression]) -> logical.Relation:
    """Place conditions above an outer, semi or anti join, and those of the join itself."""
    kind, left, right = _turned(join, conditions)
    lefts, rights = joins.names_of(left), joins.names_of(right)
    own = joins.conditions_of(join)
    if kind is JoinKind.INNER:
        return _inner(joins.with_keys(kind, left, right, (), joins.conjunction(own)), conditions)
    to_left = _within(_parted(conditions)[0], lefts) if kind is not JoinKind.FULL else []
    above = _others(conditions, to_left)
    sure = _parted(own)[0]
    of_left = [each for each in _within(sure, lefts) if joins.references(each)]
    of_right = _within(sure, rights)
    filters = list(of_left) if kind is JoinKind.SEMI else []
    found = joins.joined(
        kind,
        push_down(left, [*to_left, *filters]),
        push_down(right, of_right if kind is not JoinKind.FULL else []),
        _others(own, of_left, of_right),
    )
    rest = [*(of_left if kind is not JoinKind.SEMI else []), *(of_right if kind is JoinKind.FULL else [])]
    if rest:
        found = _conditional(found, [each for each in rest if each in of_left], _others(rest, of_left))
    return _filter(found, above)


def _conditional(join: logical.Join, left: Sequence[Expression], right: Sequence[Expression]) -> logical.Join:
    """Return a join whose rows of a side match only where conditions of that side are true."""
    if any(not key.safe for key in join.keys):
        keys, residual = joins.conditional_equalities(join.keys, left, right), join.residual
    else:
        parts = [*left, *right, *([] if join.residual is None else joins.conjuncts(join.residual))]
        keys, residual = join.keys, joins.conjunction(parts)
    return joins.with_keys(join.kind, join.left, join.right, keys, residual)


def _turned(
    join: logical.Join, conditions: Sequence[Expression]
) -> tuple[JoinKind, logical.Relation, logical.Relation]:
    """Return the kind that a join has under conditions above it, RIGHT as LEFT, and its sides."""
    kind, left, right = join.kind, join.left, join.right
    if kind is JoinKind.RIGHT:
        kind, left, right = JoinKind.LEFT, right, left
    lefts, rights = joins.names_of(left), joins.names_of(right)
    if kind is JoinKind.FULL:
        no_left = any(rejects_nulls(each, lefts) for each in conditions)
        no_right = any(rejects_nulls(each, rights) for each in conditions)
        if no_left and no_right:
            return JoinKind.INNER, left, right
        if no_right:
            return JoinKind.LEFT, right, left
        return (JoinKind.LEFT if no_left else JoinKind.FULL), left, right
    if kind is JoinKind.LEFT and any(rejects_nulls(each, rights) for each in conditions):
        return JoinKind.INNER, left, right
    return kind, left, right


@dataclass(frozen=True, slots=True)
class _Part:
    """A condition of inner joins, and the columns that are there before it is looked at."""

    condition: Expression
    names: frozenset[str]


def _inner(join: logical.Join, conditions: Sequence[Expression]) -> logical.Relation:
    sure, unsure = _parted([part for each in conditions for part in joins.conjuncts(each)])
    whole, above = _equated(join, unsure)
    leaves: list[logical.Relation] = []
    every = [_Part(each, joins.references(each)) for each in sure]
    _flatten(whole, leaves, every)
    done: set[Expression] = set()
    for place_, leaf in enumerate(leaves):
        names = joins.names_of(leaf)
        own = [each.condition for each in every if each.names <= names and each.condition not in done]
        done.update(own)
        implied = [part for each in every for part in _implied(each, names)]
        leaves[place_] = push_down(leaf, [*own, *_others(implied, own)])
    return _filter(_ordered(leaves, [each for each in every if each.condition not in done]), above)


def _equated(relation: logical.Relation, unsure: list[Expression]) -> tuple[logical.Relation, list[Expression]]:
    """Return inner joins without conditions on the equalities that are meant for them, and the conditions left."""
    if not unsure or not isinstance(relation, logical.Join) or relation.kind is not JoinKind.INNER:
        return relation, unsure
    left, unsure = _equated(relation.left, unsure)
    right, unsure = _equated(relation.right, unsure)
    own = joins.conditions_of(relation)
    if not own:
        lefts, rights = joins.names_of(left), joins.names_of(right)
        own = [each for each in unsure if joins.equality(each, lefts, rights) is not None]
        unsure = _others(unsure, own)
    return joins.with_keys(JoinKind.INNER, left, right, (), joins.conjunction(own)), unsure


def _flatten(relation: logical.Relation, leaves: list[logical.Relation], parts: list[_Part]) -> None:
    if isinstance(relation, logical.Join) and relation.kind is JoinKind.INNER:
        names = joins.names_of(relation)
        own = joins.conditions_of(relation)
        parts += (_Part(each, names if can_fail(each) else joins.references(each)) for each in own)
        _flatten(relation.left, leaves, parts)
        _flatten(relation.right, leaves, parts)
        return
    if isinstance(relation, logical.Filter) and isinstance(relation.input, logical.Join):
        own = joins.conjuncts(relation.predicate)
        if not any(map(can_fail, own)):
            parts += (_Part(each, joins.references(each)) for each in own)
            _flatten(relation.input, leaves, parts)
            return
    leaves.append(relation)


def _implied(part: _Part, names: Set[str]) -> list[Expression]:
    """Return what an OR over several relations says of one of them: the OR of what each side says of it."""
    sides = joins.alternatives(part.condition)
    if len(sides) < 2 or part.names <= names or can_fail(part.condition):
        return []
    own = [[each for each in _within(side, names) if joins.references(each)] for side in sides]
    return [joins.disjunction([joins.conjunction(each) for each in own], part.condition.span)] if all(own) else []


def _ordered(leaves: Sequence[logical.Relation], parts: Sequence[_Part]) -> logical.Relation:
    found, waiting, left = leaves[0], list(leaves[1:]), list(parts)
    while waiting:
        ranks = [_rank(found, each, left) for each in waiting]
        least = min(ranks)
        chosen = waiting.pop(ranks.index(least))
        lefts, rights = joins.names_of(found), joins.names_of(chosen)
        ready = {each.condition for each in left if each.names <= lefts | rights}
        if least == _EARLY:
            ready |= {each.condition for each in left if joins.equality(each.condition, lefts, rights) is not None}
        found = joins.joined(
            JoinKind.INNER, found, chosen, [each.condition for each in left if each.condition in ready]
        )
        left = [each for each in left if each.condition not in ready]
    return _filter(found, [each.condition for each in left])


_EARLY = 4
"""The rank of a relation that is joined on an equality which would better wait."""


def _rank(found: logical.Relation, other: logical.Relation, parts: Sequence[_Part]) -> int:
    """Return how early a relation is joined to those that are joined by now: 0 is the earliest."""
    lefts, rights = joins.names_of(found), joins.names_of(other)
    equal = [(each, key) for each in parts if (key := joins.equality(each.condition, lefts, rights)) is not None]
    keys = [key for each, key in equal if each.names <= lefts | rights]
    if not keys:
        return 3 if unique(other.shape, ()) else _EARLY if equal else _EARLY + 1
    if unique(other.shape, [name for key in keys if (name := injective(key.right)) is not None]):
        return 0
    return 1 if unique(found.shape, [name for key in keys if (name := injective(key.left)) is not None]) else 2
