"""Vectors of expressions with Postgres's results row by row, and their plans over a table t."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.types import parse_type
from sinkql.errors import SinkqlError, Span
from sinkql.keywords import LANGUAGE, Keywords
from sinkql.logical.expression import without_spans
from sinkql.planner.expression.typed_expression import settled
from sinkql.planner.item.setting import DEFAULTS
from sinkql.planner.query.plan import QueryPlan, plan_query
from sinkql.planner.query.scope import Scope
from sinkql.planner.query.translate import scalar

_TABLE = "materialize.public.t"


@dataclass(frozen=True, slots=True)
class Tables:
    """A catalog that holds only named sources."""

    shapes: dict[str, logical.Shape]

    def resolve(self, name: ast.Name) -> str:
        return ".".join([*("materialize", "public")[: 3 - len(name.parts)], *(part.value for part in name.parts)])

    def has(self, full_name: str) -> bool:
        return full_name in self.shapes

    def entry(self, full_name: str) -> logical.Entry | None:
        return None

    def item(self, full_name: str) -> logical.Item | None:
        shape = self.shapes.get(full_name)
        return logical.Source(full_name, "FILES", {}, shape) if shape is not None else None

    def locate(self, name: ast.Name) -> str:
        return self.resolve(name)

    def names(self, kind: str) -> tuple[str, ...]:
        return tuple(self.shapes) if kind == "SOURCE" else ()

    def dependents(self, full_name: str) -> tuple[str, ...]:
        return ()

    def setting(self, name: str) -> str:
        return DEFAULTS[name]

    @property
    def words(self) -> Keywords:
        return LANGUAGE


def load() -> list[dict[str, Any]]:
    """Read all vectors."""
    return list(_read(Path(__file__).with_name("vectors.jsonl")))


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def table(columns: dict[str, str], *, change: logical.Change = logical.Change.APPEND) -> Tables:
    """Return a catalog with one source t."""
    shape = logical.Shape(tuple(logical.Column(name, parse_type(type_)) for name, type_ in columns.items()), (), change)
    return Tables({_TABLE: shape})


def shape_of(columns: Mapping[str, str]) -> logical.Shape:
    """Return the shape of columns whose types may end in NOT NULL."""
    return logical.Shape(
        tuple(
            logical.Column(name, parse_type(type_.removesuffix(" NOT NULL")), nullable=not type_.endswith(" NOT NULL"))
            for name, type_ in columns.items()
        )
    )


def query(text: str, catalog: Tables) -> QueryPlan:
    """Plan a query's text."""
    return plan_query(ast.Query(text, Span(0, len(text))), catalog)


def expression(text: str, columns: dict[str, str]) -> logical.Expression:
    """Plan an expression over columns of the given types, without spans."""
    return over(text, tuple(logical.Column(name, parse_type(type_)) for name, type_ in columns.items()))


def over(text: str, columns: tuple[logical.Column, ...]) -> logical.Expression:
    """Plan an expression over columns, without spans."""
    return without_spans(placed(text, columns))


def placed(text: str, columns: tuple[logical.Column, ...]) -> logical.Expression:
    """Plan an expression over columns, with spans."""
    written = ast.Expression(text, Span(0, len(text)))
    return settled(scalar(written, None, Scope.of((), columns)))


def text_of(vector: dict[str, Any]) -> str:
    """Return a vector's query."""
    match vector.get("mode"):
        case "query":
            return str(vector["sql"])
        case "group":
            return f"SELECT g, {vector['sql']} AS x FROM t GROUP BY g"
        case _:
            return f"SELECT {vector['sql']} AS x FROM t"


def planned(vector: dict[str, Any]) -> QueryPlan | SinkqlError:
    """Plan a vector; return the error if it has one."""
    if isinstance(vector["columns"], list):
        raise TypeError(vector["id"])
    try:
        return query(text_of(vector), table(vector["columns"]))
    except SinkqlError as error:
        return error
