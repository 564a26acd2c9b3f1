"""An explicit cast → its tree; raises where there is no such cast, or none that is exact.

Fields of records, and casts of what is made of others, part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.logical import NUMERIC, Branch, Call, Case, Expression, Literal, Type
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
    ("text", "interval"): "of texts, only constants are read as intervals",
    **{("text", name): "of texts, only constants are read as ranges" for name in SUBTYPES},
    ("numrange", "text"): "the text of a numeric depends on a display scale; take lower() and upper()",
}


def cast(value: Typed, target: Type, span: Span, length: int | None = None) -> Typed:
    """Convert explicitly; raises SinkqlError where there is no such cast (SQ2218) or no exact form of it (SQ2214)."""
    if value.type == types.UNKNOWN:
        found = null_of(target, span) if value.null else literal(str(value.constant), target, value.span)
    elif value.type == target and target != NUMERIC:  # which may have more digits in its tree
        found = exact(value)
    else:
        found = _converted(value, target, span)
    if target == NUMERIC:
        found = replace(found, scale=NUMERIC.scale)  # a column of it is of the type that is written
    if length is not None:
        bounds = (constant(number, types.INTEGER, span) for number in (1, length))
        found = call("substring(text,integer,integer)", (found, *bounds))
    return found.at(span)


def _converted(value: Typed, target: Type, span: Span) -> Typed:
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
"""A cast of a part."""
Compare = Callable[[str, Typed, Typed, Span], Typed]
"""A comparison of parts."""


def field(value: Typed, name: str, span: Span, place: Span) -> Typed:
    """Plan `(value).name`, whose name has a place."""
    found = next((each for each in value.type.fields if each.name == name), None)
    if found is not None:
        return call(".(any,text)", (exact(value), constant(name, TEXT, span)), span, type_=found.type)
    names = [each.name for each in value.type.fields]
    if not names:
        raise SinkqlError("SQ2211", f"cannot take field {name} of type {value.type.called}: it is not a record", span)
    near = nearest(name, names)
    hint = f"Did you mean {shown_name(near)}?" if near else f"Its fields are {', '.join(map(shown_name, names))}."
    raise SinkqlError("SQ2204", f'field "{name}" does not exist in {value.type}', place, hint=hint)


def fields(value: Typed) -> list[Typed]:
    """Return all fields of a record."""
    return [field(value, each.name, value.span, value.span) for each in value.type.fields]


def compared(operator: str, left: Typed, right: Typed, span: Span, compare: Compare) -> Typed:
    """Plan a comparison of two records, part by part: within them NULL is equal to NULL, and above all else.

    It is NULL where a record itself is. Raises SQ2211 for records that have not the same number of fields.
    """
    lefts, rights = _parts(left), _parts(right)
    if len(lefts) != len(rights):
        raise SinkqlError("SQ2211", "cannot compare records with different numbers of fields", span)
    parts = _Parts(compare, span)
    match operator:
        case "=" | "<>" | "IS NOT DISTINCT FROM":
            found = parts.same(lefts, rights)
        case "<" | ">=":
            found = parts.less(lefts, rights)
        case _:
            found = parts.less(rights, lefts)
    if operator in ("<>", "<=", ">="):
        found = _not(found, span)
    nulls = [call("IS NULL(any)", (each,), span) for each in (left, right) if each.nullable]
    if not nulls:
        return found
    none: Typed = constant(False, BOOLEAN, span)
    if operator != "IS NOT DISTINCT FROM":
        none = null_of(BOOLEAN, span)
    elif len(nulls) == 2:
        none = joined("AND", nulls, span)
    return Typed(Case((Branch(joined("OR", nulls, span).tree, none.tree),), found.tree, BOOLEAN, span), BOOLEAN)


class _Parts:
    """Compare the parts of records, in the one order that all their values have."""

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
        found = self._compare("<", left, right, self._span)
        if not left.nullable and not right.nullable:
            return found
        there = _not(call("IS NULL(any)", (left,), self._span), self._span)
        last = joined("AND", [there, call("IS NULL(any)", (right,), self._span)], self._span)
        return joined("OR", [call("IS TRUE(boolean)", (found,), self._span), last], self._span)


def _parts(value: Typed) -> list[Typed]:
    tree = value.tree
    if isinstance(tree, Call) and tree.function == _ROW:
        return [Typed(each, each.type) for each in tree.arguments]
    return fields(value)


def _not(value: Typed, span: Span) -> Typed:
    return call("NOT(boolean)", (value,), span)


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
