"""Which conditions of AND and OR need not be computed, so that what fails in them is no failure."""

from __future__ import annotations

from sinkql.logical.expression import Call, Expression, Literal

AND, OR = "AND(boolean…)", "OR(boolean…)"


def is_decided(call: Call) -> bool:
    """Tell whether a constant decides AND or OR, wherever it stands."""
    deciding = call.function == OR
    return any(isinstance(each, Literal) and each.value is deciding for each in call.arguments)


def evaluates_before(one: Expression, other: Expression) -> bool:
    """Tell whether `one OR other` compares rows: `a < b OR a = b AND …`, which is NULL as soon as a or b is.

    What stands behind is not computed then, as Postgres says of rows.
    """
    if not isinstance(one, Call) or one.function[:2] not in ("<(", ">("):
        return False
    if not isinstance(other, Call) or other.function != AND:
        return False
    tie = other.arguments[0]
    if not isinstance(tie, Call) or tie.function != f"={one.function[1:]}":
        return False
    return [_plain(each) for each in one.arguments] == [_plain(each) for each in tie.arguments]


def _plain(value: Expression) -> Expression:
    ordered = isinstance(value, Call) and value.function == "$order(any)"
    return value.arguments[0] if isinstance(value, Call) and ordered else value
