"""Plan explicit casts; raise an error if a cast does not exist or is not exact.

Also plans fields and comparisons of records, and casts of nested values, part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.logical import NUMERIC, Branch, Call, Case, Expression, Literal, Type
from sinkql.logical.expression import as_literal
from sinkql.logical.function import CASTS
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import Field, record_type, shown_name
from sinkql.planner import types
from sinkql.planner.expression.literal import held, literal
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant, exact, joined, null_of
from sinkql.planner.types import BOOLEAN, TEXT, UNKNOWN

_REFUSED = {
    ("numeric", "text"): "the text of a numeric depends on a display scale; cast to numeric(p,s) first",
    ("real", "text"): "the text of a floating-point number differs; cast to numeric(p,s) first",
    ("double precision", "text"): "the text of a floating-point number differs; cast to numeric(p,s) first",
    ("text", "interval"): "only constant text can be cast to an interval",
    **{("text", name): "only constant text can be cast to a range" for name in SUBTYPES},
    ("numrange", "text"): "the text of a numeric depends on a display scale; use lower() and upper()",
}


def cast(value: Typed, target: Type, span: Span, length: int | None = None) -> Typed:
    """Cast explicitly; raise SQ2218 if the cast does not exist, SQ2214 if it is not exact."""
    if value.type == types.UNKNOWN:
        converted = null_of(target, span) if value.null else literal(str(value.constant), target, value.span)
    elif value.type == target and target != NUMERIC:  # a plain numeric's tree may have more digits
        converted = exact(value)
    else:
        converted = _convert(value, target, span)
    if target == NUMERIC:
        converted = replace(converted, scale=NUMERIC.scale)  # a column has the type of the cast
    if length is not None:
        bounds = (constant(number, types.INTEGER, span) for number in (1, length))
        converted = call("substring(text,integer,integer)", (converted, *bounds))
    return converted.at(span)


def _convert(value: Typed, target: Type, span: Span) -> Typed:
    kinds = (value.type.name, target.name)
    if kinds[0] == "interval":
        value = held(value)
    if recasts(value.type, target):
        return recast(value, target, span, cast)
    if kinds in CASTS and not (target == types.TEXT and value.raw == NUMERIC):
        if value.raw == target:
            return value
        return cast_to(value, target)
    reason = _REFUSED.get(kinds)
    if reason is not None:
        raise SinkqlError("SQ2214", f"a cast of {kinds[0]} to {kinds[1]} is not exact: {reason}", span)
    raise no_cast(value.type, target, span)


_ROW, _MAP = "ROW(any…)", "MAP(any…)"

Convert = Callable[[Typed, Type, Span], Typed]
"""A function that casts a part."""
Compare = Callable[[str, Typed, Typed, Span], Typed]
"""A function that compares parts."""


def field(value: Typed, name: str, span: Span, place: Span) -> Typed:
    """Plan `(value).name`; `place` is the span of the name."""
    match = next((field_ for field_ in value.type.fields if field_.name == name), None)
    if match is not None:
        return call(".(any,text)", (exact(value), constant(name, TEXT, span)), span, type_=match.type)
    names = [field_.name for field_ in value.type.fields]
    if not names:
        raise SinkqlError("SQ2211", f"cannot take field {name} of type {value.type.called}: it is not a record", span)
    similar = nearest(name, names)
    hint = f"Did you mean {shown_name(similar)}?" if similar else f"Its fields are {', '.join(map(shown_name, names))}."
    raise SinkqlError("SQ2204", f'field "{name}" does not exist in {value.type}', place, hint=hint)


def fields(value: Typed) -> list[Typed]:
    """Return all fields of a record."""
    return [field(value, field_.name, value.span, value.span) for field_ in value.type.fields]


def compared(operator: str, left: Typed, right: Typed, span: Span, compare: Compare) -> Typed:
    """Plan a comparison of two records part by part; inside them, NULL equals NULL and sorts last.

    The result is NULL if a record is NULL. Raises SQ2211 for records with different numbers of fields.
    """
    lefts, rights = _parts(left), _parts(right)
    if len(lefts) != len(rights):
        raise SinkqlError("SQ2211", "cannot compare records with different numbers of fields", span)
    parts = _Parts(compare, span)
    match operator:
        case "=" | "<>" | "IS NOT DISTINCT FROM":
            comparison = parts.same(lefts, rights)
        case "<" | ">=":
            comparison = parts.less(lefts, rights)
        case _:
            comparison = parts.less(rights, lefts)
    if operator in ("<>", "<=", ">="):
        comparison = _negate(comparison, span)
    nulls = [call("IS NULL(any)", (side,), span) for side in (left, right) if side.nullable]
    if not nulls:
        return comparison
    null_result: Typed = constant(False, BOOLEAN, span)
    if operator != "IS NOT DISTINCT FROM":
        null_result = null_of(BOOLEAN, span)
    elif len(nulls) == 2:
        null_result = joined("AND", nulls, span)
    return Typed(
        Case((Branch(joined("OR", nulls, span).tree, null_result.tree),), comparison.tree, BOOLEAN, span), BOOLEAN
    )


class _Parts:
    """The comparison of the parts of two records, in a total order."""

    def __init__(self, compare: Compare, span: Span) -> None:
        self._compare, self._span = compare, span

    def same(self, lefts: Sequence[Typed], rights: Sequence[Typed]) -> Typed:
        return joined("AND", [self._same(*pair) for pair in zip(lefts, rights, strict=True)], self._span)

    def less(self, lefts: Sequence[Typed], rights: Sequence[Typed]) -> Typed:
        head = self._less(lefts[0], rights[0])
        if len(lefts) == 1:
            return head
        rest = [self._same(lefts[0], rights[0]), self.less(lefts[1:], rights[1:])]
        return joined("OR", [head, joined("AND", rest, self._span)], self._span)

    def _same(self, left: Typed, right: Typed) -> Typed:
        return self._compare("IS NOT DISTINCT FROM", left, right, self._span)

    def _less(self, left: Typed, right: Typed) -> Typed:
        is_less = self._compare("<", left, right, self._span)
        if not left.nullable and not right.nullable:
            return is_less
        left_not_null = _negate(call("IS NULL(any)", (left,), self._span), self._span)
        last = joined("AND", [left_not_null, call("IS NULL(any)", (right,), self._span)], self._span)
        return joined("OR", [call("IS TRUE(boolean)", (is_less,), self._span), last], self._span)


def _parts(value: Typed) -> list[Typed]:
    tree = value.tree
    if isinstance(tree, Call) and tree.function == _ROW:
        return [Typed(argument, argument.type) for argument in tree.arguments]
    return fields(value)


def _negate(value: Typed, span: Span) -> Typed:
    return call("NOT(boolean)", (value,), span)


def recast(value: Typed, target: Type, span: Span, convert: Convert) -> Typed:
    """Plan a cast of a record to other field names and types, or of MAP[…] to another value type.

    Raises SQ2218 for another number of fields, and for a NOT NULL field whose value may be NULL.
    """
    tree = value.tree
    if target.name == "map":
        if not isinstance(tree, Call) or tree.function != _MAP:
            raise no_cast(value.type, target, span)
        parts = [Typed(argument, argument.type) for argument in tree.arguments]
        cast_parts = [
            part if place % 2 == 0 else _convert_part(part, target.value, convert) for place, part in enumerate(parts)
        ]
        return call(_MAP, cast_parts, span, type_=target)
    if len(value.type.fields) != len(target.fields):
        raise no_cast(value.type, target, span)
    value = with_constants(value, target, convert)
    tree = value.tree
    is_row = isinstance(tree, Call) and tree.function == _ROW
    parts_ = (
        [Typed(argument, argument.type) for argument in tree.arguments]
        if isinstance(tree, Call) and is_row
        else fields(value)
    )
    for part, source_field, wanted in zip(parts_, value.type.fields, target.fields, strict=True):
        if not wanted.nullable and (part.nullable if is_row else source_field.nullable):
            message = f'field "{wanted.name}" of {target} is NOT NULL, but its value may be NULL'
            use = "Use COALESCE" if is_row else "Cast the ROW(…) that creates it, as ROW(…)::record(…)"
            raise SinkqlError("SQ2218", message, span, hint=f"{use}, or leave out NOT NULL.")
    parts = [_convert_part(part, wanted.type, convert) for part, wanted in zip(parts_, target.fields, strict=True)]
    row = call(_ROW, parts, span, type_=target)
    if is_row or not value.nullable:
        return row
    null = call("IS NULL(any)", (value,), span)
    return Typed(Case((Branch(null.tree, null_of(target, span).tree),), row.tree, target, span), target)


def _convert_part(value: Typed, target: Type, convert: Convert) -> Typed:
    return exact(value if value.type == target else convert(value, target, value.span))


def with_constants(value: Typed, target: Type, convert: Convert) -> Typed:
    """Return a ROW(…) whose strings and NULLs have the types of the target's fields."""
    tree = value.tree
    if not isinstance(tree, Call) or tree.function != _ROW or len(tree.arguments) != len(target.fields):
        return value
    parts = [
        _convert_part(_untyped(argument), field.type, convert)
        if _is_constant(argument)
        else Typed(argument, argument.type)
        for argument, field in zip(tree.arguments, target.fields, strict=True)
    ]
    fields = (Field(field_.name, part.type) for field_, part in zip(value.type.fields, parts, strict=True))
    return call(_ROW, parts, value.span, type_=record_type(fields))


def _is_constant(tree: Expression) -> bool:
    return isinstance(tree, Literal) and tree.type == TEXT


def _untyped(tree: Expression) -> Typed:
    return Typed(Literal(as_literal(tree).text, UNKNOWN, tree.span), UNKNOWN)


def recasts(source: Type, target: Type) -> bool:
    """Return whether `recast` plans the cast between two types."""
    return source != target and source.name == target.name and source.name in ("map", "record")


def no_cast(source: Type, target: Type, span: Span) -> SinkqlError:
    """Return the error for a cast that does not exist."""
    return SinkqlError("SQ2218", f"cannot cast type {source.called} to {target.called}", span)
