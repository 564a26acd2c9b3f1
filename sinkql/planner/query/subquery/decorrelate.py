"""A relation that speaks of columns of a query around it → one that does not, and conditions between the two.

Conditions come up through filters, projections, inner joins and groupings where they can (`pulled`). In any other case
the relation is joined with the distinct outer values that it speaks of, and everything in it is grouped by them, or
partitioned (Neumann and Kemper, Unnesting Arbitrary Queries, 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sinkql import logical
from sinkql.errors import Span
from sinkql.logical import AggregateCall, Branch, Case, Change, Expression, JoinKind, Output, Reference
from sinkql.logical.expression import Call, children, literal, with_children
from sinkql.logical.function import call
from sinkql.logical.relation import expressions_of, inputs_of
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.query import join as joins
from sinkql.planner.query import pushdown
from sinkql.planner.query import relation as query_relation

_EQUAL, _SAME = "=(any,any)", "IS NOT DISTINCT FROM(any,any)"
_NOWHERE = Span(0, 0)
Fresh = Callable[[], str]
"""Give a name that no column has."""


@dataclass(frozen=True, slots=True)
class Correlated:
    """A relation of its own, and conditions over its columns and those of the query around it.

    `empty`: where no row meets the conditions there is one all the same, with these values.
    """

    relation: logical.Relation
    conditions: tuple[Expression, ...] = ()
    empty: Mapping[str, Expression] | None = None


def free_columns(relation: logical.Relation) -> frozenset[str]:
    """Return the names of the columns that a relation speaks of and nothing in it has."""
    below = inputs_of(relation)
    known = {column.name for each in below for column in each.shape.columns}
    own = {name for each in expressions_of(relation) for name in joins.references(each)} - known
    return frozenset(own).union(*map(free_columns, below))


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """Return an expression with others in the place of columns."""
    if isinstance(expression, Reference):
        return by.get(expression.name, expression)
    return with_children(expression, tuple(substitute(each, by) for each in children(expression)))


def reference(column: logical.Column) -> Reference:
    return Reference(column.name, column.type, column.nullable)


def same(column: logical.Column) -> query_relation.Item:
    return column.name, Typed(reference(column), column.type)


# --- conditions that come up ----------------------------------------------------------------------------------------


def pull_up_conditions(relation: logical.Relation, fresh: Fresh) -> Correlated | None:
    """Return a relation with its conditions on outer columns above it; None where they cannot come up."""
    if not free_columns(relation):
        return Correlated(relation)
    match relation:
        case logical.Filter():
            return _filter(relation, fresh)
        case logical.Project():
            return _project(relation, fresh)
        case logical.Join(kind=JoinKind.INNER):
            return _join(relation, fresh)
        case logical.Join(kind=JoinKind.SEMI | JoinKind.ANTI | JoinKind.LEFT):
            return _sided(relation, fresh)
        case logical.Aggregate():
            return _aggregate(relation, fresh)
        case _:
            return None


def _filter(relation: logical.Filter, fresh: Fresh) -> Correlated | None:
    below = pull_up_conditions(relation.input, fresh)
    if below is None or below.empty is not None:
        return None
    own = frozenset(column.name for column in relation.input.shape.columns)
    parts = joins.conjuncts(relation.predicate)
    plain = [each for each in parts if joins.references(each) <= own]
    outer = [each for each in parts if each not in plain]
    found = pushdown.push_down(below.relation, plain) if plain else below.relation
    return Correlated(found, (*below.conditions, *outer))


def _project(relation: logical.Project, fresh: Fresh) -> Correlated | None:
    own = frozenset(column.name for column in relation.input.shape.columns)
    if any(not joins.references(each.expression) <= own for each in relation.outputs):
        return None
    below = pull_up_conditions(relation.input, fresh)
    if below is None:
        return None
    known = {column.name: column for column in below.relation.shape.columns}
    items = [(each.name, Typed(each.expression, each.expression.type)) for each in relation.outputs]
    renamed: dict[str, Expression] = {}
    for name in sorted({name for each in below.conditions for name in joins.references(each)} & known.keys()):
        new = fresh()
        column = known[name]
        items.append((new, Typed(reference(column), column.type)))
        renamed[name] = Reference(new, column.type, column.nullable)
    empty = None
    if below.empty is not None:
        empty = {each.name: substitute(each.expression, below.empty) for each in relation.outputs}
    conditions = tuple(substitute(each, renamed) for each in below.conditions)
    return Correlated(query_relation.project(below.relation, items), conditions, empty)


def _join(relation: logical.Join, fresh: Fresh) -> Correlated | None:
    left, right = pull_up_conditions(relation.left, fresh), pull_up_conditions(relation.right, fresh)
    if left is None or right is None or left.empty is not None or right.empty is not None:
        return None
    known = joins.names_of(relation.left) | joins.names_of(relation.right)
    own = joins.conditions_of(relation)
    plain = [each for each in own if joins.references(each) <= known]
    outer = [each for each in own if each not in plain]
    found = pushdown.joined(JoinKind.INNER, left.relation, right.relation, plain)
    return Correlated(found, (*left.conditions, *right.conditions, *outer))


def _sided(relation: logical.Join, fresh: Fresh) -> Correlated | None:
    """Return a join of which each row has one of the left side, whose conditions come up."""
    known = joins.names_of(relation.left) | joins.names_of(relation.right)
    own = joins.conditions_of(relation)
    if free_columns(relation.right) or any(not joins.references(each) <= known for each in own):
        return None
    left = pull_up_conditions(relation.left, fresh)
    if left is None or left.empty is not None:
        return None
    return Correlated(pushdown.joined(relation.kind, left.relation, relation.right, own), left.conditions)


def _aggregate(relation: logical.Aggregate, fresh: Fresh) -> Correlated | None:
    known = joins.names_of(relation.input)
    if any(not joins.references(each) <= known for each in expressions_of(relation)):
        return None
    below = pull_up_conditions(relation.input, fresh)
    if below is None or below.empty is not None:
        return None
    pairs = [pair(each, joins.names_of(below.relation)) for each in below.conditions]
    groups = [(each.name, Typed(each.expression, each.expression.type)) for each in relation.group]
    conditions = []
    for each in pairs:
        if each is None or not types.grouped(each.inner.type):
            return None
        name = fresh()
        groups.append((name, Typed(each.inner, each.inner.type)))
        conditions.append(each.over(Reference(name, each.inner.type, each.inner.nullable)))
    found = query_relation.group(below.relation, groups, relation.calls, _NOWHERE)
    empty = None if relation.group or not pairs else {each.name: _nothing(each) for each in relation.calls}
    return Correlated(found, tuple(conditions), empty)


def _nothing(aggregate: AggregateCall) -> Expression:
    """Return what an aggregate gives of no rows."""
    if aggregate.function == "count":
        return literal(0, aggregate.type)
    return literal(None, aggregate.type)


@dataclass(frozen=True, slots=True)
class Pair:
    """An equality between what is computed of inner columns alone, and of outer ones alone."""

    inner: Expression
    outer: Expression
    safe: bool

    def over(self, inner: Expression) -> Expression:
        """Return the equality with another inner side."""
        return call(_SAME if self.safe else _EQUAL, (inner, self.outer))


def pair(condition: Expression, inner: frozenset[str]) -> Pair | None:
    """Return a condition as an equality of the two sides; None for any other one."""
    if not isinstance(condition, Call) or condition.function not in (_EQUAL, _SAME):
        return None
    one, other = condition.arguments
    if joins.references(other) <= inner and joins.references(other) and not joins.references(one) & inner:
        one, other = other, one
    if not joins.references(one) or not joins.references(one) <= inner or joins.references(other) & inner:
        return None
    return Pair(one, other, condition.function == _SAME)


# --- joined with the outer values -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Domain:
    """The distinct values of outer columns, under the names that relations speak of them by."""

    relation: logical.Relation
    fresh: Fresh
    _done: dict[int, tuple[logical.Relation, logical.Relation]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[logical.Column, ...]:
        return self.relation.shape.columns

    @property
    def names(self) -> frozenset[str]:
        return joins.names_of(self.relation)

    def of(self, relation: logical.Relation) -> logical.Relation:
        """Return the rows of a relation for each of the values, with these behind its columns."""
        known = self._done.get(id(relation))
        if known is None:
            columns = [*map(same, relation.shape.columns), *map(same, self.columns)]
            known = self._done[id(relation)] = (relation, query_relation.project(self._of(relation), columns))
        return known[1]

    def _of(self, relation: logical.Relation) -> logical.Relation:
        if relation == logical.ONE:
            return self.relation
        if not free_columns(relation):
            return joins.with_keys(JoinKind.INNER, self.relation, relation, (), None)
        own = tuple(map(reference, self.columns))
        outputs = tuple(Output(each.name, each) for each in own)
        match relation:
            case logical.Project():
                items = [(each.name, Typed(each.expression, each.expression.type)) for each in relation.outputs]
                below = self._of(relation.input)
                return query_relation.project(below, [*items, *map(same, self.columns)])
            case logical.Filter():
                return pushdown.push_down(self._of(relation.input), joins.conjuncts(relation.predicate))
            case logical.Aggregate():
                return self._aggregate(relation)
            case logical.Union():
                inputs = tuple(map(self.of, relation.inputs))
                alike = tuple(self._alike(each, relation) for each in inputs)
                columns = (*relation.shape.columns, *self.columns)
                return logical.Union(alike, logical.Shape(columns, (), Change.RETRACT))
            case logical.Join():
                return self._join(relation)
            case logical.Rank():
                return self._above(
                    replace(relation, input=self.of(relation.input), partition=(*relation.partition, *own)), relation
                )
            case logical.Window():
                return self._above(
                    replace(relation, input=self.of(relation.input), partition=(*relation.partition, *own)), relation
                )
            case logical.Collect():
                return self._collect(relation, outputs)
            case logical.Bound() | logical.Flatten() | logical.Repeat():
                return self._above(replace(relation, input=self.of(relation.input)), relation)
            case logical.Get():
                raise AssertionError(relation)

    def _above(
        self,
        found: logical.Rank | logical.Window | logical.Bound | logical.Flatten | logical.Repeat,
        was: logical.Relation,
    ) -> logical.Relation:
        """Return an operator over rows with the values, whose own columns come last."""
        below = found.input.shape
        known = joins.names_of(found.input)
        more = tuple(each for each in was.shape.columns if each.name not in known)
        keys = tuple(key | self.names for key in was.shape.keys)
        return replace(found, shape=logical.Shape((*below.columns, *more), keys, was.shape.change))

    def _alike(self, relation: logical.Relation, union: logical.Union) -> logical.Relation:
        """Return rows of a union with its names."""
        names = [each.name for each in (*union.shape.columns, *self.columns)]
        items = [
            (name, Typed(reference(each), each.type)) for name, each in zip(names, relation.shape.columns, strict=True)
        ]
        return query_relation.project(relation, items)

    def _aggregate(self, relation: logical.Aggregate) -> logical.Relation:
        groups = [(each.name, Typed(each.expression, each.expression.type)) for each in relation.group]
        found = query_relation.group(
            self.of(relation.input), [*groups, *map(same, self.columns)], relation.calls, _NOWHERE
        )
        if relation.group:
            return found
        return self._always(found, {each.name: _nothing(each) for each in relation.calls})

    def _collect(self, relation: logical.Collect, outputs: tuple[Output, ...]) -> logical.Relation:
        groups = (*relation.group, *outputs)
        names = {each.name for each in relation.group}
        first = tuple(each for each in relation.shape.columns if each.name in names)
        rest = tuple(each for each in relation.shape.columns if each.name not in names)
        keys = (frozenset(each.name for each in groups),)
        shape = logical.Shape((*first, *self.columns, *rest), keys, relation.shape.change)
        found = replace(relation, input=self.of(relation.input), group=groups, shape=shape)
        return found if relation.group else self._always(found, {})

    def _always(self, found: logical.Relation, empty: Mapping[str, Expression]) -> logical.Relation:
        """Return a row for each of the values, also where `found` has none."""
        renamed, conditions = self._renamed(found)
        joined = pushdown.joined(JoinKind.LEFT, self.relation, renamed, conditions)
        items = [*map(same, self.columns)]
        for column in joined.shape.columns:
            if column.name not in self.names and column.name in joins.names_of(found):
                value: Expression = reference(column)
                instead = empty.get(column.name)
                if instead is not None and not instead.nullable:
                    value = coalesced(value, instead)
                items.append((column.name, Typed(value, column.type)))
        return query_relation.project(joined, items)

    def _renamed(self, relation: logical.Relation) -> tuple[logical.Relation, list[Expression]]:
        """Return a relation with other names for the values, and what says that they are the same."""
        items: list[query_relation.Item] = []
        conditions: list[Expression] = []
        for column in relation.shape.columns:
            if column.name not in self.names:
                items.append(same(column))
                continue
            new = self.fresh()
            items.append((new, Typed(reference(column), column.type)))
            conditions.append(call(_SAME, (reference(column), Reference(new, column.type, column.nullable))))
        return query_relation.project(relation, items), conditions

    def _join(self, join: logical.Join) -> logical.Relation:
        kind, left, right = join.kind, join.left, join.right
        if kind is JoinKind.RIGHT:
            kind, left, right = JoinKind.LEFT, right, left
        conditions = joins.conditions_of(join)
        own = bool({name for each in expressions_of(join) for name in joins.references(each)} & self.names)
        left_free, right_free = bool(free_columns(left)), bool(free_columns(right))
        if kind is JoinKind.INNER and right_free and not left_free:
            return pushdown.joined(kind, left, self.of(right), conditions)
        if kind is JoinKind.INNER and not right_free:
            assert left_free or own
            return pushdown.joined(kind, self.of(left), right, conditions)
        first, second = self.of(left), right
        if right_free or kind is JoinKind.FULL:
            second, equal = self._renamed(self.of(right))
            conditions = [*conditions, *equal]
        found = pushdown.joined(kind, first, second, conditions)
        if kind is not JoinKind.FULL:
            return found
        others = [each for each in second.shape.columns if each.name not in joins.names_of(right)]
        items = [
            same(each) for each in found.shape.columns if each.name in joins.names_of(left) | joins.names_of(right)
        ]
        for column, other in zip(self.columns, others, strict=True):
            value = coalesced(replace_nullable(reference(column)), replace_nullable(reference(other)))
            items.append((column.name, Typed(value, column.type)))
        return query_relation.project(found, items)


def replace_nullable(column: Reference) -> Reference:
    return Reference(column.name, column.type, True)


def coalesced(value: Expression, instead: Expression) -> Expression:
    """Return a value, and another one where it is NULL."""
    return Case((Branch(call("IS NULL(any)", (value,)), instead),), value, instead.type)


def decorrelate(
    relation: logical.Relation,
    outer: Mapping[str, Typed],
    around: logical.Relation,
    fresh: Fresh,
    *,
    equal: bool,
    always: bool = False,
) -> Correlated:
    """Return a relation of its own, and conditions over its columns and those of `around`.

    `outer` says what the columns that it speaks of are there. With `equal` all conditions are equalities of both sides,
    with `always` a row that is there also of no rows is one of the relation's.
    """
    there = {name: value.tree for name, value in outer.items()}
    spoken = free_columns(relation) & there.keys()
    found = pull_up_conditions(relation, fresh) if spoken else Correlated(relation)
    if found is not None and always and found.empty is not None:
        found = None
    if found is not None and equal and not all(grouping(each, found.relation) for each in found.conditions):
        found = None
    if found is None:
        found = _by_values(relation, {name: outer[name] for name in sorted(spoken)}, around, fresh)
    renamed = _unlike(found, [column.name for column in relation.shape.columns], fresh())
    conditions = tuple(substitute(each, there) for each in renamed.conditions)
    return Correlated(renamed.relation, conditions, renamed.empty)


def grouping(condition: Expression, relation: logical.Relation) -> bool:
    """Tell whether a condition is an equality whose inner side rows can be grouped by."""
    found = pair(condition, joins.names_of(relation))
    return found is not None and types.grouped(found.inner.type)


def _by_values(
    relation: logical.Relation, outer: Mapping[str, Typed], around: logical.Relation, fresh: Fresh
) -> Correlated:
    values = query_relation.project(around, [(name, value) for name, value in outer.items()])
    domain = Domain(query_relation.distinct(values, _NOWHERE), fresh)
    found = domain.of(relation)
    items, conditions = [*map(same, relation.shape.columns)], []
    for column in domain.columns:
        new = fresh()
        items.append((new, Typed(reference(column), column.type)))
        conditions.append(call(_SAME, (Reference(new, column.type, column.nullable), reference(column))))
    return Correlated(query_relation.project(found, items), tuple(conditions))


def _unlike(found: Correlated, first: Sequence[str], prefix: str) -> Correlated:
    """Return the same with columns of names that nothing else has, some of them first."""
    order = {name: place for place, name in enumerate(first)}
    columns = sorted(found.relation.shape.columns, key=lambda column: order.get(column.name, len(order)))
    own = {column.name: f"{prefix}.{place}" for place, column in enumerate(columns)}
    by: dict[str, Expression] = {each.name: Reference(own[each.name], each.type, each.nullable) for each in columns}
    items = [(own[each.name], Typed(reference(each), each.type)) for each in columns]
    conditions = tuple(substitute(each, by) for each in found.conditions)
    empty = None if found.empty is None else {own[name]: value for name, value in found.empty.items()}
    return Correlated(query_relation.project(found.relation, items), conditions, empty)
