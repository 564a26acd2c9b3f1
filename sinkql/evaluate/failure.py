"""The errors of evaluation, and the functions of a row that compute values."""

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
"""Makes the function of a call from its operands; None if only an engine can compute it."""


class EvaluationError(Exception):
    """A function refuses its arguments; the caller adds the place in the text."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class NotEvaluableError(Exception):
    """Only an engine can compute this value."""


def code_of(message: str) -> str:
    """Return the error code of an expression's message."""
    return "SQ3212" if message == SEVERAL else "SQ3201"


def strict(function: Callable[..., Any]) -> Make:
    """Return a call of a Python function that is NULL if any operand is NULL."""

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
                    for operand in operands:
                        value = operand(row)
                        if value is None:
                            return None
                        values.append(value)
                    return function(*values)

                return several

    return make


def placed(value: Value, node: Call | Cast) -> Value:
    """Return a value whose errors contain their place in the text."""
    span: Span | None = node.span if node.span.end else None

    def found(row: Row) -> Any:
        try:
            return value(row)
        except EvaluationError as error:
            raise SinkqlError(code_of(str(error)), str(error), span, hint=error.hint) from None
        except (OverflowError, ValueError):  # Python's dates have fewer years than SQL's
            raise NotEvaluableError from None

    return found
