"""Plan the join of two relations: its equalities, its residual condition, and the properties of its rows.

The second part computes functional dependencies. With `GROUP BY c.id, c.name`, where `id` is the key of `c`, `id` alone
is a key of the groups, even above a join that repeats rows of `c`. Source: W. W. Armstrong, "Dependency Structures of
Data Base Relationships", 1974.

The third part computes the possible values of a condition if some columns are NULL. If the condition is never true, an
outer join becomes an inner join.
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
    """Return the conditions that must all be true if a condition is true, including those common to an OR's sides."""
    match condition:
        case Call(function="AND(boolean…)"):
            return [part for argument in condition.arguments for part in conjuncts(argument)]
        case Call(function="OR(boolean…)"):
            return _common(condition)
        case Literal(text="true"):
            return []
        case _:
            return [condition]


def _common(condition: Call) -> list[Expression]:
    sides = [conjuncts(argument) for argument in condition.arguments]
    common = [part for part in dict.fromkeys(sides[0]) if all(part in side for side in sides[1:])]
    if not common:
        return [condition]
    rests = [[part for part in side if part not in common] for side in sides]
    return common if not all(rests) else [*common, disjunction([conjunction(rest) for rest in rests], condition.span)]


def alternatives(condition: Expression) -> list[list[Expression]]:
    """Return the conditions of each side of an OR; any other condition has one side."""
    if isinstance(condition, Call) and condition.function == _OR:
        return [conjuncts(argument) for argument in condition.arguments]
    return [conjuncts(condition)]


def conjunction(conditions: Sequence[Expression]) -> Expression:
    """Combine conditions with AND; without conditions, return true."""
    if not conditions:
        return literal(True, _BOOLEAN)
    return conditions[0] if len(conditions) == 1 else call(_AND, conditions, _common_span(conditions))


def disjunction(conditions: Sequence[Expression], span: Span) -> Expression:
    """Combine conditions with OR."""
    return conditions[0] if len(conditions) == 1 else call(_OR, conditions, span)


def references(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Reference))


def names_of(relation: logical.Relation) -> frozenset[str]:
    return frozenset(column.name for column in relation.shape.columns)


def equality(condition: Expression, left: Set[str], right: Set[str]) -> JoinKey | None:
    """Return a condition as an equality between columns of two relations, None for any other condition."""
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
    """Return a join key as a condition."""
    return call(_SAME if key.safe else _EQUAL, (key.left, key.right), _common_span((key.left, key.right)))


def conditions_of(join: logical.Join) -> list[Expression]:
    """Return all conditions that a join requires of two rows."""
    return [*map(condition_of, join.keys), *([] if join.residual is None else conjuncts(join.residual))]


def joined(
    kind: JoinKind, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression]
) -> logical.Join:
    """Join two relations whose columns have distinct names, on conditions over both.

    Conditions on one side only go into the residual; `pushdown.joined` places them first.
    """
    lefts, rights = names_of(left), names_of(right)
    pairs = [(condition, equality(condition, lefts, rights)) for condition in dict.fromkeys(conditions)]
    keys = tuple(dict.fromkeys(key for _, key in pairs if key is not None))
    rest = [condition for condition, key in pairs if key is None]
    return with_keys(kind, left, right, keys, conjunction(rest) if rest else None)


def with_keys(
    kind: JoinKind,
    left: logical.Relation,
    right: logical.Relation,
    keys: tuple[JoinKey, ...],
    residual: Expression | None,
) -> logical.Join:
    """Join two relations on their equalities, and a residual over the columns of both."""
    columns = left.shape.columns
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        columns = _nullable(columns)
    if kind not in (JoinKind.SEMI, JoinKind.ANTI):
        others = right.shape.columns
        columns = (*columns, *(_nullable(others) if kind in (JoinKind.LEFT, JoinKind.FULL) else others))
    keeps_rows = kind in (JoinKind.INNER, JoinKind.SEMI)
    append = keeps_rows and left.shape.change == right.shape.change == Change.APPEND
    change = Change.APPEND if append else Change.RETRACT
    shape = logical.Shape(columns, of_join(kind, left.shape, right.shape, keys), change)
    return logical.Join(kind, left, right, keys, residual, shape)


def conditional_equalities(
    keys: tuple[JoinKey, ...], left: Sequence[Expression], right: Sequence[Expression]
) -> tuple[JoinKey, ...]:
    """Return equalities that hold only where conditions of one side do; one of them must not be safe.

    If the conditions of a row's side are not true, the row's key is NULL, and it has no match.
    """
    index = next(index for index, key in enumerate(keys) if not key.safe)
    key = keys[index]
    wrapped = replace(key, left=_where(left, key.left), right=_where(right, key.right))
    return (*keys[:index], wrapped, *keys[index + 1 :])


def _where(conditions: Sequence[Expression], value: Expression) -> Expression:
    if not conditions:
        return value
    return Case((Branch(conjunction(conditions), value),), None, value.type, value.span)


def _nullable(columns: Iterable[logical.Column]) -> tuple[logical.Column, ...]:
    return tuple(replace(column, nullable=True) for column in columns)


def comparable_sides(left: Expression, right: Expression, *, safe: bool) -> tuple[Expression, Expression] | None:
    """Return both sides of an equality as one type; numerics of different precision are equal if their values are.

    If `safe`, both sides must also sort like their values.
    """
    if left.type == right.type:
        return (left, right) if types.is_groupable(left.type) else None
    if left.type.name != "numeric" or right.type.name != "numeric":
        return None
    whole = max(left.type.whole_digits, right.type.whole_digits)
    scale = max(left.type.scale or 0, right.type.scale or 0)
    type_ = Type("numeric", min(whole + scale, MOST_DIGITS), scale)
    if whole + scale <= MOST_DIGITS:
        return _as(left, type_), _as(right, type_)
    # a number with too many digits before the point for the type equals no value of the other side
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


def _common_span(expressions: Sequence[Expression]) -> Span:
    spans = [expression.span for expression in expressions if expression.span != NOWHERE]
    return Span(min(span.start for span in spans), max(span.end for span in spans)) if spans else NOWHERE


Names = frozenset[str]
_MAX_DEPENDENCIES = 48
"""The maximum number of dependencies per relation."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A functional dependency: rows with equal values in the columns `of` have equal values in `columns`."""

    of: Names
    columns: Names


def keys_of_groups(relation: logical.Relation, groups: Sequence[logical.Output]) -> list[Names]:
    """Return keys of a relation's groups that have fewer columns than the whole group."""
    names = frozenset(group.name for group in groups)
    if len(names) < 2:
        return []
    below = _through_outputs(relation, groups)
    keys = [frozenset([group.name]) for group in groups if names <= closure(below, [group.name])]
    for order in (groups, groups[::-1]):
        key = names
        for output in order:
            if names <= closure(below, key - {output.name}):
                key -= {output.name}
        keys.append(key)
    return [key for key in dict.fromkeys(keys) if key < names]


def closure(dependencies: Sequence[Dependency], determinant: Iterable[str]) -> Names:
    """Return all columns that the columns of `determinant` determine."""
    columns = frozenset(determinant)
    while True:
        more = columns.union(*(dependency.columns for dependency in dependencies if dependency.of <= columns))
        if more == columns:
            return columns
        columns = more


def dependencies(relation: logical.Relation) -> list[Dependency]:
    """Return the functional dependencies of a relation's columns."""
    columns = names_of(relation)
    keys = [Dependency(key, columns) for key in relation.shape.keys]
    match relation:
        case logical.Project():
            inherited = _through_outputs(relation.input, relation.outputs)
        case logical.Aggregate() | logical.Collect():
            inherited = _through_outputs(relation.input, relation.group)
        case logical.Filter():
            inherited = [*dependencies(relation.input), *_equal(conjuncts(relation.predicate))]
        case logical.Join():
            inherited = _of_join(relation)
        case logical.Rank() | logical.Window() | logical.Bound() | logical.Flatten() | logical.Repeat():
            inherited = dependencies(relation.input)
        case _:
            inherited = []
    narrow = (
        Dependency(dependency.of, dependency.columns & columns) for dependency in inherited if dependency.of <= columns
    )
    return list(dict.fromkeys([*keys, *narrow]))[:_MAX_DEPENDENCIES]


def _through_outputs(relation: logical.Relation, outputs: Sequence[logical.Output]) -> list[Dependency]:
    """Return the dependencies of outputs over a relation."""
    below = dependencies(relation)
    names: dict[str, str] = {}
    for output in outputs:
        name = output.expression.name if isinstance(output.expression, Reference) else injective(output.expression)
        if name is not None:
            names.setdefault(name, output.name)
    outer = []
    inputs = (_used(output.expression) for output in outputs)
    keys = [*(dependency.of for dependency in below), *(columns for columns in inputs if columns is not None)]
    for of in dict.fromkeys(keys):
        if of <= names.keys():
            determined = closure(below, of)
            columns = frozenset(output.name for output in outputs if _computed(output.expression, determined))
            outer.append(Dependency(frozenset(names[name] for name in of), columns))
    return outer


def _used(expression: Expression) -> Names | None:
    """Return the columns that determine an expression, None if a column may hold both 0.0 and -0.0."""
    if isinstance(expression, Reference):
        return frozenset([expression.name])
    columns = [node for node in walk(expression) if isinstance(node, Reference)]
    inexact = any(column.type.name in INEXACT for column in columns)
    return None if inexact else frozenset(column.name for column in columns)


def _computed(expression: Expression, determined: Names) -> bool:
    used = _used(expression)
    return used is not None and used <= determined


def _equal(conditions: Sequence[Expression]) -> list[Dependency]:
    """Return the dependencies from equalities that are true of all rows: a column has the value of the other side."""
    dependencies_ = []
    for condition in conditions:
        if isinstance(condition, Call) and condition.function == EQUAL:
            left, right = condition.arguments
            for one, other in ((left, right), (right, left)):
                name, used = injective(one), _used(other)
                if name is not None and used is not None:
                    dependencies_.append(Dependency(used, frozenset([name])))
    return dependencies_


def _of_join(join: logical.Join) -> list[Dependency]:
    left, right = join.left, join.right
    match join.kind:
        case JoinKind.SEMI | JoinKind.ANTI:
            return dependencies(left)
        case JoinKind.INNER:
            return [*dependencies(left), *dependencies(right), *_equal(conditions_of(join))]
        case JoinKind.LEFT:
            return [*dependencies(left), *_null_extended(right), *_matched(join, right)]
        case JoinKind.RIGHT:
            return [*_null_extended(left), *dependencies(right), *_matched(join, left)]
        case JoinKind.FULL:
            return [*_null_extended(left), *_null_extended(right)]


def _null_extended(relation: logical.Relation) -> list[Dependency]:
    """Return the dependencies of a side that is NULL in rows without a match.

    Only a determinant with a column that is never NULL in the side's rows still holds beside NULL-extended rows.
    """
    not_null = {column.name for column in relation.shape.columns if not column.nullable}
    return [dependency for dependency in dependencies(relation) if dependency.of & not_null]


def _matched(join: logical.Join, side: logical.Relation) -> list[Dependency]:
    """Return the dependency of a side with at most one matching row for each row of the opposite side."""
    names = names_of(side)
    keys = [injective(key.right if side is join.right else key.left) for key in join.keys]
    if not unique(side.shape, [name for name in keys if name is not None]):
        return []
    used = [_used(condition) for condition in conditions_of(join)]
    if any(columns is None for columns in used):
        return []
    return [Dependency(frozenset[str]().union(*(columns - names for columns in used if columns is not None)), names)]


_TRUE, _FALSE, _NULL, _VALUE = "true", "false", "null", "value"
_Possible = frozenset[str]
_ONLY_NULL = frozenset({_NULL})
_ALL = frozenset({_TRUE, _FALSE, _NULL})
_STRICT = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "~", "~*", "LIKE", "ILIKE")
_STRICT_FUNCTIONS = ("abs", "lower", "upper", "length", "substring", "btrim", "ltrim", "rtrim", "round", "strpos")


def rejects_nulls(condition: Expression, columns: Set[str]) -> bool:
    """Return whether a condition cannot be true of a row with NULL in all these columns."""
    return _TRUE not in _possible(condition, columns)


def _possible(expression: Expression, columns: Set[str]) -> _Possible:
    match expression:
        case Reference():
            return _ONLY_NULL if expression.name in columns else _possible_of_type(expression)
        case Literal():
            if expression.text is None:
                return _ONLY_NULL
            return frozenset({expression.text}) if expression.type.name == "boolean" else frozenset({_VALUE})
        case Cast():
            return _ONLY_NULL if _possible(expression.operand, columns) == _ONLY_NULL else _possible_of_type(expression)
        case Case():
            return _case(expression, columns)
        case Call():
            return _call(expression, columns)


def _possible_of_type(expression: Expression) -> _Possible:
    values = frozenset({_TRUE, _FALSE} if expression.type.name == "boolean" else {_VALUE})
    return values | _ONLY_NULL if expression.nullable else values


def _case(case: Case, columns: Set[str]) -> _Possible:
    values: _Possible = frozenset()
    for branch in case.branches:
        if _TRUE in _possible(branch.when, columns):
            values |= _possible(branch.then, columns)
    return values | (_ONLY_NULL if case.otherwise is None else _possible(case.otherwise, columns))


def _call(call: Call, columns: Set[str]) -> _Possible:
    arguments = [_possible(argument, columns) for argument in call.arguments]
    match call.function.partition("(")[0]:
        case "AND":
            return _and(arguments)
        case "OR":
            return _not(_and([_not(argument) for argument in arguments]))
        case "NOT":
            return _not(arguments[0])
        case "IS NULL":
            return _tests(_NULL in arguments[0], arguments[0] != _ONLY_NULL)
        case "IS TRUE":
            return _tests(_TRUE in arguments[0], arguments[0] != {_TRUE})
        case "IS FALSE":
            return _tests(_FALSE in arguments[0], arguments[0] != {_FALSE})
        case "BETWEEN" if _ONLY_NULL in arguments:
            return frozenset({_FALSE, _NULL})
        case "IN" if arguments[0] == _ONLY_NULL:
            return _ONLY_NULL
        case "coalesce" if all(argument == _ONLY_NULL for argument in arguments):
            return _ONLY_NULL
        case name if name in (*_STRICT, *_STRICT_FUNCTIONS) and _ONLY_NULL in arguments:
            return _ONLY_NULL
        case _:
            return _ALL if call.type.name == "boolean" else frozenset({_VALUE, _NULL})


def _and(arguments: list[_Possible]) -> _Possible:
    values: set[str] = set()
    if all(_TRUE in argument for argument in arguments):
        values.add(_TRUE)
    if any(_FALSE in argument for argument in arguments):
        values.add(_FALSE)
    # NULL: one argument is NULL and all are true or NULL
    if any(_NULL in argument for argument in arguments) and all(argument & {_TRUE, _NULL} for argument in arguments):
        values.add(_NULL)
    return frozenset(values)


def _not(values: _Possible) -> _Possible:
    inverse = {_TRUE: _FALSE, _FALSE: _TRUE}
    return frozenset(inverse.get(value, value) for value in values)


def _tests(true: bool, false: bool) -> _Possible:
    return frozenset({_TRUE for _ in (1,) if true} | {_FALSE for _ in (1,) if false})
