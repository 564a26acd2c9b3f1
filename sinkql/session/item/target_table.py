"""Drop the target tables of sinks (DROP SINK … WITH TABLE), and delete the tags of dropped sinks in their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.planning import DropTarget
from sinkql.connector_api.source_options import DEAD_LETTER_COLUMNS, has_dead_letter_table
from sinkql.connector_api.stream import Context
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.lowering.job import lower
from sinkql.planner.name import named, short_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.destination import destination_of, sinks_of_destination
from sinkql.statement.operation import DropItems


@dataclass(frozen=True, slots=True)
class DropTargetTable:
    """The target of one sink, and the function that drops it. `span` is the sink's name in the statement."""

    write: physical.Write
    context: Context
    kind: DropTarget
    span: Span | None = None

    def drop(self, *, dry: bool) -> bool:
        """Drop the target, or with `dry` only raise the errors of the drop. Return whether the target exists."""
        try:
            return self.kind(self.write, self.context, dry=dry)
        except SinkqlError as error:
            error.span = error.span or self.span
            raise


def drop_targets(dropping: DropItems, catalog: Catalog) -> tuple[DropTargetTable, ...]:
    """Return the targets to drop with the sinks. Raise SQ3572, or the error of a sink that no longer plans."""
    statement, plans = dropping.statement, catalog.plans
    if not statement.with_table:
        return ()
    spans = {named("SINK", sink, plans): sink.span for sink in statement.names}
    targets = []
    for name in dropping.names:
        if name in plans.broken:
            raise plans.broken[name].error
        targets.append(drop_target(name, plans, catalog, spans.get(name)))
    return tuple(target for target in targets if target is not None)


def drop_target(name: str, plans: MemoryCatalog, catalog: Catalog, span: Span | None = None) -> DropTargetTable | None:
    """Return the target of a sink, None if it cannot be dropped. Raise SQ3572 if another sink writes to it."""
    sink = plans.item(name)
    kind = catalog.registry.sinks[sink.kind].drop if isinstance(sink, logical.Sink) else None
    if kind is None:
        return None
    other, destination = next(sinks_of_destination(name, plans), None), destination_of(name, plans)
    if other is not None and destination is not None:
        raise SinkqlError(
            "SQ3572",
            f'{destination.kind} "{destination.name}" has another sink: "{short_name(other)}" writes to it',
            span,
            hint="Run DROP SINK without WITH TABLE, which keeps the table.",
        )
    job, access = lower(name, plans), CatalogAccess(catalog, plans)
    context = access.context(name, job.sink_id, catalog.database.folder)
    return DropTargetTable(job.write, context, kind, span)


def delete_sink_tags(sinks: Mapping[str, str], catalog: Catalog) -> list[Notice]:
    """Delete the tags of stopped sinks in their tables. Return a notice for each failure."""
    notices: list[Notice] = []
    for name, sink_id in sinks.items():
        with suppress(SinkqlError):  # the sink no longer plans
            has_run = catalog.control.begun(sink_id) and catalog.plans.item(name) is not None
            job = lower(name, catalog.plans) if has_run else None
            for write in _writes(job, catalog) if job is not None else ():
                notices += _delete_sink_tag(name, write, sink_id, catalog)
    return notices


def _writes(job: physical.Job, catalog: Catalog) -> Iterator[physical.Write]:
    """Yield the write of a sink, and that of its dead-letter table."""
    yield job.write
    dead_letter_write = (
        catalog.registry.sinks[job.write.connector].dead_letter_write if job.write.connector != physical.VIEW else None
    )
    if dead_letter_write is not None and any(map(has_dead_letter_table, job.reads())):
        yield dead_letter_write(job.write, DEAD_LETTER_COLUMNS)


def _delete_sink_tag(name: str, write: physical.Write, sink_id: str, catalog: Catalog) -> Iterator[Notice]:
    kind = catalog.registry.sinks.get(write.connector)
    if kind is None or kind.forget is None:
        return
    access = CatalogAccess(catalog)
    context = access.context(name, sink_id, catalog.database.folder)
    try:
        kind.forget(write, context)
    except (SinkqlError, OSError) as error:
        reason = error.message if isinstance(error, SinkqlError) else str(error)
        message = f'the table of sink "{short_name(name)}" still has its tag, which retains a snapshot: {reason}'
        yield Notice("SQ4309", message, hint="Remove the tag whose name begins with sinkql_ when no reader needs it.")
