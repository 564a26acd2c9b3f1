"""Functions of ranges, which are stored as texts: their bounds, containment and construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sinkql.evaluate.failure import EvaluationError, Make, Row, Value, strict
from sinkql.logical import Call
from sinkql.logical.range import (
    EMPTY,
    SUBTYPES,
    UPSIDE_DOWN,
    BeyondError,
    BoundsError,
    Range,
    contains,
    contains_value,
    make_range,
    overlap,
    parts,
)


def _of(read: Callable[[Range], Any], empty: Any) -> Make:
    """Return a call that reads a property of a range; `empty` is the result for an empty range."""

    def make(call: Call, operands: list[Value]) -> Value | None:
        type_ = call.arguments[0].type.name

        def found(text: str) -> Any:
            known = parts(text, type_)
            return empty if known is None else read(known)

        return strict(found)(call, operands)

    return make


def _pair(call: Call) -> tuple[str, str]:
    first, second = (argument.type.name for argument in call.arguments)
    return first, second


def _contains(call: Call, operands: list[Value]) -> Value | None:
    type_, other = _pair(call)
    if other in SUBTYPES:
        return strict(lambda x, y: contains(parts(x, type_), parts(y, other)))(call, operands)
    return strict(lambda x, y: contains_value(parts(x, type_), y))(call, operands)


def _overlap(call: Call, operands: list[Value]) -> Value | None:
    type_, other = _pair(call)
    return strict(lambda x, y: overlap(parts(x, type_), parts(y, other)))(call, operands)


def _made(type_: str) -> Make:
    def make(call: Call, operands: list[Value]) -> Value:
        lower, upper, bounds = operands

        def found(row: Row) -> str:
            try:
                return make_range(lower(row), upper(row), bounds(row), type_)
            except BoundsError:
                raise EvaluationError(UPSIDE_DOWN) from None
            except BeyondError:
                raise EvaluationError(f"{SUBTYPES[type_]} out of range") from None

        return found

    return make


def _as_it_is(call: Call, operands: list[Value]) -> Value:
    return operands[0]


FORMS: dict[str, Make] = {
    "lower(any)": _of(lambda found: found.lower, None),
    "upper(any)": _of(lambda found: found.upper, None),
    "isempty(any)": strict(lambda text: text == EMPTY),
    "lower_inc(any)": _of(lambda found: found.lower_in, False),
    "upper_inc(any)": _of(lambda found: found.upper_in, False),
    "lower_inf(any)": _of(lambda found: found.lower is None, False),
    "upper_inf(any)": _of(lambda found: found.upper is None, False),
    "@>(any,any)": _contains,
    "&&(any,any)": _overlap,
    "$order(any)": _as_it_is,
    **{f"{name}(any,any,text)": _made(name) for name in SUBTYPES},
}
"""By id."""
