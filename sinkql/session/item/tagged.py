"""Sinks that are dropped → what their tables keep for them alone, such as a tag of a last commit, gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.on_error import has_dead_letter_table
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess


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
