"""Logic, comparisons, concatenation and conditions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from sinkql.evaluate.failure import Make, Row, Value, strict
from sinkql.logical import Call, Type
from sinkql.logical.nested import leaf, levels
from sinkql.logical.numeric_type import FLOATS, RANGES
from sinkql.logical.range import SUBTYPES
from sinkql.logical.range import order_of as order_of_range
from sinkql.logical.short_circuit import evaluates_before, is_decided
from sinkql.logical.time import order_of, read_interval

_PLAIN = ("boolean", "date", "time", "timestamp", "timestamptz", "text", "uuid", "bytea")


def order_key(type_: Type) -> Callable[[Any], Any] | None:
    """Return the sort key of a type's values, which defines equality too; None for a type without an order here."""
    if type_.name in FLOATS:
        return _float_key
    if type_.name == "interval":
        return lambda text: order_of(read_interval(text))
    if type_.name in SUBTYPES:
        return lambda text: order_of_range(text, type_.name)
    if type_.name == "array":
        return _array_key(type_)
    return _same if type_.name in _PLAIN or type_.name in RANGES or type_.name == "numeric" else None


def _array_key(type_: Type) -> Callable[[Any], Any] | None:
    """Return the sort key of arrays: their elements with NULL last, then their length."""
    key, within = order_key(leaf(type_)), levels(type_) - 1
    if key is None:
        return None

    def sort_key(value: tuple[Any, ...]) -> tuple[Any, ...]:
        sizes = [len(value)]
        for _ in range(within):
            sizes.append(len(value[0]) if value else 0)
            value = tuple(chain.from_iterable(value))
        return tuple((element is None, element if element is None else key(element)) for element in value), *sizes

    return sort_key


def _same(value: Any) -> Any:
    return value


def _float_key(value: float) -> tuple[bool, float]:
    """Return the sort key of floats: NaN equals NaN and is greater than all others."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def comparable(value: Any) -> Any:
    """Return the sort key of a value among values of its type; NULL inside a value comes last."""
    if isinstance(value, tuple):
        return tuple((part is None, part if part is None else comparable(part)) for part in value)
    return _float_key(value) if isinstance(value, float) else value


def _keys(call: Call) -> Callable[[Any], Any] | None:
    """Return the key function for the operands of a comparison; None if their types differ."""
    types = [argument.type for argument in call.arguments]
    if len({type_.name for type_ in types}) > 1:
        return None
    return order_key(types[0])


def _comparison(test: Callable[[Any, Any], bool]) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        key = _keys(call)
        if key is None:
            return None
        return strict(test if key is _same else lambda x, y: test(key(x), key(y)))(call, operands)

    return make


def _between(call: Call, operands: list[Value]) -> Value | None:
    key = _keys(call)
    if key is None:
        return None
    subject, low, high = operands

    def evaluate(row: Row) -> bool | None:
        value, least = subject(row), low(row)
        above = None if value is None or least is None else key(value) >= key(least)
        if above is False:
            return False
        most = high(row)
        below = None if value is None or most is None else key(value) <= key(most)
        return below if above else (False if below is False else None)

    return evaluate


def _in(call: Call, operands: list[Value]) -> Value | None:
    key = _keys(call)
    if key is None:
        return None
    subject, *values = operands

    def evaluate(row: Row) -> bool | None:
        value = subject(row)
        if value is None:
            return None
        unknown = False
        for operand in values:
            other = operand(row)
            if other is None:
                unknown = True
            elif key(value) == key(other):
                return True
        return None if unknown else False

    return evaluate


def _not_distinct(call: Call, operands: list[Value]) -> Value | None:
    key = _keys(call)
    if key is None:
        return None
    left, right = operands

    def evaluate(row: Row) -> bool:
        x, y = left(row), right(row)
        return x is y if x is None or y is None else key(x) == key(y)

    return evaluate


def _logic(decisive: bool) -> Make:
    """Make AND, which a false value decides, or OR, which a true value decides; later operands are not evaluated."""

    def make(call: Call, operands: list[Value]) -> Value:
        if is_decided(call):
            return lambda row: decisive
        pairs = zip(call.arguments, call.arguments[1:], strict=False)
        rows = {place for place, pair in enumerate(pairs, 1) if decisive and evaluates_before(*pair)}

        def evaluate(row: Row) -> bool | None:
            unknown = False
            value: bool | None = None
            for place, operand in enumerate(operands):
                if place in rows and value is None:
                    continue
                value = operand(row)
                if value is decisive:
                    return decisive
                unknown |= value is None
            return None if unknown else not decisive

        return evaluate

    return make


def _is(wanted: bool | None) -> Make:
    def make(call: Call, operands: list[Value]) -> Value:
        (operand,) = operands
        return lambda row: operand(row) is wanted

    return make


def _coalesce(call: Call, operands: list[Value]) -> Value | None:
    if not _alike(call):
        return None
    return lambda row: next((value for operand in operands if (value := operand(row)) is not None), None)


def _nullif(call: Call, operands: list[Value]) -> Value | None:
    key = _keys(call)
    if key is None:
        return None
    left, right = operands

    def evaluate(row: Row) -> Any:
        x, y = left(row), right(row)
        return None if x is not None and y is not None and key(x) == key(y) else x

    return evaluate


def _alike(call: Call) -> bool:
    """Return whether the values of an operand are values of the call's type without a conversion."""
    return all(argument.type == call.type for argument in call.arguments)


def _most(choose: Callable[..., Any]) -> Make:
    """Return GREATEST or LEAST: `choose` is applied to the operands that are not NULL."""

    def make(call: Call, operands: list[Value]) -> Value | None:
        key = _keys(call) if _alike(call) else None
        if key is None:
            return None

        def evaluate(row: Row) -> Any:
            values: Iterable[Any] = [value for operand in operands if (value := operand(row)) is not None]
            return choose(values, key=key, default=None)

        return evaluate

    return make


def _count(test: Callable[[Any], bool]) -> Make:
    def make(call: Call, operands: list[Value]) -> Value:
        return lambda row: sum(test(operand(row)) for operand in operands)

    return make


FORMS: dict[str, Make] = {
    "AND(boolean…)": _logic(decisive=False),
    "OR(boolean…)": _logic(decisive=True),
    "NOT(boolean)": strict(operator.not_),
    "=(any,any)": _comparison(operator.eq),
    "<>(any,any)": _comparison(operator.ne),
    "<(any,any)": _comparison(operator.lt),
    "<=(any,any)": _comparison(operator.le),
    ">(any,any)": _comparison(operator.gt),
    ">=(any,any)": _comparison(operator.ge),
    "BETWEEN(any,any,any)": _between,
    "IN(any,any…)": _in,
    "IS NULL(any)": _is(None),
    "IS TRUE(boolean)": _is(True),
    "IS FALSE(boolean)": _is(False),
    "IS NOT DISTINCT FROM(any,any)": _not_distinct,
    "coalesce(any…)": _coalesce,
    "nullif(any,any)": _nullif,
    "greatest(any…)": _most(max),
    "least(any…)": _most(min),
    "num_nulls(any…)": _count(lambda value: value is None),
    "num_nonnulls(any…)": _count(lambda value: value is not None),
    "||(text,text)": strict(operator.add),
    "||(bytea,bytea)": strict(operator.add),
}
"""By id."""
