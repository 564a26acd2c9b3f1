"""The help on functions, and its examples as SinkQL and Postgres compute them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql

import sinkql.testing
from sinkql.errors import SinkqlError
from sinkql.logical import Type
from sinkql.logical.function import FUNCTIONS
from sinkql.planner.function import call, set_returning
from sinkql.session import Session
from sinkql.shell.screen.value import shown_value, value_text

ROWS = ((1, 1, "a"), (2, 4, "b"), (3, 4, "c"), (4, None, "d"))
"""The rows of the table t (id, n, s) that aggregates and window functions read."""
GROUPED, WINDOWS, CLOCK = "aggregates", "window", "mz-now"
_SYNTAX = {
    "position", "trim", "CASE", "::", "EXISTS", "^", "text ~ pattern", "lower(range)", "upper(range)", "ALL",
    "mz_now", "aggregate OVER",
}  # fmt: skip
"""Functions with a separate form in the grammar, or with another meaning for some types."""
_OPERATORS = {
    "EXTRACT": "extract",
    "REGEXP_MATCH": "regexp_match",
    **{f"{each} ANY": "ANY" for each in ("=", "<", ">")},
}
_DIGITS = 10
"""Decimal digits of a column of numeric quotients."""


@dataclass(frozen=True, slots=True)
class Help:
    """The help on a function or operator; `postgres` is the first example for Postgres, False if it has none."""

    name: str
    page: str
    forms: tuple[str, ...]
    about: str
    examples: tuple[str, ...]
    postgres: str | bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of an example: the type of its value, and the value as the shell prints it."""

    type: str
    text: str


@cache
def read() -> tuple[Mapping[str, Mapping[str, Any]], tuple[Help, ...]]:
    """Return the pages by their files' names, and the help on each function."""
    found = tomllib.loads((files("sinkql.logical") / "function_help.toml").read_text("utf-8"))
    helps = [
        Help(
            name,
            each["page"],
            tuple(each["forms"]),
            each["about"],
            tuple(each["examples"]),
            each.get("postgres", True),
            each.get("note", ""),
        )
        for name, each in found["functions"].items()
    ]
    return found["pages"], tuple(helps)


def public_names() -> set[str]:
    """Return the names of all functions and operators that users write."""
    called = {name for name in call.NAMES if not name.startswith("$")}
    operators = {each.name for each in FUNCTIONS.values() if not each.name.startswith("$")} - set(call.NAMES)
    named = {_OPERATORS.get(each, each) for each in operators if not each.endswith("= ANY") or each == "= ANY"}
    return called | (named - {"<> ANY"}) | {*call.AGGREGATES, *call.WINDOW_FUNCTIONS, *set_returning.HANDLERS} | _SYNTAX


def query(help_: Help, example: str) -> str:
    """Return the query that shows an example."""
    if example.startswith("SELECT "):
        return example
    return f"SELECT {example} AS x{' FROM t' if help_.page == GROUPED else ''}"


@cache
def results() -> Mapping[tuple[str, str], Shown]:
    """Return SinkQL's result for each example, by the function's name and the example."""
    _, helps = read()
    plain = [each for each in helps if each.page not in (GROUPED, WINDOWS, CLOCK)]
    found = {}
    with TemporaryDirectory() as folder, Session(folder) as session:
        for each in plain:
            for example in each.examples:
                try:
                    result = session.execute(f"{query(each, example)};")[0]
                except SinkqlError as error:
                    raise AssertionError(f"{each.name}: {example}: {error}") from error
                values = [tuple(map(_text, row, result.types)) for row in result.rows]
                found[each.name, example] = Shown(_type(result.types[-1]), _listed(values))
    return {**found, **_of_table([each for each in helps if each.page in (GROUPED, WINDOWS)])}


def _of_table(helps: Iterable[Help]) -> Mapping[tuple[str, str], Shown]:
    """Compute examples over the table's rows without Spark, each as a view."""
    views: list[str] = []
    keys: list[tuple[Help, str]] = []
    for each in helps:
        for example in each.examples:
            text = f"SELECT id, {example} AS x FROM t" if each.page == WINDOWS else query(each, example)
            views.append(f"CREATE MATERIALIZED VIEW v{len(keys)} AS {text};")
            keys.append((each, example))
    pipeline = sinkql.testing.loads(
        f"CREATE TABLE t (id integer PRIMARY KEY, n integer, s text);{''.join(views)}",
    )
    pipeline.insert("t", [dict(zip(("id", "n", "s"), row, strict=True)) for row in ROWS])
    found = {}
    for number, (each, example) in enumerate(keys):
        got = pipeline.rows(f"v{number}")
        name = next(reversed(got[0]))
        ordered = sorted(got, key=lambda row: row.get("id", 0) if each.page == WINDOWS else str(row[name]))
        shown = [(value_text(_plain(row[name]), "NULL"),) for row in ordered]
        found[each.name, example] = Shown("", _listed(shown))
    return found


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _type(type_: Type) -> str:
    return str(type_)


def _text(value: Any, type_: Type) -> str:
    return value_text(shown_value(value, type_), "NULL")


def _listed(found: Iterable[tuple[str, ...]]) -> str:
    return "; ".join(", ".join(row) for row in found)


# --- Postgres --------------------------------------------------------------------------------------------------------


def in_postgres(help_: Help, example: str, connection: psycopg.Connection[Any]) -> str:
    """Return Postgres's result for an example; the session's zone is UTC, and the table t exists."""
    written = help_.postgres if isinstance(help_.postgres, str) and example == help_.examples[0] else example
    text = f"SELECT {written} AS x FROM t ORDER BY id" if help_.page == WINDOWS else query(help_, written)
    cursor = connection.execute(sql.SQL(text))
    assert cursor.description is not None
    parts = ", ".join(f'q."{each.name}"::text' for each in cursor.description)
    values = cursor.fetchall()
    texts = connection.execute(sql.SQL(f"SELECT {parts} FROM ({text}) AS q")).fetchall()
    if help_.page == GROUPED:
        texts.sort(key=str)
        values.sort(key=str)
    found = []
    for row, text_row in zip(values, texts, strict=True):
        found.append(tuple(_of_postgres(value, shown) for value, shown in zip(row, text_row, strict=True)))
    return _listed(found)


def _of_postgres(value: Any, shown: str | None) -> str:
    if shown is None:
        return "NULL"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else shown


def alike(ours: str, theirs: str) -> bool:
    """Return whether two results are the same; numerics may differ in zeros, and digits that no column stores."""
    if ours == theirs:
        return True
    mine, other = ours.split("; "), theirs.split("; ")
    return len(mine) == len(other) and all(_number(a) == _number(b) for a, b in zip(mine, other, strict=True))


def _number(text: str) -> object:
    try:
        return Decimal(text).quantize(Decimal(1).scaleb(-_DIGITS))
    except ArithmeticError:
        return text
