"""One SELECT over a relation → filter, aggregate and projection."""

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
"""What, with a number behind it, tells columns of one name apart in a query that runs once."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One item of the select list: its name, and its node or, out of a star, the input's column."""

    name: str
    node: Any
    column: Named | None = None


Hidden = Callable[[tuple[str, ...]], list[tuple[str, Any]]]
"""The names of the select list → names and nodes of what else a SELECT computes, behind it."""


def plan_select(
    subqueries: Subqueries, select: Any, relation: logical.Relation, hidden: Hidden | None = None
) -> logical.Relation:
    """Plan a SELECT whose FROM is already a relation, with the scope of its subqueries."""
    syntax, scope = subqueries.queries.syntax, subqueries.scope
    rows = Translator(syntax, RowContext(scope, "WHERE", subqueries=subqueries))
    where = select.args.get("where")
    condition = _condition(rows, where, "WHERE")
    relation = (
        pushdown.order_joins(relation) if condition.plain is None else pushdown.filter_rows(relation, condition.plain)
    )
    relation = temporal_filter.temporal_filter(relation, condition.times)
    relation = _with_queries(subqueries, relation, rows, where, "WHERE")
    wanted = _expand(subqueries.queries, select, scope)
    shown = wanted
    if hidden is not None:
        wanted = [*shown, *(_Wanted(name, node) for name, node in hidden(tuple(each.name for each in shown)))]
    first = DistinctOn.of(syntax, select)
    behind = [_behind(syntax, *each, shown) for each in first.columns] if first is not None else []
    every = [*wanted, *behind]
    plan = _plan_groups if _grouped(select, every) else _plan_rows
    relation = plan(subqueries, select, relation, every)
    if first is not None:
        return first.plan(relation, len(wanted))
    if select.args.get("distinct") is None:
        return relation
    return query_relation.distinct(relation, syntax.span(select))


def _plan_rows(
    subqueries: Subqueries, select: Any, relation: logical.Relation, wanted: Sequence[_Wanted]
) -> logical.Relation:
    syntax, scope = subqueries.queries.syntax, subqueries.scope
    scaled = subqueries.queries.scaled
    windows = Windows(syntax, select, {each.name for each in relation.shape.columns}, scaled)
    context = set_returning.SelectContext(syntax, scope)
    context.windows, context.subqueries = windows, subqueries
    plain = Translator(syntax, context)
    items = []
    for each in wanted:
        windows.wanted = each.name if isinstance(each.node, exp.Window) else None
        items.append(_item(plain, each, scaled=scaled))
    windows.wanted = None
    selected = {
        name: value for name, value in items if not any(each.startswith("$set") for each in references(value.tree))
    }
    qualified = Qualified(syntax, RowContext(scope, "QUALIFY", windows, subqueries), scope, selected)
    condition = window.condition(select, qualified)
    relation = window.filter_windows(windows.above(subqueries.attached(relation)), condition)
    return query_relation.project(context.flattened(relation, syntax.span(select)), items)


def _behind(syntax: Syntax, name: str, node: Any, clause: str, shown: Sequence[_Wanted]) -> _Wanted:
    """Return a column of another name: a term of a clause, which may stand for an item of the select list."""
    place = select_list_position(syntax, node, clause, len(shown))
    if place is not None:
        return replace(shown[place], name=name)
    if isinstance(node, exp.Column) and not qualifier(node):
        for each in shown:
            if each.name == identifier(node.this):
                return replace(each, name=name)
    return _Wanted(name, node)


def _expand(queries: QueryPlanner, select: Any, scope: Scope) -> list[_Wanted]:
    syntax = queries.syntax
    wanted: list[_Wanted] = []
    taken: dict[str, Any] = {}
    for node in select.expressions:
        for each in _stars(syntax, node, scope):
            if each.name.startswith("$"):
                message = f'column name "{each.name}" is reserved'
                raise SinkqlError("SQ2009", message, syntax.span(node))
            if each.name not in taken:
                taken[each.name] = node
                wanted.append(each)
            elif scope.now is not None or _renamed(queries, select):
                wanted.append(replace(each, name=f"{each.name}{SAME}{len(wanted)}"))
            else:
                message = f'column "{each.name}" is specified more than once'
                hint = f"Rename one of them: … AS {each.name.strip('?')}_2."
                if each.column is not None and len(scope.parts) > 1:
                    hint = (
                        f"Write the columns instead of *, one of them … AS {each.name}_2, or join USING ({each.name})."
                    )
                raise SinkqlError("SQ2008", message, syntax.span(node), hint=hint)
    if not wanted:
        hint = "Write the columns, or * for all of them, after SELECT."
        place = Span(start := syntax.span(select).start, start + len("SELECT"))
        raise SinkqlError("SQ2201", "expected a list of columns after SELECT", place, hint=hint)
    return wanted


def _renamed(queries: QueryPlanner, node: Any) -> bool:
    """Tell whether the names of a query's columns are not asked for: others are given them, or none are needed.

    A list gives names, as in FROM (…) AS t (a, b), and so does the first side of a set operation. A query in IN or
    EXISTS needs none.
    """
    while isinstance(node.parent, exp.Subquery | exp.SetOperation | exp.CTE | exp.Lateral):
        if isinstance(node.parent, exp.SetOperation) and node.arg_key == "expression":
            return True
        alias = node.parent.args.get("alias")
        if alias is not None:
            return bool(alias.args.get("columns"))
        node = node.parent
    return isinstance(node.parent, exp.In | exp.Exists | exp.Any | exp.All) or (node.parent is None and queries.listed)


def _stars(syntax: Syntax, node: Any, scope: Scope) -> list[_Wanted]:
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return [_Wanted(output_name(syntax, node), node.this if isinstance(node, exp.Alias) else node)]
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
    return [_Wanted(each.name, node, each) for each in columns]


def _grouped(select: Any, wanted: Sequence[_Wanted]) -> bool:
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    qualified = select.args.get("qualify")
    return any(
        aggregates_in(node) for node in (*(each.node for each in wanted), *(() if qualified is None else (qualified,)))
    )


def aggregates_in(node: Any) -> list[Any]:
    """Return the aggregates in an expression, each with its FILTER; not those of its subqueries."""
    return [
        _whole(call)
        for call in node.walk(prune=lambda each: isinstance(each, exp.Query))
        if isinstance(call, exp.Anonymous)
        and isinstance(call.this, str)
        and call.this.lower() in functions.AGGREGATES
        and not _over(call)
    ]


def _whole(call: Any) -> Any:
    """Return a call with the WITHIN GROUP and FILTER behind it."""
    while isinstance(call.parent, exp.Filter | exp.WithinGroup) and call.arg_key == "this":
        call = call.parent
    return call


def _over(call: Any) -> bool:
    """Tell whether OVER stands behind a call."""
    above = _whole(call)
    return isinstance(above.parent, exp.Window) and above.arg_key == "this"


def _item(translator: Translator, wanted: _Wanted, *, scaled: bool) -> tuple[str, Typed]:
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
    """Return what a WHERE or HAVING says without subqueries."""
    if clause is None:
        return temporal_filter.Condition(None)
    if not has_query(clause.this):
        return temporal_filter.split_condition(rows, clause.this, where)
    found = [
        temporal_filter.split_condition(rows, each, where)
        for each in temporal_filter.conjuncts(clause.this)
        if not has_query(each)
    ]
    plain = [each.plain for each in found if each.plain is not None]
    times = tuple(time for each in found for time in each.times)
    return temporal_filter.Condition(joined("AND", plain, rows.span(clause)) if plain else None, times)


def _with_queries(
    subqueries: Subqueries, relation: logical.Relation, t: Translator, clause: Any | None, where: str
) -> logical.Relation:
    """Return the rows for which the conditions of a WHERE or HAVING are true that have subqueries."""
    for each in temporal_filter.conjuncts(clause.this) if clause is not None else ():
        if has_query(each):
            relation = subqueries.kept(relation, t, each, where)
    return relation


def _plan_groups(
    subqueries: Subqueries, select: Any, relation: logical.Relation, wanted: Sequence[_Wanted]
) -> logical.Relation:
    syntax, scope, scaled = subqueries.queries.syntax, subqueries.scope, subqueries.queries.scaled
    rows = Translator(syntax, RowContext(scope, "GROUP BY", subqueries=subqueries))
    values, groupings = _group_values(rows, grouping_sets.groups(syntax, select.args.get("group")), scope, wanted)
    named = _named_groups(rows, values, wanted)
    columns = {}
    for place, (name, value) in enumerate(named):
        nullable = value.nullable or any(place not in by for by in groupings.sets)
        type_ = narrowed(value).type if scaled else value.type
        columns[value.tree] = column(name, type_, nullable=nullable, span=value.span)
    if scaled:
        named = [(name, narrowed(value)) for name, value in named]
    retracts = relation.shape.change != logical.Change.APPEND
    calls = Calls({name for name, _ in named}, retracts=retracts, grouped=all(groupings.sets), scaled=scaled)
    arguments = Translator(syntax, RowContext(scope, "an aggregate", subqueries=subqueries))
    context = GroupContext(arguments, scope, Groups(columns), calls, groupings)
    over = Subqueries(subqueries.queries, subqueries.around, scope, context.outer)
    context.subqueries, context.planned = over, subqueries.knows
    context.windows = windows = Windows(syntax, select, calls.names, scaled)
    above = Translator(syntax, context)
    items = []
    for each in wanted:
        calls.wanted = each.name if isinstance(each.node, exp.Anonymous | exp.Filter | exp.WithinGroup) else None
        windows.wanted = each.name if isinstance(each.node, exp.Window) else None
        items.append(_group_item(above, context, each, scaled=scaled))
    calls.wanted = windows.wanted = None
    condition_of_windows = window.condition(select, Qualified(syntax, context, scope, dict(items)))
    context.windows = None
    having = select.args.get("having")
    condition = _condition(above, having, "HAVING")
    for node in aggregates_in(having.this) if having is not None else ():
        above.translate(node)  # what stands beside a subquery is to be there before it is planned
    found = subqueries.attached(relation)
    found = grouping_sets.grouped(found, named, calls.found, groupings, syntax.span(select), calls.collected)
    if condition.plain is not None:
        found = query_relation.keep(found, condition.plain)
    found = over.attached(temporal_filter.temporal_filter(found, condition.times))
    found = _with_queries(over, found, above, having, "HAVING")
    return query_relation.project(window.filter_windows(windows.above(found), condition_of_windows), items)


def _group_item(above: Translator, context: GroupContext, wanted: _Wanted, *, scaled: bool) -> tuple[str, Typed]:
    if wanted.column is None:
        return _item(above, wanted, scaled=scaled)
    span = above.span(wanted.node)
    return wanted.name, context.grouped(wanted.column.at(span), wanted.column.name, span)


def _group_values(
    rows: Translator, groups: grouping_sets.Groups, scope: Scope, wanted: Sequence[_Wanted]
) -> tuple[list[Typed], grouping_sets.Groupings]:
    """Return what rows are grouped by, each once, and by which of them in each set."""
    found: dict[logical.Expression, Typed] = {}
    sets = []
    for nodes in groups.sets:
        by = set()
        for node in nodes:
            value = _meant(rows, node, scope, wanted)
            if value.type == types.UNKNOWN:
                value = coerced(value, types.TEXT)
            found.setdefault(value.tree, value)
            by.add(list(found).index(value.tree))
        sets.append(tuple(sorted(by)))
    return list(found.values()), grouping_sets.Groupings(tuple(dict.fromkeys(sets) if groups.distinct else sets))


def _meant(rows: Translator, node: Any, scope: Scope, wanted: Sequence[_Wanted]) -> Typed:
    """Return what a GROUP BY item stands for: an item of the select list by place or alias, or itself."""
    place = select_list_position(rows.syntax, node, "GROUP BY", len(wanted))
    if place is not None:
        chosen = wanted[place]
        return rows.translate(chosen.node) if chosen.column is None else chosen.column.at(rows.span(node))
    if isinstance(node, exp.Column) and not qualifier(node):
        name = identifier(node.this)
        if all(each.name != name for each in scope.columns):
            node = next((each.node for each in wanted if each.name == name and each.column is None), node)
    return rows.translate(node)


def _named_groups(rows: Translator, values: Sequence[Typed], wanted: Sequence[_Wanted]) -> list[tuple[str, Typed]]:
    """Name the group's columns as the select list does where it holds them, so that no renaming stands above."""
    named: list[tuple[str, Typed]] = []
    aliases = {each.tree: name for name, each in _translated(rows, wanted)}
    for place, value in enumerate(values, 1):
        name = value.column or aliases.get(value.tree) or f"$g{place}"
        if any(name == other for other, _ in named):
            name = f"$g{place}"
        named.append((name, value))
    return named


def _translated(rows: Translator, wanted: Sequence[_Wanted]) -> list[tuple[str, Typed]]:
    found = []
    for each in wanted:
        if each.column is not None or isinstance(each.node, exp.Column) or has_query(each.node):
            continue
        try:
            found.append((each.name, rows.translate(each.node)))
        except SinkqlError:
            continue  # an aggregate, or wrong: said when the item itself is planned
    return found


def output_name(syntax: Syntax, node: Any) -> str:
    """Return the name of a select item."""
    if isinstance(node, exp.Alias):
        return identifier(node.args["alias"])
    return _name(syntax, node)[0] or "?column?"


def _name(syntax: Syntax, node: Any) -> tuple[str | None, bool]:
    """Return a name and whether it is one of its own, which a cast around it keeps."""
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
            name, own = _name(syntax, default) if default is not None else (None, False)
            return (name, True) if own else ("case", False)
        case exp.Cast():
            name, own = _name(syntax, node.this)
            return (name, True) if own else (_type_name(syntax.words(node.args["to"])), False)
        case _:
            return _NODE_NAMES.get(type(node)), type(node) in _NODE_NAMES and not isinstance(node, exp.Interval)


def _type_name(words: str) -> str | None:
    try:
        found = types.parse_type_name(words)
    except ValueError:
        return None
    if found is None:
        return None
    named = found[0]
    while named.name == "array" and named.element is not None:
        named = named.element
    return _TYPE_NAMES.get(named.name, named.name)
