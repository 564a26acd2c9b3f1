"""A query that runs once and gives rows → its relation, order and limit; and where it is plain, functions of a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql import ast, logical
from sinkql.errors import SinkqlError, too_deep
from sinkql.planner.query import Planner
from sinkql.planner.query_relation import ONE
from sinkql.planner.query_scope import Scope, identifier, qualifier
from sinkql.planner.query_select import SAME
from sinkql.planner.query_syntax import Syntax, parse
from sinkql.planner.scalar import translator
from sinkql.planner.simple import Function, Simple

_HIDDEN = "?order{}?"


@dataclass(frozen=True, slots=True)
class Order:
    """Hold one term of ORDER BY: the place of a column of the relation."""

    place: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Plain:
    """Hold a query that needs no engine: rows of `item` (None: one row) through a condition and functions of a row.

    With `count` it gives the number of rows alone.
    """

    item: str | None
    where: Function | None
    values: tuple[Function, ...]
    count: bool = False


@dataclass(frozen=True, slots=True)
class Once:
    """Hold what a query means; of the relation's columns the first `width` are shown, all others only ordered by."""

    relation: logical.Relation
    dependencies: tuple[str, ...]
    width: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    plain: Plain | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns that are shown, which may be there twice."""
        return tuple(column.name.partition(SAME)[0] for column in self.relation.shape.columns[: self.width])


def plan_once(query: ast.Query, catalog: logical.CatalogReader, now: datetime) -> Once:
    """Plan a query that runs once; beyond what a view may it orders, limits, reads sinks and the clock."""
    syntax = parse(query)
    tree = syntax.tree
    clauses = {name: tree.args.pop(name, None) for name in ("order", "limit", "offset")}
    limit, offset = _number(syntax, clauses["limit"], "LIMIT"), _number(syntax, clauses["offset"], "OFFSET")
    try:
        planner = Planner(syntax, catalog, now)
        width = len(planner.plan(tree, {}).shape.columns)
        places = _order(syntax, tree, clauses["order"], planner, width)
        relation = planner.plan(tree, {})
    except RecursionError:
        raise too_deep(query.span) from None
    plain = _plain(syntax, tree, relation, catalog, now)
    return Once(relation, tuple(planner.dependencies), width, places, limit, offset or 0, plain)


def _number(syntax: Syntax, clause: Any, word: str) -> int | None:
    if clause is None:
        return None
    if isinstance(clause, exp.Fetch):
        options = clause.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise SinkqlError("SQ2225", "FETCH takes a number of rows alone", syntax.span(clause), hint="Use LIMIT.")
        value = clause.args.get("count") or exp.Literal.number(1)
    else:
        value = clause.expression
    if isinstance(value, exp.Null) or (isinstance(value, exp.Var) and value.name.upper() == "ALL"):
        return None
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return int(value.this)
    raise SinkqlError("SQ2225", f"{word} takes a whole number", syntax.span(clause), hint=f"Write {word} 10.")


def _order(syntax: Syntax, tree: Any, order: Any, planner: Planner, width: int) -> tuple[Order, ...]:
    """Return what to order by; what is no column of the result is put behind its columns, into `tree`."""
    if order is None:
        return ()
    names = [column.name for column in planner.plan(tree, {}).shape.columns]
    found, hidden = [], 0
    for term in order.expressions:
        node = term.this
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this) - 1 if str(node.this).isdigit() else -1
            if not 0 <= place < width:
                message = f"ORDER BY {node.this} is not in the select list, which has {width} items"
                raise SinkqlError("SQ2222", message, syntax.span(node))
        elif isinstance(node, exp.Column) and not qualifier(node) and identifier(node.this) in names:
            place = names.index(identifier(node.this))
        elif isinstance(tree, exp.Select) and tree.args.get("distinct") is None:
            tree.append("expressions", exp.alias_(node, _HIDDEN.format(hidden), quoted=True))
            place, hidden = width + hidden, hidden + 1
        else:
            raise SinkqlError(
                "SQ2226",
                "of DISTINCT and UNION only columns of the result can be ordered by",
                syntax.span(node),
                hint=f"The columns are {', '.join(names)}.",
            )
        nulls_first = term.args.get("nulls_first")
        descending = bool(term.args.get("desc"))
        found.append(Order(place, descending, descending if nulls_first is None else bool(nulls_first)))
    return tuple(found)


def _plain(
    syntax: Syntax, tree: Any, relation: logical.Relation, catalog: logical.CatalogReader, now: datetime
) -> Plain | None:
    """Return the query as functions of a row; None where it takes an engine."""
    if not isinstance(tree, exp.Select) or any(
        tree.args.get(each) for each in ("with_", "group", "having", "distinct")
    ):
        return None
    get = _get(relation)
    if get is None:
        counted = _counted(tree, relation)
        get = _get(counted) if counted is not None else None
        if get is None:
            return None
        return _rows(syntax, tree, get, catalog, now, count=True)
    return _rows(syntax, tree, get, catalog, now, count=False)


def _get(relation: logical.Relation) -> logical.Get | None:
    match relation:
        case logical.Get():
            return relation
        case logical.Project() | logical.Filter():
            return _get(relation.input)
        case logical.Aggregate() | logical.Union():
            return None


def _counted(tree: Any, relation: logical.Relation) -> logical.Relation | None:
    """Return what is counted where the query is `SELECT count(*)`."""
    node = tree.expressions[0]
    call = node.this if isinstance(node, exp.Alias) else node
    alone = len(tree.expressions) == 1 and isinstance(call, exp.Anonymous) and str(call.this).lower() == "count"
    if not alone or len(call.expressions) != 1 or not isinstance(call.expressions[0], exp.Star):
        return None
    below = relation.input if isinstance(relation, logical.Project) else relation
    return below.input if isinstance(below, logical.Aggregate) else None


def _rows(
    syntax: Syntax, tree: Any, get: logical.Get, catalog: logical.CatalogReader, now: datetime, *, count: bool
) -> Plain | None:
    from_ = tree.args.get("from_")
    if from_ is not None and (not isinstance(from_.this, exp.Table) or from_.this.args.get("alias") is not None):
        return None
    item: str | None = get.item
    columns = get.shape.columns
    if get.item == ONE.item:
        item = None
    elif isinstance(catalog.item(get.item), logical.View):
        return None
    written = (
        tuple(
            each.name
            for each in (from_.this.args.get("catalog"), from_.this.args.get("db"), from_.this.this)
            if each is not None
        )
        if from_ is not None
        else ()
    )
    simple = Simple(translator(syntax, now, Scope((written,), columns), "this place"), columns)
    where = None
    if tree.args.get("where") is not None:
        where = simple.condition(tree.args["where"].this)
        if where is None:
            return None
    if count:
        return Plain(item, where, (), count=True)
    values: list[Function | None] = []
    for node in tree.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            values += [_column(place) for place in range(len(columns))]
        else:
            values.append(simple.value(node.this if isinstance(node, exp.Alias) else node))
    found = tuple(each for each in values if each is not None)
    return Plain(item, where, found) if len(found) == len(values) else None


def _column(place: int) -> Function:
    return lambda row: row[place]
