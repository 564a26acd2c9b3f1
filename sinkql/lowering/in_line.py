"""A job → the materialized views that it computes itself, and why: what EXPLAIN says of them."""

from __future__ import annotations

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.lowering.materialized_view import (
    ViewLogs,
    inputs_of,
    is_stateless,
    keeps_dead_letters,
    loggable,
    logs_of,
    readers_of,
    view_id,
    view_reads,
)
from sinkql.planner.name import short_name

_LATER = "it becomes a job of its own with its next sink"


def inlined_views(name: str, catalog: logical.CatalogReader) -> list[str]:
    """Return lines that say which materialized views the job of a sink, or of a view, computes itself, and why."""
    kind = "sink" if isinstance(catalog.item(name), logical.Sink) else "view"
    logs, lines, waiting, seen = logs_of(name, catalog), [], list(inputs_of(name, catalog)), set[str]()
    while waiting:
        view = waiting.pop(0)
        item = catalog.item(view)
        if view in seen or not isinstance(item, logical.View) or view in logs.read:
            continue
        seen.add(view)
        waiting += view_reads(item.relation)
        if item.materialized:
            lines.append(f"computes materialized view {short_name(view)}: {_why(view, kind, logs)}")
    return lines


def _why(view: str, kind: str, logs: ViewLogs) -> str:
    catalog = logs.catalog
    if view_id(view, catalog) is None or not loggable(view, catalog):
        return inline_reason(view, catalog)
    if (common := logs.in_line.get(view)) is not None:
        what = _called(common, catalog)
        return f"{what} is below another input of this {kind}, too, and a log would be at another point"
    return f"this {kind} had begun when a second reader came"


def check_index(index: logical.Index, span: Span, catalog: logical.CatalogReader) -> None:
    """Raise SQ2372 for an index of a view that cannot be a job of its own."""
    if loggable(index.relation, catalog):
        return
    raise SinkqlError(
        "SQ2372",
        f'materialized view "{short_name(index.relation, catalog)}" cannot have an index: '
        f"{inline_reason(index.relation, catalog)}",
        span,
        hint="Join the view without one: whoever reads it computes it.",
    )


def inline_reason(view: str, catalog: logical.CatalogReader) -> str:
    """Return why nobody reads a log of a materialized view."""
    letters, readers = keeps_dead_letters(view, catalog), readers_of(view, catalog)
    if letters is not None:
        return f"rows of {_called(letters, catalog)} that fail become dead letters of a sink"
    if is_stateless(view, catalog):
        return "nothing is kept for it"
    return f"only {_called(readers[0], catalog)} reads it" if len(readers) == 1 else _LATER


def _called(name: str, catalog: logical.CatalogReader) -> str:
    entry = catalog.entry(name)
    assert entry is not None
    return f"{entry.kind.lower()} {short_name(name)}"
