"""Locations of files on this machine: which ones are, and how what was written there becomes durable."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sinkql.storage import files


def local_folder(location: str) -> Path | None:
    """Return the local folder of a location, None if it is elsewhere."""
    if location.startswith("file://"):
        return Path(location.removeprefix("file://"))
    if location.startswith("file:/"):  # as Hive writes it
        return Path(location.removeprefix("file:"))
    return None if "://" in location else Path(location)


def sync(locations: Iterable[str]) -> None:
    """Make the local files among these durable, before anything names them; raises OSError as `durable.settle` does.

    An object store has made durable what it has answered.
    """
    files.settle(path for path in map(local_folder, locations) if path is not None)
