"""Sources of a catalog that captures read → what is kept for them, here and on their servers, is taken away.

Sinks that are dropped → what STATE of their clusters, and of the views that they read, keeps of them, gone.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from sinkql import codec, logical, physical
from sinkql.capture.log import source_folder
from sinkql.capture.object_log_store import open_log_directory
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.cdc import captured_source, log_connection
from sinkql.connectors.view.log import pins_part
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower, lower_connection
from sinkql.lowering.materialized_view import view_jobs
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.1


def captured_sources(names: Sequence[str], catalog: Catalog) -> list[dict[str, Any]]:
    """Return what must be known of the captured sources among `names` once they are gone, as JSON-able data.

    One that cannot be planned any more is told by its id alone.
    """
    reader = catalog.reader()
    known = frozenset((*reader.names("SOURCE"), *reader.names("TABLE")))
    found = []
    for name in names:
        facts = reader.facts(name) if name in known else {}
        if "source_id" not in facts:
            continue
        data: dict[str, Any] = {"source_id": facts["source_id"], "name": short_name(name, reader)}
        try:
            item = catalog.plans.item(name)
        except SinkqlError:
            item = None
        if isinstance(item, logical.Source):
            connection = lower_connection(item.connection, catalog.plans) if item.connection else None
            log = log_connection(item.options)
            data |= {
                "kind": item.kind,
                "options": dict(item.options),
                "connection": msgspec.to_builtins(connection),
                "log": msgspec.to_builtins(lower_connection(log, catalog.plans)) if log is not None else None,
            }
        found.append(data)
    return found


def forget_captured(captured: Sequence[Mapping[str, Any]], catalog: Catalog) -> list[Notice]:
    """Delete the logs of dropped sources, and what their servers keep for them; return what could not be."""
    left = []
    for each in captured:
        try:
            _forget(each, catalog)
        except SinkqlError as error:
            message = f'what the server keeps for source "{each["name"]}" is still there: {error.message}'
            left.append(Notice("SQ4309", message, hint="Delete it on the server, such as its replication slot."))
        try:
            _forget_log(each, catalog)
        except SinkqlError as error:
            message = f'the log of source "{each["name"]}" is still there: {error.message}'
            path = each["options"]["tuning"]["keeping"]["log"]["path"].rstrip("/")
            left.append(Notice("SQ4309", message, hint=f"Delete what is below {path}/{each['source_id']}/."))
        shutil.rmtree(source_folder(catalog.database.folder, each["source_id"]), ignore_errors=True)
    return left


def _forget(data: Mapping[str, Any], catalog: Catalog) -> None:
    control, owner = catalog.control, f"drop-{uuid.uuid4()}"
    until = time.monotonic() + _WAIT_SECONDS
    while not control.claim_for_drop(data["source_id"], owner=owner) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)  # its capture ends with the last of its sinks
    kind = catalog.registry.sources.get(data.get("kind", ""))
    if kind is None or kind.forget is None:
        return
    connection = codec.convert(data["connection"], physical.Connection | None)
    source, _ = captured_source(kind.name, data["options"], connection)
    kind.forget(source, CatalogAccess(catalog).secret)


def _forget_log(data: Mapping[str, Any], catalog: Catalog) -> None:
    """Delete the log, where it is in an object store: that in a folder goes with all that is there."""
    log = codec.convert(data.get("log"), physical.Connection | None)
    if log is not None:
        source, keeping = captured_source(data["kind"], data["options"], None, log)
        folder = catalog.database.folder
        open_log_directory(folder, source, keeping, CatalogAccess(catalog).job_store).store.drop()


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
    from sinkql.state_store.store import open_state_store

    left = []
    for each in kept:
        state = codec.convert(each["state"], physical.StatePath)
        try:
            store = open_state_store(state, each["part"], CatalogAccess(catalog).job_store)
            store.delete([name for name, _ in store.list("")])
        except (SinkqlError, OSError) as error:
            why = error.message if isinstance(error, SinkqlError) else str(error)
            message = f'the state of sink "{each["name"]}" is still in STATE of its cluster: {why}'
            hint = f"Delete what is below {state.path.rstrip('/')}/{each['part']}/."
            left.append(Notice("SQ4309", message, hint=hint))
    return left
