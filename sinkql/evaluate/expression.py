"""Turn an expression's tree into a function of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sinkql.evaluate import json, nested, number, operator, text, time
from sinkql.evaluate import range as evaluate_range
from sinkql.evaluate.cast import conversion
from sinkql.evaluate.failure import Make, Row, Value, placed
from sinkql.logical import Call, Case, Cast, Expression, Literal, Reference
from sinkql.logical.nested import taken

FORMS: Mapping[str, Make] = MappingProxyType(
    {
        **operator.FORMS,
        **number.FORMS,
        **text.FORMS,
        **time.FORMS,
        **nested.FORMS,
        **evaluate_range.FORMS,
        **json.FORMS,
    }
)
"""The implemented functions of `logical.function`, by id."""


def function_of(expression: Expression, columns: Sequence[str]) -> Value | None:
    """Return an expression as a function of a row of these columns; None if only an engine can compute it.

    The function raises SQ3201 if the expression fails for a row, NotEvaluableError if an engine must compute the row.
    """
    return _value(expression, {name: place for place, name in enumerate(columns)})


def _value(expression: Expression, places: Mapping[str, int]) -> Value | None:
    match expression:
        case Reference():
            place = places.get(expression.name)
            return None if place is None else _column(place)
        case Literal():
            known = expression.value
            return lambda row: known
        case Cast():
            return _cast(expression, places)
        case Case():
            return _case(expression, places)
        case Call():
            return _call(expression, places)


def _column(place: int) -> Value:
    return lambda row: row[place]


def _cast(cast: Cast, places: Mapping[str, int]) -> Value | None:
    operand = _value(cast.operand, places)
    convert = conversion(cast.operand.type, cast.type)
    if operand is None or convert is None:
        return None

    def found(row: Row) -> Any:
        value = operand(row)
        return None if value is None else convert(value)

    return placed(found, cast)


def _case(case: Case, places: Mapping[str, int]) -> Value | None:
    branches = [(_value(branch.when, places), _value(branch.then, places)) for branch in case.branches]
    known = [(when, then) for when, then in branches if when is not None and then is not None]
    otherwise = _value(case.otherwise, places) if case.otherwise is not None else lambda row: None
    if len(known) < len(branches) or otherwise is None:
        return None

    def found(row: Row) -> Any:
        for when, then in known:
            if when(row):
                return then(row)
        return otherwise(row)

    return found


def _call(call: Call, places: Mapping[str, int]) -> Value | None:
    field = taken(call)
    if field is not None:
        return _value(field, places)
    make = FORMS.get(call.function)
    if make is None:
        return None
    operands = [_value(argument, places) for argument in call.arguments]
    known = [operand for operand in operands if operand is not None]
    value = make(call, known) if len(known) == len(operands) else None
    return None if value is None else placed(value, call)
