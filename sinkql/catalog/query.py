"""A SELECT over system relations, in the user's dialect → its columns and rows, from the catalog file itself."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from sinkql import ast
from sinkql.catalog.database import Database
from sinkql.catalog.foreign import compare_numbers, without_postgres
from sinkql.catalog.function import register
from sinkql.catalog.system import RELATIONS
from sinkql.catalog.system.relation import Relation
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.planner.name import DATABASE, SCHEMA

MAX_TOKENS = 10_000
"""How many a query may have: what SQLite can take is far less, and sqlglot's time grows with the square."""
_DIALECT = "materialize"
ON_PATH = ("mz_catalog", "pg_catalog")
_SYSTEM = ("mz_catalog", "mz_internal", "pg_catalog", "information_schema")
_EXAMPLE = "A query looks like SELECT name FROM mz_sinks WHERE type = 'iceberg'."
_ALL = "SELECT schema_id, name FROM mz_relations lists what there is."
_VIEWS = {each.view: each for each in RELATIONS.values()}
_NAMED = (exp.Table, exp.Subquery, exp.CTE)


@dataclass(frozen=True, slots=True)
class Table:
    """Hold a statement's result: column names, and rows of text, numbers and None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def select(
    query: ast.Query, database: Database, *, current: tuple[str, tuple[str, ...]] = (DATABASE, (SCHEMA,))
) -> Table:
    """Run a query over system relations; `current` are the session's database and the schemas on its path.

    Raises SQ2980 (another relation), SQ2281 to SQ2284 (mistakes in the query).
    """
    text = _Text(query)
    tree = text.parse()
    _name_outputs(tree)
    tree = without_postgres(tree)
    _to_views(tree, text)
    qualified = text.qualified(tree)
    named = qualified.find_all(exp.Table)
    relations = {table.alias_or_name: _VIEWS[table.name] for table in named if table.name in _VIEWS}
    compare_numbers(qualified, relations)
    booleans = _booleans(qualified, relations)
    sql = qualified.sql("sqlite", identify=True)
    with database.read() as connection:
        connection.exec_driver_sql("PRAGMA case_sensitive_like = ON")  # as LIKE is in the user's dialect
        plain = connection.connection.driver_connection
        assert isinstance(plain, sqlite3.Connection)
        register(plain, database=current[0], path=current[1])
        try:
            result = connection.exec_driver_sql(sql)
            return Table(tuple(result.keys()), tuple(_typed(row, booleans) for row in result))
        except sa.exc.DBAPIError as error:
            raise SinkqlError(
                "SQ2284",
                f"the system catalog cannot run this query: {error.orig}",
                query.span,
                hint="System relations are queried with the functions that SQLite has.",
            ) from error


class _Text:
    """Tie a parsed query to its place in the user's script."""

    def __init__(self, query: ast.Query) -> None:
        self.query = query

    def span(self, node: exp.Expression | None) -> Span:
        """Return where a node with an identifier stands; all of the query for one without."""
        identifier = node.find(exp.Identifier) if node is not None else None
        meta: Mapping[str, int] = identifier.meta if identifier is not None else {}
        if "start" not in meta:
            return self.query.span
        return Span(meta["start"], meta["end"] + 1).shifted(self.query.span.start)

    def parse(self) -> exp.Query:
        """Return the query's tree; raises SQ2282."""
        try:
            if len(sqlglot.tokenize(self.query.text, read=_DIALECT)) > MAX_TOKENS:
                raise SinkqlError(
                    "SQ2227",
                    f"a query over the system catalog has at most {MAX_TOKENS:,} words and signs",
                    self.query.span,
                    hint="Ask in several queries.",
                )
            tree = sqlglot.parse_one(self.query.text, read=_DIALECT)
        except (ParseError, TokenError) as error:
            raise self._syntax(error) from error
        if not isinstance(tree, exp.Query):
            raise SinkqlError("SQ2282", "expected a query", self.query.span, hint=_EXAMPLE)
        return tree

    def _syntax(self, error: ParseError | TokenError) -> SinkqlError:
        found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        reason = str(found.get("description") or "a string or quoted name is not closed").partition(" but got")[0]
        if "Required keyword" in reason:
            reason = "something is missing here"
        reason = reason[:1].lower() + reason[1:].rstrip(".")
        span = self.query.span
        if found.get("line"):
            lines = self.query.text.splitlines(keepends=True)
            end = sum(map(len, lines[: found["line"] - 1])) + found["col"]
            start = max(0, end - len(found.get("highlight") or " "))
            span = Span(start, max(end, start + 1)).shifted(self.query.span.start)
        return SinkqlError("SQ2282", f"the query does not parse: {reason}", span, hint=_EXAMPLE)

    def qualified(self, tree: exp.Query) -> exp.Query:
        """Return the tree with every column tied to its relation; raises SQ2283 for one that does not exist."""
        columns = {each.view: {column.name: "text" for column in each.columns} for each in RELATIONS.values()}
        try:
            done = qualify(tree.copy(), dialect=_DIALECT, schema=columns, validate_qualify_columns=False)
        except OptimizeError as error:
            named = re.search(r"[Cc]olumn:? ['\"]*([^'\"\s]+)", str(error))
            name = named[1] if named else str(error)
            column = next((each for each in tree.find_all(exp.Column) if each.name == name), None)
            raise self._unknown_column(tree, column, name) from error
        for scope in traverse_scope(done):
            for column in scope.unqualified_columns:
                raise self._unknown_column(tree, column, column.name)
            if scope.external_columns and not scope.is_correlated_subquery:
                raise self._unknown_column(tree, scope.external_columns[0], scope.external_columns[0].name)
        assert isinstance(done, exp.Query)
        return done

    def _unknown_column(self, tree: exp.Query, column: exp.Column | None, name: str) -> SinkqlError:
        if (
            column is not None
            and column.table
            and not any(t.alias_or_name == column.table for t in tree.find_all(*_NAMED))
        ):
            message = f'relation "{column.table}" is not in FROM'
            raise SinkqlError("SQ2281", message, self.span(column.args["table"]), hint="Use a name that FROM gives.")
        used = [_VIEWS[table.name] for table in tree.find_all(exp.Table) if table.name in _VIEWS]
        holders = sum(name in relation.names for relation in used)
        span = self.span(column.this if column is not None else None)
        if holders > 1 and column is not None and not column.table:
            hint = f"Name the relation: {used[0].name}.{name}."
            return SinkqlError("SQ2285", f'column "{name}" is ambiguous', span, hint=hint)
        choices = sorted({each for relation in used for each in relation.names})
        near = nearest(name, choices)
        hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(choices)}."
        return SinkqlError("SQ2283", f'column "{name}" does not exist', span, hint=hint)


def _name_outputs(tree: exp.Query) -> None:
    """Name unnamed outputs as the user's dialect does: a function's by the function."""
    for output in list(tree.selects):
        if not isinstance(output, exp.Column | exp.Star | exp.Alias):
            name = output.sql_name().lower() if isinstance(output, exp.Func) else "?column?"
            output.replace(exp.alias_(output.copy(), name, quoted=True))


def _to_views(tree: exp.Query, text: _Text) -> None:
    """Turn the names of system relations into those of the views in the file, and refuse all others."""
    views = {id(table) for table in tree.find_all(exp.Table) if not _of_query(table)}
    for table in [each for each in tree.find_all(exp.Table) if id(each) in views]:
        relation = _relation(table)
        if relation is None:
            raise _unknown_relation(table, text)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(relation.name)))
        table.set("this", exp.to_identifier(relation.view))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _relation(table: exp.Table) -> Relation | None:
    """Return the system relation that a name stands for, if it does."""
    name = (
        table.name if isinstance(table.this, exp.Identifier) and table.this.args.get("quoted") else table.name.lower()
    )
    schemas = (table.db.lower(),) if table.db else ON_PATH
    return next((RELATIONS[schema, name] for schema in schemas if (schema, name) in RELATIONS), None)


def _booleans(tree: exp.Query, relations: Mapping[str, Relation]) -> frozenset[int]:
    """Return the places of outputs that are boolean: SQLite gives numbers for them."""
    return frozenset(place for place, output in enumerate(tree.selects) if _boolean(output.unalias(), tree, relations))


def _boolean(value: exp.Expression, tree: exp.Query, relations: Mapping[str, Relation]) -> bool:
    if not isinstance(value, exp.Column):
        return isinstance(value, exp.Predicate | exp.Boolean | exp.Not | exp.And | exp.Or)
    relation = relations.get(value.table)
    if relation is not None:
        return relation.type_of(value.name) == "boolean"
    queries = (each.this for each in tree.find_all(exp.Subquery, exp.CTE) if each.alias == value.table)
    query = next((each for each in queries if isinstance(each, exp.Query)), None)
    outputs = query.selects if query is not None else []
    inner = next((each.unalias() for each in outputs if each.alias_or_name == value.name), None)
    return query is not None and inner is not None and _boolean(inner, query, relations)


def _typed(row: Sequence[Any], booleans: frozenset[int]) -> tuple[Any, ...]:
    return tuple(bool(value) if place in booleans and value is not None else value for place, value in enumerate(row))


def _of_query(table: exp.Table) -> bool:
    """Tell whether a name stands for a WITH query of a SELECT around it."""
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    node: exp.Expression | None = table
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With) and any(each.alias == table.name for each in with_.expressions):
            return True
        node = node.parent
    return False


def _unknown_relation(table: exp.Table, text: _Text) -> SinkqlError:
    name, span = table.name, text.span(table.this)
    relation = next((each for each in RELATIONS.values() if each.name == name.lower()), None)
    if relation is not None and not table.db:
        hint = f"Write {relation.schema}.{relation.name}."
        return SinkqlError("SQ2281", f'system relation "{name}" is not on the path', span, hint=hint)
    if name.lower().startswith(("mz_", "pg_")) or table.db.lower() in _SYSTEM:
        near = nearest(name, tuple(each.name for each in RELATIONS.values()))
        found = next((each for each in RELATIONS.values() if each.name == near), None)
        hint = f"Did you mean {found.schema}.{found.name}?" if found else _ALL
        return SinkqlError(
            "SQ2281", f'system relation "{table.db + "." if table.db else ""}{name}" does not exist', span, hint=hint
        )
    shown = name or table.sql(_DIALECT)
    return SinkqlError(
        "SQ2980",
        f'SELECT over "{shown}" is not supported yet',
        span,
        hint="Select from system relations such as mz_sinks; read a sink's table with DuckDB, Spark or PyIceberg.",
    )
