"""Push conditions over a FROM down to the lowest relation that has their columns, and order its joins.

A condition never passes an outer join to the side that is extended with NULLs. If it is not true of NULLs, the outer
join becomes an inner join; otherwise the condition remains above. Inner joins run one after another, starting with the
first relation of the text. Joins that only add columns to a row run first. Outer joins keep the order of the text.

A condition that may fail on a row (`can_fail`) does not go below a join or past a filter, which may remove that row. It
waits until all relations of its FROM are joined. The only exception is an equality that avoids a cross join.
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
    """Keep the rows for which a condition is true."""
    if not _has_join(relation):
        return query_relation.keep(relation, predicate)
    return push_down(relation, joins.conjuncts(predicate.tree))


def order_joins(relation: logical.Relation) -> logical.Relation:
    """Return a FROM without a WHERE, with its joins in the best order."""
    return push_down(relation, []) if _has_join(relation) else relation


def joined(
    kind: JoinKind, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression]
) -> logical.Relation:
    """Join relations whose columns have distinct names, on any conditions over both."""
    return push_down(joins.with_keys(kind, left, right, (), joins.conjunction(conditions)), [])


def push_down(relation: logical.Relation, conditions: Sequence[Expression]) -> logical.Relation:
    """Push conditions, all of which must be true, to the lowest relation that has their columns."""
    match relation:
        case logical.Join(kind=JoinKind.INNER):
            return _push_into_inner(relation, conditions)
        case logical.Join():
            return _push_into_outer(relation, conditions)
        case logical.Filter() if _has_join(relation):
            all_conditions = [*joins.conjuncts(relation.predicate), *conditions]
            safe, unsafe = _split_by_safety(all_conditions)
            return _filter(push_down(relation.input, safe), unsafe)
        case logical.Project():
            return _through_project(relation, conditions)
        case _:
            return _filter(relation, conditions)


def _has_join(relation: logical.Relation) -> bool:
    while isinstance(relation, logical.Project | logical.Filter):
        relation = relation.input
    return isinstance(relation, logical.Join)


def _split_by_safety(conditions: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
    """Return the conditions that cannot fail, and the conditions that can."""
    safe: list[Expression] = []
    unsafe: list[Expression] = []
    for condition in conditions:
        (unsafe if can_fail(condition) else safe).append(condition)
    return safe, unsafe


def _filter(relation: logical.Relation, conditions: Sequence[Expression]) -> logical.Relation:
    safe, unsafe = _split_by_safety(_without(list(dict.fromkeys(conditions)), _filter_conditions(relation)))
    if safe:
        present = joins.conjuncts(relation.predicate) if isinstance(relation, logical.Filter) else []
        below = relation.input if isinstance(relation, logical.Filter) else relation
        all_conditions = [*present, *safe]
        relation = as_top_n(
            logical.Filter(below, joins.conjunction(all_conditions), filtered(below.shape, all_conditions))
        )
    if unsafe:  # only on rows that pass the safe conditions
        relation = as_top_n(logical.Filter(relation, joins.conjunction(unsafe), filtered(relation.shape, unsafe)))
    return relation


def _filter_conditions(relation: logical.Relation) -> list[Expression]:
    """Return the conjunction of the filters stacked above a relation."""
    conditions: list[Expression] = []
    while isinstance(relation, logical.Filter):
        conditions += joins.conjuncts(relation.predicate)
        relation = relation.input
    return conditions


def _through_project(project: logical.Project, conditions: Sequence[Expression]) -> logical.Relation:
    """Push conditions below a projection if it only renames their columns."""
    plain = {output.name: output.expression for output in project.outputs if isinstance(output.expression, Reference)}
    below: list[Expression] = []
    above: list[Expression] = []
    for condition in conditions:
        (below if joins.references(condition) <= plain.keys() else above).append(condition)
    input_ = push_down(project.input, [_substitute(condition, plain) for condition in below])
    items = [(output.name, Typed(output.expression, output.expression.type)) for output in project.outputs]
    projected = query_relation.project(input_, items)
    keys = tuple(dict.fromkeys((*projected.shape.keys, *project.shape.keys)))
    if keys != projected.shape.keys:  # the projection may have keys that do not follow from its input
        projected = replace(projected, shape=replace(projected.shape, keys=keys))
    return _filter(projected, above)


def _substitute(expression: Expression, by: dict[str, Reference]) -> Expression:
    if isinstance(expression, Reference):
        new = by[expression.name]
        return Reference(new.name, new.type, new.nullable, expression.span)
    return with_children(expression, tuple(_substitute(child, by) for child in children(expression)))


def _covered_by(conditions: Sequence[Expression], names: Set[str]) -> list[Expression]:
    return [condition for condition in conditions if joins.references(condition) <= names]


def _without(conditions: Sequence[Expression], *lists: Sequence[Expression]) -> list[Expression]:
    excluded = {condition for conditions_ in lists for condition in conditions_}
    return [condition for condition in conditions if condition not in excluded]


def _push_into_outer(join: logical.Join, conditions: Sequence[Expression]) -> logical.Relation:
    """Push conditions above an outer, semi or anti join, and the conditions of the join, into its sides."""
    kind, left, right = _normalize_kind(join, conditions)
    lefts, rights = joins.names_of(left), joins.names_of(right)
    join_conditions = joins.conditions_of(join)
    if kind is JoinKind.INNER:
        return _push_into_inner(joins.with_keys(kind, left, right, (), joins.conjunction(join_conditions)), conditions)
    to_left = _covered_by(_split_by_safety(conditions)[0], lefts) if kind is not JoinKind.FULL else []
    above = _without(conditions, to_left)
    safe = _split_by_safety(join_conditions)[0]
    of_left = [condition for condition in _covered_by(safe, lefts) if joins.references(condition)]
    of_right = _covered_by(safe, rights)
    filters = list(of_left) if kind is JoinKind.SEMI else []
    joined_ = joins.joined(
        kind,
        push_down(left, [*to_left, *filters]),
        push_down(right, of_right if kind is not JoinKind.FULL else []),
        _without(join_conditions, of_left, of_right),
    )
    rest = [*(of_left if kind is not JoinKind.SEMI else []), *(of_right if kind is JoinKind.FULL else [])]
    if rest:
        joined_ = _with_side_conditions(
            joined_, [condition for condition in rest if condition in of_left], _without(rest, of_left)
        )
    return _filter(joined_, above)


def _with_side_conditions(join: logical.Join, left: Sequence[Expression], right: Sequence[Expression]) -> logical.Join:
    """Return a join whose rows of a side only match if the conditions of that side are true."""
    if any(not key.safe for key in join.keys):
        keys, residual = joins.conditional_equalities(join.keys, left, right), join.residual
    else:
        parts = [*left, *right, *([] if join.residual is None else joins.conjuncts(join.residual))]
        keys, residual = join.keys, joins.conjunction(parts)
    return joins.with_keys(join.kind, join.left, join.right, keys, residual)


def _normalize_kind(
    join: logical.Join, conditions: Sequence[Expression]
) -> tuple[JoinKind, logical.Relation, logical.Relation]:
    """Return the kind of a join under conditions above it, with RIGHT as LEFT, and its sides."""
    kind, left, right = join.kind, join.left, join.right
    if kind is JoinKind.RIGHT:
        kind, left, right = JoinKind.LEFT, right, left
    lefts, rights = joins.names_of(left), joins.names_of(right)
    if kind is JoinKind.FULL:
        no_left = any(rejects_nulls(condition, lefts) for condition in conditions)
        no_right = any(rejects_nulls(condition, rights) for condition in conditions)
        if no_left and no_right:
            return JoinKind.INNER, left, right
        if no_right:
            return JoinKind.LEFT, right, left
        return (JoinKind.LEFT if no_left else JoinKind.FULL), left, right
    if kind is JoinKind.LEFT and any(rejects_nulls(condition, rights) for condition in conditions):
        return JoinKind.INNER, left, right
    return kind, left, right


@dataclass(frozen=True, slots=True)
class _Part:
    """A condition of inner joins, and the columns that must exist before it is evaluated."""

    condition: Expression
    names: frozenset[str]


def _push_into_inner(join: logical.Join, conditions: Sequence[Expression]) -> logical.Relation:
    safe, unsafe = _split_by_safety([part for condition in conditions for part in joins.conjuncts(condition)])
    equated, above = _assign_equalities(join, unsafe)
    leaves: list[logical.Relation] = []
    parts = [_Part(condition, joins.references(condition)) for condition in safe]
    _flatten(equated, leaves, parts)
    placed: set[Expression] = set()
    for index, leaf in enumerate(leaves):
        names = joins.names_of(leaf)
        own_conditions = [part.condition for part in parts if part.names <= names and part.condition not in placed]
        placed.update(own_conditions)
        implied = [condition for part in parts for condition in _implied(part, names)]
        leaves[index] = push_down(leaf, [*own_conditions, *_without(implied, own_conditions)])
    return _filter(_join_leaves(leaves, [part for part in parts if part.condition not in placed]), above)


def _assign_equalities(
    relation: logical.Relation, unsafe: list[Expression]
) -> tuple[logical.Relation, list[Expression]]:
    """Move equalities to the inner joins without conditions that need them; return the remaining conditions."""
    if not unsafe or not isinstance(relation, logical.Join) or relation.kind is not JoinKind.INNER:
        return relation, unsafe
    left, unsafe = _assign_equalities(relation.left, unsafe)
    right, unsafe = _assign_equalities(relation.right, unsafe)
    own_conditions = joins.conditions_of(relation)
    if not own_conditions:
        lefts, rights = joins.names_of(left), joins.names_of(right)
        own_conditions = [condition for condition in unsafe if joins.equality(condition, lefts, rights) is not None]
        unsafe = _without(unsafe, own_conditions)
    return joins.with_keys(JoinKind.INNER, left, right, (), joins.conjunction(own_conditions)), unsafe


def _flatten(relation: logical.Relation, leaves: list[logical.Relation], parts: list[_Part]) -> None:
    if isinstance(relation, logical.Join) and relation.kind is JoinKind.INNER:
        names = joins.names_of(relation)
        conditions = joins.conditions_of(relation)
        parts += (
            _Part(condition, names if can_fail(condition) else joins.references(condition)) for condition in conditions
        )
        _flatten(relation.left, leaves, parts)
        _flatten(relation.right, leaves, parts)
        return
    if isinstance(relation, logical.Filter) and isinstance(relation.input, logical.Join):
        conditions = joins.conjuncts(relation.predicate)
        if not any(map(can_fail, conditions)):
            parts += (_Part(condition, joins.references(condition)) for condition in conditions)
            _flatten(relation.input, leaves, parts)
            return
    leaves.append(relation)


def _implied(part: _Part, names: Set[str]) -> list[Expression]:
    """Return the condition that an OR over several relations implies for one: the OR of each side's conditions."""
    sides = joins.alternatives(part.condition)
    if len(sides) < 2 or part.names <= names or can_fail(part.condition):
        return []
    side_conditions = [
        [condition for condition in _covered_by(side, names) if joins.references(condition)] for side in sides
    ]
    return (
        [joins.disjunction([joins.conjunction(conditions) for conditions in side_conditions], part.condition.span)]
        if all(side_conditions)
        else []
    )


def _join_leaves(leaves: Sequence[logical.Relation], parts: Sequence[_Part]) -> logical.Relation:
    joined_, waiting, remaining = leaves[0], list(leaves[1:]), list(parts)
    while waiting:
        ranks = [_rank(joined_, leaf, remaining) for leaf in waiting]
        least = min(ranks)
        chosen = waiting.pop(ranks.index(least))
        lefts, rights = joins.names_of(joined_), joins.names_of(chosen)
        ready = {part.condition for part in remaining if part.names <= lefts | rights}
        if least == _FALLIBLE_EQUALITY:
            ready |= {part.condition for part in remaining if joins.equality(part.condition, lefts, rights) is not None}
        joined_ = joins.joined(
            JoinKind.INNER,
            joined_,
            chosen,
            [part.condition for part in remaining if part.condition in ready],
        )
        remaining = [part for part in remaining if part.condition not in ready]
    return _filter(joined_, [part.condition for part in remaining])


_FALLIBLE_EQUALITY = 4
"""The rank of a relation that is joined on an equality that can fail, which should wait if possible."""


def _rank(joined_: logical.Relation, other: logical.Relation, parts: Sequence[_Part]) -> int:
    """Return the rank of a relation among the next ones to join; the lowest rank is joined first."""
    lefts, rights = joins.names_of(joined_), joins.names_of(other)
    equal = [(part, key) for part in parts if (key := joins.equality(part.condition, lefts, rights)) is not None]
    keys = [key for part, key in equal if part.names <= lefts | rights]
    if not keys:
        return 3 if unique(other.shape, ()) else _FALLIBLE_EQUALITY if equal else _FALLIBLE_EQUALITY + 1
    if unique(other.shape, [name for key in keys if (name := injective(key.right)) is not None]):
        return 0
    return 1 if unique(joined_.shape, [name for key in keys if (name := injective(key.left)) is not None]) else 2
