"""The functions of a query over system relations that SQLite calls.

They compute expressions with SinkQL's evaluator, which needs values converted from and to SQLite's. They include
functions that only these queries compute in Python, for example regular expressions, and the functions of Postgres
clients.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sinkql import __version__, evaluate, logical
from sinkql.catalog.system.pg_type import TYPES
from sinkql.errors import NoFormError, SinkqlError, Span
from sinkql.evaluate.failure import Make, Value, strict
from sinkql.evaluate.json import member_text
from sinkql.logical import Call, Literal, Type
from sinkql.logical.pattern import read_regex
from sinkql.planner import types
from sinkql.planner.types import BOOLEAN, TEXT

_STORED = {
    "oid": types.BIGINT, "uint2": types.BIGINT, "uint4": types.BIGINT, "uint8": types.BIGINT,
    "mz_timestamp": types.BIGINT,
}  # fmt: skip
"""Types of Postgres's catalogs and of the dialect that SinkQL stores as numbers."""
_NAN = "NaN"
"""NaN as text: SQLite would convert NaN to NULL, and orders texts above all numbers, as Postgres orders NaN."""
_TYPES = frozenset((*types.TYPE_NAMES.values(), types.UNKNOWN))
_Columns = Sequence[tuple[str, Type]]


def stored_type(name: str) -> Type:
    """Return the type of a column of a system relation."""
    return _STORED.get(name) or Type(name)


def shown(value: Any, type_: Type) -> Any:
    """Return a value of SQLite's as the query's result has it."""
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


def is_known_type(type_: Type) -> bool:
    """Return whether SinkQL has a type."""
    return type_.name == "numeric" or type_ in _TYPES


def from_sqlite(type_: Type) -> Callable[[Any], Any]:
    """Return the function that converts a SQLite value to the evaluator's."""
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


def _to_sqlite(value: Any, type_: Type) -> Any:
    """Return a value of the evaluator's in the form that SQLite stores."""
    match type_.name:
        case "boolean":
            return int(value)
        case "numeric":
            return format(value, "f")
        case "timestamp" | "timestamptz":
            return value.isoformat(" ", "microseconds")
        case "date":
            return value.isoformat()  # %Y does not pad the years before 1000
        case "real" | "double precision" if math.isnan(value):
            return _NAN
        case _:
            return value


def _function(tree: logical.Expression, names: Sequence[str]) -> Callable[[Any], Any] | None:
    if not isinstance(tree, logical.Call) or tree.function not in FORMS:
        return evaluate.function_of(tree, names)
    operands = [evaluate.function_of(argument, names) for argument in tree.arguments]
    functions = [argument for argument in operands if argument is not None]
    return FORMS[tree.function](tree, functions) if len(functions) == len(operands) else None


class UnsureValueError(SinkqlError):
    """A row has a value for which the evaluator cannot guarantee Postgres's result."""


@dataclass
class Functions:
    """The functions that SQLite calls for a query, computed by SinkQL's evaluator, and the error of a call."""

    error: SinkqlError | None = None
    _scalars: dict[tuple[logical.Expression, tuple[str, ...]], Callable[..., Any]] = field(default_factory=dict)
    _one: Span | None = None

    def add(self, tree: logical.Expression, columns: _Columns) -> str:
        """Return the name of the function that computes a tree over these columns; raise SQ2284 if impossible."""
        names = tuple(name for name, _ in columns)
        key = (tree, names)
        if key not in self._scalars:
            value = _function(tree, names)
            if value is None:
                message = "this expression is not supported over system relations"
                raise NoFormError("SQ2284", message, tree.span, hint="Use another expression, or compute it elsewhere.")
            self._scalars[key] = self._as_call(value, tree, columns)
        return f"sinkql_{list(self._scalars).index(key)}"

    def only_one(self, span: Span) -> str:
        """Return the name of the aggregate that returns the only row of a subquery."""
        self._one = span
        return "sinkql_one"

    def _as_call(self, value: Callable[[Any], Any], tree: logical.Expression, columns: _Columns) -> Callable[..., Any]:
        takes, type_ = [from_sqlite(type_of_column) for _, type_of_column in columns], tree.type

        def call(*arguments: Any) -> Any:
            try:
                row = tuple(None if x is None else take(x) for take, x in zip(takes, arguments, strict=True))
                result = value(row)
                return None if result is None else _to_sqlite(result, type_)
            except SinkqlError as error:
                self.error = error
                raise
            except evaluate.NotEvaluableError:
                message = "this expression is not supported over system relations for one of its values"
                self.error = UnsureValueError("SQ2284", message, tree.span)
                raise

        return call

    def register(self, connection: sqlite3.Connection) -> None:
        """Register the functions in a connection."""
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
    """An aggregate of a single value."""

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
    """The sum of numerics, which are stored as texts."""

    def __init__(self) -> None:
        self._total: Decimal | None = None

    def step(self, value: Any, /) -> None:
        if value is not None:
            self._total = _ALL_DIGITS.add(Decimal(value), self._total or Decimal())

    def finalize(self) -> Any:
        return None if self._total is None else format(self._total, "f")


class _FloatSum:
    """The sum of floats including NaN, which SQLite's sum ignores."""

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
"""Sums that SQLite does not have, by type."""


def _matches(flags: re.RegexFlag) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        pattern = call.arguments[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return None
        java = read_regex(pattern.value).java
        if r"\p{" in java:
            return None  # Python's regular expressions have no Unicode classes
        regex = re.compile(java.replace(r"\z", r"\Z"), flags)
        return strict(lambda text, _: regex.search(text) is not None)(call, operands)

    return make


FORMS: Mapping[str, Make] = MappingProxyType(
    {
        "~(text,text)": _matches(re.NOFLAG),
        "~*(text,text)": _matches(re.IGNORECASE),
        **dict.fromkeys(("->>(jsonb,text)", "->>(jsonb,integer)"), strict(member_text)),
    }
)
"""Functions that are computed in Python, by the ids of `logical.function`."""


DIALECT_VERSION = f"PostgreSQL 9.5 on SinkQL {__version__}"
"""The result of version(): tools read the Postgres version that the catalog resembles."""

CLIENT: Mapping[str, tuple[tuple[int, ...], Type]] = MappingProxyType(
    {
        **dict.fromkeys(("current_database", "current_catalog", "current_schema", "current_user"), ((0,), TEXT)),
        **dict.fromkeys(("session_user", "version", "mz_version"), ((0,), TEXT)),
        **dict.fromkeys(("pg_get_userbyid", "pg_encoding_to_char"), ((1,), TEXT)),
        "format_type": ((2,), TEXT),
        **dict.fromkeys(("pg_table_is_visible", "pg_type_is_visible"), ((1,), BOOLEAN)),
        **dict.fromkeys(("has_schema_privilege", "has_table_privilege"), ((2,), BOOLEAN)),
        **dict.fromkeys(("pg_get_expr", "pg_get_constraintdef", "obj_description"), ((1, 2, 3), TEXT)),
        **dict.fromkeys(("shobj_description", "col_description"), ((1, 2, 3), TEXT)),
    }
)
"""The functions that `register` adds, with their numbers of arguments and their types."""

_NAMES = {client_type.oid: client_type.name for client_type in TYPES}
_ALWAYS_ON_PATH = ("mz_catalog", "pg_catalog")
_MODIFIED = 4  # a modifier is this much more than ((precision << 16) | scale)


def register(connection: sqlite3.Connection, *, database: str, path: Sequence[str]) -> None:
    """Register the functions of clients; `database` is the current database, `path` its schemas on the path."""

    def add(name: str, count: int, function: Callable[..., str | int | None]) -> None:
        connection.create_function(name, count, function, deterministic=True)

    add("current_database", 0, lambda: database)
    add("current_catalog", 0, lambda: database)
    add("current_schema", 0, lambda: next(iter(path), None))
    add("current_user", 0, lambda: "materialize")
    add("session_user", 0, lambda: "materialize")
    add("version", 0, lambda: DIALECT_VERSION)
    add("mz_version", 0, lambda: __version__)
    add("format_type", 2, _format_type)
    add("pg_get_userbyid", 1, lambda oid: "materialize")
    add("pg_encoding_to_char", 1, lambda encoding: "UTF8")
    visible = _VisibleRelations(connection, database, path)
    add("pg_table_is_visible", 1, visible)
    add("pg_type_is_visible", 1, lambda oid: 1)
    add("has_schema_privilege", 2, lambda name, privilege: 1)
    add("has_table_privilege", 2, lambda name, privilege: 1)
    for name in ("pg_get_expr", "pg_get_constraintdef", "obj_description", "shobj_description", "col_description"):
        for count in (1, 2, 3):
            add(name, count, _first_if_text)


class _VisibleRelations:
    """The relations that need no schema name: for each name, the one in the first schema on the path."""

    def __init__(self, connection: sqlite3.Connection, database: str, path: Sequence[str]) -> None:
        self._connection, self._database, self._path = connection, database, path

    def __call__(self, oid: int | None) -> int:
        return int(oid in self._oids)

    @cached_property
    def _oids(self) -> set[int]:
        query = (
            "SELECT r.oid, r.name, s.name, d.name FROM mz_relations AS r JOIN mz_schemas AS s ON s.id = r.schema_id"
            " LEFT JOIN mz_databases AS d ON d.id = s.database_id"
        )
        nearest: dict[str, tuple[int, int]] = {}
        for oid, name, schema, database in self._connection.execute(query).fetchall():
            if database is None and schema in _ALWAYS_ON_PATH:
                place = len(self._path)
            elif database == self._database and schema in self._path:
                place = self._path.index(schema)
            else:
                continue
            nearest[name] = min(nearest.get(name, (place, oid)), (place, oid))
        return {oid for _, oid in nearest.values()}


def _format_type(oid: int | None, modifier: int | None) -> str | None:
    if oid is None:
        return None
    name = _NAMES.get(int(oid), "???")
    if name == "numeric" and modifier is not None and int(modifier) >= _MODIFIED:
        packed = int(modifier) - _MODIFIED
        return f"numeric({packed >> 16},{packed & 0xFFFF})"
    return name


def _first_if_text(*arguments: object) -> str | None:
    """Return the first argument if it is text: expressions are stored as text, comments in pg_description."""
    return arguments[0] if isinstance(arguments[0], str) else None
