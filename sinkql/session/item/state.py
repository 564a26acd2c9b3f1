"""Sinks that are dropped → what STATE of their clusters, and of the views that they read, keeps of them, gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from sinkql import codec, physical
from sinkql.catalog.catalog import Catalog
from sinkql.connectors.view.log import pins_part
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import view_jobs
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess


def kept_states(sinks: Mapping[str, str], catalog: Catalog) -> list[dict[str, Any]]:
    """Return where the state of sinks is kept, of those with one elsewhere; it can be forgotten once they are gone."""
    found = []
    for name, sink_id in sinks.items():
        try:
            job = lower(name, catalog.plans) if catalog.plans.entry(name) is not None else None
        except SinkqlError:
            continue  # one that cannot be planned any more
        places = [(job.state, sink_id), *_pins(catalog, sink_id)] if job is not None else []
        found += [
            {"name": short_name(name), "sink_id": sink_id, "part": part, "state": msgspec.to_builtins(state)}
            for state, part in places
            if state is not None
        ]
    return found


def _pins(catalog: Catalog, sink_id: str) -> Iterator[tuple[physical.StatePath | None, str]]:
    """Yield where it may be said how far a sink is in the logs of views, of those that it read before, too."""
    for name in view_jobs(catalog.plans):
        with suppress(SinkqlError):
            view = lower(name, catalog.plans)
            yield view.state, pins_part(view.sink_id, sink_id)


def forget_states(kept: Sequence[Mapping[str, Any]], catalog: Catalog) -> list[Notice]:
    """Delete what is kept of dropped sinks; return what could not be."""
    from sinkql.state_store.directory import state_store

    left = []
    for each in kept:
        state = codec.convert(each["state"], physical.StatePath)
        try:
            store = state_store(state, each["part"], CatalogAccess(catalog).job_store)
            store.delete([name for name, _ in store.list("")])
        except (SinkqlError, OSError) as error:
            why = error.message if isinstance(error, SinkqlError) else str(error)
            message = f'the state of sink "{each["name"]}" is still in STATE of its cluster: {why}'
            hint = f"Delete what is below {state.path.rstrip('/')}/{each['part']}/."
            left.append(Notice("SQ4309", message, hint=hint))
    return left
