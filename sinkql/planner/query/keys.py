"""Which columns tell the rows of a relation apart: keys behind a filter and a join, out of those of their inputs.

A key is a set of columns of which no two rows have the same values, NULL being a value like any other. The first key of
an UPSERT relation is the one by which its rows are overwritten, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sinkql import logical
from sinkql.logical import Change, Expression, JoinKind
from sinkql.logical.expression import Call, Cast, Literal, Reference
from sinkql.logical.numeric_type import SIGNED

MOST = 12
"""How many keys of a relation are known, at most."""
EQUAL = "=(any,any)"
INEXACT = ("real", "double precision")


def unique(shape: logical.Shape, columns: Iterable[str]) -> bool:
    """Tell whether no two rows have the same values in these columns."""
    given = frozenset(columns)
    return any(key <= given for key in shape.keys)


def filtered(shape: logical.Shape, conditions: Sequence[Expression]) -> logical.Shape:
    """Return what is known of the rows for which all conditions are true."""
    constant: set[str] = set()
    equal: list[tuple[str, str]] = []
    for each in conditions:
        if not isinstance(each, Call) or each.function != EQUAL:
            continue
        left, right = each.arguments
        for one, other in ((left, right), (right, left)):
            name = injective(one)
            if name is not None and isinstance(other, Literal):
                constant.add(name)
        if isinstance(left, Reference) and isinstance(right, Reference) and left.type.name not in INEXACT:
            equal.append((left.name, right.name))
    found = [key - constant for key in shape.keys]
    found += [_exchanged(key, pair) for key in found for one, other in equal for pair in ((one, other), (other, one))]
    return replace(shape, keys=_known(shape, found))


def of_join(
    kind: JoinKind, left: logical.Shape, right: logical.Shape, keys: Sequence[logical.JoinKey]
) -> tuple[frozenset[str], ...]:
    """Return the keys of a join's rows.

    A row of one side and the key of the other tell a pair apart; columns that are equal to ones of the row add nothing.
    """
    lefts = {name for each in keys if (name := injective(each.left)) is not None}
    rights = {name for each in keys if (name := injective(each.right)) is not None}
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
            return minimal(one | other for one, other in pairs if _filled(left, one) or _filled(right, other))


def minimal(keys: Iterable[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Return the keys of which no other is a part, the shortest first."""
    found: list[frozenset[str]] = []
    for key in sorted(dict.fromkeys(keys), key=len):
        if not any(known <= key for known in found):
            found.append(key)
    return tuple(found[:MOST])


def injective(expression: Expression) -> str | None:
    """Return the column of which two unlike values never become the same by the expression; None for any other."""
    match expression:
        case Reference():
            return None if expression.type.name in INEXACT else expression.name
        case Cast(operand=Reference() as of):
            whole = of.type.name in SIGNED and expression.type.name in (*SIGNED, "numeric")
            wider = expression.type.name == "numeric" and (expression.type.scale or 0) >= (of.type.scale or 0)
            return of.name if whole or (of.type.name == "numeric" and wider) else None
        case _:
            return None


def _known(shape: logical.Shape, found: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
    if shape.change is not Change.UPSERT:
        return minimal(found)
    first = shape.keys[0]
    return (first, *(each for each in minimal(found) if each != first))


def _exchanged(key: frozenset[str], pair: tuple[str, str]) -> frozenset[str]:
    old, new = pair
    return (key - {old}) | {new} if old in key else key


def _filled(shape: logical.Shape, key: frozenset[str]) -> bool:
    """Tell whether a key has a column that is never NULL."""
    return any(not column.nullable for column in shape.columns if column.name in key)
