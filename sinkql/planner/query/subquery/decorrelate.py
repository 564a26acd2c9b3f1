"""Rewrite a relation that reads columns of an outer query into one that does not, with conditions between them.

If possible, conditions are pulled up through filters, projections, inner joins and groupings (`pull_up_conditions`).
Otherwise the relation is joined with the distinct outer values that it reads, and all its groups and partitions include
these values. Source: Neumann and Kemper, "Unnesting Arbitrary Queries", 2015.
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
"""A function that returns a column name that no column has."""


@dataclass(frozen=True, slots=True)
class Correlated:
    """A relation without outer columns, and conditions over its columns and outer columns.

    `empty` holds the values of the row that exists even if no row meets the conditions.
    """

    relation: logical.Relation
    conditions: tuple[Expression, ...] = ()
    empty: Mapping[str, Expression] | None = None


def free_columns(relation: logical.Relation) -> frozenset[str]:
    """Return the names of the outer columns that a relation reads."""
    below = inputs_of(relation)
    input_columns = {column.name for input_ in below for column in input_.shape.columns}
    outer_columns = {
        name for expression in expressions_of(relation) for name in joins.references(expression)
    } - input_columns
    return frozenset(outer_columns).union(*map(free_columns, below))


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """Return an expression with columns replaced by expressions."""
    if isinstance(expression, Reference):
        return by.get(expression.name, expression)
    return with_children(expression, tuple(substitute(child, by) for child in children(expression)))


def reference(column: logical.Column) -> Reference:
    return Reference(column.name, column.type, column.nullable)


def same(column: logical.Column) -> query_relation.Item:
    return column.name, Typed(reference(column), column.type)


# --- pull-up of conditions ----------------------------------------------------------------------------------------


def pull_up_conditions(relation: logical.Relation, fresh: Fresh) -> Correlated | None:
    """Return a relation with its conditions on outer columns pulled up, None if that is impossible."""
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
            return _left_preserving_join(relation, fresh)
        case logical.Aggregate():
            return _aggregate(relation, fresh)
        case _:
            return None


def _filter(relation: logical.Filter, fresh: Fresh) -> Correlated | None:
    below = pull_up_conditions(relation.input, fresh)
    if below is None or below.empty is not None:
        return None
    columns = frozenset(column.name for column in relation.input.shape.columns)
    parts = joins.conjuncts(relation.predicate)
    plain = [part for part in parts if joins.references(part) <= columns]
    outer = [part for part in parts if part not in plain]
    filtered = pushdown.push_down(below.relation, plain) if plain else below.relation
    return Correlated(filtered, (*below.conditions, *outer))


def _project(relation: logical.Project, fresh: Fresh) -> Correlated | None:
    columns = frozenset(column.name for column in relation.input.shape.columns)
    if any(not joins.references(output.expression) <= columns for output in relation.outputs):
        return None
    below = pull_up_conditions(relation.input, fresh)
    if below is None:
        return None
    by_name = {column.name: column for column in below.relation.shape.columns}
    items = [(output.name, Typed(output.expression, output.expression.type)) for output in relation.outputs]
    renamed: dict[str, Expression] = {}
    for name in sorted(
        {name for condition in below.conditions for name in joins.references(condition)} & by_name.keys()
    ):
        new = fresh()
        column = by_name[name]
        items.append((new, Typed(reference(column), column.type)))
        renamed[name] = Reference(new, column.type, column.nullable)
    empty = None
    if below.empty is not None:
        empty = {output.name: substitute(output.expression, below.empty) for output in relation.outputs}
    conditions = tuple(substitute(condition, renamed) for condition in below.conditions)
    return Correlated(query_relation.project(below.relation, items), conditions, empty)


def _join(relation: logical.Join, fresh: Fresh) -> Correlated | None:
    left, right = pull_up_conditions(relation.left, fresh), pull_up_conditions(relation.right, fresh)
    if left is None or right is None or left.empty is not None or right.empty is not None:
        return None
    inner_columns = joins.names_of(relation.left) | joins.names_of(relation.right)
    conditions = joins.conditions_of(relation)
    plain = [condition for condition in conditions if joins.references(condition) <= inner_columns]
    outer = [condition for condition in conditions if condition not in plain]
    joined = pushdown.joined(JoinKind.INNER, left.relation, right.relation, plain)
    return Correlated(joined, (*left.conditions, *right.conditions, *outer))


def _left_preserving_join(relation: logical.Join, fresh: Fresh) -> Correlated | None:
    """Pull the left side's conditions above a join that keeps only left rows, or extends them."""
    inner_columns = joins.names_of(relation.left) | joins.names_of(relation.right)
    conditions = joins.conditions_of(relation)
    if free_columns(relation.right) or any(
        not joins.references(condition) <= inner_columns for condition in conditions
    ):
        return None
    left = pull_up_conditions(relation.left, fresh)
    if left is None or left.empty is not None:
        return None
    return Correlated(pushdown.joined(relation.kind, left.relation, relation.right, conditions), left.conditions)


def _aggregate(relation: logical.Aggregate, fresh: Fresh) -> Correlated | None:
    inner_columns = joins.names_of(relation.input)
    if any(not joins.references(expression) <= inner_columns for expression in expressions_of(relation)):
        return None
    below = pull_up_conditions(relation.input, fresh)
    if below is None or below.empty is not None:
        return None
    pairs = [pair(condition, joins.names_of(below.relation)) for condition in below.conditions]
    groups = [(group.name, Typed(group.expression, group.expression.type)) for group in relation.group]
    conditions = []
    for pair_ in pairs:
        if pair_ is None or not types.is_groupable(pair_.inner.type):
            return None
        name = fresh()
        groups.append((name, Typed(pair_.inner, pair_.inner.type)))
        conditions.append(pair_.over(Reference(name, pair_.inner.type, pair_.inner.nullable)))
    grouped = query_relation.group(below.relation, groups, relation.calls, _NOWHERE)
    empty = None if relation.group or not pairs else {call_.name: _value_of_no_rows(call_) for call_ in relation.calls}
    return Correlated(grouped, tuple(conditions), empty)


def _value_of_no_rows(aggregate: AggregateCall) -> Expression:
    """Return the value of an aggregate over no rows."""
    if aggregate.function == "count":
        return literal(0, aggregate.type)
    return literal(None, aggregate.type)


@dataclass(frozen=True, slots=True)
class Pair:
    """An equality between an expression over inner columns and an expression over outer columns."""

    inner: Expression
    outer: Expression
    safe: bool

    def over(self, inner: Expression) -> Expression:
        """Return the equality with a different inner side."""
        return call(_SAME if self.safe else _EQUAL, (inner, self.outer))


def pair(condition: Expression, inner: frozenset[str]) -> Pair | None:
    """Return a condition as an equality of an inner and an outer side, None for any other condition."""
    if not isinstance(condition, Call) or condition.function not in (_EQUAL, _SAME):
        return None
    one, other = condition.arguments
    if joins.references(other) <= inner and joins.references(other) and not joins.references(one) & inner:
        one, other = other, one
    if not joins.references(one) or not joins.references(one) <= inner or joins.references(other) & inner:
        return None
    return Pair(one, other, condition.function == _SAME)


# --- join with the outer values -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Domain:
    """The distinct values of outer columns, named as relations read them. Large: one method per operator."""

    relation: logical.Relation
    fresh: Fresh
    _cache: dict[int, tuple[logical.Relation, logical.Relation]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[logical.Column, ...]:
        return self.relation.shape.columns

    @property
    def names(self) -> frozenset[str]:
        return joins.names_of(self.relation)

    def of(self, relation: logical.Relation) -> logical.Relation:
        """Return the rows of a relation for each of the values, with the values as last columns."""
        cached = self._cache.get(id(relation))
        if cached is None:
            columns = [*map(same, relation.shape.columns), *map(same, self.columns)]
            cached = self._cache[id(relation)] = (relation, query_relation.project(self._of(relation), columns))
        return cached[1]

    def _of(self, relation: logical.Relation) -> logical.Relation:
        if relation == logical.ONE:
            return self.relation
        if not free_columns(relation):
            return joins.with_keys(JoinKind.INNER, self.relation, relation, (), None)
        references = tuple(map(reference, self.columns))
        outputs = tuple(Output(column.name, column) for column in references)
        match relation:
            case logical.Project():
                items = [(output.name, Typed(output.expression, output.expression.type)) for output in relation.outputs]
                below = self._of(relation.input)
                return query_relation.project(below, [*items, *map(same, self.columns)])
            case logical.Filter():
                return pushdown.push_down(self._of(relation.input), joins.conjuncts(relation.predicate))
            case logical.Aggregate():
                return self._aggregate(relation)
            case logical.Union():
                inputs = tuple(map(self.of, relation.inputs))
                alike = tuple(self._rename_as(input_, relation) for input_ in inputs)
                columns = (*relation.shape.columns, *self.columns)
                return logical.Union(alike, logical.Shape(columns, (), Change.RETRACT))
            case logical.Join():
                return self._join(relation)
            case logical.Rank():
                return self._with_values(
                    replace(relation, input=self.of(relation.input), partition=(*relation.partition, *references)),
                    relation,
                )
            case logical.Window():
                return self._with_values(
                    replace(relation, input=self.of(relation.input), partition=(*relation.partition, *references)),
                    relation,
                )
            case logical.Collect():
                return self._collect(relation, outputs)
            case logical.Bound() | logical.Flatten() | logical.Repeat():
                return self._with_values(replace(relation, input=self.of(relation.input)), relation)
            case logical.Get():
                raise AssertionError(relation)

    def _with_values(
        self,
        operator: logical.Rank | logical.Window | logical.Bound | logical.Flatten | logical.Repeat,
        original: logical.Relation,
    ) -> logical.Relation:
        """Return an operator over rows with the values; the operator's columns come last."""
        below = operator.input.shape
        input_columns = joins.names_of(operator.input)
        added = tuple(column for column in original.shape.columns if column.name not in input_columns)
        keys = tuple(key | self.names for key in original.shape.keys)
        return replace(operator, shape=logical.Shape((*below.columns, *added), keys, original.shape.change))

    def _rename_as(self, relation: logical.Relation, union: logical.Union) -> logical.Relation:
        """Return rows of a union's input with the union's names."""
        names = [column.name for column in (*union.shape.columns, *self.columns)]
        items = [
            (name, Typed(reference(column), column.type))
            for name, column in zip(names, relation.shape.columns, strict=True)
        ]
        return query_relation.project(relation, items)

    def _aggregate(self, relation: logical.Aggregate) -> logical.Relation:
        groups = [(group.name, Typed(group.expression, group.expression.type)) for group in relation.group]
        grouped = query_relation.group(
            self.of(relation.input), [*groups, *map(same, self.columns)], relation.calls, _NOWHERE
        )
        if relation.group:
            return grouped
        return self._add_empty_groups(grouped, {call_.name: _value_of_no_rows(call_) for call_ in relation.calls})

    def _collect(self, relation: logical.Collect, outputs: tuple[Output, ...]) -> logical.Relation:
        groups = (*relation.group, *outputs)
        names = {group.name for group in relation.group}
        first = tuple(column for column in relation.shape.columns if column.name in names)
        rest = tuple(column for column in relation.shape.columns if column.name not in names)
        keys = (frozenset(group.name for group in groups),)
        shape = logical.Shape((*first, *self.columns, *rest), keys, relation.shape.change)
        collected = replace(relation, input=self.of(relation.input), group=groups, shape=shape)
        return collected if relation.group else self._add_empty_groups(collected, {})

    def _add_empty_groups(self, relation: logical.Relation, empty: Mapping[str, Expression]) -> logical.Relation:
        """Return one row for each of the values, also for values that `relation` lacks."""
        renamed, conditions = self._rename_values(relation)
        joined = pushdown.joined(JoinKind.LEFT, self.relation, renamed, conditions)
        items = [*map(same, self.columns)]
        for column in joined.shape.columns:
            if column.name not in self.names and column.name in joins.names_of(relation):
                value: Expression = reference(column)
                default = empty.get(column.name)
                if default is not None and not default.nullable:
                    value = coalesced(value, default)
                items.append((column.name, Typed(value, column.type)))
        return query_relation.project(joined, items)

    def _rename_values(self, relation: logical.Relation) -> tuple[logical.Relation, list[Expression]]:
        """Return a relation with new names for the values, and the conditions that they equal the values."""
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
        reads_values = bool(
            {name for expression in expressions_of(join) for name in joins.references(expression)} & self.names
        )
        left_free, right_free = bool(free_columns(left)), bool(free_columns(right))
        if kind is JoinKind.INNER and right_free and not left_free:
            return pushdown.joined(kind, left, self.of(right), conditions)
        if kind is JoinKind.INNER and not right_free:
            assert left_free or reads_values
            return pushdown.joined(kind, self.of(left), right, conditions)
        first, second = self.of(left), right
        if right_free or kind is JoinKind.FULL:
            second, equal = self._rename_values(self.of(right))
            conditions = [*conditions, *equal]
        joined = pushdown.joined(kind, first, second, conditions)
        if kind is not JoinKind.FULL:
            return joined
        others = [column for column in second.shape.columns if column.name not in joins.names_of(right)]
        items = [
            same(column)
            for column in joined.shape.columns
            if column.name in joins.names_of(left) | joins.names_of(right)
        ]
        for column, other in zip(self.columns, others, strict=True):
            value = coalesced(replace_nullable(reference(column)), replace_nullable(reference(other)))
            items.append((column.name, Typed(value, column.type)))
        return query_relation.project(joined, items)


def replace_nullable(column: Reference) -> Reference:
    return Reference(column.name, column.type, True)


def coalesced(value: Expression, instead: Expression) -> Expression:
    """Return a value, or `instead` if it is NULL."""
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
    """Return a relation without outer columns, and conditions over its columns and the columns of `around`.

    `outer` holds the values of the outer columns that the relation reads. If `equal`, all conditions are equalities of
    both sides. If `always`, the row that exists even without input rows is a row of the relation.
    """
    outer_trees = {name: value.tree for name, value in outer.items()}
    outer_names = free_columns(relation) & outer_trees.keys()
    correlated = pull_up_conditions(relation, fresh) if outer_names else Correlated(relation)
    if correlated is not None and always and correlated.empty is not None:
        correlated = None
    if (
        correlated is not None
        and equal
        and not all(grouping(condition, correlated.relation) for condition in correlated.conditions)
    ):
        correlated = None
    if correlated is None:
        correlated = _join_values(relation, {name: outer[name] for name in sorted(outer_names)}, around, fresh)
    renamed = _rename_columns(correlated, [column.name for column in relation.shape.columns], fresh())
    conditions = tuple(substitute(condition, outer_trees) for condition in renamed.conditions)
    return Correlated(renamed.relation, conditions, renamed.empty)


def grouping(condition: Expression, relation: logical.Relation) -> bool:
    """Return whether a condition is an equality whose inner side rows can be grouped by."""
    sides = pair(condition, joins.names_of(relation))
    return sides is not None and types.is_groupable(sides.inner.type)


def _join_values(
    relation: logical.Relation, outer: Mapping[str, Typed], around: logical.Relation, fresh: Fresh
) -> Correlated:
    values = query_relation.project(around, [(name, value) for name, value in outer.items()])
    domain = Domain(query_relation.distinct(values, _NOWHERE), fresh)
    joined = domain.of(relation)
    items, conditions = [*map(same, relation.shape.columns)], []
    for column in domain.columns:
        new = fresh()
        items.append((new, Typed(reference(column), column.type)))
        conditions.append(call(_SAME, (Reference(new, column.type, column.nullable), reference(column))))
    return Correlated(query_relation.project(joined, items), tuple(conditions))


def _rename_columns(correlated: Correlated, first: Sequence[str], prefix: str) -> Correlated:
    """Return the relation with unique column names, and the columns `first` in front."""
    order = {name: place for place, name in enumerate(first)}
    columns = sorted(correlated.relation.shape.columns, key=lambda column: order.get(column.name, len(order)))
    new_names = {column.name: f"{prefix}.{place}" for place, column in enumerate(columns)}
    substitutions: dict[str, Expression] = {
        column.name: Reference(new_names[column.name], column.type, column.nullable) for column in columns
    }
    items = [(new_names[column.name], Typed(reference(column), column.type)) for column in columns]
    conditions = tuple(substitute(condition, substitutions) for condition in correlated.conditions)
    empty = None if correlated.empty is None else {new_names[name]: value for name, value in correlated.empty.items()}
    return Correlated(query_relation.project(correlated.relation, items), conditions, empty)
