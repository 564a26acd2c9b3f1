"""Plan the subqueries in the expressions of one SELECT as columns that `attached` adds to its rows.

In WHERE and HAVING, subqueries may also become semi and anti joins. An ON with subqueries becomes conditions without
subqueries, over sides with the subqueries' columns.

An inner join keeps the pairs of rows for which the condition is true, like WHERE. In an outer join, the value of a
subquery is added to the side whose columns it reads. A subquery that reads both sides is computed for pairs of rows:
the distinct values of the preserved side, joined with the rows of the opposite side.
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
_Tokens = tuple[tuple[Any, str], ...] | int
_Key = tuple[str, _Tokens, tuple[logical.Expression, ...]]
"""The use of a query, its tokens, and the values that it is compared with."""


def _query_node(node: Any) -> bool:
    return isinstance(node, exp.Query)


def has_query(node: Any) -> bool:
    """Return whether an expression contains a query."""
    return node.find(exp.Query) is not None


@dataclass(frozen=True, slots=True)
class PendingColumns:
    """Columns still to add to a relation that has the columns `over`, from which they are computed."""

    names: frozenset[str]
    over: frozenset[str]
    put: Callable[[logical.Relation], logical.Relation]


@dataclass(slots=True)
class Subqueries:
    """The subqueries of expressions over one relation; `within` maps a column of its scope to the relation."""

    queries: QueryPlanner
    around: OuterQuery
    scope: Scope
    within: _Within = lambda value: value
    _waiting: list[PendingColumns] = field(default_factory=list)
    _planned: dict[_Key, Typed] = field(default_factory=dict)

    @property
    def _apply(self) -> Apply:
        return Apply(self.queries.fresh)

    def attached(self, relation: logical.Relation) -> logical.Relation:
        """Return the relation with the pending columns added."""
        for columns in self.waiting():
            relation = columns.put(relation)
        return relation

    def waiting(self) -> list[PendingColumns]:
        """Return the pending columns, which the caller then adds to relations."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def knows(self, node: Any) -> bool:
        """Return whether all queries in an expression have been planned here."""
        planned = {tokens for _, tokens, _ in self._planned}
        queries = (node for node in node.walk(prune=_query_node) if _query_node(node))
        return all(self._tokens(query) in planned for query in queries)

    def _tokens(self, node: Any) -> _Tokens:
        """Return a query's tokens; for a node that is not in the text, return a unique value."""
        return self.queries.syntax.signs(node) or id(node)

    # --- values -------------------------------------------------------------------------------------------------------

    def exists(self, node: Any, span: Span) -> Typed:
        """Return whether a query has a row."""
        return self._plan_once("EXISTS", node, (), lambda: self._exists(node, span))

    def _exists(self, node: Any, span: Span) -> Typed:
        query = self._query(node, span)
        over = query.outer.values()
        return self._add_pending(
            lambda relation, name: self._apply.exists(relation, query, name), over, types.BOOLEAN, span
        )

    def scalar(self, node: Any, span: Span) -> Typed:
        """Return the value of a query's single row."""
        return self._plan_once("", node, (), lambda: self._scalar(node, span))

    def _scalar(self, node: Any, span: Span) -> Typed:
        query = self._query(node, span)
        self._check(query, 1, span)
        type_ = query.columns[0].type
        rows = None if self._apply.sole(query) else self.queries.fresh()
        over = query.outer.values()
        pending = self._add_pending(
            lambda relation, name: self._apply.scalar(relation, query, name, rows), over, type_, span, rows
        )
        value = column(str(pending.column), type_, nullable=True, span=span)
        if rows is None:
            return value
        # a second row is an error only where the value is used
        return call(SINGLE, (column(rows, types.BIGINT, nullable=True, span=span), value), span, type_=type_)

    def member(self, values: Sequence[Typed], node: Any, span: Span) -> Typed:
        """Return whether values equal the columns of a row of the query."""
        return self._plan_once("IN", node, values, lambda: self._member(values, node, span))

    def _member(self, values: Sequence[Typed], node: Any, span: Span) -> Typed:
        query = self._query(node, span)
        self._check(query, len(values), span)
        typed = _with_column_types(values, query)
        pending = self._add_pending(
            lambda relation, name: self._apply.member(relation, query, name, typed),
            (*query.outer.values(), *typed),
            types.BOOLEAN,
            span,
        )
        return column(str(pending.column), types.BOOLEAN, nullable=True, span=span)

    def compared(self, operator: str, value: Typed, node: Any, span: Span, *, every: bool) -> Typed:
        """Return whether a comparison is true of at least one of a query's values, or of all of them."""
        if (operator, every) in (("=", False), ("<>", True)):
            membership = self.member([value], node, span)
            return negated(membership) if every else membership
        use = f"{operator} {'ALL' if every else 'ANY'}"
        return self._plan_once(use, node, [value], lambda: self._compared(operator, value, node, span, every=every))

    def _compared(self, operator: str, value: Typed, node: Any, span: Span, *, every: bool) -> Typed:
        query = self._query(node, span)
        self._check(query, 1, span)
        (typed,) = _with_column_types([value], query)
        pending = self._add_pending(
            lambda relation, name: self._apply.compared(relation, query, name, operator, typed, every=every),
            (*query.outer.values(), typed),
            types.BOOLEAN,
            span,
        )
        return column(str(pending.column), types.BOOLEAN, nullable=True, span=span)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def filter(self, relation: logical.Relation, t: Translation, node: Any, where: str) -> logical.Relation:
        """Return the rows for which a condition with subqueries is true."""
        for conjunct in conjuncts(node):
            relation = self._filter(relation, t, conjunct, where)
        return relation

    def _filter(self, relation: logical.Relation, t: Translation, node: Any, where: str) -> logical.Relation:
        span, inner = t.span(node), node.unnest()
        negative = isinstance(inner, exp.Not)
        inner = inner.this.unnest() if negative else inner
        kind = JoinKind.ANTI if negative else JoinKind.SEMI
        if isinstance(inner, exp.Exists):
            return self._apply.having(kind, relation, self._query(inner.this, span))
        membership = _membership(inner)
        if membership is not None and membership[2]:
            negative, kind = not negative, JoinKind.SEMI if negative else JoinKind.ANTI
        if membership is not None:
            values = [t.translate(operand) for operand in membership[0]]
            query = self._query(membership[1], span)
            self._check(query, len(values), span)
            typed = _with_column_types(values, query)
            never_null = not any(operand.nullable for operand in typed) and not any(
                column_.nullable for column_ in query.columns
            )
            if not negative or never_null:
                return self._apply.having(kind, self.attached(relation), query, typed)
            name = self.queries.fresh()
            tested = self._apply.member(self.attached(relation), query, name, typed)
            return query_relation.keep(tested, negated(column(name, types.BOOLEAN, nullable=True, span=span)))
        pending_before = len(self._waiting)
        value = t.boolean(node, where)
        rows = self._by_thresholds(relation, value, self._waiting[pending_before:])
        return rows if rows is not None else query_relation.keep(self.attached(relation), value)

    def _by_thresholds(
        self, relation: logical.Relation, condition: Typed, asked: Sequence[PendingColumns]
    ) -> logical.Relation | None:
        """Return the rows above or below values that are the same for all rows, None for any other condition.

        `asked` are the pending columns of the condition.
        """
        if self.around.outer is not None:
            return None
        conditions = comparisons(condition.tree)
        pending_names = frozenset[str]().union(*(pending.names for pending in self._waiting))
        constant_columns = [pending for pending in asked if not pending.over]
        remaining = [pending for pending in self._waiting if not any(pending is one for one in constant_columns)]
        constant_names = frozenset[str]().union(*(pending.names for pending in constant_columns))
        plain = [comparison for comparison in conditions if not references(comparison) & pending_names]
        limits = [
            threshold
            for threshold in (
                as_threshold(comparison, constant_names) for comparison in conditions if comparison not in plain
            )
            if threshold is not None
        ]
        if (
            not limits
            or len(limits) + len(plain) < len(conditions)
            or any(other.over & constant_names for other in remaining)
        ):
            return None
        self._waiting = remaining
        self._planned = {
            key: value for key, value in self._planned.items() if not references(value.tree) & constant_names
        }
        relation = self.attached(relation)
        if plain:
            relation = query_relation.keep(relation, Typed(joins.conjunction(plain), types.BOOLEAN))
        for limit in limits:
            one: logical.Relation = logical.ONE
            for column_ in constant_columns:
                one = column_.put(one) if column_.names & references(limit.limit) else one
            relation = pushdown.joined(JoinKind.SEMI, relation, one, [limit.condition])
        return relation

    # --- queries ------------------------------------------------------------------------------------------------------

    def _query(self, node: Any, span: Span) -> Subquery:
        outer: dict[str, Typed] = {}
        around = OuterQuery(self.around.named, Outer.recorded(self.scope, outer, self.queries.fresh, self.within))
        return Subquery(self.queries.plan(node, around), outer, span)

    def _check(self, query: Subquery, count: int, span: Span) -> None:
        actual = len(query.columns)
        if actual != count:
            message = f"the subquery has {actual} column{'s' * (actual != 1)}, expected {count}"
            hint = "Select one column." if count == 1 else "Select as many columns as there are values on the left."
            raise SinkqlError("SQ2238", message, span, hint=hint)

    def _plan_once(self, use: str, node: Any, values: Sequence[Typed], plan: Callable[[], Typed]) -> Typed:
        """Return the value of a query and its operands; equal queries are planned once."""
        key = use, self._tokens(node), tuple(value.tree for value in values)
        if key not in self._planned:
            self._planned[key] = plan()
        return self._planned[key]

    def _add_pending(
        self,
        put: Callable[[logical.Relation, str], logical.Relation],
        over: Iterable[Typed],
        type_: logical.Type,
        span: Span,
        *beside: str | None,
    ) -> Typed:
        name = self.queries.fresh()
        names = frozenset[str]().union(*(references(value.tree) for value in over))
        added = frozenset([name, *(further for further in beside if further is not None)])
        self._waiting.append(PendingColumns(added, names, lambda relation: put(relation, name)))
        return column(name, type_, nullable=False, span=span)


def _membership(node: Any) -> tuple[list[Any], Any, bool] | None:
    """Return the values and the query of IN, = ANY or <> ALL, and whether it is negated; None for other conditions."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _row_or_value(node.this), node.args["query"], False
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any) and has_query(node.expression):
        return _row_or_value(node.this), node.expression.this, False
    if isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All) and has_query(node.expression):
        return _row_or_value(node.this), node.expression.this, True
    return None


def _row_or_value(node: Any) -> list[Any]:
    return row_values(node) or [node]


def _with_column_types(values: Sequence[Typed], query: Subquery) -> list[Typed]:
    """Return values; untyped values get the types of the query's columns."""
    return [
        coerced(value, column_.type) if value.type == types.UNKNOWN else value
        for value, column_ in zip(values, query.columns, strict=True)
    ]


_SAME = "IS NOT DISTINCT FROM(any,any)"


@dataclass(frozen=True, slots=True)
class Condition:
    """The conditions of an ON: plain ones, and nodes with subqueries."""

    plain: tuple[Expression, ...]
    queries: tuple[Any, ...]


def split_on(t: Translation, on: Any) -> Condition:
    """Split an ON into conditions with and without subqueries."""
    if not has_query(on):
        return Condition((settled(t.boolean(on, "ON")),), ())
    nodes = list(conjuncts(on))
    plain = tuple(settled(t.boolean(node, "ON")) for node in nodes if not has_query(node))
    return Condition(plain, tuple(node for node in nodes if has_query(node)))


def inner(subqueries: Subqueries, t: Translation, relation: logical.Relation, nodes: Sequence[Any]) -> logical.Relation:
    """Return the pairs of rows of a join for which conditions with subqueries are true."""
    for node in nodes:
        relation = subqueries.filter(relation, t, node, "ON")
    return relation


def outer(
    subqueries: Subqueries,
    t: Translation,
    kind: JoinKind,
    left: logical.Relation,
    right: logical.Relation,
    condition: Condition,
) -> logical.Relation:
    """Plan an outer join; raise SQ2926 for a FULL JOIN on a subquery that reads columns of both sides."""
    sides = _Sides(joins.names_of(left), joins.names_of(right))
    conditions = list(condition.plain)
    for node in condition.queries:
        value = settled(t.boolean(node, "ON"))
        conditions.append(value)
        for columns in subqueries.waiting():
            sides.put(columns, joins.references(value))
            if kind is JoinKind.FULL and columns in sides.pairs:
                message = "a subquery in ON of FULL JOIN can use columns of one side only"
                hint = "Write LEFT JOIN, and add the rows of the right side that have no match by UNION ALL."
                raise SinkqlError("SQ2926", message, t.span(node), hint=hint)
    if sides.pairs:
        if kind is JoinKind.RIGHT:
            sides, left, right = sides.turned(), right, left
        return _join_by_pairs(sides, left, right, conditions, subqueries.queries.fresh)
    return joins.with_keys(
        kind, _attach(left, sides.lefts), _attach(right, sides.rights), (), joins.conjunction(conditions)
    )


@dataclass(slots=True)
class _Sides:
    """The column names of a join's sides, and the pending columns for each side or for pairs of rows."""

    left: frozenset[str]
    right: frozenset[str]
    lefts: list[PendingColumns] = field(default_factory=list)
    rights: list[PendingColumns] = field(default_factory=list)
    pairs: list[PendingColumns] = field(default_factory=list)

    def put(self, waiting: PendingColumns, beside: frozenset[str]) -> None:
        """Assign a subquery to the side whose columns it reads.

        A subquery that reads no columns goes to the side that its condition reads.
        """
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
    return frozenset[str]().union(*(columns.names for columns in waiting))


def _attach(relation: logical.Relation, waiting: Sequence[PendingColumns]) -> logical.Relation:
    for columns in waiting:
        relation = columns.put(relation)
    return relation


def _join_by_pairs(
    sides: _Sides, left: logical.Relation, right: logical.Relation, conditions: Sequence[Expression], fresh: Fresh
) -> logical.Relation:
    """Join the left side with the right rows that match its distinct values."""
    outer_names = frozenset[str]().union(*map(joins.references, conditions))
    outer_names = outer_names.union(*(columns.over for columns in (*sides.lefts, *sides.pairs)))
    used = [column_ for column_ in left.shape.columns if column_.name in outer_names]
    values = query_relation.distinct(query_relation.project(left, list(map(same, used))), NOWHERE)
    sides_ = _attach(values, sides.lefts), _attach(right, sides.rights)
    pair_columns = _names(sides.pairs)
    early = [condition for condition in conditions if not joins.references(condition) & pair_columns]
    pairs = _attach(pushdown.joined(JoinKind.INNER, *sides_, early), sides.pairs)
    rest = [condition for condition in conditions if condition not in early]
    pairs = query_relation.keep(pairs, Typed(joins.conjunction(rest), types.BOOLEAN))
    named = [(fresh(), column_) for column_ in used]
    items = [(name, Typed(reference(column_), column_.type)) for name, column_ in named]
    met = query_relation.project(pairs, [*items, *map(same, right.shape.columns)])
    alike = [
        function_call(_SAME, (reference(column_), Reference(name, column_.type, column_.nullable)))
        for name, column_ in named
    ]
    return joins.with_keys(JoinKind.LEFT, left, met, (), joins.conjunction(alike))
