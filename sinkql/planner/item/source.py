"""CREATE SOURCE → the reader's options and the shape of its rows, as its connector plans them.

EXPOSE PROGRESS AS name → the subsource that tells how far its source is read.
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

_TAKEN = "taken"


def plan_source(full_name: str, statement: ast.CreateSource, facts: logical.Facts, scope: Scope) -> logical.Source:
    """Plan cluster and connection, and let the connector do the rest.

    Raises SQ2450 for a kind that nobody offers, SQ2971 for one that is not supported yet.
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
        _tell(complete, facts.get("notes", ()), scope)
    planned = kind.plan(complete, facts, scope)
    tables, common = _taken(planned.tables, facts), kind.common(planned) or kind.stream is not None
    source = logical.Source(full_name, kind.name, planned.options, planned.shape, connection, tables, common)
    for each in subsources(replace(statement, name=as_name(full_name)), source):  # raises what is wrong with FOR
        table_of(source, each, kind)
    progress_of(replace(statement, name=as_name(full_name)))  # raises what is wrong with its name
    return source


def taking(facts: logical.Facts, tables: Iterable[tuple[str, ...]]) -> logical.Facts:
    """Return facts of a source FOR ALL TABLES that takes these alone, until it is asked for those that came later."""
    return {**facts, _TAKEN: sorted(list(each) for each in tables)}


def _taken(tables: tuple[logical.SourceTable, ...], facts: logical.Facts) -> tuple[logical.SourceTable, ...]:
    if _TAKEN not in facts:
        return tables
    taken = {tuple(each) for each in facts[_TAKEN]}
    return tuple(replace(each, aside=each.name not in taken) for each in tables)


def pushed_source(statement: ast.CreateTableFrom) -> ast.CreateSource:
    """Return the source that a table without one is itself: somebody pushes its rows."""
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
    """Return what a new source's kind finds that its statement does not say; without access, on this machine."""
    if not isinstance(statement, ast.CreateSource):
        return {}
    kind = scope.registry.sources.get(statement.kind)
    if kind is None or kind.sample is None:
        return {}
    check_source(statement, messages=kind.messages or statement.pushed, progress=kind.progress is not None)
    return kind.sample(statement, scope, access)


def with_found_columns(statement: ast.CreateSource, facts: logical.Facts) -> ast.CreateSource:
    """Return the statement with the columns among its facts, where it declares none."""
    if statement.columns or not facts.get("columns"):
        return statement
    columns = (ast.ColumnDef(ast.Ident(name), ast.TypeName(type_)) for name, type_ in facts["columns"])
    return replace(statement, columns=tuple(columns))


def _tell(statement: ast.CreateSource, notes: Sequence[str], scope: Scope) -> None:
    columns = ", ".join(f"{ident(each.name)} {each.type.text}" for each in statement.columns if each.type is not None)
    scope.notice(
        Notice(
            "SQ2415",
            f"columns found in a sample: ({columns})",
            statement.name.span,
            hint="A later row that does not fit them is an invalid row; declare the columns to choose other types.",
        )
    )
    for note in notes:
        scope.notice(Notice("SQ2415", note, statement.name.span, hint="Declare the columns to have them otherwise."))


def _kind(statement: ast.CreateSource, scope: Scope) -> SourceKind:
    known = scope.registry.sources
    kind = known.get(statement.kind)
    if kind is not None:
        return kind
    if ("SOURCE", statement.kind) in scope.registry.later:
        raise SinkqlError(
            "SQ2971",
            f"sources from {statement.kind} are not supported yet",
            statement.kind_span,
            hint=f"The kinds are {listed_kinds(known)}.",
        )
    hint = kinds_hint(statement.kind, known, scope.registry.expected("SOURCE"))
    kind_name, _, last = statement.kind.rpartition(" ")
    before, _, word = kind_name.rpartition(" ")
    if kind_name in known and statement.connection is None:  # the name of one may follow without the word
        hint = f"Write FROM {kind_name} CONNECTION {last.lower()}."
    elif before in known and nearest(word, ["CONNECTION"]) is not None:
        hint = f"Did you mean {before} CONNECTION {last.lower()}?"
    raise SinkqlError("SQ2450", f"no connector reads from {statement.kind}", statement.kind_span, hint=hint)


def progress_of(statement: ast.CreateSource) -> tuple[ast.CreateProgress, ...]:
    """Return what makes the progress that a source exposes, whose statement has full names; raises SQ2465."""
    if statement.progress is None:
        return ()
    full = in_full(statement.progress, statement.name)
    if full.parts == statement.name.parts:
        message = f'the progress of source "{full.parts[-1].value}" has the name of the source itself'
        raise SinkqlError("SQ2465", message, statement.progress.span, hint="Give it a name of its own.")
    return (ast.CreateProgress(full, statement.name, span=statement.progress.span),)


def plan_progress(full_name: str, statement: ast.CreateProgress, scope: Scope) -> logical.Source:
    """Plan the columns that sources of a kind tell their progress by; raises SQ2973 for a kind that tells none."""
    entry = find(scope.catalog, statement.source, "SOURCE")
    source = scope.catalog.item(entry.name)
    assert isinstance(source, logical.Source)
    kind = scope.registry.sources.get(source.kind)
    if kind is None or kind.progress is None or not isinstance(entry.statement, ast.CreateSource):
        raise no_progress(statement.source.span)
    scope.use(entry.name)
    shape = logical.Shape(kind.progress.columns, (), logical.Change.APPEND)
    return logical.Source(full_name, logical.PROGRESS, {"source": entry.name}, shape)
