"""Values of the catalog file as SinkQL's evaluator takes them, and the functions of a query that SQLite calls.

Functions of the list that a query over the catalog alone computes in Python: regular expressions, texts of jsonb.

The functions of Postgres that its tools call when they list relations, for SQLite to run.
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


def _matches(flags: re.RegexFlag) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        pattern = call.arguments[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return None
        java = read_regex(pattern.value).java
        if r"\p{" in java:
            return None  # a class of all letters, which Python's expressions do not have
        found = re.compile(java.replace(r"\z", r"\Z"), flags)
        return strict(lambda text, _: found.search(text) is not None)(call, operands)

    return make


FORMS: Mapping[str, Make] = MappingProxyType(
    {
        "~(text,text)": _matches(re.NOFLAG),
        "~*(text,text)": _matches(re.IGNORECASE),
        **dict.fromkeys(("->>(jsonb,text)", "->>(jsonb,integer)"), strict(member_text)),
    }
)
"""By the ids of `logical.function`'s list."""


DIALECT_VERSION = f"PostgreSQL 9.5 on SinkQL {__version__}"
"""What version() says: tools look for the number of the Postgres whose catalog this resembles."""

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
"""What `register` makes known: how many arguments each function takes, and the type of what it gives."""

_NAMES = {each.oid: each.name for each in TYPES}
_ALWAYS_ON_PATH = ("mz_catalog", "pg_catalog")
_MODIFIED = 4  # what a modifier is above ((precision << 16) | scale)


def register(connection: sqlite3.Connection, *, database: str, path: Sequence[str]) -> None:
    """Make the functions known to a connection; `database` is the current one, `path` its schemas on the path."""

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
    visible = _Visible(connection, database, path)
    add("pg_table_is_visible", 1, visible)
    add("pg_type_is_visible", 1, lambda oid: 1)
    add("has_schema_privilege", 2, lambda name, privilege: 1)
    add("has_table_privilege", 2, lambda name, privilege: 1)
    for name in ("pg_get_expr", "pg_get_constraintdef", "obj_description", "shobj_description", "col_description"):
        for count in (1, 2, 3):
            add(name, count, _first_if_text)


class _Visible:
    """Tell which relations a name alone finds: of several of one name that in the first schema on the path."""

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
        found: dict[str, tuple[int, int]] = {}
        for oid, name, schema, database in self._connection.execute(query).fetchall():
            if database is None and schema in _ALWAYS_ON_PATH:
                place = len(self._path)
            elif database == self._database and schema in self._path:
                place = self._path.index(schema)
            else:
                continue
            found[name] = min(found.get(name, (place, oid)), (place, oid))
        return {oid for _, oid in found.values()}


def _format_type(oid: int | None, modifier: int | None) -> str | None:
    if oid is None:
        return None
    name = _NAMES.get(int(oid), "???")
    if name == "numeric" and modifier is not None and int(modifier) >= _MODIFIED:
        packed = int(modifier) - _MODIFIED
        return f"numeric({packed >> 16},{packed & 0xFFFF})"
    return name


def _first_if_text(*arguments: object) -> str | None:
    """Return what is text already: expressions are stored as such; comments by oid are in pg_description."""
    return arguments[0] if isinstance(arguments[0], str) else None
