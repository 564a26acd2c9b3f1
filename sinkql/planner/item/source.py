"""Plan CREATE SOURCE: the reader's options and the shape of its rows, as its connector plans them.

Also plans EXPOSE PROGRESS AS name, a subsource with the progress of its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sinkql import ast, logical
from sinkql.connector_api.planning import OutsideAccess, SourceKind
from sinkql.errors import Notice, SinkqlError, nearest
from sinkql.planner.name import as_name, cluster_name, find, in_full
from sinkql.planner.scope import Scope, kinds_hint, listed_kinds
from sinkql.planner.subsource import subsources, table_of
from sinkql.planner.unsupported import check_source, no_progress
from sinkql.printer.clause import ident

_TABLES_FACT = "taken"


def plan_source(full_name: str, statement: ast.CreateSource, facts: logical.Facts, scope: Scope) -> logical.Source:
    """Plan cluster and connection; the connector plans the rest.

    Raises SQ2450 for an unknown kind, SQ2971 for one that is not supported yet.
    """
    kind = _kind(statement, scope)
    check_source(statement, messages=kind.messages or statement.pushed, progress=kind.progress is not None)
    if statement.cluster is not None:
        scope.use(cluster_name(scope.catalog, statement.cluster, statement.span))
    connection = None
    if statement.connection is not None:
        connection = scope.connection_name(statement.connection, statement.kind)
        scope.use(connection)
    complete = with_found_columns(statement, facts)
    if complete is not statement:
        _report_columns(complete, facts.get("notes", ()), scope)
    planned = kind.plan(complete, facts, scope)
    tables, common = (
        _select_tables(planned.tables, facts),
        kind.has_common_positions(planned) or kind.stream is not None,
    )
    source = logical.Source(full_name, kind.name, planned.options, planned.shape, connection, tables, common)
    for subsource in subsources(replace(statement, name=as_name(full_name)), source):  # raises errors in FOR
        table_of(source, subsource, kind)
    progress_of(replace(statement, name=as_name(full_name)))  # raises errors in its name
    return source


def taking(facts: logical.Facts, tables: Iterable[tuple[str, ...]]) -> logical.Facts:
    """Return facts of a source FOR ALL TABLES that limit it to these tables, until its references are refreshed."""
    return {**facts, _TABLES_FACT: sorted(list(table) for table in tables)}


def _select_tables(tables: tuple[logical.SourceTable, ...], facts: logical.Facts) -> tuple[logical.SourceTable, ...]:
    if _TABLES_FACT not in facts:
        return tables
    names = {tuple(fact) for fact in facts[_TABLES_FACT]}
    return tuple(replace(table, aside=table.name not in names) for table in tables)


def pushed_source(statement: ast.CreateTableFrom) -> ast.CreateSource:
    """Return the source of a table without a source, whose rows clients push."""
    return ast.CreateSource(
        statement.name,
        statement.kind,
        format=statement.format,
        include=statement.include,
        check=statement.check,
        with_options=statement.with_options,
        pushed=True,
        span=statement.span,
        kind_span=statement.span,
    )


def sampled(statement: ast.Create, scope: Scope, access: OutsideAccess | None = None) -> logical.Facts:
    """Return the facts that a new source's kind finds in a sample; without access, only on this machine."""
    if not isinstance(statement, ast.CreateSource):
        return {}
    kind = scope.registry.sources.get(statement.kind)
    if kind is None or kind.sample is None:
        return {}
    check_source(statement, messages=kind.messages or statement.pushed, progress=kind.progress is not None)
    return kind.sample(statement, scope, access)


def with_found_columns(statement: ast.CreateSource, facts: logical.Facts) -> ast.CreateSource:
    """Return the statement with the columns among its facts if it declares no columns."""
    if statement.columns or not facts.get("columns"):
        return statement
    columns = (ast.ColumnDef(ast.Ident(name), ast.TypeName(type_)) for name, type_ in facts["columns"])
    return replace(statement, columns=tuple(columns))


def _report_columns(statement: ast.CreateSource, notes: Sequence[str], scope: Scope) -> None:
    columns = ", ".join(
        f"{ident(column.name)} {column.type.text}" for column in statement.columns if column.type is not None
    )
    scope.notice(
        Notice(
            "SQ2415",
            f"columns found in a sample: ({columns})",
            statement.name.span,
            hint="A later row that does not match them is an invalid row; declare the columns to choose other types.",
        )
    )
    for note in notes:
        scope.notice(Notice("SQ2415", note, statement.name.span, hint="Declare the columns to choose other types."))


def _kind(statement: ast.CreateSource, scope: Scope) -> SourceKind:
    kinds = scope.registry.sources
    kind = kinds.get(statement.kind)
    if kind is not None:
        return kind
    if ("SOURCE", statement.kind) in scope.registry.later:
        raise SinkqlError(
            "SQ2971",
            f"sources from {statement.kind} are not supported yet",
            statement.kind_span,
            hint=f"The kinds are {listed_kinds(kinds)}.",
        )
    hint = kinds_hint(statement.kind, kinds, scope.registry.expected("SOURCE"))
    kind_name, _, last = statement.kind.rpartition(" ")
    before, _, word = kind_name.rpartition(" ")
    if (
        kind_name in kinds and statement.connection is None
    ):  # the name of a connection may follow without the word CONNECTION
        hint = f"Write FROM {kind_name} CONNECTION {last.lower()}."
    elif before in kinds and nearest(word, ["CONNECTION"]) is not None:
        hint = f"Did you mean {before} CONNECTION {last.lower()}?"
    raise SinkqlError("SQ2450", f"no connector reads from {statement.kind}", statement.kind_span, hint=hint)


def progress_of(statement: ast.CreateSource) -> tuple[ast.CreateProgress, ...]:
    """Return the statement of the progress subsource that a source with full names exposes; raise SQ2465."""
    if statement.progress is None:
        return ()
    full = in_full(statement.progress, statement.name)
    if full.parts == statement.name.parts:
        message = f'the progress of source "{full.parts[-1].value}" has the name of the source itself'
        raise SinkqlError("SQ2465", message, statement.progress.span, hint="Give it a different name.")
    return (ast.CreateProgress(full, statement.name, span=statement.progress.span),)


def plan_progress(full_name: str, statement: ast.CreateProgress, scope: Scope) -> logical.Source:
    """Plan the columns of a source's progress; raise SQ2973 if the kind cannot expose it."""
    entry = find(scope.catalog, statement.source, "SOURCE")
    source = logical.get_item(scope.catalog, entry.name, logical.Source)
    kind = scope.registry.sources.get(source.kind)
    if kind is None or kind.progress is None or not isinstance(entry.statement, ast.CreateSource):
        raise no_progress(statement.source.span)
    scope.use(entry.name)
    shape = logical.Shape(kind.progress.columns, (), logical.Change.APPEND)
    return logical.Source(full_name, logical.PROGRESS, {"source": entry.name}, shape)
