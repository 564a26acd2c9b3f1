"""ALTER SINK … PUBLISH and the catalog → the sink whose branch it means."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import Notice, SinkqlError
from sinkql.planner.edit.rename import find_altered


def find_published(
    statement: ast.Alter, catalog: logical.CatalogReader
) -> tuple[logical.Sink | None, tuple[Notice, ...]]:
    """Return the sink, or a notice if there is none and need not be.

    Raises what finding an item to alter does, and SQ2347 for a sink without a branch.
    """
    entry, notices = find_altered(statement, catalog)
    if entry is None:
        return None, notices
    sink = catalog.item(entry.name)
    assert isinstance(sink, logical.Sink)
    if sink.destination is None or sink.destination.branch is None:
        raise SinkqlError(
            "SQ2347",
            f'sink "{statement.name.text}" has no branch to publish',
            statement.name.span,
            detail="What it commits can be read at once.",
            hint="Create a sink WITH (BRANCH = '…') for rows that are to be looked at before they are published.",
        )
    return sink, notices
