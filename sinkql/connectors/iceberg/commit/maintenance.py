"""Old snapshots of a sink's table → expired, with the files that only they reach. Nobody else deletes those."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    TableRequirement,
    TableUpdate,
)

from sinkql.connectors.iceberg.commit.checkpoint import ancestry, offsets_file
from sinkql.connectors.iceberg.commit.snapshot import MAIN
from sinkql.connectors.iceberg.file.manifest import VECTORS, all_said_of, manifests_of, said_of
from sinkql.connectors.iceberg.table.metadata_file import SUFFIX, metadata_path
from sinkql.connectors.iceberg.table.table import CREATED_BY
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.storage import failpoint

_RETAIN = 100
_AT_ONCE = 20
_KEEP = "history.expire.min-snapshots-to-keep"
_AGE = "history.expire.max-snapshot-age-ms"


@dataclass(frozen=True, slots=True)
class _Dead:
    """Paths of what only expired snapshots reach: manifests, data and delete files, and others, such as lists."""

    manifests: frozenset[str]
    files: frozenset[str]
    others: frozenset[str]


def expired(table: Table, options: Mapping[str, Any], *, whole: bool = False) -> tuple[Snapshot, ...]:
    """Return the snapshots to expire now: none before there are enough of them; no ref's, none younger than kept ones.

    The table's own `history.expire.*` wins over the sink's RETAIN SNAPSHOTS. A table that no sink created, and that
    says nothing, is left alone. `whole` takes few of them too, and though MAINTENANCE is false.
    """
    properties = table.properties
    retain = options.get("retain_snapshots")
    if (options.get("maintenance") is False and not whole) or not may_delete(table):
        return ()
    if retain is None and not {_KEEP, _AGE, CREATED_BY} & properties.keys():
        return ()
    try:
        keep = max(1, int(properties.get(_KEEP, 1 if _AGE in properties else retain or _RETAIN)))
        young = time.time() * 1000 - int(properties[_AGE]) if _AGE in properties else float("inf")
    except ValueError:
        return ()  # nobody can tell what the table wishes
    main = list(ancestry(table))
    kept = {each.snapshot_id for number, each in enumerate(main) if number < keep or each.timestamp_ms >= young}
    oldest = min((each.sequence_number or 0 for each in main if each.snapshot_id in kept), default=0)
    kept |= {ref.snapshot_id for ref in table.metadata.refs.values()} | _referred(table)
    gone = tuple(
        each
        for each in table.metadata.snapshots
        if each.snapshot_id not in kept and (each.sequence_number or 0) < oldest
    )
    return gone if whole or len(gone) >= _AT_ONCE else ()


def may_delete(table: Table) -> bool:
    """Tell whether files may be deleted: `gc.enabled = false` says that what no snapshot reaches has other users."""
    return table.properties.get("gc.enabled", "true").lower() != "false"


def expire(target: TargetTable, table: Table, gone: tuple[Snapshot, ...]) -> None:
    """Expire the snapshots, and once the table is seen to be without them, delete what only they reached.

    An expiry that fails is not an error: the next one takes the same snapshots.
    """
    try:
        dead = _dead(table, gone)
    except FileNotFoundError:  # others are expiring snapshots of it
        return
    failpoint.point("expire")
    replied = False
    with suppress(Exception):  # the outcome is read from the table, whatever this says
        target.post(table, _requirements(table), _updates(table, gone))
        replied = True
    with suppress(Exception):
        after = target.load()
        left = {each.snapshot_id for each in after.metadata.snapshots}
        if after.metadata.table_uuid != table.metadata.table_uuid or left & {each.snapshot_id for each in gone}:
            return
        if not replied and after.metadata.current_snapshot_id != table.metadata.current_snapshot_id:
            return  # others have expired them, maybe, and deleted lists of manifests before these were read
        target.tidy(table, after)
        failpoint.point("expired")
        for path in sorted(dead.files) + sorted(dead.manifests) + sorted(dead.others):
            failpoint.point("expired-file")
            with suppress(OSError):
                table.io.delete(path)


def named_offsets(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the names of the files with offsets that these snapshots, or markers in the table's properties, name."""
    return {name for each in snapshots if (name := offsets_file(each))} | _noted(table)


def _referred(table: Table) -> set[int]:
    """Return the snapshots of tags, and of branches but main with all their ancestors."""
    snapshots = {each.snapshot_id: each for each in table.metadata.snapshots}
    found: set[int] = set()
    for name, ref in table.metadata.refs.items():
        if name == MAIN:
            continue
        found.add(ref.snapshot_id)
        current = snapshots.get(ref.snapshot_id)
        while ref.snapshot_ref_type == "branch" and current is not None:
            found.add(current.snapshot_id)
            current = snapshots.get(current.parent_snapshot_id or -1)
    return found


def _dead(table: Table, gone: tuple[Snapshot, ...]) -> _Dead:
    """Return what goes; raises FileNotFoundError where a snapshot of main that tells what is needed cannot be read."""
    ids = {each.snapshot_id for each in gone}
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in ids]
    main = {each.snapshot_id for each in ancestry(table)}
    reached = {
        manifest.manifest_path
        for each in _telling(table, kept)
        for manifest in (manifests_of(table, each) if each.snapshot_id in main else _manifests(table, [each]))
    }
    lost = {manifest.manifest_path: manifest for manifest in _manifests(table, gone)}
    # A file is dead once the snapshot that removed it from main is gone, and so are all before that one.
    files = _removed(table, lost.values(), ids & main)
    if files and table.metadata.format_version >= VECTORS:  # of a file's deletion vectors some may be there still
        after = [manifest for each in _after(table, ids) for manifest in manifests_of(table, each)]
        files -= _live(table, [each for each in after if each.content == ManifestContent.DELETES])
    if files:  # main itself never gets a file back
        referred = _referred(table)
        elsewhere = [each for each in kept if each.snapshot_id not in main or each.snapshot_id in referred]
        files -= _live(table, _manifests(table, elsewhere))
    files |= _aside(table, [each for each in gone if each.snapshot_id not in main], kept)
    named = named_offsets(table, kept)
    offsets = {name for each in gone if (name := offsets_file(each))} - named
    return _Dead(
        manifests=frozenset(lost.keys() - reached),
        files=frozenset(files),
        others=frozenset({each.manifest_list for each in gone} - {each.manifest_list for each in kept})
        | {metadata_path(table, name) for name in offsets}
        | {each.statistics_path for each in table.metadata.statistics if each.snapshot_id in ids},
    )


def _telling(table: Table, kept: Iterable[Snapshot]) -> list[Snapshot]:
    """Return those of the kept snapshots that reach every manifest of the older ones that any of them reaches.

    A manifest that main has lost it never gets back: what stands between two that are kept reaches none that these do
    not. The first after one that goes tells by itself, as do a tag's on main and one whose parents somebody cut off.
    """
    ids = {each.snapshot_id for each in kept}
    line = [each.snapshot_id for each in ancestry(table)]
    inner = {
        here for after, here, before in zip(line, line[1:], line[2:], strict=False) if {after, here, before} <= ids
    }
    inner -= _referred(table)
    return [each for each in kept if each.snapshot_id not in inner]


def _after(table: Table, gone: Collection[int]) -> list[Snapshot]:
    """Return those of main's kept snapshots that come next after one that goes.

    Tags, and main below a branch, keep some in between. What one that goes leaves behind the next kept one has.
    """
    line = list(ancestry(table))
    return [each for each, before in pairwise(line) if each.snapshot_id not in gone and before.snapshot_id in gone]


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> Iterable[ManifestFile]:
    for snapshot in snapshots:
        with suppress(FileNotFoundError):  # an earlier expiry was cut short
            yield from manifests_of(table, snapshot)


def _removed(table: Table, manifests: Iterable[ManifestFile], removers: set[int]) -> set[str]:
    found: set[str] = set()
    for manifest in manifests:
        if not manifest.deleted_files_count or manifest.added_snapshot_id not in removers:
            continue
        with suppress(FileNotFoundError):
            entries = all_said_of(table.io, manifest)
            found |= {
                entry.data_file.file_path
                for entry in entries
                if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id in removers
            }
    return found


def _aside(table: Table, gone: Iterable[Snapshot], kept: Iterable[Snapshot]) -> set[str]:
    """Return what no kept snapshot has of those that are not on main, such as the ones of a branch that was dropped.

    Raises FileNotFoundError where a kept one cannot be read.
    """
    files: set[str] = set()
    for manifest in {each.manifest_path: each for each in _manifests(table, gone)}.values():
        with suppress(FileNotFoundError):
            files |= _live(table, [manifest])
    return files - _live(table, (each for one in kept for each in manifests_of(table, one))) if files else files


def _live(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in {each.manifest_path: each for each in manifests}.values()
        for entry in said_of(table.io, manifest)
    }


def _noted(table: Table) -> set[str]:
    """Return what the properties of all sinks on the table say, as text to find names in."""
    return {
        word
        for name, value in table.properties.items()
        if name.startswith("sinkql.") and name.endswith(".last")
        for word in value.replace("\\", "").split('"')
        if word.endswith("-offsets" + SUFFIX)
    }


def _requirements(table: Table) -> tuple[TableRequirement, ...]:
    refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    held = [AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": head}) for name, head in refs.items()]
    return (AssertTableUUID(uuid=table.metadata.table_uuid), *held)


def _updates(table: Table, gone: tuple[Snapshot, ...]) -> tuple[TableUpdate, ...]:
    ids = {each.snapshot_id for each in gone}
    statistics = {each.snapshot_id for each in table.metadata.statistics} & ids
    partition = {each.snapshot_id for each in table.metadata.partition_statistics} & ids
    return (
        *(RemoveStatisticsUpdate.model_validate({"snapshot-id": each}) for each in sorted(statistics)),
        *(RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": each}) for each in sorted(partition)),
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(ids)}),
    )
