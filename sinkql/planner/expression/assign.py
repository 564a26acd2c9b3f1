"""Convert an expression to a table column's type: as a value if it is constant, else as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.evaluate import EvaluationError, NotEvaluableError, conversion, function_of
from sinkql.evaluate.failure import Row, Value
from sinkql.logical.expression import as_literal
from sinkql.logical.time import show_interval
from sinkql.logical.type import Field
from sinkql.planner import types
from sinkql.planner.expression.cast import cast, recasts, with_constants
from sinkql.planner.expression.literal import document, held, literal
from sinkql.planner.expression.typed_expression import Typed, cast_to, settled


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a column: a value, or an expression of the column's type that computes it."""

    value: Any = None
    expression: logical.Expression | None = None


def assign(value: Typed, column: logical.Column) -> Cell:
    """Convert like an assignment.

    Raises SQ2425 for types without a conversion, SQ2212 and SQ2422 for invalid values.
    """
    if value.type == types.UNKNOWN:
        return Cell(_literal(value, column.type))
    value = with_constants(value, column.type, cast)
    check_assignable(value.type, column, value.span)
    tree = _tree(value, column.type)
    function = assigned(tree, column, ())
    if function is None:
        return Cell(expression=tree)
    try:
        return Cell(function(()))
    except NotEvaluableError:
        return Cell(expression=tree)


def _tree(value: Typed, target: logical.Type) -> logical.Expression:
    """Return the value in a column's type; excess fraction digits are rounded, as in Postgres."""
    if target == types.INTERVAL:
        return settled(held(value))
    if value.raw == target:
        return value.tree
    return settled(cast_to(value, target) if value.type == target else cast(value, target, value.span))


def _literal(value: Typed, target: logical.Type) -> Any:
    """Return an untyped string or NULL as a value of a type; raise SQ2212 if it is invalid."""
    if value.null:
        return None
    text = str(value.constant)
    if target == types.JSONB:
        return document(text, value.span)
    converted = as_literal(literal(text, target, value.span).tree).value
    return show_interval(converted) if isinstance(converted, logical.Interval) else converted


def assigned(tree: logical.Expression, column: logical.Column, columns: Sequence[str]) -> Value | None:
    """Return the assigned value as a function of a row of `columns`, None if only an engine can compute it.

    The function raises SQ2422 for a value that does not fit the column.
    """
    if not isinstance(tree, logical.Cast):
        return _without_hint(function_of(tree, columns), tree.span)
    operand = function_of(tree.operand, columns)
    convert = converter(tree.operand.type, column, tree.span)
    if operand is None or convert is None:
        return None

    def convert_row(row: Row) -> Any:
        return convert(operand(row))

    return convert_row


def _without_hint(value: Value | None, span: Span) -> Value | None:
    """Return a function whose own range errors have no hint, since a cast cannot make the value fit."""
    if value is None:
        return None

    def evaluate(row: Row) -> Any:
        try:
            return value(row)
        except SinkqlError as error:
            if error.span == span:
                error.hint = None
            raise

    return evaluate


def converter(source: logical.Type, column: logical.Column, span: Span | None = None) -> Callable[[Any], Any] | None:
    """Return a function that converts values for a column, None if only an engine can; it raises SQ2422."""
    convert = conversion(source, column.type)
    if convert is None:
        return None

    def convert_value(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except EvaluationError:
            raise out_of_range(value, column, span) from None

    return convert_value


def check_assignable(source: logical.Type, column: logical.Column, span: Span) -> None:
    """Raise SQ2425 unless values of a type can be assigned to a column."""
    target = column.type
    if recasts(source, target):
        for source_part, wanted in zip(_parts(source), _parts(target), strict=False):
            check_assignable(source_part.type, logical.Column(column.name, wanted.type, wanted.nullable), span)
        return
    families = (types.is_number, types.is_instant)
    drops_date = target == types.TIME and source in (types.TIMESTAMP, types.TIMESTAMPTZ)
    if (
        types.is_implicit(source, target)
        or target == types.TEXT
        or drops_date
        or any(kind(source) and kind(target) for kind in families)
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
    if types.is_range(target):
        return f"Build it from its bounds: {target}(lower, upper)."
    return _HINTS.get(target.name, f"Cast it, as in (…)::{target}.")


_HINTS = {
    **dict.fromkeys(("array", "list"), "Write its elements as a string, in braces: '{…}'."),
    "map": "Write it as a string, '{key=>value}', or as MAP['key'=>value].",
    "record": "Write its fields as a string, in parentheses: '(…)'.",
}


def out_of_range(value: object, column: logical.Column, span: Span | None) -> SinkqlError:
    """Return the error for a value that does not fit a column's type."""
    return SinkqlError("SQ2422", f'{value} is out of range for column "{column.name}" of type {column.type}', span)
