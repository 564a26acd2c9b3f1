"""One CREATE statement with its facts → the item it makes, its dependencies and notices.

CREATE of what is there already → a notice where it is the same, else an error that shows what differs.

Two statements that create an item, and what each means → whether they differ in spelling alone.
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
    qualified_name,
    resolve_schema,
    short_name,
    sql_name,
    system,
)
from sinkql.planner.scope import Planned, Scope
from sinkql.planner.subsource import plan_table_from, subsources
from sinkql.printer.clause import name as print_name


def plan(statement: ast.Create, facts: logical.Facts, catalog: logical.CatalogReader, registry: Registry) -> Planned:
    """Return what `statement` makes. Pure: the same statement, facts and catalog give the same item."""
    scope = Scope(catalog, registry)
    full_name = item_name(statement, catalog)
    _check_new(full_name, statement, catalog)
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
    """Return what is made together with what a statement with full names makes, which was planned as `item`.

    A database has a schema public, a source FOR TABLES has subsources, and one with EXPOSE PROGRESS what tells that.
    """
    if isinstance(statement, ast.CreateDatabase):
        return (ast.CreateSchema(ast.Name((statement.name, ast.Ident(SCHEMA)), statement.span)),)
    if isinstance(statement, ast.CreateSource) and isinstance(item, logical.Source):
        return (*subsources(statement, item), *progress_of(statement))
    return ()


def kind_of(statement: ast.Create) -> str:
    """Return the kind of item that a statement makes, as DROP names it."""
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
    """Return the full name of what a statement makes; SQ2301 for a sink without a name."""
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
    """Return the full name of what a statement with full names makes."""
    name = statement.name
    assert name is not None
    if isinstance(statement, ast.CreateIndex):
        assert statement.name is not None
        return qualified_name(*(part.value for part in (*statement.relation.parts[:-1], statement.name)))
    plain = (
        qualified_name(name.value)
        if isinstance(name, ast.Ident)
        else qualified_name(*(part.value for part in name.parts))
    )
    return f"{plain}." if isinstance(statement, ast.CreateDatabase | ast.CreateSchema) else plain


def _check_new(full_name: str, statement: ast.Create, catalog: logical.CatalogReader) -> None:
    name = statement.relation if isinstance(statement, ast.CreateIndex) and not statement.name else statement.name
    assert name is not None
    if system(full_name):
        message = f'"{full_name}" is in a system schema'
        hint = f'Create it in schema "{SCHEMA}".'
        if isinstance(statement, ast.CreateSchema):
            message, hint = f'schema "{short_name(full_name)}" is built in', "Choose another name."
        raise SinkqlError("SQ2005", message, name.span, hint=hint)
    entry = catalog.entry(full_name)
    if entry is None:
        return
    written, called = name.value, print_name(ast.Name((name,)) if isinstance(name, ast.Ident) else name)
    with_source = isinstance(statement, ast.CreateTableFrom) and statement.subsource
    if with_source or isinstance(statement, ast.CreateProgress):
        written, called = short_name(full_name, catalog), sql_name(full_name, catalog)
    hint = _way_out(entry, called, catalog)
    if isinstance(statement, ast.CreateTableFrom) and with_source and statement.reference is not None:
        other = print_name(ast.Name((ast.Ident(f"{as_name(full_name).parts[-1].value}_2"),)))
        hint = f"Give it another name: FOR TABLES ({print_name(statement.reference)} AS {other})."
    raise TakenNameError("SQ2002", f'{entry.kind.lower()} "{written}" already exists', name.span, hint=hint)


def _way_out(entry: logical.Entry, called: str, catalog: logical.CatalogReader) -> str:
    if entry.id.startswith("s"):
        return "Choose another name: it is built in."
    rows, used = isinstance(entry.statement, ast.CreateTable), bool(catalog.dependents(entry.name))
    return replacing(entry.kind, called, rows=rows, used=used)


def changing(kind: str, name: str, *, rows: bool, used: bool) -> str:
    """Return the hint where an item is there with another definition: how it gets that, if it can, with all it has."""
    match kind:
        case "VIEW" | "MATERIALIZED VIEW":
            return f"Write CREATE OR REPLACE {kind} to change it, or choose another name."
        case "TABLE" if rows:
            return f"Add columns with ALTER TABLE {name} ADD COLUMN …, or choose another name."
        case "CLUSTER":
            return f"Change its options with ALTER CLUSTER {name} SET (…), or choose another name."
        case "SOURCE" | "SINK" | "CONNECTION":
            return "Choose another name, or have sinkql plan and sinkql apply change it, with all scripts."
        case _:
            return replacing(kind, name, rows=rows, used=used)


def replacing(kind: str, name: str, *, rows: bool, used: bool) -> str:
    """Return the hint where a name is taken: to drop what has it, but for what is lost with it.

    `rows` tells whether it is a table that keeps rows itself, `used` whether others use what is there.
    """
    match kind:
        case "TABLE" if rows:
            return "Choose another name: DROP TABLE would delete its rows."
        case "SECRET":
            return f"Choose another name, or give it another value with ALTER SECRET {name} AS …;"
        case "SCHEMA" | "DATABASE":
            return "Choose another name."
        case _ if used:
            return "Choose another name: other items use what has it."
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
    """Return the notice for an item that exists; raises SQ2002 for one of another kind, SQ2014 if it is different.

    `rows` tells whether it is a table that keeps rows itself.
    """
    name, span = short_name(full_name, catalog), name_span(statement)
    called, used = sql_name(full_name, catalog), bool(catalog.dependents(full_name))
    hint = replacing(kind, called, rows=rows, used=used)
    if kind != kind_of(statement):
        raise SinkqlError("SQ2002", f'{kind.lower()} "{name}" already exists', span, hint=hint)
    about = f'{kind.lower()} "{name}" already exists'
    if not difference:
        return Notice("SQ2012", f"{about}, skipped", span)
    if statement.if_not_exists:
        return Notice("SQ2013", f"{about} and is different, skipped", span)
    raise SinkqlError(
        "SQ2014",
        f"{about} and is different",
        span,
        detail=difference,
        hint=changing(kind, called, rows=rows, used=used),
    )


def definition_diff(old_redacted: str, new_redacted: str) -> str:
    """Return what differs between two texts that do: old lines with a minus, new ones with a plus."""
    lines = list(difflib.unified_diff(old_redacted.splitlines(), new_redacted.splitlines(), lineterm="", n=0))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@")) or "a hidden string changes"


def built_in(statement: ast.Create, entry: logical.Entry | None) -> bool:
    """Tell whether what a statement creates is built in."""
    return entry is not None and entry.kind == kind_of(statement) and entry.id.startswith("s")


def name_span(statement: ast.Create) -> Span:
    """Return the place of the name that a statement gives."""
    return statement.name.span if statement.name is not None else statement.span


def differs_only_in_spelling(
    old: ast.Create, new: ast.Create, before: logical.Item | None, after: logical.Item | None
) -> bool:
    """Tell whether two statements differ in options alone, and mean the same by them.

    An option that is set to its default, and another spelling of a duration or a word, change nothing.
    """
    return before is not None and before == after and _without_options(old) == _without_options(new)


def _without_options(node: object) -> object:
    if isinstance(node, tuple):
        return tuple(_without_options(each) for each in node if not isinstance(each, ast.Option))
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        parts = (field.name for field in dataclasses.fields(node) if field.compare)
        return type(node), tuple(_without_options(getattr(node, name)) for name in parts)
    return node
