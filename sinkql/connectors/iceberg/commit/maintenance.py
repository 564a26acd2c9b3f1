"""Expire old snapshots of a sink's table, and delete orphan files that killed and failed attempts of the sink left.

The files that only expired snapshots reach are deleted here and by no other process. Orphan files are deleted a few at
a time.

An orphan file has a name that only this sink gives. Its epoch is not above the sink's and not below the sink's first
epoch in this table. It is older than three days. No snapshot reaches it in a table that was loaded after the file was
listed. The table belongs to the sink, so nothing of an earlier epoch can still be committed. Files of the current epoch
are searched between two batches. Epochs before the first one belong to another table that had this folder. That table
may be in the catalog under another name, or be registered again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest

from pyarrow.fs import FileInfo, FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from sinkql.connectors.iceberg.commit.checkpoint import ancestry, first_epoch, offsets_file
from sinkql.connectors.iceberg.commit.manifest_cache import ManifestCache
from sinkql.connectors.iceberg.commit.removal import Removal, removal_of
from sinkql.connectors.iceberg.commit.snapshot import MAIN
from sinkql.connectors.iceberg.file.manifest import manifests_of, said_of
from sinkql.connectors.iceberg.plan.options import IcebergSink
from sinkql.connectors.iceberg.storage import AskingFileIO
from sinkql.connectors.iceberg.table.format_v3 import read_metadata
from sinkql.connectors.iceberg.table.metadata_file import PREFIX, SUFFIX, metadata_path
from sinkql.connectors.iceberg.table.table import CREATED_BY, METADATA_FILES, NEW_METADATA_FILES
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.machine import clock
from sinkql.storage import failpoint

_RETAIN = 100
_RETAIN_FOR = timedelta(minutes=1)
"""How long a query may read a snapshot. With an interval of a second, `_RETAIN` snapshots are even older."""
_SNAPSHOTS_A_COMMIT = 1.5
"""The most, with those of compactions."""
_AT_ONCE = 20
_KEEP = "history.expire.min-snapshots-to-keep"
_AGE = "history.expire.max-snapshot-age-ms"
_METADATA_FOR = timedelta(seconds=10)
"""How long a reader may take from the name of a metadata file to the file."""


@dataclass(frozen=True, slots=True)
class _DeadFiles:
    """Paths that only expired snapshots reach: manifests, data and delete files, and others like manifest lists."""

    manifests: frozenset[str]
    files: frozenset[str]
    others: frozenset[str]


def expired(
    table: Table, sink: IcebergSink, interval: timedelta | None = None, *, whole: bool = False
) -> tuple[Snapshot, ...]:
    """Return the snapshots to expire now; an empty tuple while they are few.

    Snapshots of refs, and snapshots younger than a kept one, do not expire. The table's `history.expire.*` properties
    override the sink's RETAIN SNAPSHOTS. A table that no sink created, and that has neither, keeps all snapshots.
    Without RETAIN SNAPSHOTS, as many young snapshots are kept as the commit `interval` makes in `_RETAIN_FOR`. `whole`
    expires even a few snapshots, and ignores MAINTENANCE = false.
    """
    properties, retain = table.properties, sink.retain_snapshots
    if not (sink.maintenance or whole) or not may_delete(table):
        return ()
    if retain is None and not {_KEEP, _AGE, CREATED_BY} & properties.keys():
        return ()
    try:
        keep = max(1, int(properties.get(_KEEP, 1 if _AGE in properties else retain or _RETAIN)))
        young = clock.time() * 1000 - int(properties[_AGE]) if _AGE in properties else float("inf")
    except ValueError:
        return ()  # the table's settings are invalid
    main = list(ancestry(table))
    most_young = len(main)
    if retain is None and not {_KEEP, _AGE} & properties.keys():
        young, most_young = (clock.time() - _RETAIN_FOR.total_seconds()) * 1000, _count_in(_RETAIN_FOR, interval)
    kept_ids = {
        snapshot.snapshot_id
        for number, snapshot in enumerate(main)
        if number < keep or (number < most_young and snapshot.timestamp_ms >= young)
    }
    oldest = min((snapshot.sequence_number or 0 for snapshot in main if snapshot.snapshot_id in kept_ids), default=0)
    kept_ids |= {ref.snapshot_id for ref in table.metadata.refs.values()} | _referenced(table)
    snapshots = tuple(
        snapshot
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id not in kept_ids and (snapshot.sequence_number or 0) < oldest
    )
    return snapshots if whole or len(snapshots) >= _AT_ONCE else ()


def _count_in(time: timedelta, interval: timedelta | None) -> int:
    """Return the most snapshots that an interval makes in a time, with compactions; 0 if the interval is unknown."""
    return math.ceil(_SNAPSHOTS_A_COMMIT * (time / interval)) if interval else 0


def may_delete(table: Table) -> bool:
    """Return whether files may be deleted; `gc.enabled = false` means that unreached files have other users."""
    return table.properties.get("gc.enabled", "true").lower() != "false"


def expire(
    target: TargetTable, table: Table, snapshots: tuple[Snapshot, ...], interval: timedelta | None = None
) -> None:
    """Expire the snapshots; when the reloaded table no longer has them, delete the files that only they reached.

    If the commit `interval` is short, the table also keeps more of its old metadata files from now on. A failed expiry
    is not an error: the next one covers the same snapshots.
    """
    try:
        dead = _dead(table, snapshots)
    except FileNotFoundError:  # another process is expiring the table's snapshots
        return
    failpoint.point("expire")
    replied = False
    with suppress(Exception):  # the reloaded table shows the outcome
        target.post(table, _requirements(table), (*_updates(table, snapshots), *_metadata_updates(table, interval)))
        replied = True
    with suppress(Exception):
        after = target.load()
        left = {snapshot.snapshot_id for snapshot in after.metadata.snapshots}
        if after.metadata.table_uuid != table.metadata.table_uuid or left & {
            snapshot.snapshot_id for snapshot in snapshots
        }:
            return
        if not replied and after.metadata.current_snapshot_id != table.metadata.current_snapshot_id:
            return  # another process may have expired them, and deleted manifest lists before they were read
        target.tidy(table, after)
        failpoint.point("expired")
        for path in sorted(dead.files) + sorted(dead.manifests) + sorted(dead.others):
            failpoint.point("expired-file")
            with suppress(OSError):
                table.io.delete(path)


def named_offsets(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the names of the offsets files that these snapshots, or the table's properties, name."""
    return {name for snapshot in snapshots if (name := offsets_file(snapshot))} | _offsets_in_properties(table)


def _referenced(table: Table) -> set[int]:
    """Return the snapshots of tags, and of branches other than main with all their ancestors."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    referred: set[int] = set()
    for name, ref in table.metadata.refs.items():
        if name == MAIN:
            continue
        referred.add(ref.snapshot_id)
        current = snapshots.get(ref.snapshot_id)
        while ref.snapshot_ref_type == "branch" and current is not None:
            referred.add(current.snapshot_id)
            current = snapshots.get(current.parent_snapshot_id or -1)
    return referred


def _dead(table: Table, expired_snapshots: tuple[Snapshot, ...]) -> _DeadFiles:
    """Return the files to delete; raise FileNotFoundError if a needed snapshot of main cannot be read."""
    ids = {snapshot.snapshot_id for snapshot in expired_snapshots}
    kept_snapshots = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id not in ids]
    main = {snapshot.snapshot_id for snapshot in ancestry(table)}
    needed_manifests = {
        snapshot.snapshot_id: manifests_of(table, snapshot)
        if snapshot.snapshot_id in main
        else list(_manifests(table, [snapshot]))
        for snapshot in _needed_snapshots(table, kept_snapshots)
    }
    lost = _removed_from_main(table, ids)
    # Main never regains a file. So a file is dead once the snapshot that removed it from main, and all before, expired.
    referred = _referenced(table)
    elsewhere = [
        manifest
        for snapshot_id, manifests in needed_manifests.items()
        if snapshot_id not in main or snapshot_id in referred
        for manifest in manifests
    ]
    files = lost.files - ManifestCache(table).live_files(elsewhere, lost.files)
    outside = [snapshot for snapshot in expired_snapshots if snapshot.snapshot_id not in main]
    files |= _dead_outside_main(table, outside, kept_snapshots)
    lost_manifests = lost.manifests | _paths(_manifests(table, outside))
    needed = named_offsets(table, kept_snapshots)
    offsets = {name for snapshot in expired_snapshots if (name := offsets_file(snapshot))} - needed
    return _DeadFiles(
        manifests=lost_manifests.difference(*map(_paths, needed_manifests.values())),
        files=frozenset(files),
        others=frozenset(
            {snapshot.manifest_list for snapshot in expired_snapshots}
            - {snapshot.manifest_list for snapshot in kept_snapshots}
        )
        | {metadata_path(table, name) for name in offsets}
        | {snapshot.statistics_path for snapshot in table.metadata.statistics if snapshot.snapshot_id in ids},
    )


def _needed_snapshots(table: Table, kept_snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Return the kept snapshots that together reach every manifest of older ones that any kept snapshot reaches.

    Main never regains a manifest that it has lost. So a snapshot between two kept neighbours reaches no manifest that
    these two do not reach. The first kept snapshot after an expired one is needed, and so are a tag's snapshot on main
    and one whose parents another program removed.
    """
    ids = {snapshot.snapshot_id for snapshot in kept_snapshots}
    line = [snapshot.snapshot_id for snapshot in ancestry(table)]
    inner = {
        middle
        for after, middle, before in zip(line, line[1:], line[2:], strict=False)
        if {after, middle, before} <= ids
    }
    inner -= _referenced(table)
    return [snapshot for snapshot in kept_snapshots if snapshot.snapshot_id not in inner]


def _removed_from_main(table: Table, expired_ids: Collection[int]) -> Removal:
    """Return the manifests that main's expired snapshots have and their successors do not, and the files they removed.

    A kept snapshot follows the last expired one, and the first of several between which tags keep others. Raises
    FileNotFoundError if it cannot be read.
    """
    manifests: set[str] = set()
    files: set[str] = set()
    line = list(ancestry(table))
    for snapshot, parent in zip_longest(line, line[1:]):
        has_expired = snapshot.snapshot_id in expired_ids
        is_next = parent is not None and parent.snapshot_id in expired_ids
        if not has_expired and not is_next:
            continue
        try:
            removal = removal_of(table, snapshot, parent)
        except FileNotFoundError:
            if not has_expired:
                raise
            # An earlier expiry was interrupted.
            removal = Removal(frozenset(_paths(_manifests(table, [parent] if is_next else []))))
        if is_next:
            manifests |= removal.manifests
        if has_expired:
            files |= removal.files
    return Removal(frozenset(manifests), frozenset(files))


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> Iterable[ManifestFile]:
    for snapshot in snapshots:
        with suppress(FileNotFoundError):  # an earlier expiry was interrupted
            yield from manifests_of(table, snapshot)


def _paths(manifests: Iterable[ManifestFile]) -> set[str]:
    return {manifest.manifest_path for manifest in manifests}


def _dead_outside_main(
    table: Table, expired_snapshots: Iterable[Snapshot], kept_snapshots: Iterable[Snapshot]
) -> set[str]:
    """Return the files that only expired snapshots outside main reach, for example the files of a dropped branch.

    Raises FileNotFoundError if a kept snapshot cannot be read.
    """
    files: set[str] = set()
    for manifest in {manifest.manifest_path: manifest for manifest in _manifests(table, expired_snapshots)}.values():
        with suppress(FileNotFoundError):
            files |= _live(table, [manifest])
    return (
        files - _live(table, (manifest for snapshot in kept_snapshots for manifest in manifests_of(table, snapshot)))
        if files
        else files
    )


def _live(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in {manifest.manifest_path: manifest for manifest in manifests}.values()
        for entry in said_of(table.io, manifest)
    }


def _offsets_in_properties(table: Table) -> set[str]:
    """Return the names of offsets files in the properties of all sinks on the table."""
    return {
        word
        for name, value in table.properties.items()
        if name.startswith("sinkql.") and name.endswith(".last")
        for word in value.replace("\\", "").split('"')
        if word.endswith("-offsets" + SUFFIX)
    }


def _requirements(table: Table) -> tuple[TableRequirement, ...]:
    refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    heads = [AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": head}) for name, head in refs.items()]
    return (AssertTableUUID(uuid=table.metadata.table_uuid), *heads)


def _updates(table: Table, snapshots: tuple[Snapshot, ...]) -> tuple[TableUpdate, ...]:
    ids = {snapshot_id.snapshot_id for snapshot_id in snapshots}
    statistics = {snapshot_id.snapshot_id for snapshot_id in table.metadata.statistics} & ids
    partition = {snapshot_id.snapshot_id for snapshot_id in table.metadata.partition_statistics} & ids
    return (
        *(RemoveStatisticsUpdate.model_validate({"snapshot-id": snapshot_id}) for snapshot_id in sorted(statistics)),
        *(
            RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": snapshot_id})
            for snapshot_id in sorted(partition)
        ),
        RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(ids)}),
    )


def _metadata_updates(table: Table, interval: timedelta | None) -> tuple[TableUpdate, ...]:
    """Return the update by which a table keeps more old metadata files, if it keeps as many as SinkQL's new tables."""
    most = _count_in(_METADATA_FOR, interval)
    if table.properties.get(METADATA_FILES) != NEW_METADATA_FILES or most <= int(NEW_METADATA_FILES):
        return ()
    return (SetPropertiesUpdate(updates={METADATA_FILES: str(most)}),)


_OLD = 3 * 86400.0
"""In seconds; Iceberg's removal of orphan files waits as long."""
_EVERY = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible orphan file, by its name."""

    location: str
    at: float


class OrphanFiles:
    """The search for orphan files of one claim of a table and earlier ones: at the start, then every few hours.

    `load` returns the table's current state; `busy` returns the id of an attempt in progress between batches. `sql`
    says that the sink's commits write the metadata files, whose names do not identify the sink.
    """

    def __init__(
        self, load: Callable[[], Table], busy: Callable[[], str | None], *, sink: str, epoch: int, sql: bool
    ) -> None:
        self._load, self._busy = load, busy
        self._sink, self._epoch, self._sql = sink, epoch, sql
        id_ = re.escape(sink)
        self._name_pattern = re.compile(
            rf"[bcf]\d+-{id_}-(\d+)-.+\.(?:parquet|stats)"
            rf"|(?:snap-\d+-0-)?sinkql-{id_}-(\d+)-[0-9a-f-]{{36}}(?:-m\d+)?\.avro"
            rf"|{PREFIX}{id_}-(\d+)-[0-9a-f]{{32}}-(?:offsets|replayed)\.stats"
        )
        self._temporary_pattern = re.compile(rf"\.(?:version-hint\.text|{PREFIX}{id_}-.+)\.[0-9a-f]{{16}}")
        self._steps: Iterator[None] | None = None
        self._asked = False
        self._due_at = 0.0

    @property
    def asked(self) -> bool:
        """Return whether a requested search is unfinished."""
        return self._asked

    def run(self, go_on: Callable[[], bool], *, now: bool = False) -> None:
        """Search and delete while `go_on` allows it; the next call continues. `now` starts a search immediately.

        A failed search is retried hours later, and never stops a sink.
        """
        if self._steps is None and not now and clock.monotonic() < self._due_at:
            return
        if self._steps is None or (now and not self._asked):
            self._steps, self._asked = self._look(), now
        try:
            while go_on():
                next(self._steps)
        except Exception:  # StopIteration too
            self._steps, self._asked = None, False

    def _look(self) -> Iterator[None]:
        self._due_at = clock.monotonic() + _EVERY
        table = self._load()
        if not may_delete(table):
            return
        candidates: dict[str, _Candidate] = {}
        for folder in _folders(table):
            yield from self._list(table, folder, candidates)
        table = self._load()
        reached: set[str] = set()
        for paths in _reached(table):
            reached.update(_base(path) for path in paths)
            yield
        until = clock.time() - _OLD
        for name in sorted(candidates.keys() - reached):
            if candidates[name].at > until or not self._dead(candidates[name].location, table):
                continue
            failpoint.point("leftover")
            with suppress(OSError):
                table.io.delete(candidates[name].location)
            yield

    def _list(self, table: Table, folder: str, candidates: dict[str, _Candidate]) -> Iterator[None]:
        """Add the possible orphan files of a folder and its subfolders to `found`."""
        first = first_epoch(table, self._sink)
        for info in _entries(table, folder):
            location = f"{folder}/{info.base_name}"
            if info.type == FileType.Directory:
                yield from self._list(table, location, candidates)
            elif info.mtime is not None and self._may_be_orphan(info.base_name, first):
                candidates[info.base_name] = _Candidate(location, info.mtime.timestamp())
        yield

    def _may_be_orphan(self, name: str, first: int | None) -> bool:
        if self._temporary_pattern.fullmatch(name) or (self._sql and _version(name) is not None):
            return True
        match = self._name_pattern.fullmatch(name)
        if match is None or first is None or not first <= int(match[match.lastindex or 1]) <= self._epoch:
            return False
        busy = self._busy()
        return busy is None or busy not in name

    def _dead(self, location: str, table: Table) -> bool:
        """Return whether an unreached file is useless; a metadata file must be an outdated one of this table."""
        version = _version(_base(location))
        if version is None:
            return True
        last = _version(_base(table.metadata_location))
        if table.properties.get("write.metadata.delete-after-commit.enabled") != "true" or version >= (last or 0):
            return False
        # Another table may use this folder, or have used it, under another name.
        try:
            metadata = read_metadata(table.io.new_input(location))
        except Exception:  # damaged: its table is unknown
            return False
        return metadata.table_uuid == table.metadata.table_uuid


def _folders(table: Table) -> tuple[str, ...]:
    provider = table.location_provider()
    return provider.data_path, provider.metadata_path


def _entries(table: Table, folder: str) -> list[FileInfo]:
    io = table.io
    if not isinstance(io, PyArrowFileIO):  # pyiceberg's FsspecFileIO cannot list folders
        return []
    if isinstance(io, AskingFileIO):
        io.renew()
    scheme, netloc, path = io.parse_location(folder, io.properties)
    selector = FileSelector(path, recursive=False, allow_not_found=True)
    entries: list[FileInfo] = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
    return entries


def _reached(table: Table) -> Iterator[set[str]]:
    """Yield the paths that the table reaches, one file's content at a time."""
    yield {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    yield named_offsets(table, table.metadata.snapshots)
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        manifests = manifests_of(table, snapshot)
        yield {snapshot.manifest_list, *(entry.manifest_path for entry in manifests)}
        for manifest in manifests:
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield {entry.data_file.file_path for entry in said_of(table.io, manifest)}


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _version(name: str) -> int | None:
    match = re.fullmatch(r"(\d+)-[0-9a-f-]{36}\.metadata\.json", name)
    return int(match[1]) if match is not None else None
