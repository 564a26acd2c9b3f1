"""ALTER SINK … PUBLISH → what is on the sink's branch is what everybody reads, whether or not the sink runs."""

from __future__ import annotations

from sinkql import ast
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.planner.edit.publish import find_published
from sinkql.session.result import Result
from sinkql.session.workspace import Workspace


def publish(statement: ast.Alter, workspace: Workspace) -> Result:
    """Move main of the sink's table to the head of the sink's branch, in a commit that the sink need not know of.

    Raises SQ2347 for a sink without a branch, SQ3522 before its first commit, SQ3523 where main has left the branch.
    """
    catalog = workspace.catalog
    sink, notices = find_published(statement, catalog.reader())
    if sink is None:
        return Result("ALTER SINK", notices, skipped=True)
    job = lower(sink.name, catalog.plans)
    publishing = catalog.registry.sinks[job.write.connector].publish
    assert publishing is not None, "a sink of this kind has no branch"
    assert sink.destination is not None
    try:
        done = publishing(job.write, workspace.context(job))
    except SinkqlError as error:
        error.span = error.span or statement.name.span
        raise
    place = f'main of table "{done.table}" {"is now" if done.moved else "was already"}'
    message = f'{place} where branch "{sink.destination.branch}" is, at snapshot {done.snapshot}'
    return Result(
        "ALTER SINK", (Notice("SQ2348", message, statement.span),), names=(sink.name,), skipped=not done.moved
    )
