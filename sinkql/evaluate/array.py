"""Arrays and lists, which are tuples: their elements, how many there are, and what is among them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sinkql.evaluate.failure import Make, RefusedError, Row, UnsureError, Value, strict
from sinkql.evaluate.operator import order_key
from sinkql.logical import Call, Interval, Type
from sinkql.logical.array import NO_STEP, UNMATCHED, UnevenError, levels, squared

_MOST_IN_SERIES = 100_000


def _element(value: tuple[Any, ...], index: int) -> Any:
    return value[index - 1] if 1 <= index <= len(value) else None


def _made(call: Call, operands: list[Value]) -> Value | None:
    if any(each.type != call.type.element for each in call.arguments):
        return None
    if not levels(call.arguments[0].type):
        return lambda row: tuple(each(row) for each in operands)

    def found(row: Row) -> tuple[Any, ...]:
        try:
            return tuple(squared([each(row) or () for each in operands], call.type))
        except UnevenError:
            raise RefusedError(UNMATCHED) from None

    return found


def _flat(value: tuple[Any, ...], type_: Type) -> tuple[Any, ...]:
    """Return the elements of an array in all its dimensions."""
    for _ in range(levels(type_) - 1):
        value = tuple(itertools.chain.from_iterable(value))
    return value


def _cardinality(call: Call, operands: list[Value]) -> Value | None:
    return strict(lambda value: len(_flat(value, call.arguments[0].type)))(call, operands)


def _length(value: tuple[Any, ...], dimension: int) -> int | None:
    for _ in range(dimension - 1):
        value = value[0] if value else ()
    return len(value) or None


def _among(call: Call, operands: list[Value]) -> Value | None:
    subject, held = operands
    key = order_key(call.arguments[0].type)
    if key is None:
        return None

    def found(row: Row) -> bool | None:
        values = held(row)
        if values is None or not values:
            return None if values is None else False
        values = _flat(values, call.arguments[1].type)
        value = subject(row)
        if value is None:
            return None
        if any(each is not None and key(each) == key(value) for each in values):
            return True
        return None if None in values else False

    return found


def _in_one(call: Call, operands: list[Value]) -> Value | None:
    return strict(lambda value: _flat(value, call.arguments[0].type))(call, operands)


def _series(first: int, last: int, step: int) -> tuple[int, ...]:
    if not step:
        raise RefusedError(NO_STEP)
    return _few(range(first, last + (1 if step > 0 else -1), step))


def _few(values: Sequence[Any]) -> tuple[Any, ...]:
    if len(values) > _MOST_IN_SERIES:
        raise UnsureError
    return tuple(values)


def _instants(first: datetime, last: datetime, step: Interval) -> tuple[datetime, ...]:
    length = timedelta(days=step.days, microseconds=step.micros)
    count = max(0, (last - first) // length + 1)
    return _few([first + length * each for each in range(min(count, _MOST_IN_SERIES + 1))])


FORMS: dict[str, Make] = {
    "$flat(any)": _in_one,
    "$series(integer,integer,integer)": strict(_series),
    "$series(bigint,bigint,bigint)": strict(_series),
    "$series(timestamp,timestamp,interval)": strict(_instants),
    "$series(timestamptz,timestamptz,interval)": strict(_instants),
    "[](any,integer)": strict(_element),
    "ARRAY(any…)": _made,
    "= ANY(any,any)": _among,
    "cardinality(any)": _cardinality,
    "array_length(any,integer)": strict(_length),
}
"""By id."""
