"""Functions that return sets: in FROM, where each row before them comes with their rows, and in a select list."""

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
    """A function in FROM: the names of its relation and columns, and of the column that numbers its rows."""

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
        """Return how many columns its rows have."""
        if self.name in ENTRIES:
            return len(ENTRIES[self.name].fields)
        return len(self.arguments) if self.name == "unnest" else 1

    @property
    def scalar(self) -> bool:
        """Tell whether its rows are values, which the name of the relation stands for, too."""
        return self.width == 1 and self.ordinality is None

    def named(self) -> tuple[str, ...]:
        """Return the names of the columns: that of a function that has one is its alias, or its own name."""
        count = self.width
        default = [NAMED.get(self.name) or (self.relation if count == 1 else self.name)] * count
        if self.name in ENTRIES:
            default = [each.name for each in ENTRIES[self.name].fields]
        number = () if self.ordinality is None else (self.ordinality,)
        return (*self.columns[:count], *default[len(self.columns) :], *number)


def table_call(node: Any) -> TableCall | None:
    """Return the function that a relation of FROM is; None for another relation, or a function that is not known."""
    inner = node.this if isinstance(node, exp.Lateral) else node
    alias = node.args.get("alias") or inner.args.get("alias")
    names = [identifier(each) for each in (alias.args.get("columns") or ())] if alias is not None else []
    called = identifier(alias.this) if alias is not None and alias.this is not None else None
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
    found = TableCall(name, tuple(arguments), called, tuple(names), None)
    if not numbered:
        return found
    count = found.width
    if isinstance(numbered, exp.Identifier):
        return replace(found, ordinality=identifier(numbered))
    return replace(found, columns=tuple(names[:count]), ordinality=next(iter(names[count:]), "ordinality"))


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
    """Return each row of a relation with the rows of a function, in columns of these names behind its own."""
    rows = Translator(syntax, RowContext(scope, "a function in FROM"))
    values = [rows.translate(each) for each in called.arguments]
    each_own = called.name == "unnest" and len(values) > 1
    given = [[value] for value in values] if each_own else [values]
    arrays = [elements(called.name, each, span) for each in given]
    if called.name in ENTRIES:
        return _of_entries(relation, arrays[0], names, span, ordinality=called.ordinality is not None, outer=outer)
    return _flattened(relation, arrays, names, span, ordinality=called.ordinality is not None, outer=outer)


def _flattened(
    relation: logical.Relation,
    arrays: Sequence[Typed],
    names: Sequence[str],
    span: Span,
    *,
    ordinality: bool,
    outer: bool,
) -> logical.Relation:
    """Return each row with an element of each array, all of one place; NULL behind the end of the shorter ones."""
    if len(arrays) == 1:
        return _flatten(relation, arrays[0], names[:2] if ordinality else names[:1], outer=outer)
    given = [(each.name, query_relation.reference(each, span)) for each in relation.shape.columns]
    held = [(_ARRAY.format(place), array) for place, array in enumerate(arrays)]
    below = query_relation.project(relation, [*given, *held])
    within = [column(name, array.type, nullable=array.nullable, span=span) for name, array in held]
    lengths = [_length(each, span) for each in within]
    most = call("greatest(any…)", lengths, span, type_=types.INTEGER)
    first = constant(1, types.INTEGER, span)
    places = elements("generate_series", (first, most), span)
    flat = _flatten(below, places, [_NUMBER], outer=outer)
    place = column(_NUMBER, types.INTEGER, nullable=outer, span=span)
    items = [
        (name, call("[](any,integer)", (each, place), span, type_=each.type.element))
        for name, each in zip(names, within, strict=False)
    ]
    if ordinality:
        items.append((names[len(arrays)], cast_to(place, types.BIGINT)))
    return query_relation.project(flat, [*given, *items])


def _of_entries(
    relation: logical.Relation, array: Typed, names: Sequence[str], span: Span, *, ordinality: bool, outer: bool
) -> logical.Relation:
    """Return each row with the fields of a record: the first one is a key of the records of one row."""
    assert array.type.element is not None
    fields = array.type.element.fields
    flat = _flatten(relation, array, [_ENTRY, _NUMBER][: 1 + ordinality], outer=outer)
    entry = column(_ENTRY, array.type.element, nullable=outer, span=span)
    given = [(each.name, query_relation.reference(each, span)) for each in relation.shape.columns]
    items = [
        (name, call(".(any,text)", (entry, constant(each.name, types.TEXT, span)), span, type_=each.type))
        for name, each in zip(names, fields, strict=False)
    ]
    if ordinality:
        items.append((names[len(fields)], column(_NUMBER, types.BIGINT, nullable=outer, span=span)))
    found = query_relation.project(flat, [*given, *items])
    keys = () if flat.shape.change is Change.UPSERT else tuple(key | {names[0]} for key in relation.shape.keys)
    return replace(found, shape=replace(found.shape, keys=(*found.shape.keys, *keys)))


def _length(array: Typed, span: Span) -> Typed:
    found = call("cardinality(any)", (array,), span)
    return call("coalesce(any…)", (found, constant(0, types.INTEGER, span)), span, type_=types.INTEGER)


def _flatten(relation: logical.Relation, array: Typed, names: Sequence[str], *, outer: bool) -> logical.Relation:
    assert array.type.element is not None
    added = [logical.Column(names[0], array.type.element)]
    added += [logical.Column(name, types.BIGINT, outer) for name in names[1:]]
    shape = relation.shape
    change = Change.RETRACT if shape.change is Change.UPSERT else shape.change
    keys = tuple(key | {names[1]} for key in shape.keys) if len(names) > 1 else ()
    whole = logical.Shape((*shape.columns, *added), keys, change)
    return logical.Flatten(relation, settled(array), len(names) > 1, outer, whole)


# --- in a select list ------------------------------------------------------------------------------------------------


class SelectContext(RowContext):
    """Names in a select list in which functions return sets; what these return are columns `$set0`, `$set1`, …"""

    def __init__(self, syntax: Syntax, scope: Scope) -> None:
        super().__init__(scope, "this place")
        self.syntax = syntax
        self.arrays: list[Typed] = []
        self.within = False

    def known(self, node: Any) -> Typed | None:
        found = super().known(node)
        if found is not None or not returns_set(node):
            return found
        span = self.syntax.span(node)
        if self.within or node.find_ancestor(exp.Case, exp.Filter):
            message = "functions that return sets are not supported within CASE and other calls of such functions"
            raise SinkqlError("SQ2928", message, span, hint="Write it in FROM.")
        name = str(node.this).lower()
        if name in ENTRIES:
            hint = f"Write it in FROM, as in FROM t, {name}(t.value) AS e (key, value)."
            raise SinkqlError("SQ2928", f"{name}() returns rows of several columns", span, hint=hint)
        self.within = True
        rows = Translator(self.syntax, self)
        array = elements(name, [rows.translate(each) for each in node.expressions], span)
        self.within = False
        self.arrays.append(array)
        assert array.type.element is not None
        return column(f"$set{len(self.arrays) - 1}", array.type.element, nullable=True, span=span)

    def flattened(self, relation: logical.Relation, span: Span) -> logical.Relation:
        """Return the relation below the select list: with the sets, side by side."""
        if not self.arrays:
            return relation
        names = [f"$set{place}" for place in range(len(self.arrays))]
        return _flattened(relation, self.arrays, names, span, ordinality=False, outer=False)


def returns_set(node: Any) -> bool:
    """Tell whether a node is a call of a function that returns a set."""
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() in HANDLERS
