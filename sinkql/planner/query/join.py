"""Two relations and conditions → a join: its equalities, what is left of the conditions, what is known of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from sinkql import logical
from sinkql.errors import Span
from sinkql.logical import Branch, Case, Change, Expression, JoinKey, JoinKind, Type
from sinkql.logical.expression import NOWHERE, Call, Literal, Reference, literal, walk
from sinkql.logical.function import call, cast
from sinkql.logical.type import MOST_DIGITS
from sinkql.planner import types
from sinkql.planner.query.keys import of_join

_EQUAL, _SAME = "=(any,any)", "IS NOT DISTINCT FROM(any,any)"
_AND, _OR = "AND(boolean…)", "OR(boolean…)"
_BOOLEAN = Type("boolean")


def conjuncts(condition: Expression) -> list[Expression]:
    """Return the conditions that must all be true for one to be true; what all sides of an OR have is one of them."""
    match condition:
        case Call(function="AND(boolean…)"):
            return [part for each in condition.arguments for part in conjuncts(each)]
        case Call(function="OR(boolean…)"):
            return _common(condition)
        case Literal(text="true"):
            return []
        case _:
            return [condition]


def _common(condition: Call) -> list[Expression]:
    sides = [conjuncts(each) for each in condition.arguments]
    common = [each for each in dict.fromkeys(sides[0]) if all(each in side for side in sides[1:])]
    if not common:
        return [condition]
    rests = [[each for each in side if each not in common] for side in sides]
    return common if not all(rests) else [*common, disjunction([conjunction(rest) for rest in rests], condition.span)]


def alternatives(condition: Expression) -> list[list[Expression]]:
    """Return the conditions of each side of an OR; of any other condition one side."""
    if isinstance(condition, Call) and condition.function == _OR:
        return [conjuncts(each) for each in condition.arguments]
    return [conjuncts(condition)]


def conjunction(conditions: Sequence[Expression]) -> Expression:
    """Return conditions with AND between them; of none, true."""
    if not conditions:
        return literal(True, _BOOLEAN)
    return conditions[0] if len(conditions) == 1 else call(_AND, conditions, _around(conditions))


def disjunction(conditions: Sequence[Expression], span: Span) -> Expression:
    """Return conditions with OR between them."""
    return conditions[0] if len(conditions) == 1 else call(_OR, conditions, span)


def references(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that an expression is over."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Reference))


def names_of(relation: logical.Relation) -> frozenset[str]:
    return frozenset(column.name for column in relation.shape.columns)


def equality(condition: Expression, left: Set[str], right: Set[str]) -> JoinKey | None:
    """Return a condition as an equality between columns of two relations; None for any other condition."""
    if not isinstance(condition, Call) or condition.function not in (_EQUAL, _SAME):
        return None
    one, other = condition.arguments
    used, others = references(one), references(other)
    if not used or not others:
        return None
    if used <= right and others <= left:
        one, other = other, one
    elif not (used <= left and others <= right):
        return None
    safe = condition.function == _SAME
    pair = comparable_sides(one, other, safe=safe)
    return None if pair is None else JoinKey(*pair, safe)


def condition_of(key: JoinKey) -> Expression:
    """Return an equality as a condition."""
    return call(_SAME if key.safe else _EQUAL, (key.left, key.right), _around((key.left, key.right)))


def conditions_of(join: logical.Join) -> list[Expression]:
    """Return all that must be true of two rows that a join puts together."""
    return [*map(condition_of, join.keys), *([] if join.residual is None else conjuncts(join.residual))]


def joined(
    kind: JoinKind, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression]
) -> logical.Join:
    """Join two relations whose columns have unlike names, on conditions over the columns of both.

    Conditions of one side alone are the residual's: `pushdown.joined` puts them where they belong first.
    """
    lefts, rights = names_of(left), names_of(right)
    found = [(each, equality(each, lefts, rights)) for each in dict.fromkeys(conditions)]
    keys = tuple(dict.fromkeys(key for _, key in found if key is not None))
    rest = [each for each, key in found if key is None]
    return with_keys(kind, left, right, keys, conjunction(rest) if rest else None)


def with_keys(
    kind: JoinKind,
    left: logical.Relation,
    right: logical.Relation,
    keys: tuple[JoinKey, ...],
    residual: Expression | None,
) -> logical.Join:
    """Join two relations on what is known to be their equalities, and a residual over the columns of both."""
    columns = left.shape.columns
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        columns = _nullable(columns)
    if kind not in (JoinKind.SEMI, JoinKind.ANTI):
        others = right.shape.columns
        columns = (*columns, *(_nullable(others) if kind in (JoinKind.LEFT, JoinKind.FULL) else others))
    stays = kind in (JoinKind.INNER, JoinKind.SEMI)
    append = stays and left.shape.change == right.shape.change == Change.APPEND
    change = Change.APPEND if append else Change.RETRACT
    shape = logical.Shape(columns, of_join(kind, left.shape, right.shape, keys), change)
    return logical.Join(kind, left, right, keys, residual, shape)


def conditional_equalities(
    keys: tuple[JoinKey, ...], left: Sequence[Expression], right: Sequence[Expression]
) -> tuple[JoinKey, ...]:
    """Return equalities that hold only where conditions of one side do; one of them must not be safe.

    The key of a row for which its side's conditions are not true is NULL, and so it has no match.
    """
    place = next(place for place, key in enumerate(keys) if not key.safe)
    key = keys[place]
    wrapped = replace(key, left=_where(left, key.left), right=_where(right, key.right))
    return (*keys[:place], wrapped, *keys[place + 1 :])


def _where(conditions: Sequence[Expression], value: Expression) -> Expression:
    if not conditions:
        return value
    return Case((Branch(conjunction(conditions), value),), None, value.type, value.span)


def _nullable(columns: Iterable[logical.Column]) -> tuple[logical.Column, ...]:
    return tuple(replace(column, nullable=True) for column in columns)


def comparable_sides(left: Expression, right: Expression, *, safe: bool) -> tuple[Expression, Expression] | None:
    """Return both sides of an equality as one type: numerics of unlike digits are equal where their values are.

    `safe` ones compare as the values do, also in their order.
    """
    if left.type == right.type:
        return (left, right) if types.grouped(left.type) else None
    if left.type.name != "numeric" or right.type.name != "numeric":
        return None
    whole = max(left.type.whole_digits, right.type.whole_digits)
    scale = max(left.type.scale or 0, right.type.scale or 0)
    type_ = Type("numeric", min(whole + scale, MOST_DIGITS), scale)
    if whole + scale <= MOST_DIGITS:
        return _as(left, type_), _as(right, type_)
    # a number with more digits before the point than the type has is equal to none of the other side
    return None if safe else (_fitting(left, type_), _fitting(right, type_))


def _as(value: Expression, type_: Type) -> Expression:
    return value if value.type == type_ else cast(value, type_)


def _fitting(value: Expression, type_: Type) -> Expression:
    if value.type.whole_digits <= type_.whole_digits:
        return _as(value, type_)
    most = Type("numeric", type_.whole_digits, 0)
    highest = literal(10**type_.whole_digits - 1, most) if type_.whole_digits else literal(0, Type("numeric", 1, 0))
    lowest = literal(1 - 10**type_.whole_digits, most) if type_.whole_digits else highest
    return _where([call("BETWEEN(any,any,any)", (value, lowest, highest))], cast(value, type_))


def _around(expressions: Sequence[Expression]) -> Span:
    spans = [each.span for each in expressions if each.span != NOWHERE]
    return Span(min(each.start for each in spans), max(each.end for each in spans)) if spans else NOWHERE
