"""Plan one SELECT over a relation: filter, aggregate and projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import MissingError, SinkqlError, Span
from sinkql.keywords import qualified_name
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced, held
from sinkql.planner.expression.typed_expression import Typed, column, joined, narrowed
from sinkql.planner.function import call as functions
from sinkql.planner.query import pushdown, set_returning, temporal_filter, window
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.aggregate import grouping_sets
from sinkql.planner.query.aggregate.aggregate import Calls, GroupContext
from sinkql.planner.query.distinct_on import DistinctOn
from sinkql.planner.query.join import references
from sinkql.planner.query.order_by import select_list_position
from sinkql.planner.query.query_context import QueryPlanner
from sinkql.planner.query.scope import Groups, Named, RowContext, Scope, identifier, qualifier
from sinkql.planner.query.subquery.subquery import Subqueries, has_query
from sinkql.planner.query.translate import Translator
from sinkql.planner.query.window import Qualified, Windows
from sinkql.planner.syntax.sqlglot_tree import Syntax

_TYPE_NAMES = {
    "boolean": "bool", "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4",
    "double precision": "float8",
}  # fmt: skip
_NODE_NAMES: dict[type, str] = {
    exp.Extract: "extract", exp.Substring: "substring", exp.StrPosition: "position", exp.Overlay: "overlay",
    exp.AtTimeZone: "timezone", exp.Interval: "interval", exp.Array: "array", exp.Exists: "exists", exp.Tuple: "row",
}  # fmt: skip
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}

SAME = "?same"
"""A suffix that, with a number, keeps equal column names of a one-shot query apart."""


@dataclass(frozen=True, slots=True)
class _SelectItem:
    """One item of the select list: its name, and its node or, from a star, the input's column."""

    name: str
    node: Any
    column: Named | None = None


Hidden = Callable[[tuple[str, ...]], list[tuple[str, Any]]]
"""Map the names of the select list to the names and nodes of the hidden columns behind it."""


def plan_select(
    subqueries: Subqueries, select: Any, relation: logical.Relation, hidden: Hidden | None = None
) -> logical.Relation:
    """Plan a SELECT whose FROM is already a relation, in the scope of its subqueries."""
    syntax, scope = subqueries.queries.syntax, subqueries.scope
    rows = Translator(syntax, RowContext(scope, "WHERE", subqueries=subqueries))
    where = select.args.get("where")
    condition = _condition(rows, where, "WHERE")
    relation = (
        pushdown.order_joins(relation) if condition.plain is None else pushdown.filter_rows(relation, condition.plain)
    )
    relation = temporal_filter.temporal_filter(relation, condition.times)
    relation = _filter_by_subqueries(subqueries, relation, rows, where, "WHERE")
    items = _expand(subqueries.queries, select, scope)
    shown_items = items
    if hidden is not None:
        items = [
            *shown_items,
            *(_SelectItem(name, node) for name, node in hidden(tuple(item.name for item in shown_items))),
        ]
    distinct_on = DistinctOn.of(syntax, select)
    distinct_items = (
        [_hidden_item(syntax, *term, shown_items) for term in distinct_on.columns] if distinct_on is not None else []
    )
    all_items = [*items, *distinct_items]
    plan = _plan_groups if _grouped(select, all_items) else _plan_rows
    relation = plan(subqueries, select, relation, all_items)
    if distinct_on is not None:
        return distinct_on.plan(relation, len(items))
    if select.args.get("distinct") is None:
        return relation
    return query_relation.distinct(relation, syntax.span(select))


def _plan_rows(
    subqueries: Subqueries, select: Any, relation: logical.Relation, select_items: Sequence[_SelectItem]
) -> logical.Relation:
    syntax, scope = subqueries.queries.syntax, subqueries.scope
    scaled = subqueries.queries.scaled
    windows = Windows(syntax, select, {column_.name for column_ in relation.shape.columns}, scaled)
    context = set_returning.SelectContext(syntax, scope)
    context.windows, context.subqueries = windows, subqueries
    plain = Translator(syntax, context)
    items = []
    for item in select_items:
        windows.wanted = item.name if isinstance(item.node, exp.Window) else None
        items.append(_item(plain, item, scaled=scaled))
    windows.wanted = None
    selected = {
        name: value
        for name, value in items
        if not any(reference.startswith("$set") for reference in references(value.tree))
    }
    qualified = Qualified(syntax, RowContext(scope, "QUALIFY", windows, subqueries), scope, selected)
    condition = window.condition(select, qualified)
    relation = window.filter_windows(windows.above(subqueries.attached(relation)), condition)
    return query_relation.project(context.flattened(relation, syntax.span(select)), items)


def _hidden_item(syntax: Syntax, name: str, node: Any, clause: str, shown: Sequence[_SelectItem]) -> _SelectItem:
    """Return a column under another name: a term of a clause, which may stand for an item of the select list."""
    place = select_list_position(syntax, node, clause, len(shown))
    if place is not None:
        return replace(shown[place], name=name)
    if isinstance(node, exp.Column) and not qualifier(node):
        for item in shown:
            if item.name == identifier(node.this):
                return replace(item, name=name)
    return _SelectItem(name, node)


def _expand(queries: QueryPlanner, select: Any, scope: Scope) -> list[_SelectItem]:
    syntax = queries.syntax
    wanted: list[_SelectItem] = []
    nodes: dict[str, Any] = {}
    for node in select.expressions:
        for item in _stars(syntax, node, scope):
            if item.name.startswith("$"):
                message = f'column name "{item.name}" is reserved'
                raise SinkqlError("SQ2009", message, syntax.span(node))
            if item.name not in nodes:
                nodes[item.name] = node
                wanted.append(item)
            elif scope.now is not None or _has_outer_names(queries, select):
                wanted.append(replace(item, name=f"{item.name}{SAME}{len(wanted)}"))
            else:
                message = f'column "{item.name}" is specified more than once'
                hint = f"Rename one of them: … AS {item.name.strip('?')}_2."
                if item.column is not None and len(scope.parts) > 1:
                    hint = (
                        f"Write the columns instead of *, one of them … AS {item.name}_2, or join USING ({item.name})."
                    )
                raise SinkqlError("SQ2008", message, syntax.span(node), hint=hint)
    if not wanted:
        hint = "Write the columns, or * for all of them, after SELECT."
        span = Span(start := syntax.span(select).start, start + len("SELECT"))
        raise SinkqlError("SQ2201", "expected a list of columns after SELECT", span, hint=hint)
    return wanted


def _has_outer_names(queries: QueryPlanner, node: Any) -> bool:
    """Return whether the names of a query's columns are not used.

    A list may replace them, as in FROM (…) AS t (a, b). The first side of a set operation names the columns of all
    sides. A query in IN or EXISTS needs no names.
    """
    while isinstance(node.parent, exp.Subquery | exp.SetOperation | exp.CTE | exp.Lateral):
        if isinstance(node.parent, exp.SetOperation) and node.arg_key == "expression":
            return True
        alias = node.parent.args.get("alias")
        if alias is not None:
            return bool(alias.args.get("columns"))
        node = node.parent
    return isinstance(node.parent, exp.In | exp.Exists | exp.Any | exp.All) or (node.parent is None and queries.listed)


def _stars(syntax: Syntax, node: Any, scope: Scope) -> list[_SelectItem]:
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return [_SelectItem(output_name(syntax, node), node.this if isinstance(node, exp.Alias) else node)]
    if any(star.args.values()):
        hint = "Write the columns instead of *."
        raise SinkqlError(
            "SQ2215", "EXCEPT, REPLACE and RENAME are not supported after *", syntax.span(node), hint=hint
        )
    name = qualifier(node) if isinstance(node, exp.Column) else ()
    columns = scope.star(name)
    if columns is None:
        message = f'relation "{qualified_name(*name)}" is not in FROM'
        raise MissingError("SQ2202", message, syntax.span(node), name=name[-1])
    return [_SelectItem(column_.name, node, column_) for column_ in columns]


def _grouped(select: Any, wanted: Sequence[_SelectItem]) -> bool:
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    qualified = select.args.get("qualify")
    return any(
        aggregates_in(node) for node in (*(item.node for item in wanted), *(() if qualified is None else (qualified,)))
    )


def aggregates_in(node: Any) -> list[Any]:
    """Return the aggregates in an expression, each with its FILTER; aggregates of its subqueries are left out."""
    return [
        _whole(call)
        for call in node.walk(prune=lambda node: isinstance(node, exp.Query))
        if isinstance(call, exp.Anonymous)
        and isinstance(call.this, str)
        and call.this.lower() in functions.AGGREGATES
        and not _has_over(call)
    ]


def _whole(call: Any) -> Any:
    """Return a call with its WITHIN GROUP and FILTER."""
    while isinstance(call.parent, exp.Filter | exp.WithinGroup) and call.arg_key == "this":
        call = call.parent
    return call


def _has_over(call: Any) -> bool:
    """Return whether a call is followed by OVER."""
    outermost = _whole(call)
    return isinstance(outermost.parent, exp.Window) and outermost.arg_key == "this"


def _item(translator: Translator, wanted: _SelectItem, *, scaled: bool) -> tuple[str, Typed]:
    span = translator.span(wanted.node)
    if wanted.column is not None:
        value = wanted.column.at(span)
    else:
        value = translator.translate(wanted.node)
    if value.type == types.UNKNOWN:
        value = coerced(value, types.TEXT).at(span)
    if value.type == types.INTERVAL:
        return wanted.name, held(value)
    return wanted.name, narrowed(value) if scaled else value


def _condition(rows: Translator, clause: Any | None, where: str) -> temporal_filter.Condition:
    """Return the part of a WHERE or HAVING that has no subqueries."""
    if clause is None:
        return temporal_filter.Condition(None)
    if not has_query(clause.this):
        return temporal_filter.split_condition(rows, clause.this, where)
    conditions = [
        temporal_filter.split_condition(rows, conjunct, where)
        for conjunct in temporal_filter.conjuncts(clause.this)
        if not has_query(conjunct)
    ]
    plain = [condition.plain for condition in conditions if condition.plain is not None]
    times = tuple(time for condition in conditions for time in condition.times)
    return temporal_filter.Condition(joined("AND", plain, rows.span(clause)) if plain else None, times)


def _filter_by_subqueries(
    subqueries: Subqueries, relation: logical.Relation, t: Translator, clause: Any | None, where: str
) -> logical.Relation:
    """Return the rows for which the conditions with subqueries of a WHERE or HAVING are true."""
    for conjunct in temporal_filter.conjuncts(clause.this) if clause is not None else ():
        if has_query(conjunct):
            relation = subqueries.filter(relation, t, conjunct, where)
    return relation


def _plan_groups(
    subqueries: Subqueries, select: Any, relation: logical.Relation, select_items: Sequence[_SelectItem]
) -> logical.Relation:
    syntax, scope, scaled = subqueries.queries.syntax, subqueries.scope, subqueries.queries.scaled
    rows = Translator(syntax, RowContext(scope, "GROUP BY", subqueries=subqueries))
    values, groupings = _group_values(rows, grouping_sets.groups(syntax, select.args.get("group")), scope, select_items)
    group_items = _named_groups(rows, values, select_items)
    columns = {}
    for place, (name, value) in enumerate(group_items):
        nullable = value.nullable or any(place not in by for by in groupings.sets)
        type_ = narrowed(value).type if scaled else value.type
        columns[value.tree] = column(name, type_, nullable=nullable, span=value.span)
    if scaled:
        group_items = [(name, narrowed(value)) for name, value in group_items]
    retracts = relation.shape.change != logical.Change.APPEND
    calls = Calls({name for name, _ in group_items}, retracts=retracts, grouped=all(groupings.sets), scaled=scaled)
    arguments = Translator(syntax, RowContext(scope, "an aggregate", subqueries=subqueries))
    context = GroupContext(arguments, scope, Groups(columns), calls, groupings)
    over = Subqueries(subqueries.queries, subqueries.around, scope, context.outer)
    context.subqueries, context.planned = over, subqueries.knows
    context.windows = windows = Windows(syntax, select, calls.names, scaled)
    above = Translator(syntax, context)
    items = []
    for item in select_items:
        calls.wanted = item.name if isinstance(item.node, exp.Anonymous | exp.Filter | exp.WithinGroup) else None
        windows.wanted = item.name if isinstance(item.node, exp.Window) else None
        items.append(_group_item(above, context, item, scaled=scaled))
    calls.wanted = windows.wanted = None
    condition_of_windows = window.condition(select, Qualified(syntax, context, scope, dict(items)))
    context.windows = None
    having = select.args.get("having")
    condition = _condition(above, having, "HAVING")
    for node in aggregates_in(having.this) if having is not None else ():
        above.translate(node)  # aggregates beside a subquery must exist before the subquery is planned
    grouped = subqueries.attached(relation)
    grouped = grouping_sets.grouped(
        grouped, group_items, calls.aggregates, groupings, syntax.span(select), calls.collected
    )
    if condition.plain is not None:
        grouped = query_relation.keep(grouped, condition.plain)
    grouped = over.attached(temporal_filter.temporal_filter(grouped, condition.times))
    grouped = _filter_by_subqueries(over, grouped, above, having, "HAVING")
    return query_relation.project(window.filter_windows(windows.above(grouped), condition_of_windows), items)


def _group_item(above: Translator, context: GroupContext, wanted: _SelectItem, *, scaled: bool) -> tuple[str, Typed]:
    if wanted.column is None:
        return _item(above, wanted, scaled=scaled)
    span = above.span(wanted.node)
    return wanted.name, context.grouped(wanted.column.at(span), wanted.column.name, span)


def _group_values(
    rows: Translator, groups: grouping_sets.Groups, scope: Scope, wanted: Sequence[_SelectItem]
) -> tuple[list[Typed], grouping_sets.Groupings]:
    """Return the distinct values that rows are grouped by, and their indices in each grouping set."""
    values: dict[logical.Expression, Typed] = {}
    sets = []
    for nodes in groups.sets:
        by = set()
        for node in nodes:
            value = _group_value(rows, node, scope, wanted)
            if value.type == types.UNKNOWN:
                value = coerced(value, types.TEXT)
            values.setdefault(value.tree, value)
            by.add(list(values).index(value.tree))
        sets.append(tuple(sorted(by)))
    return list(values.values()), grouping_sets.Groupings(tuple(dict.fromkeys(sets) if groups.distinct else sets))


def _group_value(rows: Translator, node: Any, scope: Scope, wanted: Sequence[_SelectItem]) -> Typed:
    """Return the value of a GROUP BY item: an item of the select list by position or alias, or the item itself."""
    place = select_list_position(rows.syntax, node, "GROUP BY", len(wanted))
    if place is not None:
        chosen = wanted[place]
        return rows.translate(chosen.node) if chosen.column is None else chosen.column.at(rows.span(node))
    if isinstance(node, exp.Column) and not qualifier(node):
        name = identifier(node.this)
        if all(column_.name != name for column_ in scope.columns):
            node = next((item.node for item in wanted if item.name == name and item.column is None), node)
    return rows.translate(node)


def _named_groups(rows: Translator, values: Sequence[Typed], wanted: Sequence[_SelectItem]) -> list[tuple[str, Typed]]:
    """Name the group's columns like the select list, so that no renaming projection is needed above."""
    named: list[tuple[str, Typed]] = []
    aliases = {value.tree: name for name, value in _translated(rows, wanted)}
    for place, value in enumerate(values, 1):
        name = value.column or aliases.get(value.tree) or f"$g{place}"
        if any(name == other for other, _ in named):
            name = f"$g{place}"
        named.append((name, value))
    return named


def _translated(rows: Translator, wanted: Sequence[_SelectItem]) -> list[tuple[str, Typed]]:
    items = []
    for item in wanted:
        if item.column is not None or isinstance(item.node, exp.Column) or has_query(item.node):
            continue
        try:
            items.append((item.name, rows.translate(item.node)))
        except SinkqlError:
            continue  # an aggregate, or an error that is raised when the item is planned
    return items


def output_name(syntax: Syntax, node: Any) -> str:
    """Return the name of a select item."""
    if isinstance(node, exp.Alias):
        return identifier(node.args["alias"])
    return _name(syntax, node)[0] or "?column?"


def _name(syntax: Syntax, node: Any) -> tuple[str | None, bool]:
    """Return a name, and whether it is the expression's name rather than a type's, which a cast would replace."""
    match node:
        case exp.Column():
            return identifier(node.this), True
        case exp.Paren() | exp.Collate() | exp.Filter() | exp.WithinGroup() | exp.Window() | exp.Bracket():
            return _name(syntax, node.this)
        case exp.Subquery() if node.this.selects:
            return output_name(syntax, node.this.selects[0]), True
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            return identifier(node.expression), True
        case exp.Anonymous():
            return str(node.this if isinstance(node.this, str) else node.this.name).lower(), True
        case exp.Trim():
            return _TRIMS.get(node.args.get("position") or "", "btrim"), True
        case exp.Case():
            default = node.args.get("default")
            name, specific = _name(syntax, default) if default is not None else (None, False)
            return (name, True) if specific else ("case", False)
        case exp.Cast():
            name, specific = _name(syntax, node.this)
            return (name, True) if specific else (_type_name(syntax.words(node.args["to"])), False)
        case _:
            return _NODE_NAMES.get(type(node)), type(node) in _NODE_NAMES and not isinstance(node, exp.Interval)


def _type_name(words: str) -> str | None:
    try:
        parsed = types.parse_type_name(words)
    except ValueError:
        return None
    if parsed is None:
        return None
    type_ = parsed[0]
    while type_.name == "array" and type_.element is not None:
        type_ = type_.element
    return _TYPE_NAMES.get(type_.name, type_.name)
