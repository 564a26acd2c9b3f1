"""The conditions of AND and OR that need not be computed, so that errors in them do not count."""

from __future__ import annotations

from sinkql.logical.expression import Call, Expression, Literal

AND, OR = "AND(boolean…)", "OR(boolean…)"


def is_decided(call: Call) -> bool:
    """Return whether a constant decides AND or OR, at any place."""
    deciding = call.function == OR
    return any(isinstance(argument, Literal) and argument.value is deciding for argument in call.arguments)


def evaluates_before(one: Expression, other: Expression) -> bool:
    """Return whether `one OR other` compares rows: `a < b OR a = b AND …`, which is NULL if a or b is NULL.

    The rest is not computed then, as in Postgres's comparison of rows.
    """
    if not isinstance(one, Call) or one.function[:2] not in ("<(", ">("):
        return False
    if not isinstance(other, Call) or other.function != AND:
        return False
    tie = other.arguments[0]
    if not isinstance(tie, Call) or tie.function != f"={one.function[1:]}":
        return False
    return [_plain(argument) for argument in one.arguments] == [_plain(argument) for argument in tie.arguments]


def _plain(value: Expression) -> Expression:
    ordered = isinstance(value, Call) and value.function == "$order(any)"
    return value.arguments[0] if isinstance(value, Call) and ordered else value
