"""The record of what a snapshot removed gives an expiry the same files as the manifests, and spares reading them."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table import Table

from iceberg.test_expire import on_disk, reachable, removed_by_kept
from iceberg.test_flat import counted
from sinkql.connectors.iceberg.commit import maintenance, manifest_cache, removal, snapshot
from sinkql.connectors.iceberg.commit.proposal import publish
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.file import manifest
from sinkql.connectors.iceberg.file.data_file import for_tasks, write_data_file
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.table import sql_catalog
from sinkql.connectors.iceberg.table.target import TargetTable
from sinkql.storage import failpoint
from support import strangers
from support.eager import compact_eagerly, expire_hastily
from support.fault import armed
from support.lake import Lake, Sink

pytestmark = pytest.mark.long

KEPT = 3
Dead = maintenance._DeadFiles


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Dead]:
    """Compare what each expiry deletes by records and by manifests; return a list that gets the deleted files."""
    by_records, deleted = maintenance._dead, []

    def both(table: Table, snapshots: Any) -> Dead:
        dead = by_records(table, snapshots)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(maintenance, "removal_of", removal.read_removal)
            assert by_records(table, snapshots) == dead
        deleted.append(dead)
        return dead

    monkeypatch.setattr(maintenance, "_dead", both)
    return deleted


class History:
    """Random events in the life of an upsert sink's table; `names` are the events that may occur."""

    def __init__(self, lake: Lake, name: str, rng: random.Random, *, version: int, branch: str | None) -> None:
        self.lake, self.name, self.rng, self.version = lake, name, rng, version
        self.options = {"retain_snapshots": KEPT, "format_version": version, "branch": branch}
        self.epoch = 0
        self.seen: Counter[str] = Counter()
        self.ever: set[str] = set()
        self.restart()

    @property
    def table(self) -> Table:
        """Return the table as other programs see it."""
        target = self.sink.writer.table.target
        return target.catalog.load_table(target.identifier)

    def run(self, names: list[str]) -> None:
        """Cause an event, then write and maintain; check that no file is missing."""
        event = self.rng.choice(names)
        self.seen[event] += 1
        getattr(self, event)()
        self.put()
        self.sink.writer.maintenance.maintain()
        self.check()

    def check(self) -> None:
        """Check that every file that a snapshot reaches exists."""
        reached = reachable(self.table)
        self.ever |= reached
        assert reached - on_disk(self.lake, self.name) == set()

    def put(self) -> None:
        """Write some of a few keys."""
        self.sink.put(*((key, f"{self.rng.random()}") for key in self.rng.sample(range(12), self.rng.randrange(1, 5))))

    def restart(self) -> None:
        """Start the sink as a new process."""
        manifest_cache._contents.cache_clear()
        self.epoch += 1
        self.sink = Sink(self.lake, self.name, upsert=True, options=self.options)
        self.sink.start(epoch=self.epoch)

    def older(self) -> None:
        """Write as a version without records."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "encode", lambda removal: {})
            self.put()

    def append(self) -> None:
        """Append rows by another program."""
        self._append(self.sink.writer.table.target)

    def rewrite(self) -> None:
        """Rewrite files or manifests by another program."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "encode", lambda removal: {})
            self.rng.choice([strangers.compact, strangers.rewrite_manifests])(self.table)

    def tag(self) -> None:
        """Tag a snapshot of any line, or remove a tag."""
        table = self.table
        tags = [name for name in table.metadata.refs if name.startswith("tag")]
        if tags and self.rng.random() < 0.4:
            table.manage_snapshots().remove_tag(self.rng.choice(tags)).commit()
        else:
            chosen = self.rng.choice(table.metadata.snapshots).snapshot_id
            table.manage_snapshots().create_tag(chosen, f"tag{chosen}").commit()

    def fork(self) -> None:
        """Create a branch at any snapshot, with a commit on it, or drop a branch."""
        table = self.table
        branches = [name for name in table.metadata.refs if name.startswith("fork")]
        if branches and self.rng.random() < 0.5:
            table.manage_snapshots().remove_branch(self.rng.choice(branches)).commit()
            return
        name = f"fork{self.seen['fork']}"
        table.manage_snapshots().create_branch(self.rng.choice(table.metadata.snapshots).snapshot_id, name).commit()
        self._append(replace(self.sink.writer.table.target, branch=name), replaces=self.rng.random() < 0.5)

    def _append(self, target: TargetTable, *, replaces: bool = False) -> None:
        table = target.load()
        self.seen["row"] += 1
        row = 1000 + self.seen["row"], "theirs"
        entry = write_data_file(for_tasks(table), f"{self.rng.random()}.parquet", strangers.rows_of([row]))
        live = live_files(table)
        change = FileChange((entry,), frozenset({*live.data, *live.deletes} if replaces else ()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "encode", lambda removal: {})
            prepared = prepare(table, change, lambda snapshot, sequence: Notes({}, {}))
        target.post(table, prepared.requirements, prepared.updates)

    def set_back(self) -> None:
        """Set main back to before a commit of another program."""
        before = self.table.metadata.current_snapshot_id
        assert before is not None
        self.rng.choice([self.append, self.rewrite])()
        if self.rng.random() < 0.3:
            self.tag()
        strangers.set_main(self.table, before)

    def publish(self) -> None:
        """Move main to the sink's branch."""
        publish(self.sink.planned, self.sink.context)

    def crash(self) -> None:
        """End an expiry between two of its steps, then start again."""
        self.put()
        point = self.rng.choice(["expire", "expired", "expired-file", "expired-file#4"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoint, "_passes", Counter())
            for variable, value in armed(f"{point}=fail").items():
                patch.setenv(variable, value)
            with suppress(failpoint.FaultError):
                self.sink.writer.maintenance.tidy(whole=True)
        self.check()
        self.restart()


WITHOUT_REFS = ["put", "restart", "older", "append", "rewrite"]
WITH_REFS = [*WITHOUT_REFS, "tag", "fork", "set_back", "crash"]
ON_A_BRANCH = ["put", "restart", "older", "append", "tag", "crash", "publish"]


@pytest.mark.parametrize("runs", [18, pytest.param(30, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("events", [WITHOUT_REFS, WITH_REFS, ON_A_BRANCH], ids=["plain", "refs", "branch"])
@pytest.mark.share(20)
def test_records_and_manifests_say_the_same(
    lake: Lake,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    compared: list[Dead],
    events: list[str],
    *,
    version: int,
    seed: int,
    runs: int,
) -> None:
    compact_eagerly(monkeypatch)
    expire_hastily(monkeypatch)
    monkeypatch.setattr(maintenance, "_OLD", 86400.0)  # no search for orphan files hides what an expiry leaves
    monkeypatch.setattr(sql_catalog, "_ADDING", ())  # refs to any snapshot
    rng = random.Random(f"{events} {version} {seed}")
    history = History(lake, name, rng, version=version, branch="audit" if events is ON_A_BRANCH else None)
    for _ in range(runs):
        history.run(events)
    assert sum(len(dead.files) for dead in compared) > runs // 2
    assert sum(len(dead.manifests) for dead in compared) > runs // 2
    table = lake.table(name)
    if events is WITHOUT_REFS:
        left = {path for path in on_disk(lake, name) & history.ever if not path.endswith(".metadata.json")}
        assert left - reachable(table) == removed_by_kept(table) - reachable(table)
    lake.rows(name)


def test_expiry_reads_no_manifest_of_the_sink(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)
    sink = Sink(lake, name, upsert=True, options={"retain_snapshots": KEPT})
    sink.start()
    for number in range(30):
        sink.put((number % 3, "a"), (number, "b"))
    reads = counted(monkeypatch, manifest, "all_said_of")
    lists = counted(monkeypatch, removal, "manifests_of")
    before = on_disk(lake, name)
    sink.writer.maintenance.tidy(whole=True)
    assert (reads(), lists()) == (0, 0)
    assert len(lake.table(name).metadata.snapshots) == KEPT
    gone = [path.rpartition("/")[2] for path in before - on_disk(lake, name)]
    assert {path.rpartition(".")[2] for path in gone} == {"avro", "parquet", "json"}


def test_record_of_another_parent_does_not_count(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    for number in range(4):
        sink.put((number, "a"))
    table = lake.table(name)
    head = table.current_snapshot()
    assert head is not None
    assert removal._recorded(table, head) is not None
    assert removal._recorded(table, head.model_copy(update={"parent_snapshot_id": None})) is None
    assert removal._recorded(table, head.model_copy(update={"snapshot_id": 1})) is None
