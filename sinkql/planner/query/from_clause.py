"""A FROM → one relation, and what names mean above it: comma, JOIN with ON, USING, NATURAL, parentheses.

Columns of a FROM have unlike names below it: the first that is called `id` is `id`, the next `o.id`, by the relation's
alias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from sqlglot import exp

from sinkql import logical
from sinkql.errors import MissingColumnError, MissingError, SinkqlError, Span, nearest
from sinkql.keywords import qualified_name
from sinkql.logical import Change, JoinKind
from sinkql.logical.expression import Call
from sinkql.logical.type import shown_name
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, call, settled
from sinkql.planner.function.set_returning import HANDLERS
from sinkql.planner.query import join as joins
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query import set_returning
from sinkql.planner.query.keys import unique
from sinkql.planner.query.query_context import OuterQuery, Qualifiers, QueryPlanner
from sinkql.planner.query.scope import Named, Outer, Part, RowContext, Scope, identifier, qualifier
from sinkql.planner.query.set_operation import plan_values
from sinkql.planner.query.subquery import subquery as on_
from sinkql.planner.query.subquery.decorrelate import decorrelate, substitute
from sinkql.planner.query.subquery.decorrelate import reference as value_of
from sinkql.planner.query.subquery.subquery import Subqueries
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import Syntax


@dataclass(frozen=True, slots=True)
class Joined:
    """Relations that are joined so far, as one, with their names."""

    relation: logical.Relation
    scope: Scope
    conditions: tuple[logical.Expression, ...] = ()
    """What else must be true of a row and one on the left of it, of a LATERAL query."""


@dataclass(slots=True)
class From:
    """Plan the FROM of one SELECT."""

    queries: QueryPlanner
    around: OuterQuery
    taken: set[str] = field(default_factory=set)
    """The names that columns have below."""
    parts: list[Part] = field(default_factory=list)
    """All relations so far, also those that a comma keeps out of a JOIN."""

    @property
    def syntax(self) -> Syntax:
        return self.queries.syntax

    def plan(self, select: Any) -> Joined:
        """Return the relation of a FROM, and the scope of the clauses above it."""
        groups: list[tuple[Any, list[Any]]] = [(select.args["from_"].this, [])]
        for join in select.args.get("joins") or ():
            if self.syntax.written(join).startswith(","):
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        found: Joined | None = None
        for node, more in groups:
            called = set_returning.table_call(node)
            if called is not None:
                if found is not None:
                    self._refuse_right(more)
                found = self._flattened(found or self._nothing(), called, node, outer=False)
                for join in (*(node.args.get("joins") or ()), *more):
                    found = self._join(found, join)
                continue
            if found is not None and any(_lateral(each) for each in (node, *(join.this for join in more))):
                self._refuse_right(more)
                one = self._beside(found, node) if _lateral(node) else self._one(node)
                found = self._paired(JoinKind.INNER, found, one, ())
                for join in (*(node.args.get("joins") or ()), *more):
                    found = self._join(found, join)
                continue
            one = self._joined(node, more)
            found = one if found is None else self._paired(JoinKind.INNER, found, one, ())
        assert found is not None
        return found

    def _joined(self, node: Any, more: Sequence[Any] = ()) -> Joined:
        """Return a relation with the joins that follow it, first those within its own place in the text."""
        found = self._one(node)
        for join in (*(node.args.get("joins") or ()), *more):
            found = self._join(found, join)
        return found

    # --- one relation ------------------------------------------------------------------------------------------------

    def _one(self, node: Any) -> Joined:
        if _lateral(node):
            return self._beside(self._nothing(), node)
        alias = node.args.get("alias")
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query | exp.Values):
            return self._in_parentheses(node)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Subquery):
            return self._in_parentheses(node)
        self._refuse_function(node)
        self.queries.refuse_clauses(node)
        relation, qualifiers = self._read(node)
        relation = self.queries.aliased(relation, alias)
        if alias is not None and alias.this is not None:
            qualifiers = ((identifier(alias.this),),)
        return self._named(relation, [each.name for each in relation.shape.columns], qualifiers, self._place(node))

    def _beside(self, left: Joined, node: Any) -> Joined:
        """Return a LATERAL query, which may speak of the columns of all relations on the left."""
        alias, outer = node.args.get("alias"), dict[str, Typed]()
        self.queries.refuse_clauses(node.this)
        scope = Outer.recorded(left.scope, outer, self.queries.fresh, lambda value: value)
        relation = self.queries.plan(node.this, OuterQuery(self.around.named, scope))
        relation = self.queries.aliased(relation, alias)
        found = decorrelate(relation, outer, left.relation, self.queries.fresh, equal=False, always=True)
        named = alias is not None and alias.this is not None
        qualifiers = ((identifier(alias.this),),) if named else ()
        span = self._place(node)
        names = [each.name for each in relation.shape.columns]
        own = [self._free(name, qualifiers[0][0] if qualifiers else "subquery") for name in names]
        columns = found.relation.shape.columns
        names_below = [*own, *(each.name for each in columns[len(own) :])]
        items = [(new, _reference(each, span)) for new, each in zip(names_below, columns, strict=True)]
        now = query_relation.project(found.relation, items)
        by = {each.name: value_of(new) for each, new in zip(columns, now.shape.columns, strict=True)}
        conditions = tuple(substitute(each, by) for each in found.conditions)
        known = tuple(Named(name, each) for name, each in zip(names, now.shape.columns, strict=False))
        return Joined(now, self._scope((self._part(qualifiers, known, span),), known), conditions)

    def _read(self, node: Any) -> tuple[logical.Relation, Qualifiers]:
        if _values(node):
            return plan_values(self.queries, self.around, node.this), ()
        if isinstance(node, exp.Table):
            return self.queries.table(node, self.around)
        if isinstance(node, exp.Values):
            return plan_values(self.queries, self.around, node), ()
        try:
            return self.queries.plan(node, self.around), ()
        except MissingError as error:
            if any(part.qualifiers and part.qualifiers[0][-1] == error.name for part in self.parts):
                error.hint = f"Write LATERAL before the subquery to use columns of {shown_name(error.name)} in it."
            raise

    def _refuse_function(self, node: Any) -> None:
        if not isinstance(node, exp.Subquery | exp.Values) and not (
            isinstance(node, exp.Table) and (isinstance(node.this, exp.Identifier) or _values(node))
        ):
            message = "this function in FROM is not supported"
            hint = f"Functions in FROM are {', '.join(sorted(HANDLERS))}."
            raise SinkqlError("SQ2928", message, self.syntax.span(node), hint=hint)

    def _in_parentheses(self, node: Any) -> Joined:
        """Return joined relations that stand in parentheses; an alias hides their own names."""
        inner, alias = node.this, node.args.get("alias")
        if isinstance(inner, exp.Table) and not inner.args.get("joins"):
            found = self.syntax.written(inner)
            hint = f"Leave out the parentheses: FROM {found}."
            raise SinkqlError("SQ2201", f"expected SELECT, found {found}", self.syntax.span(inner), hint=hint)
        before = len(self.parts)
        joined = self._joined(inner)
        if alias is None or alias.this is None:
            return joined
        del self.parts[before:]
        columns = [identifier(each) for each in alias.args.get("columns") or ()]
        if len(columns) > len(joined.scope.columns):
            message = f"{len(columns)} column names for {len(joined.scope.columns)} columns"
            raise SinkqlError("SQ2221", message, self.syntax.span(alias))
        known = joined.scope.columns
        named = tuple(
            replace(each, name=name)
            for each, name in zip(known, [*columns, *(each.name for each in known[len(columns) :])], strict=True)
        )
        part = self._part(((identifier(alias.this),),), named, self.syntax.span(alias.this))
        return Joined(joined.relation, self._scope((part,), named))

    def _named(self, relation: logical.Relation, names: Sequence[str], qualifiers: Qualifiers, span: Span) -> Joined:
        """Return a relation whose columns have names below that no other column of the FROM has."""
        alias = qualifiers[0][-1] if qualifiers else "subquery"
        own = [self._free(name, alias) for name in names]
        columns = relation.shape.columns
        items = [(new, _reference(each, span)) for new, each in zip(own, columns, strict=True)]
        relation = query_relation.project(relation, items)
        named = tuple(Named(name, column) for name, column in zip(names, relation.shape.columns, strict=True))
        return Joined(relation, self._scope((self._part(qualifiers, named, span),), named))

    def _free(self, name: str, alias: str) -> str:
        wanted, number = name, 1
        while wanted in self.taken:
            wanted = f"{alias}.{name}" if number == 1 else f"{alias}.{name}.{number}"
            number += 1
        self.taken.add(wanted)
        return wanted

    def _part(self, qualifiers: Qualifiers, columns: tuple[Named, ...], span: Span, *, scalar: bool = False) -> Part:
        for part in self.parts:
            for one, other in zip(part.qualifiers[:1], qualifiers[:1], strict=False):
                if one[-1] == other[-1] and (one == other or 1 in (len(one), len(other))):
                    shown = shown_name(other[-1])
                    message = f'relation name "{other[-1]}" is specified more than once in FROM'
                    raise SinkqlError("SQ2227", message, span, hint=f"Give one of them another name: … AS {shown}_2.")
        part = Part(qualifiers, columns, scalar)
        self.parts.append(part)
        return part

    def _place(self, node: Any) -> Span:
        alias = node.args.get("alias")
        return self.syntax.span(alias if alias is not None and alias.this is not None else node)

    def _scope(self, parts: tuple[Part, ...], columns: tuple[Named, ...]) -> Scope:
        return Scope(parts, columns, self.queries.once, self.around.outer)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _nothing(self) -> Joined:
        return Joined(logical.ONE, self._scope((), ()))

    def _flattened(self, left: Joined, called: set_returning.TableCall, node: Any, *, outer: bool) -> Joined:
        """Return each row so far with the rows of a function."""
        span, names = self._place(node), called.named()
        if len(called.columns) > called.width:
            message = f"{len(called.columns)} column names for {called.width} columns"
            raise SinkqlError("SQ2221", message, span)
        own = [self._free(name, called.relation) for name in names]
        relation = set_returning.flattened(
            self.syntax, left.relation, left.scope, called, own, span=self.syntax.span(node), outer=outer
        )
        columns = {each.name: each for each in relation.shape.columns}
        named = tuple(Named(name, columns[new]) for name, new in zip(names, own, strict=True))
        part = self._part(((called.relation,),), named, span, scalar=called.scalar)
        return Joined(relation, self._scope((*left.scope.parts, part), (*left.scope.columns, *named)))

    def _with_rows(self, left: Joined, called: set_returning.TableCall, join: Any) -> Joined:
        self._refuse_right([join])
        on, outer = join.args.get("on"), join.args.get("side") == "LEFT"
        always = on is None or (isinstance(on, exp.Boolean) and on.this)
        if join.args.get("using") or join.args.get("method") or (outer and not always):
            message = "a function in FROM can be joined ON TRUE only"
            raise SinkqlError("SQ2928", message, self.syntax.span(join), hint="Put it into a subquery in FROM.")
        found = self._flattened(left, called, join.this, outer=outer)
        for each in join.this.args.get("joins") or ():
            found = self._join(found, each)
        if always:
            return found
        t, subqueries = self._conditions(found.scope)
        condition = on_.split_on(t, on)
        relation = found.relation
        if condition.plain:
            relation = query_relation.keep(relation, Typed(joins.conjunction(condition.plain), types.BOOLEAN))
        return replace(found, relation=on_.inner(subqueries, t, relation, condition.queries))

    def _refuse_right(self, more: Sequence[Any]) -> None:
        """Refuse joins that keep rows of their right side beside rows that a function makes of those on the left."""
        for join in more:
            if join.args.get("side") in ("RIGHT", "FULL"):
                message = f"{join.args['side']} JOIN of LATERAL or a function in FROM is not supported"
                hint = "Write LEFT JOIN, or put it into a subquery in FROM that uses nothing on its left."
                raise SinkqlError("SQ2928", message, self.syntax.span(join), hint=hint)

    # --- joins -------------------------------------------------------------------------------------------------------

    def _join(self, left: Joined, join: Any) -> Joined:
        called = set_returning.table_call(join.this)
        if called is not None:
            return self._with_rows(left, called, join)
        if _lateral(join.this):
            self._refuse_right([join])
            right = self._beside(left, join.this)
        else:
            right = self._joined(join.this)
        kind = JoinKind(str(join.args.get("side") or "inner").lower())
        names = [(identifier(each), self.syntax.span(each)) for each in join.args.get("using") or ()]
        if join.args.get("method"):
            names = self._common(left, right, join)
        if names:
            return self._using(kind, left, right, names)
        on = join.args.get("on")
        if on is None:
            return self._paired(kind, left, right, ())
        scope = self._scope((*left.scope.parts, *right.scope.parts), (*left.scope.columns, *right.scope.columns))
        self._refuse_beyond_comma(on, scope)
        t, subqueries = self._conditions(scope)
        condition = on_.split_on(t, on)
        if condition.queries and kind is not JoinKind.INNER:
            condition = replace(condition, plain=(*right.conditions, *condition.plain))
            return self._as_joined(
                left, right, on_.outer(subqueries, t, kind, left.relation, right.relation, condition)
            )
        found = self._paired(kind, left, right, condition.plain)
        return replace(found, relation=on_.inner(subqueries, t, found.relation, condition.queries))

    def _conditions(self, scope: Scope) -> tuple[Translator, Subqueries]:
        """Return what translates the conditions of a join, and what plans their subqueries."""
        subqueries = Subqueries(self.queries, self.around, scope)
        return Translator(self.syntax, RowContext(scope, "JOIN conditions", subqueries=subqueries)), subqueries

    def _paired(self, kind: JoinKind, left: Joined, right: Joined, conditions: Sequence[logical.Expression]) -> Joined:
        every = [*right.conditions, *conditions]
        residual = joins.conjunction(every) if every else None
        return self._as_joined(left, right, joins.with_keys(kind, left.relation, right.relation, (), residual))

    def _as_joined(self, left: Joined, right: Joined, relation: logical.Relation) -> Joined:
        parts = _known_to((*left.scope.parts, *right.scope.parts), relation)
        columns = _as_now((*left.scope.columns, *right.scope.columns), relation)
        return Joined(relation, self._scope(parts, columns))

    def _refuse_beyond_comma(self, on: Any, scope: Scope) -> None:
        """Refuse a condition on a relation that a comma keeps out of the JOIN."""
        for column in on.walk(prune=lambda each: isinstance(each, exp.Query)):
            if not isinstance(column, exp.Column):
                continue
            before = qualifier(column)
            if not before or any(part.covers(before) for part in scope.parts):
                continue
            if any(part.covers(before) for part in self.parts):
                shown = qualified_name(*before)
                message = f'relation "{shown}" is not part of this JOIN'
                hint = "JOIN binds more closely than a comma: write CROSS JOIN instead of the comma."
                raise MissingError("SQ2202", message, self.syntax.span(column), name=before[-1], hint=hint)

    def _common(self, left: Joined, right: Joined, join: Any) -> list[tuple[str, Span]]:
        """Return the columns that NATURAL joins on."""
        span = self.syntax.span(join)
        place = Span(span.start, span.start + len("NATURAL"))
        others = {each.name for each in right.scope.columns}
        found = dict.fromkeys(each.name for each in left.scope.columns if each.name in others)
        if not found:
            hint = "Write the condition after ON, or CROSS JOIN for all pairs of rows."
            raise SinkqlError("SQ2228", "NATURAL JOIN of relations that have no column in common", place, hint=hint)
        return [(name, place) for name in found]

    def _using(self, kind: JoinKind, left: Joined, right: Joined, names: Sequence[tuple[str, Span]]) -> Joined:
        pairs = [(self._side(left, name, "left", span), self._side(right, name, "right", span)) for name, span in names]
        spans = [span for _, span in names]
        conditions = [
            settled(operators.compare("=", one.at(span), other.at(span), span))
            for (one, other), span in zip(pairs, spans, strict=True)
        ]
        found = self._paired(kind, left, right, conditions)
        gone = {each.column.name for pair in pairs for each in pair}
        items: list[tuple[str, Typed]] = []
        merged: list[tuple[str, str]] = []
        for pair, span in zip(pairs, spans, strict=True):
            now = _as_now(pair, found.relation)
            value = _merged(kind, now[0].at(span), now[1].at(span), span)
            if kind is JoinKind.FULL and not any(each.column.nullable for each in pair):
                value = Typed(_filled(value.tree), value.type)
            own = value.column or self._free(pair[0].name, "using")
            if value.column is None:
                items.append((own, value))
            merged.append((pair[0].name, own))
        relation = found.relation
        if items:
            same = [(each.name, _reference(each, spans[0])) for each in relation.shape.columns]
            relation = query_relation.project(relation, [*same, *items])
        if kind is JoinKind.FULL:
            relation = _keyed(relation, left, right, pairs, [own for _, own in merged])
        columns = {each.name: each for each in relation.shape.columns}
        first = tuple(Named(name, columns[own]) for name, own in merged)
        rest = tuple(each for each in found.scope.columns if each.column.name not in gone)
        return Joined(relation, self._scope(found.scope.parts, (*first, *rest)))

    def _side(self, side: Joined, name: str, word: str, span: Span) -> Named:
        found = [each for each in side.scope.columns if each.name == name]
        if len(found) > 1:
            message = f'column "{name}" is more than once in the {word} relation of the join'
            raise SinkqlError("SQ2205", message, span, hint="Write the condition after ON.")
        if not found:
            known = [each.name for each in side.scope.columns]
            close = nearest(name, known)
            names = f"Its columns are {', '.join(map(shown_name, known))}; write ON for unlike names."
            hint = f"Did you mean {shown_name(close)}?" if close else names
            message = f'column "{name}" does not exist in the {word} relation of the join'
            raise MissingColumnError("SQ2204", message, span, hint=hint)
        return found[0]


def _lateral(node: Any) -> bool:
    """Tell whether a relation is a LATERAL query."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery)


def _values(node: Any) -> bool:
    """Tell whether a relation is VALUES that begins joins in parentheses: sqlglot has it in a table."""
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Values)


def _reference(column: logical.Column, span: Span) -> Typed:
    return Named(column.name, column).at(span)


def _as_now(columns: Sequence[Named], relation: logical.Relation) -> tuple[Named, ...]:
    """Return columns as they are above a join, where they may be nullable."""
    known = {each.name: each for each in relation.shape.columns}
    return tuple(replace(each, column=known[each.column.name]) for each in columns)


def _known_to(parts: Sequence[Part], relation: logical.Relation) -> tuple[Part, ...]:
    return tuple(replace(part, columns=_as_now(part.columns, relation)) for part in parts)


def _merged(kind: JoinKind, left: Typed, right: Typed, span: Span) -> Typed:
    """Return what a column of USING is above the join: of FULL the one of the side that has a row."""
    type_ = types.common((left.type, right.type)) or left.type
    one, other = (each if each.type == type_ else coerced(each, type_) for each in (left, right))
    if kind is JoinKind.FULL:
        return call("coalesce(any…)", (one, other), span, type_=type_)
    return other if kind is JoinKind.RIGHT else one


def _filled(expression: logical.Expression) -> logical.Expression:
    """Return what one side always has, a row of which there is, as never NULL."""
    assert isinstance(expression, Call)
    return msgspec.structs.replace(expression, nullable=False)


def _keyed(
    relation: logical.Relation, left: Joined, right: Joined, pairs: Sequence[tuple[Named, Named]], merged: Sequence[str]
) -> logical.Relation:
    """Return a FULL JOIN, of sides that are both unique by the columns of USING, as unique by them."""
    lefts, rights = ([pair[side].column for pair in pairs] for side in (0, 1))
    both = unique(left.relation.shape, [each.name for each in lefts]) and unique(
        right.relation.shape, [each.name for each in rights]
    )
    never = any(all(not each.nullable for each in side) for side in (lefts, rights))
    if not both or not never or relation.shape.change is Change.UPSERT:
        return relation
    shape = replace(relation.shape, keys=(frozenset(merged), *relation.shape.keys))
    return replace(relation, shape=shape)
