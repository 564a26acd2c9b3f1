"""A query that runs once and gives rows → its relation, order and limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql import ast, logical
from sinkql.errors import SinkqlError, too_deep
from sinkql.planner.expression.operator import part_of
from sinkql.planner.query.from_ import Around
from sinkql.planner.query.plan import Planner
from sinkql.planner.query.scope import identifier, qualifier
from sinkql.planner.query.select import SAME
from sinkql.planner.query.syntax import Syntax, parse

_MOST = 2**63 - 1
_MOST_DIGITS = 19
_HIDDEN = "?order{}?"


@dataclass(frozen=True, slots=True)
class Order:
    """One term of ORDER BY: the place of a column of the relation."""

    place: int
    descending: bool
    nulls_first: bool
    type: logical.Type


@dataclass(frozen=True, slots=True)
class Once:
    """What a query means; of the relation's columns the first `width` are shown, all others only ordered by."""

    relation: logical.Relation
    dependencies: tuple[str, ...]
    width: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns that are shown, which may be there twice."""
        return tuple(column.name.partition(SAME)[0] for column in self.relation.shape.columns[: self.width])

    @property
    def types(self) -> tuple[logical.Type, ...]:
        """Return the types of the columns that are shown."""
        return tuple(column.type for column in self.relation.shape.columns[: self.width])


def plan_once(query: ast.Query, catalog: logical.CatalogReader, now: datetime) -> Once:
    """Plan a query that runs once; beyond what a view may it orders, limits, reads sinks and the clock."""
    syntax = parse(query)
    tree = syntax.tree
    limit, offset = (row_count(syntax, tree.args.get(each), each.upper()) for each in ("limit", "offset"))
    order = _Terms(syntax, tree)
    try:
        planner = Planner(syntax, catalog, now, order.hidden)
        relation = planner.plan(tree, Around())
        places = order.places(relation)
    except RecursionError:
        raise too_deep(query.span) from None
    return Once(relation, tuple(planner.dependencies), order.width(relation), places, limit, offset or 0)


def row_count(syntax: Syntax, clause: Any, word: str) -> int | None:
    """Return the number of a LIMIT, OFFSET or FETCH; None where there is none. Raises SQ2225."""
    if clause is None:
        return None
    if isinstance(clause, exp.Fetch):
        options = clause.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise SinkqlError("SQ2225", "FETCH only takes a number of rows", syntax.span(clause), hint="Use LIMIT.")
        value = clause.args.get("count") or exp.Literal.number(1)
    else:
        value = clause.expression
    if isinstance(value, exp.Null) or (isinstance(value, exp.Var) and value.name.upper() == "ALL"):
        return None
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        if len(str(value.this).lstrip("0")) > _MOST_DIGITS or int(value.this) > _MOST:
            hint = f"Write {word} {_MOST} or less."
            raise SinkqlError("SQ2225", f"the number after {word} is out of range", syntax.span(value), hint=hint)
        return int(value.this)
    raise SinkqlError("SQ2225", f"{word} takes a whole number", syntax.span(clause), hint=f"Write {word} 10.")


class _Terms:
    """What a query is ordered by: columns of its result, and others that are hidden behind these."""

    def __init__(self, syntax: Syntax, tree: Any) -> None:
        self._syntax = syntax
        self._tree = tree
        clause = tree.args.get("order")
        self._terms = clause.expressions if clause is not None else []
        self._places: list[int] | None = None
        self._names: tuple[str, ...] = ()
        self._hidden: list[Any] = []

    def hidden(self, names: tuple[str, ...]) -> list[tuple[str, Any]]:
        """Return names and nodes of what is not a column of the result, whose names are these."""
        self._names = names
        self._places = [self._place(term.this) for term in self._terms]
        return [(_HIDDEN.format(number), node) for number, node in enumerate(self._hidden)]

    def width(self, relation: logical.Relation) -> int:
        """Return how many columns of the relation are shown."""
        return len(relation.shape.columns) - len(self._hidden)

    def places(self, relation: logical.Relation) -> tuple[Order, ...]:
        """Return what to order the relation by."""
        if self._places is None:  # no SELECT, which has asked for what is hidden
            self.hidden(tuple(column.name for column in relation.shape.columns))
        assert self._places is not None
        for place, term in zip(self._places, self._terms, strict=True):
            type_ = relation.shape.columns[place].type
            if type_.nested:
                message = f"values of type {type_} cannot be ordered"
                raise SinkqlError("SQ2214", message, self._syntax.span(term.this), hint=part_of(type_))
        types = [column.type for column in relation.shape.columns]
        return tuple(_order(place, term, types[place]) for place, term in zip(self._places, self._terms, strict=True))

    def _place(self, node: Any) -> int:
        names, width = self._names, len(self._names)
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this) - 1 if str(node.this).isdigit() else -1
            if not 0 <= place < width:
                message = f"ORDER BY position {node.this} is not in the select list"
                raise SinkqlError("SQ2222", message, self._syntax.span(node))
            return place
        if isinstance(node, exp.Column) and not qualifier(node) and identifier(node.this) in names:
            return names.index(identifier(node.this))
        if isinstance(self._tree, exp.Select) and self._tree.args.get("distinct") is None:
            self._hidden.append(node)
            return width + len(self._hidden) - 1
        raise SinkqlError(
            "SQ2226",
            "ORDER BY after DISTINCT or UNION can only name columns of the result",
            self._syntax.span(node),
            hint=f"The columns are {', '.join(names)}.",
        )


def _order(place: int, term: Any, type_: logical.Type) -> Order:
    nulls_first = term.args.get("nulls_first")
    descending = bool(term.args.get("desc"))
    return Order(place, descending, descending if nulls_first is None else bool(nulls_first), type_)
