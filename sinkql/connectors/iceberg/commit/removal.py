"""Record which manifests and files a snapshot removes, and read it again when the snapshot expires.

The record is an entry in the header of the snapshot's manifest list. So it is committed with the snapshot, and an
expiry reads no manifests of the sink's snapshots. Snapshots of other programs have no record: their manifests are read.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sinkql.connectors.iceberg.commit.manifest_cache import ManifestCache
from sinkql.connectors.iceberg.file.manifest import VECTORS, all_said_of, list_header, manifests_of

_KEY = "sinkql.removed"
_MOST = 1 << 16
"""The most characters of a record; readers of the table read it with the list."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The manifests that a snapshot's parent has and the snapshot does not, and the files that the snapshot removes.

    A file is removed with its last entry, as a file may have several deletion vectors.
    """

    manifests: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


def encode(removal: Removal) -> dict[str, str]:
    """Return the record as entries for the header of a manifest list; none if it is too long."""
    record = json.dumps({"manifests": _pack(removal.manifests), "files": _pack(removal.files)}, separators=(",", ":"))
    return {_KEY: record} if len(record) <= _MOST else {}


def removal_of(table: Table, snapshot: Snapshot, parent: Snapshot | None) -> Removal:
    """Return what a snapshot removes, by its record or by the manifests of it and its parent.

    Raises FileNotFoundError if its manifest list is missing, and SQ3530. No manifests are returned if `parent` is None,
    that is, if it has expired.
    """
    return _recorded(table, snapshot) or read_removal(table, snapshot, parent)


def read_removal(table: Table, snapshot: Snapshot, parent: Snapshot | None) -> Removal:
    """Return what a snapshot removes, by the manifests of it and its parent."""
    manifests = manifests_of(table, snapshot)
    dropped: frozenset[str] = frozenset()
    with suppress(FileNotFoundError):  # an earlier expiry was interrupted
        dropped = _paths(manifests_of(table, parent)) - _paths(manifests)
    files = frozenset().union(*(_removed_in(table, manifest, snapshot.snapshot_id) for manifest in manifests))
    if files and table.metadata.format_version >= VECTORS:
        deletes = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
        files -= ManifestCache(table).live_files(deletes, files)
    return Removal(dropped, files)


def _removed_in(table: Table, manifest: ManifestFile, snapshot: int) -> frozenset[str]:
    if not manifest.deleted_files_count or manifest.added_snapshot_id != snapshot:
        return frozenset()
    with suppress(FileNotFoundError):  # an earlier expiry was interrupted
        return frozenset(
            entry.data_file.file_path
            for entry in all_said_of(table.io, manifest)
            if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id == snapshot
        )
    return frozenset()


def _recorded(table: Table, snapshot: Snapshot) -> Removal | None:
    header = list_header(table, snapshot)
    parent = snapshot.parent_snapshot_id
    of = str(snapshot.snapshot_id), "null" if parent is None else str(parent)
    if _KEY not in header or (header.get("snapshot-id"), header.get("parent-snapshot-id")) != of:
        return None
    record = json.loads(header[_KEY])
    return Removal(_unpack(record["manifests"]), _unpack(record["files"]))


def _paths(manifests: Collection[ManifestFile]) -> frozenset[str]:
    return frozenset(manifest.manifest_path for manifest in manifests)


def _pack(paths: Collection[str]) -> list[str]:
    """Return the common prefix of some paths, followed by the rest of each; an empty list without paths."""
    prefix = os.path.commonprefix(list(paths))  # noqa: RUF071  # of characters: names of one commit begin alike
    return [prefix, *(path[len(prefix) :] for path in sorted(paths))] if paths else []


def _unpack(packed: list[str]) -> frozenset[str]:
    return frozenset(packed[0] + rest for rest in packed[1:])
