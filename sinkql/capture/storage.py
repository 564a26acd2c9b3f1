"""A captured source, and what its WITH (…) says → where its log lies: the one place that chooses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from sinkql import physical
from sinkql.capture.log import LogDirectory, source_folder
from sinkql.capture.log_store import FolderLogStore
from sinkql.capture.object_log_store import ObjectLogStore
from sinkql.connector_api.cdc import CapturedSource, LogRetention
from sinkql.connector_api.stream.context import OpenNotes, in_folder
from sinkql.object_store.store import ObjectStore

OpenJobStore = Callable[[physical.Connection], ObjectStore]


def log_folder(
    catalog_folder: Path,
    source: CapturedSource,
    keeping: LogRetention,
    open_store: OpenJobStore,
    owner: str | None = None,
    open_notes: OpenNotes = in_folder,
) -> LogDirectory:
    """Return what is kept of a source of the catalog in a folder.

    Whoever captures it is that catalog: `owner` tells one that several hosts share.
    """
    folder = source_folder(catalog_folder, source.id)
    notes = open_notes(source.id, folder)
    if keeping.log is None:
        return LogDirectory(folder, FolderLogStore(folder), notes)
    assert source.log is not None, "a path of an object store has a connection"
    path = f"{keeping.log.path.rstrip('/')}/{source.id}/"
    here = f"{socket.gethostname()}:{folder.absolute()}"
    return LogDirectory(folder, ObjectLogStore.of(path, open_store(source.log), owner or here), notes)
