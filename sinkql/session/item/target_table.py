"""DROP SINK … WITH TABLE → the tables that sinks write to, each of which goes if it is the sink's own and empty.

Sinks that are dropped → what their tables keep for them alone, such as a tag of a last commit, gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sinkql import ast, logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.planning import DropTarget
from sinkql.connector_api.source_options import has_dead_letter_table
from sinkql.connector_api.stream import Context
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.lowering.job import lower
from sinkql.planner.edit.drop import Dropping, check_targets
from sinkql.planner.name import named, short_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.destination import destination_of, sinks_of_destination


@dataclass(frozen=True, slots=True)
class DropTargetTable:
    """What one sink writes to, and how it is dropped; `span` is where the sink is named."""

    write: physical.Write
    context: Context
    kind: DropTarget
    span: Span | None = None

    def drop(self, *, dry: bool) -> bool:
        """Drop it, or only raise what that would; return whether it is there."""
        try:
            return self.kind(self.write, self.context, dry=dry)
        except SinkqlError as error:
            error.span = error.span or self.span
            raise


def drop_targets(statement: ast.Drop, dropping: Dropping, catalog: Catalog) -> tuple[DropTargetTable, ...]:
    """Return what is to be dropped with sinks; raises SQ2374 and SQ3572, and why a sink can no longer be planned."""
    if not statement.with_table:
        return ()
    plans = catalog.plans
    check_targets(statement, dropping.names, plans, catalog.registry)
    spans = {named("SINK", each, plans): each.span for each in statement.names}
    found = []
    for name in dropping.names:
        if name in plans.broken:
            raise plans.broken[name].error
        found.append(drop_target(name, plans, catalog, spans.get(name)))
    return tuple(each for each in found if each is not None)


def drop_target(name: str, plans: MemoryCatalog, catalog: Catalog, span: Span | None = None) -> DropTargetTable | None:
    """Return what a sink of `plans` writes to, None where that cannot be dropped; raises SQ3572 if others do too."""
    sink = plans.item(name)
    kind = catalog.registry.sinks[sink.kind].drop if isinstance(sink, logical.Sink) else None
    if kind is None:
        return None
    other, destination = next(sinks_of_destination(name, plans), None), destination_of(name, plans)
    if other is not None and destination is not None:
        raise SinkqlError(
            "SQ3572",
            f'{destination.kind} "{destination.name}" is used by others: sink "{short_name(other)}" writes to it',
            span,
            hint="Drop the sink without WITH TABLE, which keeps the table.",
        )
    job, access = lower(name, plans), CatalogAccess(catalog, plans)
    context = access.context(name, job.sink_id, catalog.database.folder)
    return DropTargetTable(job.write, context, kind, span)


def delete_sink_tags(sinks: Mapping[str, str], catalog: Catalog) -> list[Notice]:
    """Take away what tables keep for sinks that have run, and are stopped; return what could not be."""
    left: list[Notice] = []
    for name, sink_id in sinks.items():
        with suppress(SinkqlError):  # one that cannot be planned any more
            known = catalog.control.begun(sink_id) and catalog.plans.item(name) is not None
            job = lower(name, catalog.plans) if known else None
            for write in _writes(job, catalog) if job is not None else ():
                left += _forget(name, write, sink_id, catalog)
    return left


def _writes(job: physical.Job, catalog: Catalog) -> Iterator[physical.Write]:
    """Yield what a sink writes, and the letters beside it."""
    yield job.write
    letters = catalog.registry.sinks[job.write.connector].letters if job.write.connector != physical.VIEW else None
    if letters is not None and any(map(has_dead_letter_table, job.reads())):
        from sinkql.runtime.batch.dead_letter import COLUMNS  # which imports pyarrow

        yield letters(job.write, COLUMNS)


def _forget(name: str, write: physical.Write, sink_id: str, catalog: Catalog) -> Iterator[Notice]:
    kind = catalog.registry.sinks.get(write.connector)
    if kind is None or kind.forget is None:
        return
    access = CatalogAccess(catalog)
    context = access.context(name, sink_id, catalog.database.folder)
    try:
        kind.forget(write, context)
    except (SinkqlError, OSError) as error:
        why = error.message if isinstance(error, SinkqlError) else str(error)
        message = f'the table of sink "{short_name(name)}" still has a tag for it, which keeps a snapshot: {why}'
        yield Notice("SQ4309", message, hint="Remove the tag whose name begins with sinkql_, once nothing needs it.")
