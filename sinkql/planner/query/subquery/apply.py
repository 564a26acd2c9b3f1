"""Join a relation with a subquery's result for each row: as a filter, or as further columns.

The results of EXISTS, IN, ANY and ALL are computed from counts of matching rows; they are NULL if unknown. A comparison
with a subquery that has one value for all rows becomes a threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import AggregateCall, Branch, Case, Expression, JoinKind, Reference, Type
from sinkql.logical.expression import Call, literal
from sinkql.logical.function import call
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.typed_expression import Typed, settled
from sinkql.planner.query import join as joins
from sinkql.planner.query import pushdown
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.can_fail import can_fail
from sinkql.planner.query.keys import unique
from sinkql.planner.query.subquery.decorrelate import (
    Correlated,
    Fresh,
    Pair,
    decorrelate,
    grouping,
    pair,
    pull_up_conditions,
    reference,
    same,
)

_BOOLEAN = Type("boolean")
_BIGINT = Type("bigint")
_TRUE, _FALSE = literal(True, _BOOLEAN), literal(False, _BOOLEAN)
_UNKNOWN = literal(None, _BOOLEAN)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query within an expression: its relation, and the values of the outer columns that it reads."""

    relation: logical.Relation
    outer: Mapping[str, Typed]
    span: Span

    @property
    def columns(self) -> tuple[logical.Column, ...]:
        return self.relation.shape.columns


@dataclass(frozen=True, slots=True)
class Apply:
    """The joins of relations with the results of subqueries. Large: all kinds of subqueries share its joins."""

    fresh: Fresh

    # --- semi and anti joins ---------------------------------------------------------------------------------

    def having(
        self, kind: JoinKind, around: logical.Relation, query: Subquery, equal: Sequence[Typed] = ()
    ) -> logical.Relation:
        """Return the rows with (SEMI) or without (ANTI) a row of the query whose first columns are `equal`."""
        correlated = self._correlated(query, around, equal=False)
        if correlated.empty is not None:
            correlated = self._join_domain(query, around)
        conditions = [*correlated.conditions, *self._equalities(correlated, query, equal)]
        return pushdown.joined(kind, around, correlated.relation, conditions)

    def _join_domain(self, query: Subquery, around: logical.Relation) -> Correlated:
        """Return a query that has one row even without input rows, with this row for each of the outer values."""
        correlated = self._correlated(query, around, equal=True, always=True)
        assert correlated.empty is None
        return correlated

    def _correlated(
        self, query: Subquery, around: logical.Relation, *, equal: bool, always: bool = False
    ) -> Correlated:
        return decorrelate(query.relation, query.outer, around, self.fresh, equal=equal, always=always)

    def _equalities(self, correlated: Correlated, query: Subquery, equal: Sequence[Typed]) -> list[Expression]:
        values = self._values(correlated, query)
        pairs = zip(equal, values, strict=False)
        return [settled(operators.compare("=", one, other, query.span)) for one, other in pairs]

    def _values(self, correlated: Correlated, query: Subquery) -> list[Typed]:
        """Return the query's columns under their present names."""
        columns = correlated.relation.shape.columns[: len(query.columns)]
        return [Typed(reference(column), column.type).at(query.span) for column in columns]

    # --- columns -------------------------------------------------------------------------------------------

    def exists(
        self, around: logical.Relation, query: Subquery, name: str, equal: Sequence[Typed] = ()
    ) -> logical.Relation:
        """Return the rows with a column that says whether the query has a row whose first columns are `equal`."""
        correlated = self._correlated(query, around, equal=True)
        if correlated.empty is not None:
            correlated = self._join_domain(query, around)
        conditions = [*correlated.conditions, *self._equalities(correlated, query, equal)]
        joined, match = self._join_marked(around, correlated.relation, conditions)
        return self._add_columns(around, joined, {name: _is_not_null(match)})

    def _join_marked(
        self, around: logical.Relation, relation: logical.Relation, conditions: Sequence[Expression]
    ) -> tuple[logical.Relation, Expression]:
        """Return the rows joined with the distinct matching rows of a relation, and a column that marks a match."""
        grouped, outer_conditions = self._grouped(relation, conditions, ())
        match = self.fresh()
        items = [*map(same, grouped.shape.columns), (match, Typed(_TRUE, _BOOLEAN))]
        joined = pushdown.joined(JoinKind.LEFT, around, query_relation.project(grouped, items), outer_conditions)
        return joined, Reference(match, _BOOLEAN, True)

    def _grouped(
        self, relation: logical.Relation, conditions: Sequence[Expression], calls: Sequence[AggregateCall]
    ) -> tuple[logical.Relation, list[Expression]]:
        """Return a relation grouped by the inner sides of conditions, and the conditions over its groups."""
        groups, outer_conditions = [], []
        for condition in conditions:
            sides = pair(condition, joins.names_of(relation))
            assert sides is not None
            name = self.fresh()
            groups.append((name, Typed(sides.inner, sides.inner.type)))
            outer_conditions.append(sides.over(Reference(name, sides.inner.type, sides.inner.nullable)))
        if not groups and not calls:  # one row is enough
            calls = [AggregateCall(self.fresh(), "count", None, False, _BIGINT)]
            counted = query_relation.group(relation, (), calls, Span(0, 0))
            has_rows = call(">(any,any)", (Reference(calls[0].name, _BIGINT, False), literal(0, _BIGINT)))
            return query_relation.keep(counted, Typed(has_rows, _BOOLEAN)), []
        return query_relation.group(relation, groups, calls, Span(0, 0)), outer_conditions

    def member(self, around: logical.Relation, query: Subquery, name: str, values: Sequence[Typed]) -> logical.Relation:
        """Return the rows with a column that says whether the query has the values, NULL if that is unknown."""
        joined = self.exists(around, query, name, values)
        equal = Reference(name, _BOOLEAN, False)
        if not any(value.nullable for value in values) and not any(column.nullable for column in query.columns):
            return joined
        unknown = self.fresh()
        if len(values) == 1:
            joined, counts = self._count_rows(joined, query, ())
            rows, nulls = counts
            is_unknown = _or(_is_null(settled(values[0])), _is_positive(nulls))
            value = _case((equal, _TRUE), (_is_zero(rows), _FALSE), (is_unknown, _UNKNOWN), otherwise=_FALSE)
        else:
            joined = self.exists(joined, self._unknown_rows(query, values), unknown)
            value = _case((equal, _TRUE), (Reference(unknown, _BOOLEAN, False), _UNKNOWN), otherwise=_FALSE)
        return self._add_columns(around, joined, {name: value})

    def _unknown_rows(self, query: Subquery, values: Sequence[Typed]) -> Subquery:
        """Return the query's rows that may equal the values."""
        outer, conditions = dict(query.outer), []
        for value, column in zip(values, query.columns, strict=False):
            name = self.fresh()
            outer[name] = value
            column_value = Typed(reference(column), column.type).at(query.span)
            outer_value = Typed(Reference(name, value.type, value.nullable), value.type).at(query.span)
            equal = settled(operators.compare("=", outer_value, column_value, query.span))
            conditions.append(_or(equal, _is_null(outer_value.tree), _is_null(column_value.tree)))
        relation = query_relation.keep(query.relation, Typed(joins.conjunction(conditions), _BOOLEAN))
        return Subquery(relation, outer, query.span)

    def compared(
        self, around: logical.Relation, query: Subquery, name: str, operator: str, value: Typed, *, every: bool
    ) -> logical.Relation:
        """Return the rows with a column that says whether a comparison holds for any, or every, query value."""
        ends = ("min", "max")
        joined, counts = self._count_rows(around, query, ends)
        rows, nulls, least, greatest = counts
        span = query.span

        def test(operator: str, other: Expression) -> Expression:
            return settled(operators.compare(operator, value, Typed(other, other.type).at(span), span))

        if operator in ("=", "<>"):
            both = [test(operator, end) for end in (least, greatest)]
            is_true = joins.conjunction(both) if operator == "=" else _or(*both)
            if (operator == "=") != every:  # = ANY and <> ALL are members
                raise AssertionError(operator)
        else:
            upper = (operator in ("<", "<=")) != every
            is_true = test(operator, greatest if upper else least)
        is_unknown = _or(_is_null(settled(value)), _is_positive(nulls))
        if every:
            is_false = call("NOT(boolean)", (is_true,))
            result = _case((_is_zero(rows), _TRUE), (is_false, _FALSE), (is_unknown, _UNKNOWN), otherwise=_TRUE)
        else:
            result = _case((_is_zero(rows), _FALSE), (is_true, _TRUE), (is_unknown, _UNKNOWN), otherwise=_FALSE)
        return self._add_columns(around, joined, {name: result})

    def _count_rows(
        self, around: logical.Relation, query: Subquery, ends: Sequence[str]
    ) -> tuple[logical.Relation, list[Expression]]:
        """Return the rows with the number of the query's rows, the number of NULLs, and the given extremes."""
        correlated = self._correlated(query, around, equal=True)
        if correlated.empty is not None:
            correlated = self._join_domain(query, around)
        (value,) = self._values(correlated, query)
        null_test = Case((Branch(_is_null(value.tree), literal(1, Type("integer"))),), None, Type("integer"))
        calls = [
            AggregateCall(self.fresh(), "count", None, False, _BIGINT),
            AggregateCall(self.fresh(), "count", null_test, False, _BIGINT),
            *(AggregateCall(self.fresh(), end, settled(value), False, value.type) for end in ends),
        ]
        grouped, conditions = self._grouped(correlated.relation, correlated.conditions, calls)
        kind = JoinKind.LEFT if conditions else JoinKind.INNER
        joined = pushdown.joined(kind, around, grouped, conditions)
        return joined, [Reference(call_.name, call_.type, True) for call_ in calls]

    def sole(self, query: Subquery) -> bool:
        """Return whether a query always has at most one row for each row around it."""
        names = map("$a{}".format, count())
        correlated = pull_up_conditions(query.relation, lambda: next(names))
        if correlated is None or not all(
            grouping(condition, correlated.relation) for condition in correlated.conditions
        ):
            return False
        return self._one_row(correlated.relation, correlated.conditions)

    def _one_row(self, relation: logical.Relation, conditions: Sequence[Expression]) -> bool:
        pairs = [pair(condition, joins.names_of(relation)) for condition in conditions]
        by = [pair_.inner.name for pair_ in pairs if isinstance(pair_, Pair) and isinstance(pair_.inner, Reference)]
        return unique(relation.shape, by)

    def scalar(self, around: logical.Relation, query: Subquery, name: str, rows: str | None = None) -> logical.Relation:
        """Return the rows with the value of the query's single row, NULL without a row, and the number of its rows.

        The number of rows is left out if `rows` is None.
        """
        correlated = self._correlated(query, around, equal=True)
        relation, conditions = correlated.relation, list(correlated.conditions)
        value = relation.shape.columns[0]
        counted: Expression = literal(1, _BIGINT)
        if not self._one_row(relation, conditions):
            assert rows is not None
            relation, conditions, value, count_name = self._least(relation, conditions, value, query.span)
            counted = Reference(count_name, _BIGINT, True)
        if around == logical.ONE and rows is None and _has_one_row(relation) and not conditions:
            return query_relation.project(relation, [(name, Typed(reference(value), value.type))])
        match = self.fresh()
        items = [*map(same, relation.shape.columns), (match, Typed(_TRUE, _BOOLEAN))]
        joined = pushdown.joined(JoinKind.LEFT, around, query_relation.project(relation, items), conditions)
        result: Expression = Reference(value.name, value.type, True)
        if correlated.empty is not None:
            default = correlated.empty[value.name]
            result = _case((_is_not_null(Reference(match, _BOOLEAN, True)), result), otherwise=default)
        return self._add_columns(around, joined, {name: result} if rows is None else {name: result, rows: counted})

    def _least(
        self, relation: logical.Relation, conditions: Sequence[Expression], value: logical.Column, span: Span
    ) -> tuple[logical.Relation, list[Expression], logical.Column, str]:
        """Return the minimum of the rows that meet conditions, and the number of these rows."""
        if not types.is_comparable(value.type):
            message = f"a subquery of type {value.type} that may return several rows is not supported yet"
            hint = "Aggregate it, or limit it to a key."
            raise SinkqlError("SQ2926", message, span, hint=hint)
        calls = [
            AggregateCall(self.fresh(), "count", None, False, _BIGINT),
            AggregateCall(self.fresh(), "min", reference(value), False, value.type),
        ]
        grouped, outer_conditions = self._grouped(relation, conditions, calls)
        return grouped, outer_conditions, logical.Column(calls[1].name, value.type), calls[0].name

    def _add_columns(
        self, around: logical.Relation, joined: logical.Relation, values: Mapping[str, Expression]
    ) -> logical.Relation:
        """Return the columns of `around`, followed by `values`."""
        names = joins.names_of(joined)
        items = [
            (column.name, Typed(reference(column), column.type))
            for column in around.shape.columns
            if column.name in names
        ]
        items += ((name, Typed(value, value.type)) for name, value in values.items())
        return query_relation.project(joined, items)


def _has_one_row(relation: logical.Relation) -> bool:
    """Return whether a relation always has exactly one row."""
    while isinstance(relation, logical.Project):
        relation = relation.input
    return isinstance(relation, logical.Aggregate | logical.Collect) and not relation.group


def _is_null(value: Expression) -> Expression:
    return call("IS NULL(any)", (value,))


def _is_not_null(value: Expression) -> Expression:
    return call("NOT(boolean)", (_is_null(value),))


def _or(*conditions: Expression) -> Expression:
    return joins.disjunction(conditions, Span(0, 0))


def _is_positive(count: Expression) -> Expression:
    return call(">(any,any)", (count, literal(0, _BIGINT)))


def _is_zero(count: Expression) -> Expression:
    """Return the condition that a number of rows is zero or NULL."""
    return _or(_is_null(count), call("=(any,any)", (count, literal(0, _BIGINT))))


def _case(*branches: tuple[Expression, Expression], otherwise: Expression) -> Expression:
    return Case(tuple(Branch(when, then) for when, then in branches), otherwise, otherwise.type)


_COMPARISONS = ("<(any,any)", "<=(any,any)", ">(any,any)", ">=(any,any)")


@dataclass(frozen=True, slots=True)
class ThresholdComparison:
    """A comparison of rows with a threshold, and the side that is the same for all rows."""

    condition: Expression
    limit: Expression


def comparisons(condition: Expression) -> list[Call]:
    """Return the comparisons that must all be true for a condition to be true, an empty list for other conditions."""
    match condition:
        case Call() if condition.function in _COMPARISONS:
            return [condition]
        case Call(function="BETWEEN(any,any,any)", arguments=(value, low, high)):
            ends = (">=", low), ("<=", high)
            return [call(f"{sign}(any,any)", (value, end), condition.span) for sign, end in ends]
        case _:
            return []


def as_threshold(comparison: Call, apart: Set[str]) -> ThresholdComparison | None:
    """Return a comparison of row values with a value over the columns `apart`, as one type if possible.

    None for any other comparison, and if the value can fail: it may only fail if there is a row to compare.
    """
    sides = [joins.references(argument) for argument in comparison.arguments]
    limits = [place for place, names in enumerate(sides) if names and names <= apart]
    if len(limits) != 1 or not sides[1 - limits[0]] or sides[1 - limits[0]] & apart:
        return None
    if can_fail(comparison.arguments[limits[0]]):
        return None
    one, other = comparison.arguments
    alike = joins.comparable_sides(one, other, safe=True) or (one, other)
    return ThresholdComparison(call(comparison.function, alike, comparison.span), alike[limits[0]])
