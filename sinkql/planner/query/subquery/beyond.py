"""A condition with subqueries → comparisons of rows with a value that is the same for all of them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from sinkql.logical import Expression
from sinkql.logical.expression import Call
from sinkql.logical.function import call
from sinkql.planner.query import join as joins
from sinkql.planner.query.can_fail import can_fail

_COMPARISONS = ("<(any,any)", "<=(any,any)", ">(any,any)", ">=(any,any)")


@dataclass(frozen=True, slots=True)
class ThresholdComparison:
    """A comparison, and the side of it that is the same for all rows."""

    condition: Expression
    limit: Expression


def comparisons(condition: Expression) -> list[Call]:
    """Return the comparisons that must all be true for a condition to be true; none for any other one."""
    match condition:
        case Call() if condition.function in _COMPARISONS:
            return [condition]
        case Call(function="BETWEEN(any,any,any)", arguments=(value, low, high)):
            ends = (">=", low), ("<=", high)
            return [call(f"{sign}(any,any)", (value, end), condition.span) for sign, end in ends]
        case _:
            return []


def as_threshold(comparison: Call, apart: Set[str]) -> ThresholdComparison | None:
    """Return a comparison of values of rows with one that is over columns `apart` from them, as one type if it can be.

    None for any other comparison, and where that value may fail: it does so only where there is a row to compare.
    """
    sides = [joins.references(each) for each in comparison.arguments]
    limits = [place for place, names in enumerate(sides) if names and names <= apart]
    if len(limits) != 1 or not sides[1 - limits[0]] or sides[1 - limits[0]] & apart:
        return None
    if can_fail(comparison.arguments[limits[0]]):
        return None
    one, other = comparison.arguments
    alike = joins.comparable_sides(one, other, safe=True) or (one, other)
    return ThresholdComparison(call(comparison.function, alike, comparison.span), alike[limits[0]])
