"""What a value may fail with, and the functions of a row that values are computed by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Call, Cast
from sinkql.logical.function import SEVERAL

Row = tuple[Any, ...]
Value = Callable[[Row], Any]
"""The value of an expression for a row."""
Make = Callable[[Call, list[Value]], Value | None]
"""A call and its operands → its value; None where only an engine computes it."""


class EvaluationError(Exception):
    """A function refuses the values that it was given; the call adds its place."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NotEvaluableError(Exception):
    """Only an engine gives this value: it depends on more than is known here."""


def code_of(message: str) -> str:
    """Return the code of what an expression fails with on a row."""
    return "SQ3212" if message == SEVERAL else "SQ3201"


def strict(function: Callable[..., Any]) -> Make:
    """Return a call of a Python function, which is NULL as soon as an operand is."""

    def make(call: Call, operands: list[Value]) -> Value:
        match operands:
            case [one]:

                def unary(row: Row) -> Any:
                    x = one(row)
                    return None if x is None else function(x)

                return unary
            case [left, right]:

                def binary(row: Row) -> Any:
                    x = left(row)
                    if x is None:
                        return None
                    y = right(row)
                    return None if y is None else function(x, y)

                return binary
            case _:

                def several(row: Row) -> Any:
                    values = []
                    for each in operands:
                        value = each(row)
                        if value is None:
                            return None
                        values.append(value)
                    return function(*values)

                return several

    return make


def placed(value: Value, node: Call | Cast) -> Value:
    """Return a value whose failures say where in the text they are."""
    span: Span | None = node.span if node.span.end else None

    def found(row: Row) -> Any:
        try:
            return value(row)
        except EvaluationError as error:
            raise SinkqlError(code_of(str(error)), str(error), span, hint=error.hint) from None
        except (OverflowError, ValueError):  # of Python's dates, whose years are fewer than SQL's
            raise NotEvaluableError from None

    return found
