"""EXPOSE PROGRESS AS name → the subsource that tells how far its source is read."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError
from sinkql.planner.name import find, in_full
from sinkql.planner.scope import Scope
from sinkql.planner.unsupported import no_progress


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
