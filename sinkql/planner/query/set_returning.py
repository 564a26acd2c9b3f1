"""Plan set-returning functions in FROM, where their rows join each row on their left, and in a select list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Change
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, column, constant, settled
from sinkql.planner.function.set_returning import ENTRIES, HANDLERS, NAMED, elements
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.scope import RowContext, Scope, identifier
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import Syntax

_ARRAY, _NUMBER, _ENTRY = "$array{}", "$number", "$entry"


@dataclass(frozen=True, slots=True)
class TableCall:
    """A function in FROM: its arguments, and the names of its relation, columns and ordinality column."""

    name: str
    arguments: tuple[Any, ...]
    alias: str | None
    columns: tuple[str, ...]
    ordinality: str | None

    @property
    def relation(self) -> str:
        return self.alias or self.name

    @property
    def width(self) -> int:
        """Return the number of columns of its rows."""
        if self.name in ENTRIES:
            return len(ENTRIES[self.name].fields)
        return len(self.arguments) if self.name == "unnest" else 1

    @property
    def scalar(self) -> bool:
        """Return whether its rows are single values, so that the name of the relation also names its column."""
        return self.width == 1 and self.ordinality is None

    def named(self) -> tuple[str, ...]:
        """Return the names of the columns; a single column is named after the alias or the function by default."""
        count = self.width
        default = [NAMED.get(self.name) or (self.relation if count == 1 else self.name)] * count
        if self.name in ENTRIES:
            default = [field.name for field in ENTRIES[self.name].fields]
        number = () if self.ordinality is None else (self.ordinality,)
        return (*self.columns[:count], *default[len(self.columns) :], *number)


def table_call(node: Any) -> TableCall | None:
    """Return the function of a FROM item, None if the item is no function or an unknown one."""
    inner = node.this if isinstance(node, exp.Lateral) else node
    alias = node.args.get("alias") or inner.args.get("alias")
    names = [identifier(column_) for column_ in (alias.args.get("columns") or ())] if alias is not None else []
    relation_alias = identifier(alias.this) if alias is not None and alias.this is not None else None
    if isinstance(inner, exp.Unnest):
        numbered, name, arguments = inner.args.get("offset"), "unnest", inner.expressions
    elif isinstance(inner, exp.Table | exp.Anonymous):
        numbered = inner.args.get("ordinality") or node.args.get("ordinality")
        function = inner.this if isinstance(inner, exp.Table) else inner
        if not isinstance(function, exp.Anonymous) or not isinstance(function.this, str):
            return None
        name, arguments = function.this.lower(), function.expressions
    else:
        return None
    if name not in HANDLERS:
        return None
    table_call_ = TableCall(name, tuple(arguments), relation_alias, tuple(names), None)
    if not numbered:
        return table_call_
    count = table_call_.width
    if isinstance(numbered, exp.Identifier):
        return replace(table_call_, ordinality=identifier(numbered))
    return replace(table_call_, columns=tuple(names[:count]), ordinality=next(iter(names[count:]), "ordinality"))


def flattened(
    syntax: Syntax,
    relation: logical.Relation,
    scope: Scope,
    called: TableCall,
    names: Sequence[str],
    *,
    span: Span,
    outer: bool,
) -> logical.Relation:
    """Return each row of a relation combined with the rows of a function, in further columns with these names."""
    rows = Translator(syntax, RowContext(scope, "a function in FROM"))
    values = [rows.translate(argument) for argument in called.arguments]
    separate = called.name == "unnest" and len(values) > 1
    argument_lists = [[value] for value in values] if separate else [values]
    arrays = [elements(called.name, arguments, span) for arguments in argument_lists]
    if called.name in ENTRIES:
        return _expand_entries(relation, arrays[0], names, span, ordinality=called.ordinality is not None, outer=outer)
    return _zip_arrays(relation, arrays, names, span, ordinality=called.ordinality is not None, outer=outer)


def _zip_arrays(
    relation: logical.Relation,
    arrays: Sequence[Typed],
    names: Sequence[str],
    span: Span,
    *,
    ordinality: bool,
    outer: bool,
) -> logical.Relation:
    """Return each row with the elements of all arrays at one position, or NULL after the end of a shorter array."""
    if len(arrays) == 1:
        return _flatten(relation, arrays[0], names[:2] if ordinality else names[:1], outer=outer)
    input_items = [(column_.name, query_relation.reference(column_, span)) for column_ in relation.shape.columns]
    array_items = [(_ARRAY.format(place), array) for place, array in enumerate(arrays)]
    below = query_relation.project(relation, [*input_items, *array_items])
    array_columns = [column(name, array.type, nullable=array.nullable, span=span) for name, array in array_items]
    lengths = [_length(array, span) for array in array_columns]
    longest = call("greatest(any…)", lengths, span, type_=types.INTEGER)
    first = constant(1, types.INTEGER, span)
    places = elements("generate_series", (first, longest), span)
    flat = _flatten(below, places, [_NUMBER], outer=outer)
    place = column(_NUMBER, types.INTEGER, nullable=outer, span=span)
    items = [
        (name, call("[](any,integer)", (array, place), span, type_=array.type.item))
        for name, array in zip(names, array_columns, strict=False)
    ]
    if ordinality:
        items.append((names[len(arrays)], cast_to(place, types.BIGINT)))
    return query_relation.project(flat, [*input_items, *items])


def _expand_entries(
    relation: logical.Relation, array: Typed, names: Sequence[str], span: Span, *, ordinality: bool, outer: bool
) -> logical.Relation:
    """Return each row with the fields of a record; the first field is a key among the records of one row."""
    fields = array.type.item.fields
    flat = _flatten(relation, array, [_ENTRY, _NUMBER][: 1 + ordinality], outer=outer)
    entry = column(_ENTRY, array.type.item, nullable=outer, span=span)
    input_items = [(column_.name, query_relation.reference(column_, span)) for column_ in relation.shape.columns]
    items = [
        (name, call(".(any,text)", (entry, constant(field.name, types.TEXT, span)), span, type_=field.type))
        for name, field in zip(names, fields, strict=False)
    ]
    if ordinality:
        items.append((names[len(fields)], column(_NUMBER, types.BIGINT, nullable=outer, span=span)))
    expanded = query_relation.project(flat, [*input_items, *items])
    keys = () if flat.shape.change is Change.UPSERT else tuple(key | {names[0]} for key in relation.shape.keys)
    return replace(expanded, shape=replace(expanded.shape, keys=(*expanded.shape.keys, *keys)))


def _length(array: Typed, span: Span) -> Typed:
    length = call("cardinality(any)", (array,), span)
    return call("coalesce(any…)", (length, constant(0, types.INTEGER, span)), span, type_=types.INTEGER)


def _flatten(relation: logical.Relation, array: Typed, names: Sequence[str], *, outer: bool) -> logical.Relation:
    added = [logical.Column(names[0], array.type.item)]
    added += [logical.Column(name, types.BIGINT, outer) for name in names[1:]]
    shape = relation.shape
    change = Change.RETRACT if shape.change is Change.UPSERT else shape.change
    keys = tuple(key | {names[1]} for key in shape.keys) if len(names) > 1 else ()
    new_shape = logical.Shape((*shape.columns, *added), keys, change)
    return logical.Flatten(relation, settled(array), len(names) > 1, outer, new_shape)


# --- in a select list ------------------------------------------------------------------------------------------------


class SelectContext(RowContext):
    """The names of a select list with set-returning functions, whose results are columns `$set0`, `$set1`, …"""

    def __init__(self, syntax: Syntax, scope: Scope) -> None:
        super().__init__(scope, "this place")
        self.syntax = syntax
        self.arrays: list[Typed] = []
        self.within = False

    def computed(self, node: Any) -> Typed | None:
        value = super().computed(node)
        if value is not None or not returns_set(node):
            return value
        span = self.syntax.span(node)
        if self.within or node.find_ancestor(exp.Case, exp.Filter):
            message = "set-returning functions are not supported inside CASE and inside other set-returning functions"
            raise SinkqlError("SQ2928", message, span, hint="Write it in FROM.")
        name = str(node.this).lower()
        if name in ENTRIES:
            hint = f"Write it in FROM, as in FROM t, {name}(t.value) AS e (key, value)."
            raise SinkqlError("SQ2928", f"{name}() returns rows of several columns", span, hint=hint)
        self.within = True
        rows = Translator(self.syntax, self)
        array = elements(name, [rows.translate(expression) for expression in node.expressions], span)
        self.within = False
        self.arrays.append(array)
        return column(f"$set{len(self.arrays) - 1}", array.type.item, nullable=True, span=span)

    def flattened(self, relation: logical.Relation, span: Span) -> logical.Relation:
        """Return the relation below the select list, with its sets side by side."""
        if not self.arrays:
            return relation
        names = [f"$set{place}" for place in range(len(self.arrays))]
        return _zip_arrays(relation, self.arrays, names, span, ordinality=False, outer=False)


def returns_set(node: Any) -> bool:
    """Return whether a node is a call of a set-returning function."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() in HANDLERS
