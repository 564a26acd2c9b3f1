"""Columns of a relation that are the same wherever others are: what a key below a join still says above it.

`GROUP BY c.id, c.name` has a group for each customer where `id` is the key of `c`, though a join has made many rows of
one: `id` alone is a key of the groups. These are functional dependencies, and what follows from them (W. W. Armstrong,
"Dependency Structures of Data Base Relationships", 1974).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sinkql import logical
from sinkql.logical import Expression, JoinKind
from sinkql.logical.expression import Call, Reference, walk
from sinkql.planner.query import join as joins
from sinkql.planner.query.keys import EQUAL, INEXACT, injective, unique

Names = frozenset[str]
_MOST = 48
"""How many dependencies of a relation are known, at most."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """Rows with the same values in the columns `of` have the same in all of `columns`."""

    of: Names
    columns: Names


def keys_of_groups(relation: logical.Relation, groups: Sequence[logical.Output]) -> list[Names]:
    """Return keys of the groups of a relation that have fewer columns than all of them."""
    names = frozenset(each.name for each in groups)
    if len(names) < 2:
        return []
    known = _handed_on(relation, groups)
    found = [frozenset([each.name]) for each in groups if names <= closure(known, [each.name])]
    for order in (groups, groups[::-1]):
        key = names
        for each in order:
            if names <= closure(known, key - {each.name}):
                key -= {each.name}
        found.append(key)
    return [key for key in dict.fromkeys(found) if key < names]


def closure(dependencies: Sequence[Dependency], given: Iterable[str]) -> Names:
    """Return all columns that are the same where those given are."""
    found = frozenset(given)
    while True:
        more = found.union(*(each.columns for each in dependencies if each.of <= found))
        if more == found:
            return found
        found = more


def dependencies(relation: logical.Relation) -> list[Dependency]:
    """Return what is known of a relation's columns."""
    columns = joins.names_of(relation)
    keys = [Dependency(key, columns) for key in relation.shape.keys]
    match relation:
        case logical.Project():
            found = _handed_on(relation.input, relation.outputs)
        case logical.Aggregate() | logical.Collect():
            found = _handed_on(relation.input, relation.group)
        case logical.Filter():
            found = [*dependencies(relation.input), *_equal(joins.conjuncts(relation.predicate))]
        case logical.Join():
            found = _of_join(relation)
        case logical.Rank() | logical.Window() | logical.Bound() | logical.Flatten() | logical.Repeat():
            found = dependencies(relation.input)
        case _:
            found = []
    narrow = (Dependency(each.of, each.columns & columns) for each in found if each.of <= columns)
    return list(dict.fromkeys([*keys, *narrow]))[:_MOST]


def _handed_on(relation: logical.Relation, outputs: Sequence[logical.Output]) -> list[Dependency]:
    """Return what is known of outputs over a relation."""
    below = dependencies(relation)
    names: dict[str, str] = {}
    for each in outputs:
        name = each.expression.name if isinstance(each.expression, Reference) else injective(each.expression)
        if name is not None:
            names.setdefault(name, each.name)
    found = []
    used = (_used(each.expression) for each in outputs)
    for of in dict.fromkeys([*(each.of for each in below), *(each for each in used if each is not None)]):
        if of <= names.keys():
            known = closure(below, of)
            columns = frozenset(each.name for each in outputs if _computed(each.expression, known))
            found.append(Dependency(frozenset(names[name] for name in of), columns))
    return found


def _used(expression: Expression) -> Names | None:
    """Return the columns that an expression has one value for; None where 0.0 and -0.0 may have two."""
    if isinstance(expression, Reference):
        return frozenset([expression.name])
    columns = [each for each in walk(expression) if isinstance(each, Reference)]
    inexact = any(each.type.name in INEXACT for each in columns)
    return None if inexact else frozenset(each.name for each in columns)


def _computed(expression: Expression, known: Names) -> bool:
    used = _used(expression)
    return used is not None and used <= known


def _equal(conditions: Sequence[Expression]) -> list[Dependency]:
    """Return what equalities that are true of all rows say: a column has the value of the other side."""
    found = []
    for each in conditions:
        if isinstance(each, Call) and each.function == EQUAL:
            left, right = each.arguments
            for one, other in ((left, right), (right, left)):
                name, used = injective(one), _used(other)
                if name is not None and used is not None:
                    found.append(Dependency(used, frozenset([name])))
    return found


def _of_join(join: logical.Join) -> list[Dependency]:
    left, right = join.left, join.right
    match join.kind:
        case JoinKind.SEMI | JoinKind.ANTI:
            return dependencies(left)
        case JoinKind.INNER:
            return [*dependencies(left), *dependencies(right), *_equal(joins.conditions_of(join))]
        case JoinKind.LEFT:
            return [*dependencies(left), *_filled(right), *_matched(join, right)]
        case JoinKind.RIGHT:
            return [*_filled(left), *dependencies(right), *_matched(join, left)]
        case JoinKind.FULL:
            return [*_filled(left), *_filled(right)]


def _filled(relation: logical.Relation) -> list[Dependency]:
    """Return what holds of a side that is NULL beside rows without a match: what no row of its own has."""
    there = {each.name for each in relation.shape.columns if not each.nullable}
    return [each for each in dependencies(relation) if each.of & there]


def _matched(join: logical.Join, side: logical.Relation) -> list[Dependency]:
    """Return what the other side says of one that has one row at most for each of its rows."""
    names = joins.names_of(side)
    keys = [injective(each.right if side is join.right else each.left) for each in join.keys]
    if not unique(side.shape, [name for name in keys if name is not None]):
        return []
    used = [_used(each) for each in joins.conditions_of(join)]
    if any(each is None for each in used):
        return []
    return [Dependency(frozenset[str]().union(*(each - names for each in used if each is not None)), names)]
