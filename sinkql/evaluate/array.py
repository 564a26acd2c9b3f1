"""Arrays and lists, which are tuples: their elements, how many there are, and what is among them."""

from __future__ import annotations

from typing import Any

from sinkql.evaluate.failure import Make, Row, Value, strict
from sinkql.evaluate.operator import order_key
from sinkql.logical import Call


def _element(value: tuple[Any, ...], index: int) -> Any:
    return value[index - 1] if 1 <= index <= len(value) else None


def _made(call: Call, operands: list[Value]) -> Value | None:
    if any(each.type != call.type.element for each in call.arguments):
        return None
    return lambda row: tuple(each(row) for each in operands)


def _among(call: Call, operands: list[Value]) -> Value | None:
    subject, held = operands
    key = order_key(call.arguments[0].type)
    if key is None:
        return None

    def found(row: Row) -> bool | None:
        values = held(row)
        if values is None or not values:
            return None if values is None else False
        value = subject(row)
        if value is None:
            return None
        if any(each is not None and key(each) == key(value) for each in values):
            return True
        return None if None in values else False

    return found


FORMS: dict[str, Make] = {
    "[](any,integer)": strict(_element),
    "ARRAY(any…)": _made,
    "= ANY(any,any)": _among,
    "cardinality(any)": strict(len),
    "array_length(any,integer)": strict(lambda value, dimension: len(value) or None),
}
"""By id."""
