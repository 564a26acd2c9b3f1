"""Plan a FROM as one relation with its scope: comma, JOIN with ON, USING, NATURAL, parentheses.

Columns of a FROM have distinct names in the relation: the first `id` is `id`, the next `o.id`, by the relation's alias.
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
from sinkql.logical.expression import as_call
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
    """The relation of one or more joined relations, with their scope."""

    relation: logical.Relation
    scope: Scope
    conditions: tuple[logical.Expression, ...] = ()
    """For a LATERAL query: further conditions on a row and a row on the left."""


@dataclass(slots=True)
class From:
    """The planning of one SELECT's FROM. Large: the parts of a FROM share the names in use and the relations so far."""

    queries: QueryPlanner
    around: OuterQuery
    used_names: set[str] = field(default_factory=set)
    """The column names in use in the relation."""
    parts: list[Part] = field(default_factory=list)
    """All relations planned up to now, including relations that a comma separates from a JOIN."""

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
        joined: Joined | None = None
        for node, more in groups:
            table_call = set_returning.table_call(node)
            if table_call is not None:
                if joined is not None:
                    self._refuse_right(more)
                joined = self._with_function_rows(joined or self._empty_row(), table_call, node, outer=False)
                for join in (*(node.args.get("joins") or ()), *more):
                    joined = self._join(joined, join)
                continue
            if joined is not None and any(_is_lateral(relation) for relation in (node, *(join.this for join in more))):
                self._refuse_right(more)
                right = self._plan_lateral(joined, node) if _is_lateral(node) else self._plan_relation(node)
                joined = self._paired(JoinKind.INNER, joined, right, ())
                for join in (*(node.args.get("joins") or ()), *more):
                    joined = self._join(joined, join)
                continue
            right = self._joined(node, more)
            joined = right if joined is None else self._paired(JoinKind.INNER, joined, right, ())
        assert joined is not None
        return joined

    def _joined(self, node: Any, more: Sequence[Any] = ()) -> Joined:
        """Return a relation with the joins inside its parentheses and then the joins that follow it."""
        joined = self._plan_relation(node)
        for join in (*(node.args.get("joins") or ()), *more):
            joined = self._join(joined, join)
        return joined

    # --- one relation ------------------------------------------------------------------------------------------------

    def _plan_relation(self, node: Any) -> Joined:
        if _is_lateral(node):
            return self._plan_lateral(self._empty_row(), node)
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
        return self._named(relation, [column.name for column in relation.shape.columns], qualifiers, self._span(node))

    def _plan_lateral(self, left: Joined, node: Any) -> Joined:
        """Return a LATERAL query, which may use the columns of all relations on its left."""
        alias, outer = node.args.get("alias"), dict[str, Typed]()
        self.queries.refuse_clauses(node.this)
        scope = Outer.recorded(left.scope, outer, self.queries.fresh, lambda value: value)
        relation = self.queries.plan(node.this, OuterQuery(self.around.named, scope))
        relation = self.queries.aliased(relation, alias)
        decorrelated = decorrelate(relation, outer, left.relation, self.queries.fresh, equal=False, always=True)
        named = alias is not None and alias.this is not None
        qualifiers = ((identifier(alias.this),),) if named else ()
        span = self._span(node)
        names = [column.name for column in relation.shape.columns]
        fresh_names = [self._free_name(name, qualifiers[0][0] if qualifiers else "subquery") for name in names]
        columns = decorrelated.relation.shape.columns
        names_below = [*fresh_names, *(column.name for column in columns[len(fresh_names) :])]
        items = [(new, _reference(column, span)) for new, column in zip(names_below, columns, strict=True)]
        projected = query_relation.project(decorrelated.relation, items)
        substitutions = {
            column.name: value_of(new) for column, new in zip(columns, projected.shape.columns, strict=True)
        }
        conditions = tuple(substitute(condition, substitutions) for condition in decorrelated.conditions)
        columns_ = tuple(Named(name, column) for name, column in zip(names, projected.shape.columns, strict=False))
        return Joined(projected, self._scope((self._part(qualifiers, columns_, span),), columns_), conditions)

    def _read(self, node: Any) -> tuple[logical.Relation, Qualifiers]:
        if _is_values(node):
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
            isinstance(node, exp.Table) and (isinstance(node.this, exp.Identifier) or _is_values(node))
        ):
            message = "this function in FROM is not supported"
            hint = f"Functions in FROM are {', '.join(sorted(HANDLERS))}."
            raise SinkqlError("SQ2928", message, self.syntax.span(node), hint=hint)

    def _in_parentheses(self, node: Any) -> Joined:
        """Return joined relations in parentheses; an alias hides their names."""
        inner, alias = node.this, node.args.get("alias")
        if isinstance(inner, exp.Table) and not inner.args.get("joins"):
            text = self.syntax.written(inner)
            hint = f"Leave out the parentheses: FROM {text}."
            raise SinkqlError("SQ2201", f"expected SELECT, found {text}", self.syntax.span(inner), hint=hint)
        count = len(self.parts)
        joined = self._joined(inner)
        if alias is None or alias.this is None:
            return joined
        del self.parts[count:]
        columns = [identifier(column) for column in alias.args.get("columns") or ()]
        if len(columns) > len(joined.scope.columns):
            message = f"{len(columns)} column names for {len(joined.scope.columns)} columns"
            raise SinkqlError("SQ2221", message, self.syntax.span(alias))
        scope_columns = joined.scope.columns
        names = [*columns, *(column.name for column in scope_columns[len(columns) :])]
        named = tuple(replace(column, name=name) for column, name in zip(scope_columns, names, strict=True))
        part = self._part(((identifier(alias.this),),), named, self.syntax.span(alias.this))
        return Joined(joined.relation, self._scope((part,), named))

    def _named(self, relation: logical.Relation, names: Sequence[str], qualifiers: Qualifiers, span: Span) -> Joined:
        """Return a relation whose columns have names that no other column of the FROM has."""
        alias = qualifiers[0][-1] if qualifiers else "subquery"
        fresh_names = [self._free_name(name, alias) for name in names]
        columns = relation.shape.columns
        items = [(new, _reference(column, span)) for new, column in zip(fresh_names, columns, strict=True)]
        relation = query_relation.project(relation, items)
        named = tuple(Named(name, column) for name, column in zip(names, relation.shape.columns, strict=True))
        return Joined(relation, self._scope((self._part(qualifiers, named, span),), named))

    def _free_name(self, name: str, alias: str) -> str:
        wanted, number = name, 1
        while wanted in self.used_names:
            wanted = f"{alias}.{name}" if number == 1 else f"{alias}.{name}.{number}"
            number += 1
        self.used_names.add(wanted)
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

    def _span(self, node: Any) -> Span:
        alias = node.args.get("alias")
        return self.syntax.span(alias if alias is not None and alias.this is not None else node)

    def _scope(self, parts: tuple[Part, ...], columns: tuple[Named, ...]) -> Scope:
        return Scope(parts, columns, self.queries.once, self.around.outer)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _empty_row(self) -> Joined:
        return Joined(logical.ONE, self._scope((), ()))

    def _with_function_rows(
        self, left: Joined, table_call: set_returning.TableCall, node: Any, *, outer: bool
    ) -> Joined:
        """Return each row of the left side combined with the rows of a function."""
        span, names = self._span(node), table_call.named()
        if len(table_call.columns) > table_call.width:
            message = f"{len(table_call.columns)} column names for {table_call.width} columns"
            raise SinkqlError("SQ2221", message, span)
        fresh_names = [self._free_name(name, table_call.relation) for name in names]
        relation = set_returning.flattened(
            self.syntax, left.relation, left.scope, table_call, fresh_names, span=self.syntax.span(node), outer=outer
        )
        columns = {column.name: column for column in relation.shape.columns}
        named = tuple(Named(name, columns[new]) for name, new in zip(names, fresh_names, strict=True))
        part = self._part(((table_call.relation,),), named, span, scalar=table_call.scalar)
        return Joined(relation, self._scope((*left.scope.parts, part), (*left.scope.columns, *named)))

    def _join_function(self, left: Joined, table_call: set_returning.TableCall, join: Any) -> Joined:
        self._refuse_right([join])
        on, outer = join.args.get("on"), join.args.get("side") == "LEFT"
        always = on is None or (isinstance(on, exp.Boolean) and on.this)
        if join.args.get("using") or join.args.get("method") or (outer and not always):
            message = "a function in FROM can be joined ON TRUE only"
            raise SinkqlError("SQ2928", message, self.syntax.span(join), hint="Put it into a subquery in FROM.")
        joined = self._with_function_rows(left, table_call, join.this, outer=outer)
        for inner in join.this.args.get("joins") or ():
            joined = self._join(joined, inner)
        if always:
            return joined
        t, subqueries = self._conditions(joined.scope)
        condition = on_.split_on(t, on)
        relation = joined.relation
        if condition.plain:
            relation = query_relation.keep(relation, Typed(joins.conjunction(condition.plain), types.BOOLEAN))
        return replace(joined, relation=on_.inner(subqueries, t, relation, condition.queries))

    def _refuse_right(self, more: Sequence[Any]) -> None:
        """Raise SQ2928 for a RIGHT or FULL JOIN of a function or LATERAL query, whose rows depend on the left side."""
        for join in more:
            if join.args.get("side") in ("RIGHT", "FULL"):
                message = f"{join.args['side']} JOIN of LATERAL or a function in FROM is not supported"
                hint = "Write LEFT JOIN, or put it into a subquery in FROM that uses nothing on its left."
                raise SinkqlError("SQ2928", message, self.syntax.span(join), hint=hint)

    # --- joins -------------------------------------------------------------------------------------------------------

    def _join(self, left: Joined, join: Any) -> Joined:
        table_call = set_returning.table_call(join.this)
        if table_call is not None:
            return self._join_function(left, table_call, join)
        if _is_lateral(join.this):
            self._refuse_right([join])
            right = self._plan_lateral(left, join.this)
        else:
            right = self._joined(join.this)
        kind = JoinKind(str(join.args.get("side") or "inner").lower())
        names = [(identifier(name), self.syntax.span(name)) for name in join.args.get("using") or ()]
        if join.args.get("method"):
            names = self._common(left, right, join)
        if names:
            return self._using(kind, left, right, names)
        on = join.args.get("on")
        if on is None:
            return self._paired(kind, left, right, ())
        scope = self._scope((*left.scope.parts, *right.scope.parts), (*left.scope.columns, *right.scope.columns))
        self._refuse_other_items(on, scope)
        t, subqueries = self._conditions(scope)
        condition = on_.split_on(t, on)
        if condition.queries and kind is not JoinKind.INNER:
            condition = replace(condition, plain=(*right.conditions, *condition.plain))
            return self._as_joined(
                left, right, on_.outer(subqueries, t, kind, left.relation, right.relation, condition)
            )
        joined = self._paired(kind, left, right, condition.plain)
        return replace(joined, relation=on_.inner(subqueries, t, joined.relation, condition.queries))

    def _conditions(self, scope: Scope) -> tuple[Translator, Subqueries]:
        """Return the translator of a join's conditions, and the planner of their subqueries."""
        subqueries = Subqueries(self.queries, self.around, scope)
        return Translator(self.syntax, RowContext(scope, "JOIN conditions", subqueries=subqueries)), subqueries

    def _paired(self, kind: JoinKind, left: Joined, right: Joined, conditions: Sequence[logical.Expression]) -> Joined:
        all_conditions = [*right.conditions, *conditions]
        residual = joins.conjunction(all_conditions) if all_conditions else None
        return self._as_joined(left, right, joins.with_keys(kind, left.relation, right.relation, (), residual))

    def _as_joined(self, left: Joined, right: Joined, relation: logical.Relation) -> Joined:
        parts = _parts_above((*left.scope.parts, *right.scope.parts), relation)
        columns = _columns_above((*left.scope.columns, *right.scope.columns), relation)
        return Joined(relation, self._scope(parts, columns))

    def _refuse_other_items(self, on: Any, scope: Scope) -> None:
        """Raise SQ2202 if a condition uses a relation that a comma separates from the JOIN."""
        for column in on.walk(prune=lambda node: isinstance(node, exp.Query)):
            if not isinstance(column, exp.Column):
                continue
            names = qualifier(column)
            if not names or any(part.covers(names) for part in scope.parts):
                continue
            if any(part.covers(names) for part in self.parts):
                shown = qualified_name(*names)
                message = f'relation "{shown}" is not part of this JOIN'
                hint = "JOIN binds more closely than a comma: write CROSS JOIN instead of the comma."
                raise MissingError("SQ2202", message, self.syntax.span(column), name=names[-1], hint=hint)

    def _common(self, left: Joined, right: Joined, join: Any) -> list[tuple[str, Span]]:
        """Return the columns that NATURAL joins on."""
        span = self.syntax.span(join)
        keyword_span = Span(span.start, span.start + len("NATURAL"))
        others = {column.name for column in right.scope.columns}
        common = dict.fromkeys(column.name for column in left.scope.columns if column.name in others)
        if not common:
            hint = "Write the condition after ON, or CROSS JOIN for all pairs of rows."
            raise SinkqlError(
                "SQ2228", "NATURAL JOIN of relations that have no column in common", keyword_span, hint=hint
            )
        return [(name, keyword_span) for name in common]

    def _using(self, kind: JoinKind, left: Joined, right: Joined, names: Sequence[tuple[str, Span]]) -> Joined:
        pairs = [(self._side(left, name, "left", span), self._side(right, name, "right", span)) for name, span in names]
        spans = [span for _, span in names]
        conditions = [
            settled(operators.compare("=", one.at(span), other.at(span), span))
            for (one, other), span in zip(pairs, spans, strict=True)
        ]
        joined = self._paired(kind, left, right, conditions)
        merged_names = {named.column.name for pair in pairs for named in pair}
        items: list[tuple[str, Typed]] = []
        merged: list[tuple[str, str]] = []
        for pair, span in zip(pairs, spans, strict=True):
            sides = _columns_above(pair, joined.relation)
            value = _merge_using(kind, sides[0].at(span), sides[1].at(span), span)
            if kind is JoinKind.FULL and not any(named.column.nullable for named in pair):
                value = Typed(_not_null(value.tree), value.type)
            new_name = value.column or self._free_name(pair[0].name, "using")
            if value.column is None:
                items.append((new_name, value))
            merged.append((pair[0].name, new_name))
        relation = joined.relation
        if items:
            columns_ = [(column.name, _reference(column, spans[0])) for column in relation.shape.columns]
            relation = query_relation.project(relation, [*columns_, *items])
        if kind is JoinKind.FULL:
            relation = _with_key(relation, left, right, pairs, [new_name for _, new_name in merged])
        columns = {column.name: column for column in relation.shape.columns}
        first = tuple(Named(name, columns[new_name]) for name, new_name in merged)
        rest = tuple(column for column in joined.scope.columns if column.column.name not in merged_names)
        return Joined(relation, self._scope(joined.scope.parts, (*first, *rest)))

    def _side(self, side: Joined, name: str, word: str, span: Span) -> Named:
        matches = [column for column in side.scope.columns if column.name == name]
        if len(matches) > 1:
            message = f'column "{name}" appears more than once in the {word} relation of the join'
            raise SinkqlError("SQ2205", message, span, hint="Write the condition after ON.")
        if not matches:
            column_names = [column.name for column in side.scope.columns]
            close = nearest(name, column_names)
            names = f"Its columns are {', '.join(map(shown_name, column_names))}; write ON for different names."
            hint = f"Did you mean {shown_name(close)}?" if close else names
            message = f'column "{name}" does not exist in the {word} relation of the join'
            raise MissingColumnError("SQ2204", message, span, hint=hint)
        return matches[0]


def _is_lateral(node: Any) -> bool:
    """Return whether a relation is a LATERAL query."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery)


def _is_values(node: Any) -> bool:
    """Return whether a relation is VALUES at the start of joins in parentheses, which sqlglot parses as a table."""
    return isinstance(node, exp.Table) and isinstance(node.this, exp.Values)


def _reference(column: logical.Column, span: Span) -> Typed:
    return Named(column.name, column).at(span)


def _columns_above(columns: Sequence[Named], relation: logical.Relation) -> tuple[Named, ...]:
    """Return columns with their nullability above a join."""
    by_name = {column.name: column for column in relation.shape.columns}
    return tuple(replace(column, column=by_name[column.column.name]) for column in columns)


def _parts_above(parts: Sequence[Part], relation: logical.Relation) -> tuple[Part, ...]:
    return tuple(replace(part, columns=_columns_above(part.columns, relation)) for part in parts)


def _merge_using(kind: JoinKind, left: Typed, right: Typed, span: Span) -> Typed:
    """Return the value of a USING column above the join: for FULL, the value of the side that has a row."""
    type_ = types.common((left.type, right.type)) or left.type
    one, other = (side if side.type == type_ else coerced(side, type_) for side in (left, right))
    if kind is JoinKind.FULL:
        return call("coalesce(any…)", (one, other), span, type_=type_)
    return other if kind is JoinKind.RIGHT else one


def _not_null(expression: logical.Expression) -> logical.Expression:
    """Return the merged value as not nullable: one side always has a row."""
    return msgspec.structs.replace(as_call(expression), nullable=False)


def _with_key(
    relation: logical.Relation, left: Joined, right: Joined, pairs: Sequence[tuple[Named, Named]], merged: Sequence[str]
) -> logical.Relation:
    """Return a FULL JOIN with its USING columns as a key, if they are a key of both sides."""
    left_columns, right_columns = ([pair[side].column for pair in pairs] for side in (0, 1))
    both = unique(left.relation.shape, [column.name for column in left_columns]) and unique(
        right.relation.shape, [column.name for column in right_columns]
    )
    never = any(all(not column.nullable for column in side) for side in (left_columns, right_columns))
    if not both or not never or relation.shape.change is Change.UPSERT:
        return relation
    shape = replace(relation.shape, keys=(frozenset(merged), *relation.shape.keys))
    return replace(relation, shape=shape)
