"""A relation and what a subquery gives for each of its rows → joins: rows that have some, or values behind the columns.

`count`s of what meets a row's conditions decide what EXISTS, IN, ANY and ALL are, with NULL for what is not known.

A condition with subqueries → comparisons of rows with a value that is the same for all of them.
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
    """A query within an expression: its relation, and what the outer columns that it speaks of are."""

    relation: logical.Relation
    outer: Mapping[str, Typed]
    span: Span

    @property
    def columns(self) -> tuple[logical.Column, ...]:
        return self.relation.shape.columns


@dataclass(frozen=True, slots=True)
class Apply:
    """Put what subqueries give beside the rows of relations."""

    fresh: Fresh

    # --- rows that have some, or none ---------------------------------------------------------------------------------

    def having(
        self, kind: JoinKind, around: logical.Relation, query: Subquery, equal: Sequence[Typed] = ()
    ) -> logical.Relation:
        """Return the rows for which the query has a row (SEMI) or none (ANTI) whose first columns are `equal`."""
        found = self._correlated(query, around, equal=False)
        if found.empty is not None:
            found = self._by_groups(query, around)
        conditions = [*found.conditions, *self._equal(found, query, equal)]
        return pushdown.joined(kind, around, found.relation, conditions)

    def _by_groups(self, query: Subquery, around: logical.Relation) -> Correlated:
        """Return a query that has a row always with that row, for each of the outer values."""
        found = self._correlated(query, around, equal=True, always=True)
        assert found.empty is None
        return found

    def _correlated(
        self, query: Subquery, around: logical.Relation, *, equal: bool, always: bool = False
    ) -> Correlated:
        return decorrelate(query.relation, query.outer, around, self.fresh, equal=equal, always=always)

    def _equal(self, found: Correlated, query: Subquery, equal: Sequence[Typed]) -> list[Expression]:
        values = self._values(found, query)
        pairs = zip(equal, values, strict=False)
        return [settled(operators.compare("=", one, other, query.span)) for one, other in pairs]

    def _values(self, found: Correlated, query: Subquery) -> list[Typed]:
        """Return the query's columns as they are called now."""
        columns = found.relation.shape.columns[: len(query.columns)]
        return [Typed(reference(each), each.type).at(query.span) for each in columns]

    # --- values beside rows -------------------------------------------------------------------------------------------

    def exists(
        self, around: logical.Relation, query: Subquery, name: str, equal: Sequence[Typed] = ()
    ) -> logical.Relation:
        """Return the rows with whether the query has a row whose first columns are `equal`."""
        found = self._correlated(query, around, equal=True)
        if found.empty is not None:
            found = self._by_groups(query, around)
        conditions = [*found.conditions, *self._equal(found, query, equal)]
        joined, marker = self._marked(around, found.relation, conditions)
        return self._with(around, joined, {name: _there(marker)})

    def _marked(
        self, around: logical.Relation, relation: logical.Relation, conditions: Sequence[Expression]
    ) -> tuple[logical.Relation, Expression]:
        """Return rows beside those of a relation that meet conditions, each once, and a column that is true there."""
        grouped, now = self._grouped(relation, conditions, ())
        marker = self.fresh()
        items = [*map(same, grouped.shape.columns), (marker, Typed(_TRUE, _BOOLEAN))]
        joined = pushdown.joined(JoinKind.LEFT, around, query_relation.project(grouped, items), now)
        return joined, Reference(marker, _BOOLEAN, True)

    def _grouped(
        self, relation: logical.Relation, conditions: Sequence[Expression], calls: Sequence[AggregateCall]
    ) -> tuple[logical.Relation, list[Expression]]:
        """Return a relation grouped by the inner sides of conditions, which are over its groups then."""
        groups, now = [], []
        for condition in conditions:
            found = pair(condition, joins.names_of(relation))
            assert found is not None
            name = self.fresh()
            groups.append((name, Typed(found.inner, found.inner.type)))
            now.append(found.over(Reference(name, found.inner.type, found.inner.nullable)))
        if not groups and not calls:  # any row will do
            calls = [AggregateCall(self.fresh(), "count", None, False, _BIGINT)]
            counted = query_relation.group(relation, (), calls, Span(0, 0))
            some = call(">(any,any)", (Reference(calls[0].name, _BIGINT, False), literal(0, _BIGINT)))
            return query_relation.keep(counted, Typed(some, _BOOLEAN)), []
        return query_relation.group(relation, groups, calls, Span(0, 0)), now

    def member(self, around: logical.Relation, query: Subquery, name: str, values: Sequence[Typed]) -> logical.Relation:
        """Return the rows with whether values are among the query's: NULL where only a NULL says that they might be."""
        joined = self.exists(around, query, name, values)
        equal = Reference(name, _BOOLEAN, False)
        if not any(each.nullable for each in values) and not any(each.nullable for each in query.columns):
            return joined
        unsure = self.fresh()
        if len(values) == 1:
            joined, counts = self._counted(joined, query, ())
            rows, nulls = counts
            maybe = _any(_null(settled(values[0])), _more(nulls))
            value = _case((equal, _TRUE), (_none(rows), _FALSE), (maybe, _UNKNOWN), otherwise=_FALSE)
        else:
            joined = self.exists(joined, self._perhaps(query, values), unsure)
            value = _case((equal, _TRUE), (Reference(unsure, _BOOLEAN, False), _UNKNOWN), otherwise=_FALSE)
        return self._with(around, joined, {name: value})

    def _perhaps(self, query: Subquery, values: Sequence[Typed]) -> Subquery:
        """Return the query's rows of which it is not known that they are others than the values."""
        outer, conditions = dict(query.outer), []
        for value, column in zip(values, query.columns, strict=False):
            name = self.fresh()
            outer[name] = value
            own = Typed(reference(column), column.type).at(query.span)
            there = Typed(Reference(name, value.type, value.nullable), value.type).at(query.span)
            equal = settled(operators.compare("=", there, own, query.span))
            conditions.append(_any(equal, _null(there.tree), _null(own.tree)))
        relation = query_relation.keep(query.relation, Typed(joins.conjunction(conditions), _BOOLEAN))
        return Subquery(relation, outer, query.span)

    def compared(
        self, around: logical.Relation, query: Subquery, name: str, operator: str, value: Typed, *, every: bool
    ) -> logical.Relation:
        """Return the rows with whether a comparison is true of any of the query's values, or of every one."""
        ends = ("min", "max")
        joined, counts = self._counted(around, query, ends)
        rows, nulls, least, greatest = counts
        span = query.span

        def test(operator: str, other: Expression) -> Expression:
            return settled(operators.compare(operator, value, Typed(other, other.type).at(span), span))

        if operator in ("=", "<>"):
            both = [test(operator, each) for each in (least, greatest)]
            held = joins.conjunction(both) if operator == "=" else _any(*both)
            if (operator == "=") != every:  # = ANY and <> ALL are members
                raise AssertionError(operator)
        else:
            upper = (operator in ("<", "<=")) != every
            held = test(operator, greatest if upper else least)
        unsure = _any(_null(settled(value)), _more(nulls))
        if every:
            failed = call("NOT(boolean)", (held,))
            found = _case((_none(rows), _TRUE), (failed, _FALSE), (unsure, _UNKNOWN), otherwise=_TRUE)
        else:
            found = _case((_none(rows), _FALSE), (held, _TRUE), (unsure, _UNKNOWN), otherwise=_FALSE)
        return self._with(around, joined, {name: found})

    def _counted(
        self, around: logical.Relation, query: Subquery, ends: Sequence[str]
    ) -> tuple[logical.Relation, list[Expression]]:
        """Return the rows with how many rows the query has for each, how many of these are NULL, and their ends."""
        found = self._correlated(query, around, equal=True)
        if found.empty is not None:
            found = self._by_groups(query, around)
        (value,) = self._values(found, query)
        tested = Case((Branch(_null(value.tree), literal(1, Type("integer"))),), None, Type("integer"))
        calls = [
            AggregateCall(self.fresh(), "count", None, False, _BIGINT),
            AggregateCall(self.fresh(), "count", tested, False, _BIGINT),
            *(AggregateCall(self.fresh(), each, settled(value), False, value.type) for each in ends),
        ]
        grouped, now = self._grouped(found.relation, found.conditions, calls)
        kind = JoinKind.LEFT if now else JoinKind.INNER
        joined = pushdown.joined(kind, around, grouped, now)
        return joined, [Reference(each.name, each.type, True) for each in calls]

    def sole(self, query: Subquery) -> bool:
        """Tell whether a query has one row at most of each row around it, whatever the rows are."""
        names = map("$a{}".format, count())
        found = pull_up_conditions(query.relation, lambda: next(names))
        if found is None or not all(grouping(each, found.relation) for each in found.conditions):
            return False
        return self._one_row(found.relation, found.conditions)

    def _one_row(self, relation: logical.Relation, conditions: Sequence[Expression]) -> bool:
        pairs = [pair(each, joins.names_of(relation)) for each in conditions]
        by = [each.inner.name for each in pairs if isinstance(each, Pair) and isinstance(each.inner, Reference)]
        return unique(relation.shape, by)

    def scalar(self, around: logical.Relation, query: Subquery, name: str, rows: str | None = None) -> logical.Relation:
        """Return the rows with the value of the query's one row, NULL where it has none, and with how many it has.

        The number of rows is left out where no name for it is given.
        """
        found = self._correlated(query, around, equal=True)
        relation, conditions = found.relation, list(found.conditions)
        value = relation.shape.columns[0]
        counted: Expression = literal(1, _BIGINT)
        if not self._one_row(relation, conditions):
            assert rows is not None
            relation, conditions, value, many = self._least(relation, conditions, value, query.span)
            counted = Reference(many, _BIGINT, True)
        if around == logical.ONE and rows is None and _always_one(relation) and not conditions:
            return query_relation.project(relation, [(name, Typed(reference(value), value.type))])
        marker = self.fresh()
        items = [*map(same, relation.shape.columns), (marker, Typed(_TRUE, _BOOLEAN))]
        joined = pushdown.joined(JoinKind.LEFT, around, query_relation.project(relation, items), conditions)
        result: Expression = Reference(value.name, value.type, True)
        if found.empty is not None:
            instead = found.empty[value.name]
            result = _case((_there(Reference(marker, _BOOLEAN, True)), result), otherwise=instead)
        return self._with(around, joined, {name: result} if rows is None else {name: result, rows: counted})

    def _least(
        self, relation: logical.Relation, conditions: Sequence[Expression], value: logical.Column, span: Span
    ) -> tuple[logical.Relation, list[Expression], logical.Column, str]:
        """Return the least value of the rows that meet conditions, and how many these are."""
        if not types.comparable(value.type):
            message = f"a subquery of type {value.type} that may give several rows is not supported yet"
            hint = "Aggregate it, or limit it to a key."
            raise SinkqlError("SQ2926", message, span, hint=hint)
        calls = [
            AggregateCall(self.fresh(), "count", None, False, _BIGINT),
            AggregateCall(self.fresh(), "min", reference(value), False, value.type),
        ]
        grouped, now = self._grouped(relation, conditions, calls)
        return grouped, now, logical.Column(calls[1].name, value.type), calls[0].name

    def _with(
        self, around: logical.Relation, joined: logical.Relation, values: Mapping[str, Expression]
    ) -> logical.Relation:
        """Return the columns of `around`, and values behind them."""
        known = joins.names_of(joined)
        items = [(each.name, Typed(reference(each), each.type)) for each in around.shape.columns if each.name in known]
        items += ((name, Typed(value, value.type)) for name, value in values.items())
        return query_relation.project(joined, items)


def _always_one(relation: logical.Relation) -> bool:
    """Tell whether a relation always has one row."""
    while isinstance(relation, logical.Project):
        relation = relation.input
    return isinstance(relation, logical.Aggregate | logical.Collect) and not relation.group


def _null(value: Expression) -> Expression:
    return call("IS NULL(any)", (value,))


def _there(marker: Expression) -> Expression:
    return call("NOT(boolean)", (_null(marker),))


def _any(*conditions: Expression) -> Expression:
    return joins.disjunction(conditions, Span(0, 0))


def _more(count: Expression) -> Expression:
    return call(">(any,any)", (count, literal(0, _BIGINT)))


def _none(count: Expression) -> Expression:
    """Tell whether a number of rows is none: NULL is."""
    return _any(_null(count), call("=(any,any)", (count, literal(0, _BIGINT))))


def _case(*branches: tuple[Expression, Expression], otherwise: Expression) -> Expression:
    return Case(tuple(Branch(when, then) for when, then in branches), otherwise, otherwise.type)


_COMPARISONS = ("<(any,any)", "<=(any,any)", ">(any,any)", ">=(any,any)")


@dataclass(frozen=True, slots=True)
class ThresholdComparison:
    """A comparison, and the side of it that is the same for all rows."""

    condition: Expression
    limit: Expression


def comparisons(condition: Expression) -> list[Call]:
    """Return the comparisons that must all be true for a condition to be true; none for any other one."""
    match condition:
        case Call() if condition.function in _COMPARISONS:
            return [condition]
        case Call(function="BETWEEN(any,any,any)", arguments=(value, low, high)):
            ends = (">=", low), ("<=", high)
            return [call(f"{sign}(any,any)", (value, end), condition.span) for sign, end in ends]
        case _:
            return []


def as_threshold(comparison: Call, apart: Set[str]) -> ThresholdComparison | None:
    """Return a comparison of values of rows with one that is over columns `apart` from them, as one type if it can be.

    None for any other comparison, and where that value may fail: it does so only where there is a row to compare.
    """
    sides = [joins.references(each) for each in comparison.arguments]
    limits = [place for place, names in enumerate(sides) if names and names <= apart]
    if len(limits) != 1 or not sides[1 - limits[0]] or sides[1 - limits[0]] & apart:
        return None
    if can_fail(comparison.arguments[limits[0]]):
        return None
    one, other = comparison.arguments
    alike = joins.comparable_sides(one, other, safe=True) or (one, other)
    return ThresholdComparison(call(comparison.function, alike, comparison.span), alike[limits[0]])
