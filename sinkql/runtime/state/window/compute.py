"""Compute one column for each call over the rows of keys, by functions registered by name."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.runtime.state import window
from sinkql.runtime.state.arithmetic import SumOverflowError
from sinkql.runtime.state.arrangement import Ints, grouped
from sinkql.runtime.state.run import one_chunk
from sinkql.runtime.state.window.rows import Rows, in_order, told_apart


def computed(
    table: pa.Table, owner: Ints, hashes: Ints, count: int, calls: Sequence[physical.WindowCall], *, collected: bool
) -> list[pa.Array]:
    """Return each call's result: one value per row of the table, or per key (`count` keys) if `collected`.

    `owner` is the number of each row's key, `hashes` decide between rows with equal order. Raises SQ3211, and SQ3201
    for a number of rows or parts below 1.
    """
    sorted_: dict[tuple[physical.Order, ...], tuple[Rows, Ints]] = {}
    found = []
    for call in calls:
        if call.order not in sorted_:
            sorted_[call.order] = in_order(table, owner, hashes, count, call.order)
        rows, places = sorted_[call.order]
        given = _distinct(rows, call) if call.distinct else rows
        try:
            values = _typed(function_of(call, grouped=collected)(given, call), arrow_type(call.type))
        except SumOverflowError as error:
            raise SinkqlError(
                "SQ3211",
                f'sum out of range in "{call.name}"',
                hint="Cast the argument to numeric, or to a numeric with fewer fraction digits.",
            ) from error
        except CountError as error:
            message = f'{call.function}() of "{call.name}" takes a number of 1 or more, found less'
            raise SinkqlError("SQ3201", message, hint="Write greatest(…, 1), or filter these rows out.") from error
        if not collected:
            back = np.empty(len(places), np.int64)
            back[places] = np.arange(len(places))
            values = values.take(pa.array(back))
        found.append(values)
    return found


def _typed(values: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    values = one_chunk(values)
    if values.type == type_:
        return values
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise SumOverflowError from error


def _distinct(rows: Rows, call: physical.WindowCall) -> Rows:
    """Return the first of the rows of a key with equal arguments."""
    order, starts = grouped(*(told_apart(rows.column(name)) for name in call.columns), rows.owner)
    kept = np.zeros(len(rows), np.bool_)
    kept[order[starts]] = True
    return rows.where(pa.array(kept))


Function = Callable[[Rows, physical.WindowCall], pa.Array]
"""Computes a call from rows in its order: one value for each row, or for each key.

A call's `columns` are names for `Rows.column`. The values may have any type that casts to the call's type. With
`distinct`, only one of the rows of a key with equal arguments is passed. Raises SumOverflowError, and CountError for a
number of rows or parts below 1.
"""


class CountError(ArithmeticError):
    """A number of rows or parts is less than 1."""


_OVER: dict[str, Function] = {}
_COLLECTING: dict[str, Function] = {}


def over(*names: str) -> Callable[[Function], Function]:
    """Register a window function: one value for each row."""
    return _registering(_OVER, names)


def collects(*names: str) -> Callable[[Function], Function]:
    """Register an aggregate: one value for each key, 0 to `Rows.count` - 1, including keys without rows."""
    return _registering(_COLLECTING, names)


def _registering(functions: dict[str, Function], names: tuple[str, ...]) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        functions.update(dict.fromkeys(names, function))
        return function

    return register


def function_of(call: physical.WindowCall, *, grouped: bool) -> Function:
    """Return the function of a call; one value per key if `grouped`."""
    _load()
    return (_COLLECTING if grouped else _OVER)[call.function]


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(window.__path__, f"{window.__name__}."):
        import_module(module.name)
