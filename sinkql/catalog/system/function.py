"""Values of the catalog file as SinkQL's evaluator takes them, and the functions of a query that SQLite calls."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

from sinkql import evaluate, logical
from sinkql.catalog.system.form import FORMS
from sinkql.errors import NoFormError, SinkqlError, Span
from sinkql.logical import Type
from sinkql.planner import types

_STORED = {
    "oid": types.BIGINT, "uint2": types.BIGINT, "uint4": types.BIGINT, "uint8": types.BIGINT,
    "mz_timestamp": types.BIGINT,
}  # fmt: skip
"""Types of Postgres's catalogs and of the dialect that are numbers here."""
_NAN = "NaN"
"""SQLite makes NULL of NaN, and orders every text above all numbers, as Postgres orders NaN."""
_TYPES = frozenset((*types.TYPE_NAMES.values(), types.UNKNOWN))
_Columns = Sequence[tuple[str, Type]]


def stored_type(name: str) -> Type:
    """Return the type of a column of a system relation."""
    return _STORED.get(name) or Type(name)


def shown(value: Any, type_: Type) -> Any:
    """Return a value of SQLite's as a query gives it."""
    if value is None:
        return None
    match type_.name:
        case "boolean":
            return bool(value)
        case "numeric":
            return Decimal(value)
        case "bytea":
            return f"\\x{value.hex()}"
        case "real" | "double precision":
            return float(value)
        case _:
            return value


def known(type_: Type) -> bool:
    """Tell whether a type is one of SinkQL's."""
    return type_.name == "numeric" or type_ in _TYPES


def taken(type_: Type) -> Callable[[Any], Any]:
    """Return what makes a value of the evaluator's of one of SQLite's."""
    match type_.name:
        case "boolean":
            return bool
        case "numeric":
            return Decimal
        case "real" | "double precision":
            return float
        case "date" | "timestamp" | "timestamptz":
            return evaluate.conversion(types.TEXT, type_) or str
        case _:
            return lambda value: value


def _given(value: Any, type_: Type) -> Any:
    """Return a value of the evaluator's as SQLite holds it."""
    match type_.name:
        case "boolean":
            return int(value)
        case "numeric":
            return format(value, "f")
        case "timestamp" | "timestamptz":
            return value.isoformat(" ", "microseconds")
        case "date":
            return value.isoformat()  # %Y does not fill up the years before 1000
        case "real" | "double precision" if math.isnan(value):
            return _NAN
        case _:
            return value


def _function(tree: logical.Expression, names: Sequence[str]) -> Callable[[Any], Any] | None:
    if not isinstance(tree, logical.Call) or tree.function not in FORMS:
        return evaluate.function_of(tree, names)
    operands = [evaluate.function_of(each, names) for each in tree.arguments]
    known = [each for each in operands if each is not None]
    return FORMS[tree.function](tree, known) if len(known) == len(operands) else None


class UnsureValueError(SinkqlError):
    """A value of a row is not sure to be what Postgres gives."""


@dataclass
class Functions:
    """What a query computes by SinkQL's own evaluator, as functions for SQLite; and what went wrong in one of them."""

    error: SinkqlError | None = None
    _scalars: dict[tuple[logical.Expression, tuple[str, ...]], Callable[..., Any]] = field(default_factory=dict)
    _one: Span | None = None

    def add(self, tree: logical.Expression, columns: _Columns) -> str:
        """Return the name of the function that computes a tree over these columns; raises SQ2284 where none can."""
        names = tuple(name for name, _ in columns)
        key = (tree, names)
        if key not in self._scalars:
            value = _function(tree, names)
            if value is None:
                message = "this expression is not supported over system relations"
                raise NoFormError("SQ2284", message, tree.span, hint="Use another one, or compute it elsewhere.")
            self._scalars[key] = self._called(value, tree, columns)
        return f"sinkql_{list(self._scalars).index(key)}"

    def only_one(self, span: Span) -> str:
        """Return the name of the aggregate that gives the one row of a subquery."""
        self._one = span
        return "sinkql_one"

    def _called(self, value: Callable[[Any], Any], tree: logical.Expression, columns: _Columns) -> Callable[..., Any]:
        takes, type_ = [taken(each) for _, each in columns], tree.type

        def call(*arguments: Any) -> Any:
            try:
                row = tuple(None if x is None else take(x) for take, x in zip(takes, arguments, strict=True))
                found = value(row)
                return None if found is None else _given(found, type_)
            except SinkqlError as error:
                self.error = error
                raise
            except evaluate.NotEvaluableError:
                message = "this expression is not supported over system relations for a value that it meets"
                self.error = UnsureValueError("SQ2284", message, tree.span)
                raise

        return call

    def register(self, connection: sqlite3.Connection) -> None:
        """Make the functions known to a connection."""
        for number, ((_, names), call) in enumerate(self._scalars.items()):
            connection.create_function(f"sinkql_{number}", len(names), call)
        if self._one is not None:
            span = self._one

            def too_many() -> None:
                message = "more than one row returned by a subquery used as an expression"
                self.error = SinkqlError("SQ3201", message, span)
                raise self.error

            connection.create_aggregate("sinkql_one", 1, lambda: _One(too_many))
        for name, class_ in SUMS.values():
            connection.create_aggregate(name, 1, class_)


class _One:
    """The one value that there is."""

    def __init__(self, too_many: Callable[[], None]) -> None:
        self._values: list[Any] = []
        self._too_many = too_many

    def step(self, value: Any, /) -> None:
        if self._values:
            self._too_many()
        self._values.append(value)

    def finalize(self) -> Any:
        return self._values[0] if self._values else None


class _NumericSum:
    """The sum of numerics, which are texts here."""

    def __init__(self) -> None:
        self._total: Decimal | None = None

    def step(self, value: Any, /) -> None:
        if value is not None:
            self._total = _ALL_DIGITS.add(Decimal(value), self._total or Decimal())

    def finalize(self) -> Any:
        return None if self._total is None else format(self._total, "f")


class _FloatSum:
    """The sum of floats, of which SQLite's own leaves out NaN."""

    def __init__(self) -> None:
        self._total: float | None = None

    def step(self, value: Any, /) -> None:
        if value is not None:
            self._total = float(value) + (self._total or 0.0)

    def finalize(self) -> Any:
        return _NAN if self._total is not None and math.isnan(self._total) else self._total


_ALL_DIGITS = Context(prec=80)
SUMS: Mapping[str, tuple[str, type[_NumericSum | _FloatSum]]] = {
    "numeric": ("sinkql_sum", _NumericSum),
    "double precision": ("sinkql_float_sum", _FloatSum),
}
"""By type: the aggregate of sums that SQLite has not."""
