"""Plan ORDER BY, LIMIT, OFFSET and FETCH of a query: the order of its rows, and the first rows.

Also resolves a constant in ORDER BY, GROUP BY or DISTINCT ON as a position in the select list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.logical import Change
from sinkql.logical.expression import NOWHERE
from sinkql.planner import types
from sinkql.planner.expression.literal import order as interval_order
from sinkql.planner.expression.operator import part_of
from sinkql.planner.expression.typed_expression import Typed, column, settled
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.scope import identifier, qualifier
from sinkql.planner.syntax.sqlglot_tree import Syntax

_MOST = 2**63 - 1
_MOST_DIGITS = 19
_HIDDEN = "?order{}?"
CLAUSES = ("order", "limit", "offset")
"""The parts of a query's node that order and limit it."""


@dataclass(frozen=True, slots=True)
class Order:
    """One term of ORDER BY, as an index into the columns of the relation."""

    place: int
    descending: bool
    nulls_first: bool
    type: logical.Type


def row_count(syntax: Syntax, clause: Any, word: str) -> int | None:
    """Return the number of a LIMIT, OFFSET or FETCH, None for no clause, NULL or ALL. Raises SQ2225."""
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
    raise SinkqlError("SQ2225", f"{word} takes an integer", syntax.span(clause), hint=f"Write {word} 10.")


class Terms:
    """The terms that order a query: columns of its result, and hidden columns behind them."""

    def __init__(self, syntax: Syntax, tree: Any) -> None:
        self._syntax = syntax
        self._tree = tree
        clause = tree.args.get("order")
        self._terms = clause.expressions if clause is not None else []
        self._places: list[int] | None = None
        self._names: tuple[str, ...] = ()
        self._hidden: list[Any] = []

    def hidden(self, names: tuple[str, ...]) -> list[tuple[str, Any]]:
        """Return names and nodes of the terms that are not columns of the result; `names` are the result's columns."""
        self._places = self._find_places(names)
        return [(_HIDDEN.format(number), node) for number, node in enumerate(self._hidden)]

    def width(self, relation: logical.Relation) -> int:
        """Return the number of columns that are shown."""
        return len(relation.shape.columns) - len(self._hidden)

    def places(self, relation: logical.Relation) -> tuple[Order, ...]:
        """Return the order of the relation's rows."""
        columns, places = relation.shape.columns, self._places
        if places is None:  # only a SELECT has called `hidden`
            places = self._places = self._find_places(tuple(column.name for column in columns))
        for place, term in zip(places, self._terms, strict=True):
            type_ = columns[place].type
            if type_.nested and not types.is_ordered(type_):
                message = f"values of type {type_} cannot be ordered"
                raise SinkqlError("SQ2214", message, self._syntax.span(term.this), hint=part_of(type_))
        return tuple(_order(place, term, columns[place].type) for place, term in zip(places, self._terms, strict=True))

    def sorts(self, relation: logical.Relation) -> tuple[logical.Sort, ...]:
        """Return the order of a view's rows; raise SQ2214 for a type whose order is not exact."""
        sorts = []
        for place, term in zip((order.place for order in self.places(relation)), self._terms, strict=True):
            column_ = relation.shape.columns[place]
            value = column(column_.name, column_.type, nullable=column_.nullable, span=self._syntax.span(term.this))
            sorts.append(sort(value, term))
        return tuple(sorts)

    def _find_places(self, names: tuple[str, ...]) -> list[int]:
        self._names = names
        self._hidden = []
        return [self._place(term.this) for term in self._terms]

    def _place(self, node: Any) -> int:
        names, width = self._names, len(self._names)
        place = select_list_position(self._syntax, node, "ORDER BY", width)
        if place is not None:
            return place
        if isinstance(node, exp.Column) and not qualifier(node) and identifier(node.this) in names:
            return names.index(identifier(node.this))
        distinct = self._tree.args.get("distinct")
        if isinstance(self._tree, exp.Select) and (distinct is None or has_distinct_on(self._tree)):
            self._hidden.append(node)
            return width + len(self._hidden) - 1
        raise SinkqlError(
            "SQ2226",
            "ORDER BY after DISTINCT or UNION can only name columns of the result",
            self._syntax.span(node),
            hint=f"The columns are {', '.join(names)}.",
        )


def has_distinct_on(query: Any) -> bool:
    """Return whether a query has DISTINCT ON; sqlglot sets `distinct` to True for a set operation without ALL."""
    distinct = query.args.get("distinct")
    return isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None


def _order(place: int, term: Any, type_: logical.Type) -> Order:
    descending, nulls_first = directions(term)
    return Order(place, descending, nulls_first, type_)


def directions(term: Any) -> tuple[bool, bool]:
    """Return whether a term is descending, and whether its NULLs come first (the default if it is descending)."""
    nulls_first = term.args.get("nulls_first")
    descending = bool(term.args.get("desc"))
    return descending, descending if nulls_first is None else bool(nulls_first)


def sort(value: Typed, term: Any) -> logical.Sort:
    """Return a term of a view's order; raise SQ2214 if the type has no order."""
    if value.type == types.INTERVAL:
        value = interval_order(value)
    if not types.is_ordered(value.type):
        message = f"values of type {value.type} cannot be ordered in a view"
        raise SinkqlError(
            "SQ2214", message, value.span, hint=part_of(value.type) or "Order by parts of it, or by its text."
        )
    return logical.Sort(settled(value), *directions(term))


def first_rows(
    relation: logical.Relation, order: tuple[logical.Sort, ...], limit: int | None, offset: int, width: int
) -> logical.Relation:
    """Return at most `limit` rows after the first `offset` rows, in their first `width` columns."""
    last = None if limit is None else offset + limit
    shape = replace(relation.shape, change=Change.RETRACT)
    if limit is not None and limit <= 1:
        shape = replace(shape, keys=(frozenset(), *shape.keys))
    ranked: logical.Relation = relation
    if last is not None or offset:
        ranked = logical.Rank(relation, (), order, "row_number", offset + 1, last, None, shape)
    return narrowed(ranked, width)


def narrowed(relation: logical.Relation, width: int) -> logical.Relation:
    """Return the first columns of a relation."""
    columns = relation.shape.columns
    if width == len(columns):
        return relation
    items = [
        (column_.name, column(column_.name, column_.type, nullable=column_.nullable, span=NOWHERE))
        for column_ in columns[:width]
    ]
    return query_relation.project(relation, items)


def select_list_position(syntax: Syntax, node: Any, clause: str, width: int) -> int | None:
    """Return the index into a select list of `width` columns, None if the node is not a constant. Raises SQ2222."""
    value = node.unnest()
    negative = isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal)
    literal = value.this if negative else value
    if not isinstance(literal, exp.Literal | exp.Null | exp.Boolean):
        return None
    span = syntax.span(node)
    hint = f"Write {'a position from 1 to' if width > 1 else 'position'} {width}, or an expression."
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdigit():
        raise SinkqlError("SQ2222", f"non-integer constant in {clause}", span, hint=hint)
    if negative or not 1 <= int(literal.this) <= width:
        shown = f"-{literal.this}" if negative else literal.this
        raise SinkqlError("SQ2222", f"{clause} position {shown} is not in the select list", span, hint=hint)
    return int(literal.this) - 1
