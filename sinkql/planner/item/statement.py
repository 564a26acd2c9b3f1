"""Plan a CREATE statement with its facts as an item, with dependencies and notices.

If the item exists, return a notice if both are equal; otherwise raise an error with the differences. Also decides
whether two statements only differ in spelling.
"""

from __future__ import annotations

import dataclasses
import difflib

from sinkql import ast, logical
from sinkql.connector_api.registry import Registry
from sinkql.errors import Notice, SinkqlError, Span, TakenNameError
from sinkql.planner.item.connection import plan_cluster, plan_connection
from sinkql.planner.item.secret import plan_secret
from sinkql.planner.item.sink import plan_sink
from sinkql.planner.item.source import plan_progress, plan_source, progress_of, pushed_source
from sinkql.planner.item.table import plan_table
from sinkql.planner.item.view import index_name, plan_index, plan_view
from sinkql.planner.name import (
    SCHEMA,
    as_name,
    database_name,
    is_system,
    qualified_name,
    resolve_schema,
    short_name,
    sql_name,
)
from sinkql.planner.scope import Planned, Scope
from sinkql.planner.subsource import plan_table_from, subsources
from sinkql.printer.clause import name as print_name


def plan(statement: ast.Create, facts: logical.Facts, catalog: logical.CatalogReader, registry: Registry) -> Planned:
    """Return the item that `statement` creates. Pure: the same statement, facts and catalog give the same item."""
    scope = Scope(catalog, registry)
    full_name = item_name(statement, catalog)
    _check_name_free(full_name, statement, catalog)
    return scope.planned(_plan(full_name, statement, facts, scope))


def _plan(full_name: str, statement: ast.Create, facts: logical.Facts, scope: Scope) -> logical.Item:
    match statement:
        case ast.CreateSecret():
            return plan_secret(full_name, statement)
        case ast.CreateConnection():
            return plan_connection(full_name, statement, scope)
        case ast.CreateCluster():
            return plan_cluster(full_name, statement, scope)
        case ast.CreateSource():
            return plan_source(full_name, statement, facts, scope)
        case ast.CreateView():
            return plan_view(full_name, statement, facts, scope)
        case ast.CreateSink():
            return plan_sink(full_name, statement, facts, scope)
        case ast.CreateTable():
            return plan_table(full_name, statement, facts)
        case ast.CreateDatabase():
            return logical.Database(full_name)
        case ast.CreateSchema():
            return logical.Schema(full_name)
        case ast.CreateTableFrom(source=None):
            return plan_source(full_name, pushed_source(statement), facts, scope)
        case ast.CreateTableFrom():
            return plan_table_from(full_name, statement, scope)
        case ast.CreateProgress():
            return plan_progress(full_name, statement, scope)
        case ast.CreateIndex():
            return plan_index(full_name, statement, scope)


def implied(statement: ast.Create, item: logical.Item | None) -> tuple[ast.Create, ...]:
    """Return the statements for the items that are created together with a planned item.

    A database has a schema public, a source FOR TABLES has subsources, and EXPOSE PROGRESS creates a progress
    subsource.
    """
    if isinstance(statement, ast.CreateDatabase):
        return (ast.CreateSchema(ast.Name((statement.name, ast.Ident(SCHEMA)), statement.span)),)
    if isinstance(statement, ast.CreateSource) and isinstance(item, logical.Source):
        return (*subsources(statement, item), *progress_of(statement))
    return ()


def kind_of(statement: ast.Create) -> str:
    """Return the kind of item that a statement creates, as DROP names it."""
    match statement:
        case ast.CreateSecret():
            return "SECRET"
        case ast.CreateConnection():
            return "CONNECTION"
        case ast.CreateCluster():
            return "CLUSTER"
        case ast.CreateSource():
            return "SOURCE"
        case ast.CreateView():
            return "MATERIALIZED VIEW" if statement.materialized else "VIEW"
        case ast.CreateSink():
            return "SINK"
        case ast.CreateDatabase():
            return "DATABASE"
        case ast.CreateSchema():
            return "SCHEMA"
        case ast.CreateTableFrom(subsource=True) | ast.CreateProgress():
            return "SOURCE"
        case ast.CreateTable() | ast.CreateTableFrom():
            return "TABLE"
        case ast.CreateIndex():
            return "INDEX"


def item_name(statement: ast.Create, catalog: logical.CatalogReader) -> str:
    """Return the full name of the item that a statement creates; raise SQ2301 for a sink without a name."""
    match statement:
        case ast.CreateCluster():
            return qualified_name(statement.name.value)
        case ast.CreateSink():
            if statement.name is None:
                example = qualified_name(f"{statement.relation.parts[-1].value}_sink")
                raise SinkqlError(
                    "SQ2301",
                    "the sink has no name",
                    Span(statement.span.start, statement.relation.span.end),
                    hint=f"Write CREATE SINK {sql_name(example)} …",
                )
            return catalog.locate(statement.name)
        case ast.CreateDatabase():
            return database_name(statement.name.value)
        case ast.CreateSchema():
            return resolve_schema(statement.name, catalog)
        case ast.CreateIndex():
            return index_name(statement, catalog)
        case _:
            return catalog.locate(statement.name)


def own_name(statement: ast.Create) -> str:
    """Return the full name of the item that a statement with full names creates."""
    name = statement.name
    assert name is not None
    if isinstance(statement, ast.CreateIndex) and isinstance(name, ast.Ident):
        return qualified_name(*(part.value for part in (*statement.relation.parts[:-1], name)))
    plain = (
        qualified_name(name.value)
        if isinstance(name, ast.Ident)
        else qualified_name(*(part.value for part in name.parts))
    )
    return f"{plain}." if isinstance(statement, ast.CreateDatabase | ast.CreateSchema) else plain


def _check_name_free(full_name: str, statement: ast.Create, catalog: logical.CatalogReader) -> None:
    name = statement.relation if isinstance(statement, ast.CreateIndex) and not statement.name else statement.name
    assert name is not None
    if is_system(full_name):
        message = f'"{full_name}" is in a system schema'
        hint = f'Create it in schema "{SCHEMA}".'
        if isinstance(statement, ast.CreateSchema):
            message, hint = f'schema "{short_name(full_name)}" is built in', "Choose another name."
        raise SinkqlError("SQ2005", message, name.span, hint=hint)
    entry = catalog.entry(full_name)
    if entry is None:
        return
    written, sql = name.value, print_name(ast.Name((name,)) if isinstance(name, ast.Ident) else name)
    with_source = isinstance(statement, ast.CreateTableFrom) and statement.subsource
    if with_source or isinstance(statement, ast.CreateProgress):
        written, sql = short_name(full_name, catalog), sql_name(full_name, catalog)
    hint = _taken_hint(entry, sql, catalog)
    if isinstance(statement, ast.CreateTableFrom) and with_source and statement.reference is not None:
        other = print_name(ast.Name((ast.Ident(f"{as_name(full_name).parts[-1].value}_2"),)))
        hint = f"Give it another name: FOR TABLES ({print_name(statement.reference)} AS {other})."
    raise TakenNameError("SQ2002", f'{entry.kind.lower()} "{written}" already exists', name.span, hint=hint)


def _taken_hint(entry: logical.Entry, sql: str, catalog: logical.CatalogReader) -> str:
    if entry.id.startswith("s"):
        return "Choose another name: it is built in."
    rows, used = isinstance(entry.statement, ast.CreateTable), bool(catalog.dependents(entry.name))
    return replacing(entry.kind, sql, rows=rows, used=used)


def changing(kind: str, name: str, *, rows: bool, used: bool) -> str:
    """Return the hint for an item that exists with another definition: how to change it without losing its data."""
    match kind:
        case "VIEW" | "MATERIALIZED VIEW":
            return f"Write CREATE OR REPLACE {kind} to change it, or choose another name."
        case "TABLE" if rows:
            return f"Add columns with ALTER TABLE {name} ADD COLUMN …, or choose another name."
        case "CLUSTER":
            return f"Change its options with ALTER CLUSTER {name} SET (…), or choose another name."
        case "SOURCE" | "SINK" | "CONNECTION":
            return "Change it with sinkql plan and sinkql apply, with all scripts, or choose another name."
        case _:
            return replacing(kind, name, rows=rows, used=used)


def replacing(kind: str, name: str, *, rows: bool, used: bool) -> str:
    """Return the hint for a name that is taken: drop the item, unless this loses data.

    `rows` says that the item is a table with stored rows, `used` that other items use it.
    """
    match kind:
        case "TABLE" if rows:
            return "Choose another name: DROP TABLE would delete its rows."
        case "SECRET":
            return f"Choose another name, or give it another value with ALTER SECRET {name} AS …;"
        case "SCHEMA" | "DATABASE":
            return "Choose another name."
        case _ if used:
            return "Choose another name: other items use the existing item."
        case _:
            return f"Choose another name, or run DROP {kind} {name}; before it."


def existing_item(
    statement: ast.Create,
    full_name: str,
    kind: str,
    difference: str,
    catalog: logical.CatalogReader,
    *,
    rows: bool = False,
) -> Notice:
    """Return the notice for an item that exists; raise SQ2002 if it has another kind, SQ2014 if it differs.

    `rows` says that the item is a table with stored rows.
    """
    name, span = short_name(full_name, catalog), name_span(statement)
    sql, used = sql_name(full_name, catalog), bool(catalog.dependents(full_name))
    hint = replacing(kind, sql, rows=rows, used=used)
    if kind != kind_of(statement):
        raise SinkqlError("SQ2002", f'{kind.lower()} "{name}" already exists', span, hint=hint)
    message = f'{kind.lower()} "{name}" already exists'
    if not difference:
        return Notice("SQ2012", f"{message}, skipped", span)
    if statement.if_not_exists:
        return Notice("SQ2013", f"{message} and is different, skipped", span)
    raise SinkqlError(
        "SQ2014",
        f"{message} and is different",
        span,
        detail=difference,
        hint=changing(kind, sql, rows=rows, used=used),
    )


def definition_diff(old_redacted: str, new_redacted: str) -> str:
    """Return the differing lines of two texts: old lines with a minus, new lines with a plus."""
    lines = list(difflib.unified_diff(old_redacted.splitlines(), new_redacted.splitlines(), lineterm="", n=0))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@")) or "a hidden string changes"


def is_built_in(statement: ast.Create, entry: logical.Entry | None) -> bool:
    """Return whether a statement would create a built-in item."""
    return entry is not None and entry.kind == kind_of(statement) and entry.id.startswith("s")


def name_span(statement: ast.Create) -> Span:
    """Return the span of the name in a statement."""
    return statement.name.span if statement.name is not None else statement.span


def differs_only_in_spelling(
    old: ast.Create, new: ast.Create, before: logical.Item | None, after: logical.Item | None
) -> bool:
    """Return whether two statements differ only in options, with the same meaning.

    An option that is set to its default, or another spelling of a duration or a word, changes nothing.
    """
    return before is not None and before == after and _without_options(old) == _without_options(new)


def _without_options(node: object) -> object:
    if isinstance(node, tuple):
        return tuple(_without_options(part) for part in node if not isinstance(part, ast.Option))
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = (field.name for field in dataclasses.fields(node) if field.compare)
        return type(node), tuple(_without_options(getattr(node, name)) for name in parts)
    return node
