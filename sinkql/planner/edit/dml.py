"""Plan INSERT, UPDATE and DELETE as new, changed and removed rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.logical.type import shown_name
from sinkql.planner.expression.assign import Cell, assign, check_assignable
from sinkql.planner.expression.cast import cast
from sinkql.planner.expression.typed_expression import column as reference
from sinkql.planner.expression.typed_expression import settled
from sinkql.planner.item import table
from sinkql.planner.name import missing, with_article
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.plan import OneShotQuery, plan_one_shot
from sinkql.planner.query.scope import Scope
from sinkql.planner.query.translate import expression, scalar, translator
from sinkql.planner.syntax.sqlglot_tree import parse


@dataclass(frozen=True, slots=True)
class Target:
    """The table to change: its plan, and its statement with defaults, keys and lengths."""

    item: logical.Source
    statement: ast.CreateTable

    @property
    def columns(self) -> tuple[logical.Column, ...]:
        return self.item.shape.columns


@dataclass(frozen=True, slots=True)
class Inserted:
    """An INSERT of complete rows, or of a query whose columns go to `places`; other places get `defaults`.

    `converted` is the query's relation with values cast to the types of the table's columns.
    """

    target: Target
    rows: tuple[tuple[Cell, ...], ...]
    query: OneShotQuery | None
    places: tuple[int, ...]
    defaults: tuple[Cell, ...]
    converted: logical.Relation | None = None


@dataclass(frozen=True, slots=True)
class NewValue:
    """The new value of a column: a constant, or an expression over the old row."""

    place: int
    cell: Cell


@dataclass(frozen=True, slots=True)
class Updated:
    """An UPDATE; without `where`, of all rows."""

    target: Target
    where: logical.Expression | None
    values: tuple[NewValue, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """A DELETE; without `where`, of all rows."""

    target: Target
    where: logical.Expression | None


def find_table(name: ast.Name, catalog: logical.CatalogReader) -> Target:
    """Return a table; raise SQ2001 if the name is unknown, SQ2432 if the item is not a table."""
    full_name = catalog.resolve(name)
    entry = catalog.entry(full_name)
    if entry is None:
        raise missing(catalog, name, table.KIND)
    item = catalog.item(full_name)
    if not isinstance(entry.statement, ast.CreateTable) or not isinstance(item, logical.Source):
        what = "fed by a source" if entry.kind == table.KIND else f"{with_article(entry.kind)}, not a table"
        raise SinkqlError(
            "SQ2432",
            f'"{name.text}" is {what}: its rows cannot be changed',
            name.span,
            hint="Create a table with CREATE TABLE name (…).",
        )
    return Target(item, entry.statement)


def plan_insert(statement: ast.Insert, catalog: logical.CatalogReader, now: datetime) -> Inserted:
    """Plan INSERT.

    Raises SQ2204, SQ2423 (columns and values do not match), SQ2425, SQ2946 (RETURNING).
    """
    if statement.returning is not None:
        raise SinkqlError(
            "SQ2946", "RETURNING is not supported yet", statement.returning.span, hint="Select the rows afterwards."
        )
    target = find_table(statement.table, catalog)
    places = _places(target, statement.columns)
    defaults = tuple(_default(target, place, now) for place in range(len(target.columns)))
    if statement.query is None:
        return Inserted(target, (defaults,), None, (), defaults)
    syntax = parse(statement.query)
    if not isinstance(syntax.tree, exp.Values) or syntax.tree.args.get("alias"):
        once = plan_one_shot(statement.query, catalog, now)
        return _insert_query(statement, statement.query.span, target, places, defaults, once)
    cells = translator(syntax, now, None, "VALUES")
    rows = []
    for row in syntax.tree.expressions:
        places = _places_of(statement, target, places, len(row.expressions), syntax.span(row))
        filled = list(defaults)
        for place, node in zip(places, row.expressions, strict=True):
            if not _is_default(node):
                filled[place] = assign(cells.translate(node), target.columns[place])
        rows.append(tuple(filled))
    return Inserted(target, tuple(rows), None, places, defaults)


def _is_default(node: Any) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def _insert_query(
    statement: ast.Insert,
    span: Span,
    target: Target,
    places: tuple[int, ...],
    defaults: tuple[Cell, ...],
    query: OneShotQuery,
) -> Inserted:
    shown, hidden = query.relation.shape.columns[: query.width], query.relation.shape.columns[query.width :]
    places = _places_of(statement, target, places, query.width, span)
    items = []
    for place, column_ in zip(places, shown, strict=True):
        column = target.columns[place]
        check_assignable(column_.type, column, span)
        value = reference(column_.name, column_.type, nullable=column_.nullable, span=span)
        items.append((column.name, value if column_.type == column.type else cast(value, column.type, span)))
    items += [
        (column_.name, reference(column_.name, column_.type, nullable=column_.nullable, span=span))
        for column_ in hidden
    ]
    return Inserted(target, (), query, places, defaults, query_relation.project(query.relation, items))


def _places(target: Target, written: tuple[ast.Ident, ...]) -> tuple[int, ...]:
    places: list[int] = []
    for name in written:
        place = _place(target, name)
        if place in places:
            raise SinkqlError(
                "SQ2008", f'column "{name.value}" is specified more than once', name.span, hint="Keep one of them."
            )
        places.append(place)
    return tuple(places) if written else tuple(range(len(target.columns)))


def _place(target: Target, name: ast.Ident) -> int:
    names = [column.name for column in target.columns]
    if name.value not in names:
        near = nearest(name.value, names)
        hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(map(shown_name, names))}."
        raise SinkqlError("SQ2204", f'column "{name.value}" does not exist', name.span, hint=hint)
    return names.index(name.value)


def _places_of(
    statement: ast.Insert, target: Target, places: tuple[int, ...], count: int, span: Span
) -> tuple[int, ...]:
    """Return the places of `count` values; without a column list, fewer values go to the first columns."""
    if count == len(places) or (not statement.columns and 0 < count < len(places)):
        return places[:count]
    names = ", ".join(target.columns[place].name for place in places)
    raise SinkqlError(
        "SQ2423",
        f"INSERT has {_count_text(count, 'value')} for {_count_text(len(places), 'column')}",
        span,
        hint=f"The columns are {names}.",
    )


def _count_text(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _default(target: Target, place: int, now: datetime) -> Cell:
    written = table.default(target.statement.columns[place])
    return assign(scalar(written, now), target.columns[place]) if written is not None else Cell(None)


# --- UPDATE and DELETE -----------------------------------------------------------------------------------------------


def plan_update(statement: ast.Update, catalog: logical.CatalogReader, now: datetime) -> Updated:
    """Plan UPDATE; expressions read the old row."""
    target = find_table(statement.table, catalog)
    scope = _scope(statement.table, statement.alias, target)
    _places(target, tuple(assignment.column for assignment in statement.assignments))
    values = tuple(_new_value(assignment, target, scope, now) for assignment in statement.assignments)
    return Updated(target, _condition(statement.where, scope, now), values)


def plan_delete(statement: ast.Delete, catalog: logical.CatalogReader, now: datetime) -> Deleted:
    """Plan DELETE; raise SQ2945 for USING."""
    if statement.using is not None:
        raise SinkqlError(
            "SQ2945",
            "DELETE … USING is not supported yet",
            statement.using.span,
            hint="Write the keys, as in WHERE id IN (1, 2).",
        )
    target = find_table(statement.table, catalog)
    return Deleted(target, _condition(statement.where, _scope(statement.table, statement.alias, target), now))


def _scope(name: ast.Name, alias: ast.Ident | None, target: Target) -> Scope:
    parts = (alias.value,) if alias is not None else tuple(part.value for part in name.parts)
    return Scope.of((parts,), target.columns)


def _condition(written: ast.Expression | None, scope: Scope, now: datetime) -> logical.Expression | None:
    if written is None:
        return None
    syntax, node = expression(written)
    return settled(translator(syntax, now, scope, "WHERE").boolean(node, "WHERE"))


def _new_value(assignment: ast.Assignment, target: Target, scope: Scope, now: datetime) -> NewValue:
    place = _place(target, assignment.column)
    if assignment.value.text.strip().upper() == "DEFAULT":
        return NewValue(place, _default(target, place, now))
    syntax, node = expression(assignment.value)
    value = translator(syntax, now, scope, "SET").translate(node)
    return NewValue(place, assign(value, target.columns[place]))
