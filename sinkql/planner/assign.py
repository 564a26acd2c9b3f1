"""An expression put into a table's column → of the column's type, as a value where it is plain, as Spark SQL if not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.constant import constant, read_literal
from sinkql.planner.expressions_cast import cast
from sinkql.planner.expressions_typed import Typed, settled

_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
_BITS = {"smallint": 15, "integer": 31, "bigint": 63}


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold what goes into a column: a value, or where `expression` is given what Spark makes of it."""

    value: Any = None
    expression: logical.Expression | None = None


def assign(value: Typed, column: logical.Column) -> Cell:
    """Convert as an assignment does; raises SQ2425 for types without a conversion, SQ2212 and SQ2422 for values."""
    if value.type == types.UNKNOWN:
        return Cell(read_literal(value, column.type))
    check_assignable(value.type, column, value.span)
    found = constant(value)
    if found is not None:
        known = _converted(found[0], value.type, column, value.span)
        if known is not None:
            return known
    if value.type == column.type:
        return Cell(expression=settled(value))
    return Cell(expression=settled(cast(value, column.type, value.span)))


def check_assignable(source: logical.Type, column: logical.Column, span: Span) -> None:
    """Raise SQ2425 unless a value of a type may be put into a column as it is."""
    target = column.type
    alike = (types.number, types.instant)
    if types.implicit(source, target) or target == types.TEXT or any(kind(source) and kind(target) for kind in alike):
        return
    raise SinkqlError(
        "SQ2425",
        f'column "{column.name}" is of type {target}, its value of type {source.name}',
        span,
        hint=f"Cast it, as in (…)::{target}.",
    )


def _converted(value: Any, source: logical.Type, column: logical.Column, span: Span) -> Cell | None:
    """Return a plain value in a column's type; None where Spark must convert it."""
    target = column.type
    if value is None:
        return Cell(None)
    if types.number(source) and types.number(target):
        if isinstance(value, float) and not types.floating(target):
            return None
        return Cell(_number(value, column, span))
    if source.name == target.name:
        return Cell(value)
    match source.name, target.name:
        case "uuid", "text":
            return Cell(value)
        case (("smallint" | "integer" | "bigint"), "text"):
            return Cell(str(value))
        case "boolean", "text":
            return Cell(str(value).lower())
        case "date", "timestamp":
            assert isinstance(value, date)
            return Cell(datetime(value.year, value.month, value.day))
        case _:
            return None


def kept(source: logical.Type, target: logical.Type) -> bool:
    """Tell whether a value of one type needs no more than `fitted` to be of another."""
    exact = [types.whole(each) or each.name == "numeric" for each in (source, target)]
    return source == target or all(exact)


def fitted(value: Any, column: logical.Column) -> Any:
    """Return a plain value of a type of the same kind as a column's would hold it; raises SQ2422."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and types.number(column.type):
        return _number(value, column, None)
    return value


def _number(value: int | float | Decimal, column: logical.Column, span: Span | None) -> int | float | Decimal:
    target = column.type
    if types.floating(target):
        found = float(value)
        if target == types.REAL and abs(found) > 3.4028235677973366e38 and found != float("inf"):
            raise out_of_range(value, column, span)
        return found
    exact = Decimal(value)
    if target.name == "numeric":
        precision, scale = target.precision or 38, target.scale or 0
        exact = _EXACT.quantize(exact, Decimal(1).scaleb(-scale))
        if abs(exact) >= Decimal(10) ** (precision - scale):
            raise out_of_range(value, column, span)
        return exact
    whole = int(_EXACT.quantize(exact, Decimal(1)))
    if not -(2 ** _BITS[target.name]) <= whole < 2 ** _BITS[target.name]:
        raise out_of_range(value, column, span)
    return whole


def out_of_range(value: object, column: logical.Column, span: Span | None) -> SinkqlError:
    """Return the error for a value that a column's type has no room for."""
    return SinkqlError("SQ2422", f'{value} does not fit column "{column.name}" of type {column.type}', span)
