"""A commit that was main's head once → whether main, of which snapshots have expired, has left it.

Each snapshot says its parent and its sequence number, which the table gives once. Main's known snapshots lead down to
one whose parent has expired. Where that is the commit's, or no number between the two was main's, or the commit's own
files are in main, it is plain. Else older files of the table's metadata, as far as there are some, tell how main went.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sinkql.connectors.iceberg.file.manifest import manifests_of
from sinkql.connectors.iceberg.table.format_v3 import read_metadata

_OLDER = 100
"""Metadata files that are read at most; as many as a table keeps, if it does not say how many."""
_TRACED = 64


@dataclass(frozen=True, slots=True)
class AncestorCache:
    """A commit: its snapshot, its sequence number, and its parent, None where that is not known."""

    snapshot: int
    sequence: int
    parent: int | None


def has_left_main(table: Table, line: list[Snapshot], passed: AncestorCache) -> bool:
    """Tell whether main is not on top of a commit any more; `line` is main as far as known, without that commit."""
    if not line or _sequence(line[-1]) <= passed.sequence:
        return True
    lowest = line[-1]
    below = lowest.parent_snapshot_id
    if below == passed.snapshot:
        return False
    known = {each.snapshot_id: each for each in table.metadata.snapshots}
    if below is not None and below in _before(known, passed):
        return True
    main = {each.snapshot_id for each in line}
    elsewhere = {_sequence(each) for each in known.values() if each.snapshot_id not in main}
    between = range(passed.sequence + 1, _sequence(lowest))
    if elsewhere.issuperset(between) and (below is not None or passed.snapshot in known):
        return True  # the parent would be the commit; None may be one that has expired, which some programs cut off
    if _has_files_of(table, passed.snapshot):
        return False
    return _traced(_Main(table), passed, lowest.snapshot_id) or False


def _before(known: dict[int, Snapshot], passed: AncestorCache) -> set[int]:
    """Return the ids of what a commit was on top of, as far as they are known."""
    found, current = set[int](), passed.parent
    if passed.snapshot in known:
        current = known[passed.snapshot].parent_snapshot_id
    while current is not None:
        found.add(current)
        current = known[current].parent_snapshot_id if current in known else None
    return found


def _has_files_of(table: Table, snapshot: int) -> bool:
    """Tell whether main has a manifest that a commit wrote."""
    return any(each.added_snapshot_id == snapshot for each in manifests_of(table, table.current_snapshot()))


class _Main:
    """A table with what it was before; equal to another load of it as it is now."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._key = (str(table.metadata.table_uuid), table.metadata_location)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Main) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def before(self) -> Iterator[dict[int, tuple[int | None, int]]]:
        """Yield parents and sequence numbers of the snapshots that older metadata has, the newest first."""
        older = [each.metadata_file for each in self._table.metadata.metadata_log]
        for path in reversed(older[-_OLDER:]):
            told = read_metadata(self._table.io.new_input(path))
            yield {each.snapshot_id: (each.parent_snapshot_id, _sequence(each)) for each in told.snapshots}


@lru_cache(maxsize=_TRACED)
def _traced(main: _Main, passed: AncestorCache, lowest: int) -> bool | None:
    """Tell by older metadata whether a snapshot of main's is not on top of a commit; None where it does not say."""
    current: int | None = lowest
    try:
        for known in main.before():
            while current in known and (parent := known[current][0]) is not None:
                if parent == passed.snapshot:
                    return False
                if parent in known and known[parent][1] <= passed.sequence:
                    return True
                current = parent
    except Exception:  # they go by and by, and some catalogs keep none
        return None
    return None


def _sequence(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0
