"""Build relations: the effect of projection, filter, grouping and union on columns, keys and change kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Change
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.operator import part_of
from sinkql.planner.expression.typed_expression import Typed, column, narrowed, null_of, settled, widest
from sinkql.planner.query.join import conjuncts, keys_of_groups
from sinkql.planner.query.keys import filtered, minimal
from sinkql.planner.query.top_n import as_top_n, drop_row_number

Item = tuple[str, Typed]


def project(relation: logical.Relation, items: Sequence[Item]) -> logical.Relation:
    """Compute columns. A key remains if all its columns do; a projection that changes nothing adds no node.

    If the key of an upsert relation is lost, the change kind becomes RETRACT.
    """
    columns = relation.shape.columns
    same = len(items) == len(columns) and all(
        name == column_.name == value.column and value.type == column_.type
        for (name, value), column_ in zip(items, columns, strict=True)
    )
    if same:
        return relation
    outputs = tuple(logical.Output(name, _output_expression(value)) for name, value in items)
    renamed: dict[str, str] = {}
    for name, value in items:
        if value.column is not None:
            renamed.setdefault(value.column, name)
    kept_keys = [key for key in relation.shape.keys if key <= renamed.keys()]
    keys = tuple(frozenset(renamed[part] for part in key) for key in kept_keys)
    change = relation.shape.change
    if change == Change.UPSERT and relation.shape.keys[0] not in kept_keys:
        change = Change.RETRACT
    shape = logical.Shape(tuple(_column(output) for output in outputs), keys, change)
    return drop_row_number(logical.Project(relation, outputs, shape))


def _column(output: logical.Output) -> logical.Column:
    return logical.Column(output.name, output.expression.type, output.expression.nullable)


def keep(relation: logical.Relation, predicate: Typed) -> logical.Relation:
    """Filter a relation; its keys remain."""
    condition = settled(predicate)
    return as_top_n(logical.Filter(relation, condition, filtered(relation.shape, conjuncts(condition))))


def _output_expression(value: Typed) -> logical.Expression:
    """Return the expression of a column; a literal with more digits than a plain numeric keeps its exact type."""
    tree, type_ = value.tree, value.raw
    if value.type == NUMERIC and isinstance(tree, logical.Literal) and type_.name == "numeric":
        scale = type_.scale or 0
        if type_.whole_digits > NUMERIC.whole_digits or scale > (NUMERIC.scale or 0):
            return tree
    return settled(value)


_INSTEAD = {"jsonb": "Use values of it, as j ->> 'key'.", "interval": "Use its text, as in x::text."}


def check_group(type_: logical.Type, span: Span, where: str) -> None:
    """Raise SQ2214 if equal values of a type may differ."""
    if not types.is_groupable(type_):
        message = f"{type_} is not allowed in {where}: its values cannot be compared exactly"
        raise SinkqlError("SQ2214", message, span, hint=_INSTEAD.get(type_.name) or part_of(type_))


def group(
    relation: logical.Relation, groups: Sequence[Item], calls: Sequence[logical.AggregateCall], span: Span
) -> logical.Aggregate:
    """Group a relation; the group columns, or a subset that determines them, are a key. No group columns: one row."""
    outputs = tuple(logical.Output(name, settled(value)) for name, value in groups)
    for output in outputs:
        check_group(output.expression.type, output.expression.span, "GROUP BY or DISTINCT")
    columns = [_column(output) for output in outputs]
    for call in calls:
        argument = call.argument
        nullable = call.function != "count" and (not groups or argument is None or argument.nullable)
        columns.append(logical.Column(call.name, call.type, nullable))
    keys = minimal([frozenset(output.name for output in outputs), *keys_of_groups(relation, outputs)])
    shape = logical.Shape(tuple(columns), keys, Change.RETRACT)
    return logical.Aggregate(relation, outputs, tuple(calls), shape)


def distinct(relation: logical.Relation, span: Span) -> logical.Relation:
    """Remove duplicate rows; keys of the input remain."""
    grouped = group(
        relation, [(column_.name, reference(column_, span)) for column_ in relation.shape.columns], (), span
    )
    return keyed(grouped, relation.shape.keys)


def reference(column_: logical.Column, span: Span) -> Typed:
    """Return a reference to a column of a relation."""
    return column(column_.name, column_.type, nullable=column_.nullable, span=span)


def union(left: logical.Relation, right: logical.Relation, span: Span, *, scaled: bool = False) -> logical.Relation:
    """Append rows by position, with the first side's names and common types.

    If `scaled`, a numeric of two types has a scale that holds both; otherwise it is a plain numeric.
    """
    sides = alike("UNION", left, right, span, scaled=scaled)
    wanted = [(column_.name, column_.type) for column_ in sides[0].shape.columns]
    inputs = tuple(part for side in sides for part in (side.inputs if isinstance(side, logical.Union) else (side,)))
    columns = tuple(
        logical.Column(name, type_, any(side.shape.columns[i].nullable for side in inputs))
        for i, (name, type_) in enumerate(wanted)
    )
    changes = {side.shape.change for side in inputs}
    change = Change.APPEND if changes == {Change.APPEND} else Change.RETRACT
    return logical.Union(inputs, logical.Shape(columns, (), change))


def alike(
    word: str, left: logical.Relation, right: logical.Relation, span: Span, *, scaled: bool = False
) -> tuple[logical.Relation, logical.Relation]:
    """Return both sides of a set operation with the first side's names and common types."""
    names = [column_.name for column_ in left.shape.columns]
    if len(names) != len(right.shape.columns):
        counts = f"{len(names)} and {len(right.shape.columns)}"
        message = f"each part of {word} must have the same number of columns, found {counts}"
        raise SinkqlError("SQ2221", message, span, hint="Select the same number of columns in each part.")
    wanted = []
    for place, (name, a, b) in enumerate(zip(names, left.shape.columns, right.shape.columns, strict=True)):
        type_ = (
            b.type
            if _is_untyped_null(left, place)
            else a.type
            if _is_untyped_null(right, place)
            else types.common((a.type, b.type))
        )
        if type_ is None:
            message = f'types {a.type.name} and {b.type.name} of column "{name}" of {word} cannot be matched'
            raise SinkqlError("SQ2213", message, span, hint="Cast one of them.")
        if scaled and type_ == NUMERIC:
            values = [
                reference(side_column, span)
                for side_column, side in ((a, left), (b, right))
                if not _is_untyped_null(side, place)
            ]
            type_ = narrowed(null_of(NUMERIC, span), widest(values)).type
        wanted.append((name, type_))
    return _cast_columns(left, wanted, span), _cast_columns(right, wanted, span)


def chosen(relation: logical.Relation, names: Sequence[str], span: Span) -> logical.Relation:
    """Return some of the columns, in this order."""
    columns = {column_.name: column_ for column_ in relation.shape.columns}
    return project(relation, [(name, reference(columns[name], span)) for name in names])


def keyed(relation: logical.Relation, keys: Sequence[frozenset[str]]) -> logical.Relation:
    """Return a relation with additional keys."""
    shape = replace(relation.shape, keys=tuple(dict.fromkeys((*keys, *relation.shape.keys))))
    return replace(relation, shape=shape)


def _is_untyped_null(relation: logical.Relation, place: int) -> bool:
    """Return whether a column is a NULL literal without a type."""
    if not isinstance(relation, logical.Project):
        return False
    expression = relation.outputs[place].expression
    return isinstance(expression, logical.Literal) and expression.text is None and expression.type == types.TEXT


def _cast_columns(
    relation: logical.Relation, wanted: Sequence[tuple[str, logical.Type]], span: Span
) -> logical.Relation:
    items = []
    for place, (column_, (name, type_)) in enumerate(zip(relation.shape.columns, wanted, strict=True)):
        value = reference(column_, span)
        if value.type != type_:
            value = null_of(type_, span) if _is_untyped_null(relation, place) else _cast(value, type_)
        items.append((name, value))
    return project(relation, items)


def _cast(value: Typed, type_: logical.Type) -> Typed:
    """Cast a column to the common type of both sides."""
    if type_.name == "numeric" and type_ != NUMERIC:
        return narrowed(coerced(value, NUMERIC), type_.scale)
    return coerced(value, type_)


def renamed(relation: logical.Relation, names: Sequence[str], span: Span) -> logical.Relation:
    """Rename the first columns, as in `t AS x (a, b)`."""
    columns = relation.shape.columns
    if len(names) > len(columns):
        message = f"{len(names)} column names for {len(columns)} columns"
        raise SinkqlError("SQ2221", message, span)
    names = [*names, *(column_.name for column_ in columns[len(names) :])]
    return project(relation, [(name, reference(column_, span)) for name, column_ in zip(names, columns, strict=True)])
