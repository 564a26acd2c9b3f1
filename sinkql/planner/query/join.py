"""Two relations and conditions → a join: its equalities, what is left of the conditions, what is known of its rows.

Columns of a relation that are the same wherever others are: what a key below a join still says above it.

`GROUP BY c.id, c.name` has a group for each customer where `id` is the key of `c`, though a join has made many rows of
one: `id` alone is a key of the groups. These are functional dependencies, and what follows from them (W. W. Armstrong,
"Dependency Structures of Data Base Relationships", 1974).

What a condition can be where some columns are NULL: one that is never true there makes an outer join inner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from sinkql import logical
from sinkql.errors import Span
from sinkql.logical import Branch, Case, Change, Expression, JoinKey, JoinKind, Type
from sinkql.logical.expression import NOWHERE, Call, Cast, Literal, Reference, literal, walk
from sinkql.logical.function import call, cast
from sinkql.logical.type import MOST_DIGITS
from sinkql.planner import types
from sinkql.planner.query.keys import EQUAL, INEXACT, injective, of_join, unique

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
    columns = names_of(relation)
    keys = [Dependency(key, columns) for key in relation.shape.keys]
    match relation:
        case logical.Project():
            found = _handed_on(relation.input, relation.outputs)
        case logical.Aggregate() | logical.Collect():
            found = _handed_on(relation.input, relation.group)
        case logical.Filter():
            found = [*dependencies(relation.input), *_equal(conjuncts(relation.predicate))]
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
            return [*dependencies(left), *dependencies(right), *_equal(conditions_of(join))]
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
    names = names_of(side)
    keys = [injective(each.right if side is join.right else each.left) for each in join.keys]
    if not unique(side.shape, [name for name in keys if name is not None]):
        return []
    used = [_used(each) for each in conditions_of(join)]
    if any(each is None for each in used):
        return []
    return [Dependency(frozenset[str]().union(*(each - names for each in used if each is not None)), names)]


_TRUE, _FALSE, _NULL, _VALUE = "true", "false", "null", "value"
_Possible = frozenset[str]
_ONLY_NULL = frozenset({_NULL})
_ALL = frozenset({_TRUE, _FALSE, _NULL})
_STRICT = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "~", "~*", "LIKE", "ILIKE")
_STRICT_FUNCTIONS = ("abs", "lower", "upper", "length", "substring", "btrim", "ltrim", "rtrim", "round", "strpos")


def rejects_nulls(condition: Expression, columns: Set[str]) -> bool:
    """Tell whether a condition cannot be true of a row that has NULL in all these columns."""
    return _TRUE not in _possible(condition, columns)


def _possible(expression: Expression, columns: Set[str]) -> _Possible:
    match expression:
        case Reference():
            return _ONLY_NULL if expression.name in columns else _any(expression)
        case Literal():
            if expression.text is None:
                return _ONLY_NULL
            return frozenset({expression.text}) if expression.type.name == "boolean" else frozenset({_VALUE})
        case Cast():
            return _ONLY_NULL if _possible(expression.operand, columns) == _ONLY_NULL else _any(expression)
        case Case():
            return _case(expression, columns)
        case Call():
            return _call(expression, columns)


def _any(expression: Expression) -> _Possible:
    known = frozenset({_TRUE, _FALSE} if expression.type.name == "boolean" else {_VALUE})
    return known | _ONLY_NULL if expression.nullable else known


def _case(case: Case, columns: Set[str]) -> _Possible:
    found: _Possible = frozenset()
    for branch in case.branches:
        if _TRUE in _possible(branch.when, columns):
            found |= _possible(branch.then, columns)
    return found | (_ONLY_NULL if case.otherwise is None else _possible(case.otherwise, columns))


def _call(call: Call, columns: Set[str]) -> _Possible:
    given = [_possible(each, columns) for each in call.arguments]
    match call.function.partition("(")[0]:
        case "AND":
            return _and(given)
        case "OR":
            return _not(_and([_not(each) for each in given]))
        case "NOT":
            return _not(given[0])
        case "IS NULL":
            return _tests(_NULL in given[0], given[0] != _ONLY_NULL)
        case "IS TRUE":
            return _tests(_TRUE in given[0], given[0] != {_TRUE})
        case "IS FALSE":
            return _tests(_FALSE in given[0], given[0] != {_FALSE})
        case "BETWEEN" if _ONLY_NULL in given:
            return frozenset({_FALSE, _NULL})
        case "IN" if given[0] == _ONLY_NULL:
            return _ONLY_NULL
        case "coalesce" if all(each == _ONLY_NULL for each in given):
            return _ONLY_NULL
        case name if name in (*_STRICT, *_STRICT_FUNCTIONS) and _ONLY_NULL in given:
            return _ONLY_NULL
        case _:
            return _ALL if call.type.name == "boolean" else frozenset({_VALUE, _NULL})


def _and(given: list[_Possible]) -> _Possible:
    found: set[str] = set()
    if all(_TRUE in each for each in given):
        found.add(_TRUE)
    if any(_FALSE in each for each in given):
        found.add(_FALSE)
    # NULL: one that is NULL, all others true or NULL
    if any(_NULL in each for each in given) and all(each & {_TRUE, _NULL} for each in given):
        found.add(_NULL)
    return frozenset(found)


def _not(given: _Possible) -> _Possible:
    turned = {_TRUE: _FALSE, _FALSE: _TRUE}
    return frozenset(turned.get(each, each) for each in given)


def _tests(true: bool, false: bool) -> _Possible:
    return frozenset({_TRUE for _ in (1,) if true} | {_FALSE for _ in (1,) if false})
