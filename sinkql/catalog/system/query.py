"""Run a SELECT over system relations, in the user's dialect, in SQLite."""

from __future__ import annotations

import sqlite3

from sqlglot import exp

from sinkql import ast
from sinkql.catalog.store import Store
from sinkql.catalog.system.expression import SUPPORTED
from sinkql.catalog.system.function import register, shown
from sinkql.catalog.system.resolve import VIEWS, resolve, without_postgres
from sinkql.catalog.system.to_sqlite import lower
from sinkql.catalog.system.view import Table
from sinkql.errors import NoFormError, SinkqlError, Span, too_deep
from sinkql.machine import clock
from sinkql.planner.name import DATABASE, SCHEMA
from sinkql.planner.syntax.sqlglot_tree import parse

MAX_TOKENS = 10_000
"""The most tokens of a query: SQLite accepts far fewer, and sqlglot's time grows quadratically."""
_Current = tuple[str, tuple[str, ...]]


def select(
    query: ast.Query,
    database: Store,
    *,
    current: _Current = (DATABASE, (SCHEMA,)),
    within: Span | None = None,
) -> Table:
    """Run a query over system relations; `current` has the session's database and its schemas on the path.

    `within` is the part of the query that the user wrote, by default all of it. Raises SQ2980 (another relation),
    SQ2284 (not supported over system relations), and the errors of planning and running a query.
    """
    written = within or query.span
    try:
        return _selected(query, database, current)
    except RecursionError:
        raise too_deep(written) from None
    except SinkqlError as error:
        error.span = _within(error.span or written, written)
        raise


def _within(span: Span, written: Span) -> Span:
    """Return the part of a span that the user wrote."""
    first = min(max(span.start, written.start), written.end)
    return Span(first, max(first, min(span.end, written.end)))


def _selected(query: ast.Query, database: Store, current: _Current) -> Table:
    syntax = parse(query)
    if len(syntax.tokens) > MAX_TOKENS:
        message = f"the query has more than {MAX_TOKENS:,} words and signs"
        raise SinkqlError("SQ1029", message, query.span, hint="Split it into several queries.")
    if not isinstance(syntax.tree, exp.Query):
        raise NoFormError("SQ2284", "VALUES is not supported over system relations", query.span, hint=SUPPORTED)
    tree = syntax.tree.copy()
    while isinstance(tree, exp.Subquery) and [name for name, part in tree.args.items() if part] == ["this"]:
        tree = tree.this  # a query in parentheses
    tree = resolve(without_postgres(tree), syntax)
    functions, types = lower(tree, syntax, VIEWS, clock.now().replace(tzinfo=None))
    sql = tree.sql("sqlite", identify=True)
    with database.views() as connection:
        register(connection, database=current[0], path=current[1])
        functions.register(connection)
        try:
            result = connection.execute(sql)
            columns = tuple(column[0] for column in result.description)
            return Table(columns, tuple(tuple(map(shown, row, types)) for row in result))
        except sqlite3.Error as error:
            if functions.error is not None:
                raise functions.error from None
            message = "the system catalog cannot run this query"
            raise NoFormError("SQ2284", message, query.span, hint=SUPPORTED) from error
