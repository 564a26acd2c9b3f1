"""Old snapshots of a sink's table → expired, with the files that only they reach. Nobody else deletes those.

A table's folder → without the files that killed and failed attempts of the sink left there, a little at a time.

What is deleted has a name that only this sink gives, with an epoch not above its own and not below its first one in
this table, is older than three days, and is reached by no snapshot of a table that was loaded after the file had been
seen. The table is the sink's, so nothing of an earlier epoch can be committed any more; its own epoch's files are
looked for between two batches. Epochs before the first one are those of another table that had this folder: it may be
in the catalog under another name, or be registered again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyarrow.fs import FileInfo, FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
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

from sinkql.connectors.iceberg.commit.checkpoint import ancestry, first_epoch, offsets_file
from sinkql.connectors.iceberg.commit.snapshot import MAIN
from sinkql.connectors.iceberg.file.manifest import VECTORS, all_said_of, manifests_of, said_of
from sinkql.connectors.iceberg.storage import AskingFileIO
from sinkql.connectors.iceberg.table.format_v3 import read_metadata
from sinkql.connectors.iceberg.table.metadata_file import PREFIX, SUFFIX, metadata_path
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


_OLD = 3 * 86400.0
"""Seconds, as long as Iceberg's own removal of such files waits."""
_EVERY = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class _Found:
    """A file with a name that tells what it is."""

    location: str
    at: float


class OrphanFiles:
    """What attempts of one claim of a table, and of earlier ones, left: looked for at first, and every few hours.

    `load` gives the table as it is now, `busy` the id of an attempt that is being made between batches. `sql` tells
    that the sink's own commits write the metadata files, whose names do not say whose they are.
    """

    def __init__(
        self, load: Callable[[], Table], busy: Callable[[], str | None], *, sink: str, epoch: int, sql: bool
    ) -> None:
        self._load, self._busy = load, busy
        self._sink, self._epoch, self._sql = sink, epoch, sql
        id_ = re.escape(sink)
        self._own = re.compile(
            rf"[bcf]\d+-{id_}-(\d+)-.+\.(?:parquet|stats)"
            rf"|(?:snap-\d+-0-)?sinkql-{id_}-(\d+)-[0-9a-f-]{{36}}(?:-m\d+)?\.avro"
            rf"|{PREFIX}{id_}-(\d+)-[0-9a-f]{{32}}-(?:offsets|replayed)\.stats"
        )
        self._draft = re.compile(rf"\.(?:version-hint\.text|{PREFIX}{id_}-.+)\.[0-9a-f]{{16}}")
        self._steps: Iterator[None] | None = None
        self._asked = False
        self._due_at = 0.0

    @property
    def asked(self) -> bool:
        """Tell whether a look that somebody asked for is not done yet."""
        return self._asked

    def run(self, go_on: Callable[[], bool], *, now: bool = False) -> None:
        """Look and delete while there is time; the next call goes on. `now` begins where nothing is due.

        What fails is tried again hours later: no sink stops for it.
        """
        if self._steps is None and not now and time.monotonic() < self._due_at:
            return
        if self._steps is None or (now and not self._asked):
            self._steps, self._asked = self._look(), now
        try:
            while go_on():
                next(self._steps)
        except Exception:  # also the end of the steps
            self._steps, self._asked = None, False

    def _look(self) -> Iterator[None]:
        self._due_at = time.monotonic() + _EVERY
        table = self._load()
        if not may_delete(table):
            return
        found: dict[str, _Found] = {}
        for folder in _folders(table):
            yield from self._list(table, folder, found)
        table = self._load()
        reached: set[str] = set()
        for paths in _reached(table):
            reached.update(_base(path) for path in paths)
            yield
        until = time.time() - _OLD
        for name in sorted(found.keys() - reached):
            if found[name].at > until or not self._dead(found[name].location, table):
                continue
            failpoint.point("leftover")
            with suppress(OSError):
                table.io.delete(found[name].location)
            yield

    def _list(self, table: Table, folder: str, found: dict[str, _Found]) -> Iterator[None]:
        """Note the files of a folder, and of those in it, that may be left over."""
        first = first_epoch(table, self._sink)
        for info in _entries(table, folder):
            location = f"{folder}/{info.base_name}"
            if info.type == FileType.Directory:
                yield from self._list(table, location, found)
            elif info.mtime is not None and self._nameable(info.base_name, first):
                found[info.base_name] = _Found(location, info.mtime.timestamp())
        yield

    def _nameable(self, name: str, first: int | None) -> bool:
        if self._draft.fullmatch(name) or (self._sql and _version(name) is not None):
            return True
        own = self._own.fullmatch(name)
        if own is None or first is None or not first <= int(own[own.lastindex or 1]) <= self._epoch:
            return False
        busy = self._busy()
        return busy is None or busy not in name

    def _dead(self, location: str, table: Table) -> bool:
        """Tell whether a file that nothing reaches is of no use: of metadata files the table's that a commit passed."""
        version = _version(_base(location))
        if version is None:
            return True
        last = _version(_base(table.metadata_location))
        if table.properties.get("write.metadata.delete-after-commit.enabled") != "true" or version >= (last or 0):
            return False
        # Another table may have been in this folder, or still be, under another name.
        try:
            told = read_metadata(table.io.new_input(location))
        except Exception:  # torn: nobody can tell whose it is
            return False
        return told.table_uuid == table.metadata.table_uuid


def _folders(table: Table) -> tuple[str, ...]:
    provider = table.location_provider()
    return provider.data_path, provider.metadata_path


def _entries(table: Table, folder: str) -> list[FileInfo]:
    io = table.io
    if not isinstance(io, PyArrowFileIO):  # pyiceberg's other one lists no folders
        return []
    if isinstance(io, AskingFileIO):
        io.renew()
    scheme, netloc, path = io.parse_location(folder, io.properties)
    selector = FileSelector(path, recursive=False, allow_not_found=True)
    found: list[FileInfo] = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
    return found


def _reached(table: Table) -> Iterator[set[str]]:
    """Yield what the table reaches, a file's worth at a time."""
    yield {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    yield named_offsets(table, table.metadata.snapshots)
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        manifests = manifests_of(table, snapshot)
        yield {snapshot.manifest_list, *(each.manifest_path for each in manifests)}
        for manifest in manifests:
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield {entry.data_file.file_path for entry in said_of(table.io, manifest)}


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _version(name: str) -> int | None:
    found = re.fullmatch(r"(\d+)-[0-9a-f-]{36}\.metadata\.json", name)
    return int(found[1]) if found is not None else None
