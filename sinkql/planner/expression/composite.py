"""Fields of records, and casts of what is made of others, part by part."""

from __future__ import annotations

from collections.abc import Callable

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.logical import Branch, Call, Case, Expression, Literal, Type
from sinkql.logical.type import Field, record_type
from sinkql.planner.expression.typed import Typed, call, constant, exact, null_of
from sinkql.planner.types import TEXT, UNKNOWN

_ROW, _MAP = "ROW(any…)", "MAP(any…)"

Convert = Callable[[Typed, Type, Span], Typed]
"""A cast of a part."""


def field(value: Typed, name: str, span: Span, place: Span) -> Typed:
    """Plan `(value).name`, whose name has a place."""
    found = next((each for each in value.type.fields if each.name == name), None)
    if found is not None:
        return call(".(any,text)", (exact(value), constant(name, TEXT, span)), span, type_=found.type)
    names = [each.name for each in value.type.fields]
    if not names:
        raise SinkqlError("SQ2211", f"cannot take field {name} of type {value.type.called}: it is not a record", span)
    near = nearest(name, names)
    hint = f"Did you mean {near}?" if near else f"Its fields are {', '.join(names)}."
    raise SinkqlError("SQ2204", f'field "{name}" does not exist in {value.type}', place, hint=hint)


def fields(value: Typed) -> list[Typed]:
    """Return all fields of a record."""
    return [field(value, each.name, value.span, value.span) for each in value.type.fields]


def recast(value: Typed, target: Type, span: Span, convert: Convert) -> Typed:
    """Plan a cast of a record to one with other names and types of its fields, or of MAP[…] to another type of values.

    Raises SQ2218 where there are others in number, and where a field that is NOT NULL may be NULL.
    """
    tree = value.tree
    if target.name == "map":
        if not isinstance(tree, Call) or tree.function != _MAP:
            raise no_cast(value.type, target, span)
        parts = [Typed(each, each.type) for each in tree.arguments]
        cast_parts = [each if place % 2 == 0 else _as(each, target.value, convert) for place, each in enumerate(parts)]
        return call(_MAP, cast_parts, span, type_=target)
    if len(value.type.fields) != len(target.fields):
        raise no_cast(value.type, target, span)
    value = with_constants(value, target, convert)
    tree = value.tree
    made = isinstance(tree, Call) and tree.function == _ROW
    held = [Typed(each, each.type) for each in tree.arguments] if isinstance(tree, Call) and made else fields(value)
    for part, given, wanted in zip(held, value.type.fields, target.fields, strict=True):
        if not wanted.nullable and (part.nullable if made else given.nullable):
            message = f'field "{wanted.name}" of {target} is NOT NULL, and its value may be NULL'
            use = "Use COALESCE" if made else "Cast it where it is made, as ROW(…)::record(…)"
            raise SinkqlError("SQ2218", message, span, hint=f"{use}, or leave out NOT NULL.")
    parts = [_as(each, wanted.type, convert) for each, wanted in zip(held, target.fields, strict=True)]
    row = call(_ROW, parts, span, type_=target)
    if made or not value.nullable:
        return row
    null = call("IS NULL(any)", (value,), span)
    return Typed(Case((Branch(null.tree, null_of(target, span).tree),), row.tree, target, span), target)


def _as(value: Typed, target: Type, convert: Convert) -> Typed:
    return exact(value if value.type == target else convert(value, target, value.span))


def with_constants(value: Typed, target: Type, convert: Convert) -> Typed:
    """Return a ROW(…) with its strings and NULLs as the fields want them that it is put into."""
    tree = value.tree
    if not isinstance(tree, Call) or tree.function != _ROW or len(tree.arguments) != len(target.fields):
        return value
    parts = [
        _as(_untyped(each), field.type, convert) if _constant(each) else Typed(each, each.type)
        for each, field in zip(tree.arguments, target.fields, strict=True)
    ]
    fields = (Field(each.name, part.type) for each, part in zip(value.type.fields, parts, strict=True))
    return call(_ROW, parts, value.span, type_=record_type(fields))


def _constant(tree: Expression) -> bool:
    return isinstance(tree, Literal) and tree.type == TEXT


def _untyped(tree: Expression) -> Typed:
    assert isinstance(tree, Literal)
    return Typed(Literal(tree.text, UNKNOWN, tree.span), UNKNOWN)


def recasts(source: Type, target: Type) -> bool:
    """Tell whether `recast` is what casts between two types."""
    return source != target and source.name == target.name and source.name in ("map", "record")


def no_cast(source: Type, target: Type, span: Span) -> SinkqlError:
    """Return the error for a cast that there is not."""
    return SinkqlError("SQ2218", f"cannot cast type {source.called} to {target.called}", span)
