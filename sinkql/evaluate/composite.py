"""Maps, which are keys and values by key, and records, which are tuples of their fields."""

from __future__ import annotations

from typing import Any

from sinkql.evaluate.failure import EvaluationError, Make, Row, Value, strict
from sinkql.logical import Call, Literal
from sinkql.logical.nested import entries


def _record(call: Call, operands: list[Value]) -> Value | None:
    if any(each.type != field.type for each, field in zip(call.arguments, call.type.fields, strict=True)):
        return None
    return lambda row: tuple(each(row) for each in operands)


def _map(call: Call, operands: list[Value]) -> Value | None:
    if any(each.type != call.type.value for each in call.arguments[1::2]):
        return None

    def made(row: Row) -> Any:
        keys = [each(row) for each in operands[::2]]
        if None in keys:
            raise EvaluationError("a key of a map is NULL")
        return entries(zip(keys, (each(row) for each in operands[1::2]), strict=True))

    return made


def _field(call: Call, operands: list[Value]) -> Value:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    place = [each.name for each in call.arguments[0].type.fields].index(str(name.value))
    (record, _) = operands

    def found(row: Row) -> Any:
        value = record(row)
        return None if value is None else value[place]

    return found


FORMS: dict[str, Make] = {
    "ROW(any…)": _record,
    "MAP(any…)": _map,
    ".(any,text)": _field,
    "->(any,text)": strict(lambda held, key: dict(held).get(key)),
    "?(any,text)": strict(lambda held, key: key in dict(held)),
}
"""By id."""
