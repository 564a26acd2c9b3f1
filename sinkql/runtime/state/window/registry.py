"""Functions of the rows of a key, by their names."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module

import pyarrow as pa

from sinkql import physical
from sinkql.runtime.state import window
from sinkql.runtime.state.window.rows import Rows

Function = Callable[[Rows, physical.WindowCall], pa.Array]
"""Rows in the order of a call, and the call → one value for each row, or for each key.

A call's `columns` are names for `Rows.column`. The values may have any type that casts to that of the call. With
`distinct`, rows of a key whose arguments are alike come once. It raises SumOverflowError where a value does not fit,
and CountError for a number of rows or parts that is less than 1.
"""


class CountError(ArithmeticError):
    """A number of rows or parts is less than 1."""


_OVER: dict[str, Function] = {}
_COLLECTING: dict[str, Function] = {}


def over(*names: str) -> Callable[[Function], Function]:
    """Register a window function: one value for each row."""
    return _registering(_OVER, names)


def collects(*names: str) -> Callable[[Function], Function]:
    """Register an aggregate: one value for each key, 0 to `Rows.count` - 1, also for one without rows."""
    return _registering(_COLLECTING, names)


def _registering(functions: dict[str, Function], names: tuple[str, ...]) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        functions.update(dict.fromkeys(names, function))
        return function

    return register


def function_of(call: physical.WindowCall, *, grouped: bool) -> Function:
    """Return what computes a call, one value a key if `grouped`."""
    _load()
    return (_COLLECTING if grouped else _OVER)[call.function]


@cache
def _load() -> None:
    for module in pkgutil.iter_modules(window.__path__, f"{window.__name__}."):
        import_module(module.name)
