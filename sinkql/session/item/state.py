"""Sinks that are dropped → what STATE of their clusters keeps of them, gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sinkql import physical, typed
from sinkql.catalog.catalog import Catalog
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.planner.name import short_name
from sinkql.session.item.access import CatalogAccess


def kept_states(sinks: Mapping[str, str], catalog: Catalog) -> list[dict[str, Any]]:
    """Return where the state of sinks is kept, of those with one elsewhere; it can be forgotten once they are gone."""
    found = []
    for name, sink_id in sinks.items():
        try:
            state = lower(name, catalog.plans).state if catalog.plans.entry(name) is not None else None
        except SinkqlError:
            continue  # one that cannot be planned any more
        if state is not None:
            found.append({"name": short_name(name), "sink_id": sink_id, "state": msgspec.to_builtins(state)})
    return found


def forget_states(kept: Sequence[Mapping[str, Any]], catalog: Catalog) -> list[Notice]:
    """Delete what is kept of dropped sinks; return what could not be."""
    from sinkql.extension.home import state_store

    left = []
    for each in kept:
        state = typed.convert(each["state"], physical.StatePath)
        try:
            store = state_store(state, each["sink_id"], CatalogAccess(catalog).job_store)
            store.delete([name for name, _ in store.list("")])
        except (SinkqlError, OSError) as error:
            why = error.message if isinstance(error, SinkqlError) else str(error)
            message = f'the state of sink "{each["name"]}" is still in STATE of its cluster: {why}'
            hint = f"Delete what is below {state.path.rstrip('/')}/{each['sink_id']}/."
            left.append(Notice("SQ4309", message, hint=hint))
    return left
