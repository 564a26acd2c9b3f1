"""Delete the logs and server resources of dropped sources, and the state of dropped sinks in object stores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from sinkql import codec, logical, physical
from sinkql.capture.log import source_folder
from sinkql.capture.object_log_store import open_log_directory
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.cdc import captured_source, log_connection
from sinkql.connectors.view.log import position_path
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower, lower_connection
from sinkql.lowering.materialized_view import view_jobs
from sinkql.machine import clock
from sinkql.machine.randomness import new_uuid
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.state_store.store import open_state_store

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.1


def captured_sources(names: Sequence[str], catalog: Catalog) -> list[dict[str, Any]]:
    """Return the data that deletes the captured sources among `names` after the drop, as JSON.

    The data of a source that no longer plans has only its id and name.
    """
    reader = catalog.reader()
    source_names = frozenset((*reader.names("SOURCE"), *reader.names("TABLE")))
    sources = []
    for name in names:
        facts = reader.facts(name) if name in source_names else {}
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
        sources.append(data)
    return sources


def delete_captured(captured: Sequence[Mapping[str, Any]], catalog: Catalog) -> list[Notice]:
    """Delete the logs and server resources of dropped sources. Return a notice for each failure."""
    notices = []
    for source in captured:
        try:
            _delete_on_server(source, catalog)
        except SinkqlError as error:
            message = f'could not delete the resources of source "{source["name"]}" on its server: {error.message}'
            hint = "Delete them on the server, for example the replication slot."
            notices.append(Notice("SQ4309", message, hint=hint))
        try:
            _delete_log(source, catalog)
        except SinkqlError as error:
            message = f'could not delete the log of source "{source["name"]}": {error.message}'
            path = source["options"]["tuning"]["keeping"]["log"]["path"].rstrip("/")
            notices.append(Notice("SQ4309", message, hint=f"Delete all files below {path}/{source['source_id']}/."))
        shutil.rmtree(source_folder(catalog.database.folder, source["source_id"]), ignore_errors=True)
    return notices


def _delete_on_server(data: Mapping[str, Any], catalog: Catalog) -> None:
    control, owner = catalog.control, f"drop-{new_uuid()}"
    until = clock.monotonic() + _WAIT_SECONDS
    while not control.claim_for_drop(data["source_id"], owner=owner) and clock.monotonic() < until:
        clock.sleep(_POLL_SECONDS)  # the capture ends after its last sink
    kind = catalog.registry.sources.get(data.get("kind", ""))
    if kind is None or kind.forget is None:
        return
    connection = codec.convert(data["connection"], physical.Connection | None)
    source, _ = captured_source(kind.name, data["options"], connection)
    kind.forget(source, CatalogAccess(catalog).secret)


def _delete_log(data: Mapping[str, Any], catalog: Catalog) -> None:
    """Delete a log in an object store. A log in a folder is deleted with the folder."""
    log = codec.convert(data.get("log"), physical.Connection | None)
    if log is not None:
        source, keeping = captured_source(data["kind"], data["options"], None, log)
        folder = catalog.database.folder
        open_log_directory(folder, source, keeping, CatalogAccess(catalog).job_store).store.drop()


def state_locations(sinks: Mapping[str, str], catalog: Catalog) -> list[dict[str, Any]]:
    """Return the locations of the sinks' state in object stores, for deletion after the drop."""
    locations = []
    for name, sink_id in sinks.items():
        try:
            job = lower(name, catalog.plans) if catalog.plans.entry(name) is not None else None
        except SinkqlError:
            continue  # the sink no longer plans
        states = [(job.state, sink_id), *_reader_positions(catalog, sink_id)] if job is not None else []
        locations += [
            {"name": short_name(name), "sink_id": sink_id, "part": part, "state": msgspec.to_builtins(state)}
            for state, part in states
            if state is not None
        ]
    return locations


def _reader_positions(catalog: Catalog, sink_id: str) -> Iterator[tuple[physical.StatePath | None, str]]:
    """Yield the possible locations of a sink's reader positions, also in logs of views that it read earlier."""
    for name in view_jobs(catalog.plans):
        with suppress(SinkqlError):
            view = lower(name, catalog.plans)
            yield view.state, position_path(view.sink_id, sink_id)


def delete_states(locations: Sequence[Mapping[str, Any]], catalog: Catalog) -> list[Notice]:
    """Delete the stored state of dropped sinks. Return a notice for each failure."""
    notices = []
    for location in locations:
        state = codec.convert(location["state"], physical.StatePath)
        try:
            store = open_state_store(state, location["part"], CatalogAccess(catalog).job_store)
            store.delete([name for name, _ in store.list("")])
        except (SinkqlError, OSError) as error:
            reason = error.message if isinstance(error, SinkqlError) else str(error)
            message = f'could not delete the state of sink "{location["name"]}" in STATE of its cluster: {reason}'
            hint = f"Delete all files below {state.path.rstrip('/')}/{location['part']}/."
            notices.append(Notice("SQ4309", message, hint=hint))
    return notices
