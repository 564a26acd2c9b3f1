"""Subqueries in the expressions of one SELECT → columns, which `attached` puts behind those of its rows; in WHERE and
HAVING also joins with what there must be, or must not be.

A join's ON that has subqueries → conditions without any, over sides that have what the subqueries give.

An inner join keeps the pairs of rows for which the condition is true, as WHERE does. Of an outer join the value of a
subquery stands behind the columns of the side that it speaks of. One that speaks of both sides is computed for the
pairs of what it speaks of: the distinct values of the side that is kept, with the rows of the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Expression, JoinKind
from sinkql.logical.expression import NOWHERE, Reference
from sinkql.logical.function import SINGLE
from sinkql.logical.function import call as function_call
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, call, column, settled
from sinkql.planner.query import join as joins
from sinkql.planner.query import pushdown
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.expression_context import Translation
from sinkql.planner.query.join import references
from sinkql.planner.query.predicate import negated
from sinkql.planner.query.query_context import OuterQuery, QueryPlanner
from sinkql.planner.query.scope import Outer, Scope
from sinkql.planner.query.subquery.apply import Apply, Subquery, as_threshold, comparisons
from sinkql.planner.query.subquery.decorrelate import Fresh, reference, same
from sinkql.planner.query.temporal_filter import conjuncts
from sinkql.planner.syntax.sqlglot_tree import row_values

_Within = Callable[[Typed], Typed]
_Written = tuple[tuple[Any, str], ...] | int
_Key = tuple[str, _Written, tuple[logical.Expression, ...]]
"""What is asked of a query, its words and signs, and values beside it."""


def _query_node(node: Any) -> bool:
    return isinstance(node, exp.Query)


def has_query(node: Any) -> bool:
    """Tell whether a query stands in an expression."""
    return node.find(exp.Query) is not None


@dataclass(frozen=True, slots=True)
class PendingColumns:
    """Columns that are to be put behind those of a relation which has the columns that they are computed `over`."""

    names: frozenset[str]
    over: frozenset[str]
    put: Callable[[logical.Relation], logical.Relation]


@dataclass(slots=True)
class Subqueries:
    """Plan the subqueries of expressions over one relation; `within` says what a column of its scope is there."""

    queries: QueryPlanner
    around: OuterQuery
    scope: Scope
    within: _Within = lambda value: value
    _waiting: list[PendingColumns] = field(default_factory=list)
    _known: dict[_Key, Typed] = field(default_factory=dict)

    @property
    def _apply(self) -> Apply:
        return Apply(self.queries.fresh)

    def attached(self, relation: logical.Relation) -> logical.Relation:
        """Return the relation with the columns that were asked for since, behind its own."""
        for each in self.waiting():
            relation = each.put(relation)
        return relation

    def waiting(self) -> list[PendingColumns]:
        """Return the columns that were asked for since, which the caller puts behind those of relations."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def knows(self, node: Any) -> bool:
        """Tell whether all queries in an expression have been planned here."""
        known = {written for _, written, _ in self._known}
        queries = (each for each in node.walk(prune=_query_node) if _query_node(each))
        return all(self._written(each) in known for each in queries)

    def _written(self, node: Any) -> _Written:
        """Return a query's words and signs; for a node that was not written as such, what no other node has."""
        return self.queries.syntax.signs(node) or id(node)

    # --- values -------------------------------------------------------------------------------------------------------

    def exists(self, node: Any, span: Span) -> Typed:
        """Return whether a query has a row."""
        return self._once("EXISTS", node, (), lambda: self._exists(node, span))

    def _exists(self, node: Any, span: Span) -> Typed:
        query = self._query(node, span)
        over = query.outer.values()
        return self._later(lambda relation, name: self._apply.exists(relation, query, name), over, types.BOOLEAN, span)

    def scalar(self, node: Any, span: Span) -> Typed:
        """Return the value of a query's one row."""
        return self._once("", node, (), lambda: self._scalar(node, span))

    def _scalar(self, node: Any, span: Span) -> Typed:
        query = self._query(node, span)
        self._check(query, 1, span)
        type_ = query.columns[0].type
        rows = None if self._apply.sole(query) else self.queries.fresh()
        over = query.outer.values()
        found = self._later(
            lambda relation, name: self._apply.scalar(relation, query, name, rows), over, type_, span, rows
        )
        value = column(str(found.column), type_, nullable=True, span=span)
        if rows is None:
            return value
        # where the value is used, and nowhere else, there must be no second row
        return call(SINGLE, (column(rows, types.BIGINT, nullable=True, span=span), value), span, type_=type_)

    def member(self, values: Sequence[Typed], node: Any, span: Span) -> Typed:
        """Return whether values are the columns of one of a query's rows."""
        return self._once("IN", node, values, lambda: self._member(values, node, span))

    def _member(self, values: Sequence[Typed], node: Any, span: Span) -> Typed:
        query = self._query(node, span)
        self._check(query, len(values), span)
        known = _typed(values, query)
        found = self._later(
            lambda relation, name: self._apply.member(relation, query, name, known),
            (*query.outer.values(), *known),
            types.BOOLEAN,
            span,
        )
        return column(str(found.column), types.BOOLEAN, nullable=True, span=span)

    def compared(self, operator: str, value: Typed, node: Any, span: Span, *, every: bool) -> Typed:
        """Return whether a comparison is true of one of a query's values, or of every one."""
        if (operator, every) in (("=", False), ("<>", True)):
            found = self.member([value], node, span)
            return negated(found) if every else found
        use = f"{operator} {'ALL' if every else 'ANY'}"
        return self._once(use, node, [value], lambda: self._compared(operator, value, node, span, every=every))

    def _compared(self, operator: str, value: Typed, node: Any, span: Span, *, every: bool) -> Typed:
        query = self._query(node, span)
        self._check(query, 1, span)
        (known,) = _typed([value], query)
        found = self._later(
            lambda relation, name: self._apply.compared(relation, query, name, operator, known, every=every),
            (*query.outer.values(), known),
            types.BOOLEAN,
            span,
        )
        return column(str(found.column), types.BOOLEAN, nullable=True, span=span)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def kept(self, relation: logical.Relation, t: Translation, node: Any, where: str) -> logical.Relation:
        """Return the rows for which a condition with subqueries is true."""
        for each in conjuncts(node):
            relation = self._kept(relation, t, each, where)
        return relation

    def _kept(self, relation: logical.Relation, t: Translation, node: Any, where: str) -> logical.Relation:
        span, inner = t.span(node), node.unnest()
        negative = isinstance(inner, exp.Not)
        inner = inner.this.unnest() if negative else inner
        kind = JoinKind.ANTI if negative else JoinKind.SEMI
        if isinstance(inner, exp.Exists):
            return self._apply.having(kind, relation, self._query(inner.this, span))
        asked = _among(inner)
        if asked is not None and asked[2]:
            negative, kind = not negative, JoinKind.SEMI if negative else JoinKind.ANTI
        if asked is not None:
            values = [t.translate(each) for each in asked[0]]
            query = self._query(asked[1], span)
            self._check(query, len(values), span)
            known = _typed(values, query)
            sure = not any(each.nullable for each in known) and not any(each.nullable for each in query.columns)
            if not negative or sure:
                return self._apply.having(kind, self.attached(relation), query, known)
            name = self.queries.fresh()
            found = self._apply.member(self.attached(relation), query, name, known)
            return query_relation.keep(found, negated(column(name, types.BOOLEAN, nullable=True, span=span)))
        asked_before = len(self._waiting)
        value = t.boolean(node, where)
        rows = self._beyond(relation, value, self._waiting[asked_before:])
        return rows if rows is not None else query_relation.keep(self.attached(relation), value)

    def _beyond(
        self, relation: logical.Relation, condition: Typed, asked: Sequence[PendingColumns]
    ) -> logical.Relation | None:
        """Return the rows beyond values that are the same for all of them; None for any other condition.

        The columns `asked` for are the condition's own.
        """
        if self.around.outer is not None:
            return None
        found = comparisons(condition.tree)
        waiting = frozenset[str]().union(*(each.names for each in self._waiting))
        alone = [each for each in asked if not each.over]
        others = [each for each in self._waiting if not any(each is one for one in alone)]
        apart = frozenset[str]().union(*(each.names for each in alone))
        plain = [each for each in found if not references(each) & waiting]
        limits = [
            each for each in (as_threshold(each, apart) for each in found if each not in plain) if each is not None
        ]
        if not limits or len(limits) + len(plain) < len(found) or any(each.over & apart for each in others):
            return None
        self._waiting = others
        self._known = {key: known for key, known in self._known.items() if not references(known.tree) & apart}
        relation = self.attached(relation)
        if plain:
            relation = query_relation.keep(relation, Typed(joins.conjunction(plain), types.BOOLEAN))
        for each in limits:
            one: logical.Relation = logical.ONE
            for column_ in alone:
                one = column_.put(one) if column_.names & references(each.limit) else one
            relation = pushdown.joined(JoinKind.SEMI, relation, one, [each.condition])
        return relation

    # --- queries ------------------------------------------------------------------------------------------------------

    def _query(self, node: Any, span: Span) -> Subquery:
        outer: dict[str, Typed] = {}
        around = OuterQuery(self.around.named, Outer.recorded(self.scope, outer, self.queries.fresh, self.within))
        return Subquery(self.queries.plan(node, around), outer, span)

    def _check(self, query: Subquery, count: int, span: Span) -> None:
        found = len(query.columns)
        if found != count:
            message = f"the subquery has {found} column{'s' * (found != 1)}, expected {count}"
            hint = "Select one column." if count == 1 else "Select as many columns as there are values on the left."
            raise SinkqlError("SQ2238", message, span, hint=hint)

    def _once(self, use: str, node: Any, values: Sequence[Typed], plan: Callable[[], Typed]) -> Typed:
        """Return what a query is beside values, which is planned once however often the same is written."""
        key = use, self._written(node), tuple(each.tree for each in values)
        if key not in self._known:
            self._known[key] = plan()
        return self._known[key]

    def _later(
        self,
        put: Callable[[logical.Relation, str], logical.Relation],
        over: Iterable[Typed],
        type_: logical.Type,
        span: Span,
        *beside: str | None,
    ) -> Typed:
        name = self.queries.fresh()
        names = frozenset[str]().union(*(references(each.tree) for each in over))
        own = frozenset([name, *(each for each in beside if each is not None)])
        self._waiting.append(PendingColumns(own, names, lambda relation: put(relation, name)))
        return column(name, type_, nullable=False, span=span)


def _among(node: Any) -> tuple[list[Any], Any, bool] | None:
    """Return the values, the query and whether it is denied where a condition is IN, = ANY or <> ALL of a query."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _listed(node.this), node.args["query"], False
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any) and has_query(node.expression):
        return _listed(node.this), node.expression.this, False
    if isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All) and has_query(node.expression):
        return _listed(node.this), node.expression.this, True
    return None


def _listed(node: Any) -> list[Any]:
    return row_values(node) or [node]


def _typed(values: Sequence[Typed], query: Subquery) -> list[Typed]:
    """Return values, those without a type of their own as of the query's columns."""
    return [
        coerced(value, each.type) if value.type == types.UNKNOWN else value
        for value, each in zip(values, query.columns, strict=True)
    ]


_SAME = "IS NOT DISTINCT FROM(any,any)"


@dataclass(frozen=True, slots=True)
class Condition:
    """What ON says: conditions without subqueries, and those that have some."""

    plain: tuple[Expression, ...]
    queries: tuple[Any, ...]


def split_on(t: Translation, on: Any) -> Condition:
    """Return an ON as conditions that have subqueries, and others."""
    if not has_query(on):
        return Condition((settled(t.boolean(on, "ON")),), ())
    nodes = list(conjuncts(on))
    plain = tuple(settled(t.boolean(each, "ON")) for each in nodes if not has_query(each))
    return Condition(plain, tuple(each for each in nodes if has_query(each)))


def inner(subqueries: Subqueries, t: Translation, relation: logical.Relation, nodes: Sequence[Any]) -> logical.Relation:
    """Return the pairs of rows of a join for which conditions with subqueries are true."""
    for each in nodes:
        relation = subqueries.kept(relation, t, each, "ON")
    return relation


def outer(
    subqueries: Subqueries,
    t: Translation,
    kind: JoinKind,
    left: logical.Relation,
    right: logical.Relation,
    condition: Condition,
) -> logical.Relation:
    """Join relations by an outer join; raises SQ2926 for a FULL JOIN on a subquery that speaks of both sides."""
    sides = _Sides(joins.names_of(left), joins.names_of(right))
    conditions = list(condition.plain)
    for node in condition.queries:
        value = settled(t.boolean(node, "ON"))
        conditions.append(value)
        for each in subqueries.waiting():
            sides.put(each, joins.references(value))
            if kind is JoinKind.FULL and each in sides.pairs:
                message = "a subquery in ON of FULL JOIN can use columns of one side only"
                hint = "Write LEFT JOIN, and add the rows of the right side that have no match by UNION ALL."
                raise SinkqlError("SQ2926", message, t.span(node), hint=hint)
    if sides.pairs:
        if kind is JoinKind.RIGHT:
            sides, left, right = sides.turned(), right, left
        return _by_pairs(sides, left, right, conditions, subqueries.queries.fresh)
    return joins.with_keys(
        kind, _with(left, sides.lefts), _with(right, sides.rights), (), joins.conjunction(conditions)
    )


@dataclass(slots=True)
class _Sides:
    """The sides of a join by the names of their columns, and the subqueries that are computed for one, or for pairs."""

    left: frozenset[str]
    right: frozenset[str]
    lefts: list[PendingColumns] = field(default_factory=list)
    rights: list[PendingColumns] = field(default_factory=list)
    pairs: list[PendingColumns] = field(default_factory=list)

    def put(self, waiting: PendingColumns, beside: frozenset[str]) -> None:
        """Put a subquery to the side that it speaks of; one that speaks of none to that of what stands beside it."""
        over = waiting.over & (self.left | self.right)
        of_pairs = waiting.over & _names(self.pairs)
        if not over and not of_pairs:
            over = beside & (self.left | self.right)
            if not over <= self.right:
                over = frozenset()
        if of_pairs or (over & self.left and over & self.right):
            self.pairs.append(waiting)
        elif over & self.right:
            self.rights.append(waiting)
            self.right |= waiting.names
        else:
            self.lefts.append(waiting)
            self.left |= waiting.names

    def turned(self) -> _Sides:
        return _Sides(self.right, self.left, self.rights, self.lefts, self.pairs)


def _names(waiting: Sequence[PendingColumns]) -> frozenset[str]:
    return frozenset[str]().union(*(each.names for each in waiting))


def _with(relation: logical.Relation, waiting: Sequence[PendingColumns]) -> logical.Relation:
    for each in waiting:
        relation = each.put(relation)
    return relation


def _by_pairs(
    sides: _Sides, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression], fresh: Fresh
) -> logical.Relation:
    """Join the left side with the rows of the right one that each of its values meets."""
    spoken = frozenset[str]().union(*map(joins.references, conditions))
    spoken = spoken.union(*(each.over for each in (*sides.lefts, *sides.pairs)))
    used = [each for each in left.shape.columns if each.name in spoken]
    values = query_relation.distinct(query_relation.project(left, list(map(same, used))), NOWHERE)
    now = _with(values, sides.lefts), _with(right, sides.rights)
    late = _names(sides.pairs)
    early = [each for each in conditions if not joins.references(each) & late]
    pairs = _with(pushdown.joined(JoinKind.INNER, *now, early), sides.pairs)
    rest = [each for each in conditions if each not in early]
    pairs = query_relation.keep(pairs, Typed(joins.conjunction(rest), types.BOOLEAN))
    named = [(fresh(), each) for each in used]
    items = [(name, Typed(reference(each), each.type)) for name, each in named]
    met = query_relation.project(pairs, [*items, *map(same, right.shape.columns)])
    alike = [function_call(_SAME, (reference(each), Reference(name, each.type, each.nullable))) for name, each in named]
    return joins.with_keys(JoinKind.LEFT, left, met, (), joins.conjunction(alike))
