"""Derive the keys of a filter's and a join's rows from the keys of their inputs.

A key is a set of columns in which no two rows have equal values, where NULL equals NULL. The first key of an UPSERT
relation identifies the rows that a change overwrites; it is always kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sinkql import logical
from sinkql.logical import Change, Expression, JoinKind
from sinkql.logical.expression import Call, Cast, Literal, Reference
from sinkql.logical.numeric_type import SIGNED

MOST = 12
"""The maximum number of keys per relation."""
EQUAL = "=(any,any)"
INEXACT = ("real", "double precision")


def unique(shape: logical.Shape, columns: Iterable[str]) -> bool:
    """Return whether no two rows have equal values in these columns."""
    names = frozenset(columns)
    return any(key <= names for key in shape.keys)


def filtered(shape: logical.Shape, conditions: Sequence[Expression]) -> logical.Shape:
    """Return the shape of the rows for which all conditions are true."""
    constant: set[str] = set()
    equal: list[tuple[str, str]] = []
    for condition in conditions:
        if not isinstance(condition, Call) or condition.function != EQUAL:
            continue
        left, right = condition.arguments
        for one, other in ((left, right), (right, left)):
            name = injective(one)
            if name is not None and isinstance(other, Literal):
                constant.add(name)
        if isinstance(left, Reference) and isinstance(right, Reference) and left.type.name not in INEXACT:
            equal.append((left.name, right.name))
    keys = [key - constant for key in shape.keys]
    keys += [_substitute(key, pair) for key in keys for one, other in equal for pair in ((one, other), (other, one))]
    return replace(shape, keys=_limited(shape, keys))


def of_join(
    kind: JoinKind, left: logical.Shape, right: logical.Shape, keys: Sequence[logical.JoinKey]
) -> tuple[frozenset[str], ...]:
    """Return the keys of a join's rows.

    A key of each side together identifies a pair of rows. Columns that equal columns of the opposite side are not
    needed.
    """
    lefts = {name for key in keys if (name := injective(key.left)) is not None}
    rights = {name for key in keys if (name := injective(key.right)) is not None}
    match kind:
        case JoinKind.SEMI | JoinKind.ANTI:
            return minimal(left.keys)
        case JoinKind.INNER:
            by_left = (one | (other - rights) for one in left.keys for other in right.keys)
            by_right = (other | (one - lefts) for one in left.keys for other in right.keys)
            return minimal((*by_left, *by_right))
        case JoinKind.LEFT:
            return minimal(one | (other - rights) for one in left.keys for other in right.keys)
        case JoinKind.RIGHT:
            return minimal(other | (one - lefts) for one in left.keys for other in right.keys)
        case JoinKind.FULL:
            pairs = ((one, other) for one in left.keys for other in right.keys)
            return minimal(one | other for one, other in pairs if _is_not_null(left, one) or _is_not_null(right, other))


def minimal(keys: Iterable[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Return the keys that contain no shorter key, the shortest first."""
    shortest: list[frozenset[str]] = []
    for key in sorted(dict.fromkeys(keys), key=len):
        if not any(shorter <= key for shorter in shortest):
            shortest.append(key)
    return tuple(shortest[:MOST])


def injective(expression: Expression) -> str | None:
    """Return the column of an expression that maps different values to different results, None for others."""
    match expression:
        case Reference():
            return None if expression.type.name in INEXACT else expression.name
        case Cast(operand=Reference() as of):
            whole = of.type.name in SIGNED and expression.type.name in (*SIGNED, "numeric")
            wider = expression.type.name == "numeric" and (expression.type.scale or 0) >= (of.type.scale or 0)
            return of.name if whole or (of.type.name == "numeric" and wider) else None
        case _:
            return None


def _limited(shape: logical.Shape, keys: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
    if shape.change is not Change.UPSERT:
        return minimal(keys)
    first = shape.keys[0]
    return (first, *(key for key in minimal(keys) if key != first))


def _substitute(key: frozenset[str], pair: tuple[str, str]) -> frozenset[str]:
    old, new = pair
    return (key - {old}) | {new} if old in key else key


def _is_not_null(shape: logical.Shape, key: frozenset[str]) -> bool:
    """Return whether a key has a column that is never NULL."""
    return any(not column.nullable for column in shape.columns if column.name in key)
