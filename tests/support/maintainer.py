"""Maintain a sink's table while the sink writes to it, like Spark's procedures and PyIceberg.

A rewrite reads the table first and commits later. It is abandoned if rows of its files have been deleted in between;
Spark checks the same.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from sinkql.connectors.iceberg.commit import snapshot as snapshots
from sinkql.connectors.iceberg.commit.checkpoint import ancestry
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.file.data_file import FileEntry, for_tasks, write_data_file
from sinkql.connectors.iceberg.file.deletes import (
    LiveFiles,
    Positions,
    live_files,
    read_dead,
    read_position_deletes,
    write_position_deletes,
)
from sinkql.connectors.iceberg.file.manifest import entries_of, manifests_of, name_of, vector_of
from sinkql.connectors.iceberg.file.partition import Partitions, PartitionValue
from sinkql.storage import failpoint
from support.strangers import REWRITTEN

_COMMITS = 20


class MaintenanceError(Exception):
    """Maintenance was abandoned: the sink has changed the table since it was read."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files that replace others of the snapshot `start`; `data` is whether they are data files."""

    start: int
    added: tuple[FileEntry, ...]
    removed: frozenset[str]
    data: bool


@dataclass
class Maintainer:
    """Maintains the table that `load` opens, in random steps; `done` counts the steps of each kind."""

    load: Callable[[], Table]
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    _next: list[Callable[[], None]] = field(default_factory=list)
    _begun: Rewritten | None = None
    _files: int = 0
    _at_work: bool = False

    def step(self) -> None:
        """Run a random step, unless one is running."""
        if self._at_work:
            return
        self._at_work = True
        try:
            if not self._next:
                self._next = [self.rewrite_data, self.rewrite_data, self.rewrite_deletes, self.rewrite_manifests,
                              self.expire]  # fmt: skip
                self.chance.shuffle(self._next)
            deed = self._next.pop()
            deed()
        except MaintenanceError:
            self.done["given up"] += 1
        finally:
            self._at_work = False

    def between(self, patch: pytest.MonkeyPatch, *, often: float) -> None:
        """Run some steps, at random, at the failpoints of the sink."""

        def point(name: str) -> None:
            if not self._at_work and self.chance.random() < often:
                for _ in range(self.chance.choice([1, 1, 3])):
                    self.step()

        patch.setattr(failpoint, "point", point)

    def rewrite_data(self) -> None:
        """Rewrite data files of one partition, or commit the pending rewrite."""
        if not self._commit_begun():
            self._begin_data()

    def rewrite_deletes(self) -> None:
        """Rewrite the delete files of one partition, or commit the pending rewrite."""
        if not self._commit_begun():
            self._begin_deletes()

    def rewrite_manifests(self) -> None:
        """Merge the manifests of each kind and partition spec."""

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                snapshots, "_manifests_to_merge", lambda manifests: {each.manifest_path for each in manifests}
            )
            self._commit(lambda table: FileChange(operation=Operation.REPLACE), REWRITTEN)
        self.done["rewrite manifests"] += 1

    def expire(self, *, keep: int | None = None) -> None:
        """Expire all snapshots but main's newest few, and delete the files that only they reach."""
        table = self.load()
        count = keep or self.chance.randrange(1, 4)
        kept = {each.snapshot_id for each in islice(ancestry(table), count)}
        kept |= {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in kept]
        if not gone:
            return
        before = set(reached(table))
        try:
            table.maintenance.expire_snapshots().by_ids(gone).commit()
        except CommitFailedException as error:
            raise MaintenanceError from error
        after = set(reached(self.load()))
        for path in before - after:
            Path(path.removeprefix("file://")).unlink(missing_ok=True)
        self.done["expire"] += 1

    def remove_orphans(self) -> None:
        """Delete orphan files of the table, except hidden ones, as all tools do; no write may be in progress."""
        self._begun = None
        table = self.load()
        known = set(reached(table)) | {each.metadata_file for each in table.metadata.metadata_log}
        known |= {table.metadata_location, f"{table.location()}/metadata/version-hint.text"}
        for path in Path(table.location().removeprefix("file://")).rglob("*"):
            if path.is_file() and not path.name.startswith((".", "_")) and f"file://{path}" not in known:
                path.unlink()
                self.done["remove orphans"] += 1

    def _begin_data(self) -> None:
        table = self.load()
        groups: dict[PartitionValue, list[DataFile]] = defaultdict(list)
        with _unstable():
            live = live_files(table)
            for file in live.data.values():
                groups[Partitions(table.metadata).place_of(file)].append(file)
            if not groups:
                return
            place = self.chance.choice(list(groups))
            files = self.chance.sample(groups[place], self.chance.randrange(1, len(groups[place]) + 1))
            dead, vectors = _dead(table, live)
            rows = pa.concat_tables([_alive(file, dead, table) for file in files])
        order = self.chance.sample(range(rows.num_rows), rows.num_rows)
        name = self._name("data")
        added = (write_data_file(for_tasks(table), name, rows.take(pa.array(order, pa.int64())), place),)
        paths = frozenset(file.file_path for file in files)
        # a deletion vector is removed with its data file
        removed = paths | {vectors[path] for path in paths & vectors.keys()}
        self._begin(table, added if order else (), removed, data=True)

    def _begin_deletes(self) -> None:
        table = self.load()
        with _unstable():
            live = live_files(table)
            groups: dict[PartitionValue, list[str]] = defaultdict(list)
            for path, file in live.deletes.items() if table.metadata.format_version < 3 else ():
                groups[Partitions(table.metadata).place_of(file)].append(path)
            if not groups:
                return
            place = self.chance.choice(list(groups))
            dead = read_position_deletes(table.io, groups[place])
        left = {path: positions for path, positions in dead.items() if path in live.data}
        # one delete file for each data file, as Spark writes them, or one for all
        parts = [{path: each} for path, each in left.items()] if self.chance.random() < 0.5 else [left] if left else []
        tasks = for_tasks(table)
        added = tuple(write_position_deletes(tasks, self._name("deletes"), part, place) for part in parts)
        self._begin(table, added, frozenset(groups[place]), data=False)

    def _begin(self, table: Table, added: tuple[FileEntry, ...], removed: frozenset[str], *, data: bool) -> None:
        start = table.metadata.current_snapshot_id
        assert start is not None
        self._begun = Rewritten(start, added, removed, data)
        if self.chance.random() < 0.5:
            self._commit_begun()

    def _commit_begun(self) -> bool:
        """Commit the pending rewrite; return whether there was one."""
        begun, self._begun = self._begun, None
        if begun is None:
            return False

        def change(table: Table) -> FileChange:
            with _unstable():
                _check(table, begun)
            return FileChange(begun.added, begun.removed, Operation.REPLACE)

        self._commit(change)
        self.done["rewrite data" if begun.data else "rewrite deletes"] += 1
        return True

    def _commit(self, change: Callable[[Table], FileChange], said: Mapping[str, str] = MappingProxyType({})) -> None:
        for _ in range(_COMMITS):
            table = self.load()
            files = change(table)
            with _unstable():
                prepared = prepare(table, files, lambda snapshot, sequence: Notes(said, {}))
            with suppress(CommitFailedException):
                table.catalog.commit_table(table, prepared.requirements, prepared.updates)
                return
        raise MaintenanceError

    def _name(self, kind: str) -> str:
        self._files += 1
        return f"theirs-{kind}-{id(self)}-{self._files}.parquet"


def reached(table: Table) -> Iterator[str]:
    """Yield the paths of all files that the snapshots of a table reach."""
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in manifests_of(table, snapshot):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                yield from (entry.data_file.file_path for entry in entries_of(table.io, manifest))


def _check(table: Table, begun: Rewritten) -> None:
    """Raise MaintenanceError if files are gone, or rows of data files were deleted, as Spark does."""
    live = live_files(table)
    if not begun.removed <= live.data.keys() | live.deletes.keys():
        raise MaintenanceError("files that were rewritten are gone")
    since: list[int] = []
    for snapshot in ancestry(table):
        if snapshot.snapshot_id == begun.start:
            break
        if snapshot.summary is not None and snapshot.summary.operation in (Operation.OVERWRITE, Operation.DELETE):
            since.append(snapshot.snapshot_id)
    else:
        raise MaintenanceError("the snapshot that was read has expired")
    if begun.data and not begun.removed.isdisjoint(_killed(table, since)):
        raise MaintenanceError("rows have died since")


def _killed(table: Table, since: Iterable[int]) -> set[str]:
    """Return the data files named by new delete files and deletion vectors of these snapshots."""
    found: set[str] = set()
    known = {each.snapshot_id: each for each in table.metadata.snapshots}
    for snapshot in (known[each] for each in since):
        for manifest in manifests_of(table, snapshot):
            if manifest.content == ManifestContent.DELETES and manifest.added_snapshot_id == snapshot.snapshot_id:
                for entry in entries_of(table.io, manifest):
                    if entry.status == ManifestEntryStatus.ADDED:
                        found |= read_dead(table.io, name_of(entry.data_file), entry.data_file).keys()
    return found


def _dead(table: Table, live: LiveFiles) -> tuple[dict[str, Positions], dict[str, str]]:
    """Return the dead rows of each data file, and the names of the deletion vectors by data file."""
    dead: dict[str, Positions] = {}
    vectors = {}
    for name, file in live.deletes.items():
        for path, positions in read_dead(table.io, name, file).items():
            dead[path] = np.union1d(dead[path], positions) if path in dead else positions
        vector = vector_of(file)
        if vector is not None:
            vectors[vector.file] = name
    return dead, vectors


def _alive(file: DataFile, dead: Mapping[str, Positions], table: Table) -> pa.Table:
    columns = [field.name for field in table.schema().fields]
    rows = pq.read_table(file.file_path.removeprefix("file://"), columns=columns, partitioning=None)
    alive = np.ones(rows.num_rows, np.bool_)
    alive[dead.get(file.file_path, np.zeros(0, np.int64))] = False
    return rows.filter(pa.array(alive))


@contextmanager
def _unstable() -> Iterator[None]:
    """Abandon the step if the sink deletes a file during the block."""
    try:
        yield
    except FileNotFoundError as error:
        raise MaintenanceError("a file is gone") from error
