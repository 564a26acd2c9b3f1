"""Find out whether main still contains a commit whose snapshot has expired.

Each snapshot has a parent and a sequence number that is unique in the table. Main's remaining snapshots lead down to
one whose parent has expired. The answer is clear in three cases: that parent is the commit, main used no number between
the two, or main has files of the commit. Otherwise older metadata files of the table, if they exist, show the history
of main.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sinkql.connectors.iceberg.file.manifest import manifests_of
from sinkql.connectors.iceberg.table.format_v3 import read_metadata
from sinkql.machine.memory import remembered

_OLDER = 100
"""The most metadata files to read; the number that a table keeps by default."""
_TRACED = 64


@dataclass(frozen=True, slots=True)
class AncestorCache:
    """A commit: its snapshot, sequence number and parent; the parent is None if it is unknown."""

    snapshot: int
    sequence: int
    parent: int | None


def has_left_main(table: Table, line: list[Snapshot], commit: AncestorCache) -> bool:
    """Return whether main no longer contains a commit.

    `line` holds main's remaining snapshots, which do not include the commit.
    """
    if not line or _sequence(line[-1]) <= commit.sequence:
        return True
    lowest = line[-1]
    below = lowest.parent_snapshot_id
    if below == commit.snapshot:
        return False
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    if below is not None and below in _ancestors_of(snapshots, commit):
        return True
    main = {snapshot.snapshot_id for snapshot in line}
    elsewhere = {_sequence(snapshot) for snapshot in snapshots.values() if snapshot.snapshot_id not in main}
    between = range(commit.sequence + 1, _sequence(lowest))
    if elsewhere.issuperset(between) and (below is not None or commit.snapshot in snapshots):
        return True  # otherwise the parent would be the commit; some programs write None for an expired parent
    if _has_files_of(table, commit.snapshot):
        return False
    return _trace_left(_Main(table), commit, lowest.snapshot_id) or False


def _ancestors_of(snapshots: dict[int, Snapshot], commit: AncestorCache) -> set[int]:
    """Return the ids of a commit's known ancestors."""
    ancestors, current = set[int](), commit.parent
    if commit.snapshot in snapshots:
        current = snapshots[commit.snapshot].parent_snapshot_id
    while current is not None:
        ancestors.add(current)
        current = snapshots[current].parent_snapshot_id if current in snapshots else None
    return ancestors


def _has_files_of(table: Table, snapshot: int) -> bool:
    """Return whether main has a manifest that a commit wrote."""
    return any(manifest.added_snapshot_id == snapshot for manifest in manifests_of(table, table.current_snapshot()))


class _Main:
    """A table with its earlier states; equal to another load of the same state."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._key = (str(table.metadata.table_uuid), table.metadata_location)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Main) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def before(self) -> Iterator[dict[int, tuple[int | None, int]]]:
        """Yield parents and sequence numbers of the snapshots in older metadata, newest first."""
        older = [entry.metadata_file for entry in self._table.metadata.metadata_log]
        for path in reversed(older[-_OLDER:]):
            metadata = read_metadata(self._table.io.new_input(path))
            yield {entry.snapshot_id: (entry.parent_snapshot_id, _sequence(entry)) for entry in metadata.snapshots}


@remembered(_TRACED)
def _trace_left(main: _Main, commit: AncestorCache, lowest: int) -> bool | None:
    """Return by older metadata whether main's snapshot is not based on a commit; None if unknown."""
    current: int | None = lowest
    try:
        for snapshots in main.before():
            while current in snapshots and (parent := snapshots[current][0]) is not None:
                if parent == commit.snapshot:
                    return False
                if parent in snapshots and snapshots[parent][1] <= commit.sequence:
                    return True
                current = parent
    except Exception:  # old metadata files are deleted over time, and some catalogs keep none
        return None
    return None


def _sequence(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0
