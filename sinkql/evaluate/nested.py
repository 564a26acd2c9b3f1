"""Functions of arrays and lists (tuples), maps (pairs by key) and records (tuples of fields)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sinkql.evaluate.failure import EvaluationError, Make, NotEvaluableError, Row, Value, strict
from sinkql.evaluate.operator import order_key
from sinkql.logical import Call, Interval, Type
from sinkql.logical.expression import constant_value
from sinkql.logical.nested import NO_STEP, UNMATCHED, UnevenError, entries, leaf, levels, squared

_MOST_IN_SERIES = 100_000


def _element(value: tuple[Any, ...], index: int) -> Any:
    return value[index - 1] if 1 <= index <= len(value) else None


def _made(call: Call, operands: list[Value]) -> Value | None:
    if any(argument.type != call.type.element for argument in call.arguments):
        return None
    if not levels(call.arguments[0].type):
        return lambda row: tuple(operand(row) for operand in operands)

    def found(row: Row) -> tuple[Any, ...]:
        try:
            return tuple(squared([operand(row) or () for operand in operands], call.type))
        except UnevenError:
            raise EvaluationError(UNMATCHED) from None

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


def _among(test: Callable[[Any, Any], bool]) -> Make:
    """Return a call that tests whether a comparison is true for any element."""

    def make(call: Call, operands: list[Value]) -> Value | None:
        subject, held = operands
        key = order_key(call.arguments[0].type)
        if key is None:
            return None

        def found(row: Row) -> bool | None:
            value, values = subject(row), held(row)  # both are evaluated, since either may fail
            if values is None or not values:
                return None if values is None else False
            if value is None:
                return None
            values = _flat(values, call.arguments[1].type)
            wanted = key(value)
            if any(each is not None and test(wanted, key(each)) for each in values):
                return True
            return None if None in values else False

        return found

    return make


def _slice(value: tuple[Any, ...], first: int, last: int) -> tuple[Any, ...]:
    return value[max(first, 1) - 1 : max(last, 0)]


def _within(holds: Callable[[set[Any], list[Any]], bool]) -> Make:
    """Return a test on the elements of two arrays, by their comparison keys; NULL is equal to no element."""

    def make(call: Call, operands: list[Value]) -> Value | None:
        type_ = call.arguments[0].type
        key = order_key(leaf(type_) if type_.name == "array" else type_)
        if key is None:
            return None

        def test(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
            values, others = (_flat(each, type_) for each in (one, other))
            known = {key(value) for value in values if value is not None}
            return holds(known, [None if each is None else key(each) for each in others])

        return strict(test)(call, operands)

    return make


def _in_one(call: Call, operands: list[Value]) -> Value | None:
    return strict(lambda value: _flat(value, call.arguments[0].type))(call, operands)


def _series(first: int, last: int, step: int) -> tuple[int, ...]:
    if not step:
        raise EvaluationError(NO_STEP)
    return _few(range(first, last + (1 if step > 0 else -1), step))


def _few(values: Sequence[Any]) -> tuple[Any, ...]:
    if len(values) > _MOST_IN_SERIES:
        raise NotEvaluableError
    return tuple(values)


def _instants(first: datetime, last: datetime, step: Interval) -> tuple[datetime, ...]:
    length = timedelta(days=step.days, microseconds=step.micros)
    count = max(0, (last - first) // length + 1)
    return _few([first + length * each for each in range(min(count, _MOST_IN_SERIES + 1))])


def _append(call: Call, operands: list[Value]) -> Value | None:
    held, added = operands
    return lambda row: (*(held(row) or ()), added(row))


def _prepend(call: Call, operands: list[Value]) -> Value | None:
    added, held = operands
    return lambda row: (added(row), *(held(row) or ()))


def _cat(call: Call, operands: list[Value]) -> Value | None:
    def found(row: Row) -> tuple[Any, ...] | None:
        parts = [each for each in (operand(row) for operand in operands) if each is not None]
        return tuple(itertools.chain.from_iterable(parts)) if parts else None

    return found


def _sought(give: Callable[..., Any]) -> Make:
    """Return a call on an array, the positions of a searched element in it, and the values of the other operands."""

    def make(call: Call, operands: list[Value]) -> Value | None:
        key = order_key(call.arguments[1].type)
        if key is None:
            return None

        def found(row: Row) -> Any:
            values, sought, *others = (operand(row) for operand in operands)
            if values is None:
                return None
            if sought is None:
                return give(values, [value is None for value in values], *others)
            wanted = key(sought)
            return give(values, [value is not None and key(value) == wanted for value in values], *others)

        return found

    return make


def _position(_: tuple[Any, ...], same: list[bool]) -> int | None:
    return same.index(True) + 1 if True in same else None


def _removed(values: tuple[Any, ...], same: list[bool]) -> tuple[Any, ...]:
    return tuple(value for value, equal in zip(values, same, strict=True) if not equal)


def _replaced(values: tuple[Any, ...], same: list[bool], other: Any) -> tuple[Any, ...]:
    return tuple(other if equal else value for value, equal in zip(values, same, strict=True))


def _to_string(call: Call, operands: list[Value]) -> Value | None:
    def found(row: Row) -> str | None:
        values, delimiter, *absent = (operand(row) for operand in operands)
        if values is None or delimiter is None:
            return None
        shown = [str(value) if value is not None else next(iter(absent), None) for value in values]
        return str(delimiter).join(each for each in shown if each is not None)

    return found


def _split(call: Call, operands: list[Value]) -> Value | None:
    def found(row: Row) -> tuple[str | None, ...] | None:
        text, delimiter, *absent = (operand(row) for operand in operands)
        if text is None or not text:
            return None if text is None else ()
        parts = list(text) if delimiter is None else text.split(delimiter) if delimiter else [text]
        return tuple(None if part in absent else part for part in parts)

    return found


def _record(call: Call, operands: list[Value]) -> Value | None:
    if any(argument.type != field.type for argument, field in zip(call.arguments, call.type.fields, strict=True)):
        return None
    return lambda row: tuple(operand(row) for operand in operands)


def _map(call: Call, operands: list[Value]) -> Value | None:
    if any(argument.type != call.type.value for argument in call.arguments[1::2]):
        return None

    def made(row: Row) -> Any:
        keys = [operand(row) for operand in operands[::2]]
        if None in keys:
            raise EvaluationError("a key of a map is NULL")
        return entries(zip(keys, (operand(row) for operand in operands[1::2]), strict=True))

    return made


def _field(call: Call, operands: list[Value]) -> Value:
    name = constant_value(call.arguments[1], str)
    place = [field.name for field in call.arguments[0].type.fields].index(name)
    (record, _) = operands

    def found(row: Row) -> Any:
        value = record(row)
        return None if value is None else value[place]

    return found


FORMS: dict[str, Make] = {
    "array_append(any,any)": _append,
    "array_prepend(any,any)": _prepend,
    "array_cat(any,any)": _cat,
    "array_position(any,any)": _sought(_position),
    "array_remove(any,any)": _sought(_removed),
    "array_replace(any,any,any)": _sought(_replaced),
    "array_to_string(any,text)": _to_string,
    "array_to_string(any,text,text)": _to_string,
    "string_to_array(text,text)": _split,
    "string_to_array(text,text,text)": _split,
    "$flat(any)": _in_one,
    "$series(integer,integer,integer)": strict(_series),
    "$series(bigint,bigint,bigint)": strict(_series),
    "$series(timestamp,timestamp,interval)": strict(_instants),
    "$series(timestamptz,timestamptz,interval)": strict(_instants),
    "[](any,integer)": strict(_element),
    "ARRAY(any…)": _made,
    "= ANY(any,any)": _among(operator.eq),
    "<> ANY(any,any)": _among(operator.ne),
    "< ANY(any,any)": _among(operator.lt),
    "<= ANY(any,any)": _among(operator.le),
    "> ANY(any,any)": _among(operator.gt),
    ">= ANY(any,any)": _among(operator.ge),
    "[:](any,integer,integer)": strict(_slice),
    "@>(array,array)": _within(lambda held, wanted: all(each is not None and each in held for each in wanted)),
    "&&(array,array)": _within(lambda held, wanted: any(each is not None and each in held for each in wanted)),
    "cardinality(any)": _cardinality,
    "array_length(any,integer)": strict(_length),
    "ROW(any…)": _record,
    "MAP(any…)": _map,
    ".(any,text)": _field,
    "->(any,text)": strict(lambda held, key: dict(held).get(key)),
    "?(any,text)": strict(lambda held, key: key in dict(held)),
}
"""By id."""
