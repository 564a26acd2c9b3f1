"""A captured source, and what its WITH (…) says → where its log lies: the one place that chooses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from sinkql import physical
from sinkql.capture.bucket import BucketStore
from sinkql.capture.log import LogFolder, source_folder
from sinkql.extension.capture import CapturedSource, Keeping
from sinkql.extension.store import ObjectStore

OpenJobStore = Callable[[physical.Connection], ObjectStore]


def log_folder(catalog_folder: Path, source: CapturedSource, keeping: Keeping, open_store: OpenJobStore) -> LogFolder:
    """Return what is kept of a source of the catalog in a folder; whoever captures it is that catalog."""
    folder = source_folder(catalog_folder, source.id)
    if keeping.log is None:
        return LogFolder.local(folder)
    assert source.log is not None, "a path of an object store has a connection"
    path = f"{keeping.log.path.rstrip('/')}/{source.id}/"
    owner = f"{socket.gethostname()}:{folder.absolute()}"
    return LogFolder(folder, BucketStore.of(path, open_store(source.log), owner))
