"""An expression put into a table's column → of the column's type, as a value where it is plain, else as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.evaluate import EvaluationError, NotEvaluableError, conversion, function_of
from sinkql.evaluate.failure import Row, Value
from sinkql.logical.time import show_interval
from sinkql.logical.type import Field
from sinkql.planner import types
from sinkql.planner.expression.cast import cast, recasts, with_constants
from sinkql.planner.expression.literal import document, held, literal
from sinkql.planner.expression.typed_expression import Typed, cast_to, settled


@dataclass(frozen=True, slots=True)
class Cell:
    """What goes into a column: a value, or where `expression` is given its value, which is of the column's type."""

    value: Any = None
    expression: logical.Expression | None = None


def assign(value: Typed, column: logical.Column) -> Cell:
    """Convert as an assignment does; raises SQ2425 for types without a conversion, SQ2212 and SQ2422 for values."""
    if value.type == types.UNKNOWN:
        return Cell(_literal(value, column.type))
    value = with_constants(value, column.type, cast)
    check_assignable(value.type, column, value.span)
    tree = _tree(value, column.type)
    known = assigned(tree, column, ())
    if known is None:
        return Cell(expression=tree)
    try:
        return Cell(known(()))
    except NotEvaluableError:
        return Cell(expression=tree)


def _tree(value: Typed, target: logical.Type) -> logical.Expression:
    """Return the value in a column's type; what a numeric has no room for is rounded off, as in Postgres."""
    if target == types.INTERVAL:
        return settled(held(value))
    if value.raw == target:
        return value.tree
    return settled(cast_to(value, target) if value.type == target else cast(value, target, value.span))


def _literal(value: Typed, target: logical.Type) -> Any:
    """Return an untyped string or NULL as a value of a type; raises SQ2212 where it is not one."""
    if value.null:
        return None
    text = str(value.constant)
    if target == types.JSONB:
        return document(text, value.span)
    found = literal(text, target, value.span).tree
    assert isinstance(found, logical.Literal)
    return show_interval(found.value) if isinstance(found.value, logical.Interval) else found.value


def assigned(tree: logical.Expression, column: logical.Column, columns: Sequence[str]) -> Value | None:
    """Return what is assigned to a column as a function of a row of `columns`; None where only an engine has it.

    The function raises SQ2422 for a value that the column has no room for.
    """
    if not isinstance(tree, logical.Cast):
        return _unadvised(function_of(tree, columns), tree.span)
    operand = function_of(tree.operand, columns)
    convert = converter(tree.operand.type, column, tree.span)
    if operand is None or convert is None:
        return None

    def found(row: Row) -> Any:
        return convert(operand(row))

    return found


def _unadvised(value: Value | None, span: Span) -> Value | None:
    """Return a value that fails without a hint where it is out of range itself: no cast gives its column room."""
    if value is None:
        return None

    def found(row: Row) -> Any:
        try:
            return value(row)
        except SinkqlError as error:
            if error.span == span:
                error.hint = None
            raise

    return found


def converter(source: logical.Type, column: logical.Column, span: Span | None = None) -> Callable[[Any], Any] | None:
    """Return what turns values of a type into a column's; None where only an engine does. They raise SQ2422."""
    convert = conversion(source, column.type)
    if convert is None:
        return None

    def found(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except EvaluationError:
            raise out_of_range(value, column, span) from None

    return found


def check_assignable(source: logical.Type, column: logical.Column, span: Span) -> None:
    """Raise SQ2425 unless a value of a type may be put into a column as it is."""
    target = column.type
    if recasts(source, target):
        for given, wanted in zip(_parts(source), _parts(target), strict=False):
            check_assignable(given.type, logical.Column(column.name, wanted.type, wanted.nullable), span)
        return
    alike = (types.number, types.instant)
    cut = target == types.TIME and source in (types.TIMESTAMP, types.TIMESTAMPTZ)
    if (
        types.implicit(source, target)
        or target == types.TEXT
        or cut
        or any(kind(source) and kind(target) for kind in alike)
    ):
        return
    raise SinkqlError(
        "SQ2425",
        f'column "{column.name}" is of type {target} but its value is of type {source.called}',
        span,
        hint=_hint(target),
    )


def _parts(type_: logical.Type) -> tuple[Field, ...]:
    return type_.fields if type_.element is None else type_.element.fields


def _hint(target: logical.Type) -> str:
    if types.ranged(target):
        return f"Make it of its bounds: {target}(lower, upper)."
    return _HINTS.get(target.name, f"Cast it, as in (…)::{target}.")


_HINTS = {
    **dict.fromkeys(("array", "list"), "Write its elements as a string, in braces: '{…}'."),
    "map": "Write it as a string, '{key=>value}', or as MAP['key'=>value].",
    "record": "Write its fields as a string, in parentheses: '(…)'.",
}


def out_of_range(value: object, column: logical.Column, span: Span | None) -> SinkqlError:
    """Return the error for a value that a column's type has no room for."""
    return SinkqlError("SQ2422", f'{value} is out of range for column "{column.name}" of type {column.type}', span)
