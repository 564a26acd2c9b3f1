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


def log_folder(
    catalog_folder: Path,
    source: CapturedSource,
    keeping: Keeping,
    open_store: OpenJobStore,
    owner: str | None = None,
) -> LogFolder:
    """Return what is kept of a source of the catalog in a folder.

    Whoever captures it is that catalog: `owner` tells one that several hosts share.
    """
    folder = source_folder(catalog_folder, source.id)
    if keeping.log is None:
        return LogFolder.local(folder)
    assert source.log is not None, "a path of an object store has a connection"
    path = f"{keeping.log.path.rstrip('/')}/{source.id}/"
    here = f"{socket.gethostname()}:{folder.absolute()}"
    return LogFolder(folder, BucketStore.of(path, open_store(source.log), owner or here))
