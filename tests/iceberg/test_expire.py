"""Expired snapshots are deleted with the files that only they reference, and with no other files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from sinkql.connectors.iceberg.commit import maintenance
from support import strangers
from support.lake import NAMESPACE, Lake, Sink, maintain_with
from support.readers import pyiceberg_rows

pytestmark = pytest.mark.long

KEEP_5 = {"retain_snapshots": 5}
_AT_ONCE = 5


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expire snapshots as soon as a few are too many."""
    monkeypatch.setattr(maintenance, "_AT_ONCE", _AT_ONCE)


def reachable(table: Table) -> set[str]:
    """Return all files that the table's snapshots, metadata log and statistics reference."""
    found = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {path.removeprefix("file://") for path in found}


def removed_by_kept(table: Table) -> set[str]:
    """Return the files removed by a retained snapshot; they are deleted when it expires."""
    kept = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    return {
        entry.data_file.file_path.removeprefix("file://")
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id in kept
    }


def on_disk(lake: Lake, name: str) -> set[str]:
    folder = lake.folder / "warehouse" / NAMESPACE / name
    return {str(path) for path in folder.rglob("*") if path.is_file() and path.name != "version-hint.text"}


def run(sink: Sink, batches: range, *, upsert: bool = False) -> None:
    for each in batches:
        sink.put((each % 3 if upsert else each, f"v{each}"))
        sink.writer.maintenance.maintain()


def test_history_is_cut_to_what_is_kept(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name, options=KEEP_5)
    sink.start()
    run(sink, range(14))
    table = any_lake.table(name)
    assert 5 <= len(table.metadata.snapshots) < 5 + _AT_ONCE
    assert any_lake.rows(name) == [(each, f"v{each}") for each in range(14)]
    restarted = Sink(any_lake, name, options=KEEP_5)
    assert restarted.start().end == {"numbers": {"batch": 14}}


def test_nothing_is_due_before_there_is_enough(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options=KEEP_5)
    sink.start()
    run(sink, range(5 + _AT_ONCE - 2))
    summaries = [each.summary for each in lake.table(name).metadata.snapshots if each.summary]
    assert sum(each.operation != Operation.REPLACE for each in summaries) == 5 + _AT_ONCE - 1


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_files_go_with_the_last_snapshot_that_reaches_them(lake: Lake, name: str, *, upsert: bool) -> None:
    sink = Sink(lake, name, upsert=upsert, options=KEEP_5)
    sink.start()
    run(sink, range(8), upsert=upsert)
    strangers.compact(lake.table(name))
    run(sink, range(8, 26), upsert=upsert)
    table = lake.table(name)
    assert reachable(table) <= on_disk(lake, name)
    assert on_disk(lake, name) - reachable(table) == removed_by_kept(table) - reachable(table)
    for snapshot in table.metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_tagged_snapshots_and_branches_stay_readable(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options=KEEP_5)
    sink.start()
    run(sink, range(3))
    tagged = lake.table(name).metadata.current_snapshot_id
    assert tagged is not None
    with lake.table(name).manage_snapshots() as manage:
        manage.create_tag(tagged, "release")
        manage.create_branch(tagged, "audit")
    strangers.compact(lake.table(name))
    run(sink, range(3, 20))
    table = lake.table(name)
    assert {each for each in table.metadata.refs if not each.startswith("sinkql_")} == {"main", "release", "audit"}
    kept = table.scan(snapshot_id=tagged).to_arrow().sort_by("id")["id"].to_pylist()
    assert kept == [0, 1, 2]
    assert [row[0] for row in pyiceberg_rows(table)] == list(range(20))


def test_snapshots_after_a_tag_keep_their_manifests(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tagged snapshot has fewer manifests than the expired snapshots before the first retained one."""
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 1)
    sink = Sink(lake, name, options={"maintenance": False})
    sink.start()
    tagged = lake.table(name).metadata.current_snapshot_id
    assert tagged is not None
    with lake.table(name).manage_snapshots() as manage:
        manage.create_tag(tagged, "release")
    run(sink, range(12))
    strangers.compact(lake.table(name))  # removes the earlier manifests from main
    run(sink, range(12, 16))
    maintain_with(sink, maintenance=True, retain_snapshots=8)
    run(sink, range(16, 17))
    sink.writer.maintenance.maintain()
    table = lake.table(name)
    assert tagged in {each.snapshot_id for each in table.metadata.snapshots}
    assert len(table.metadata.snapshots) <= 10
    for each in table.metadata.snapshots:
        table.scan(snapshot_id=each.snapshot_id).to_arrow()


def test_rows_replaced_since_stay_readable_in_a_tag(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True, options=KEEP_5)
    sink.start()
    run(sink, range(6), upsert=True)
    tagged = lake.table(name).metadata.current_snapshot_id
    assert tagged is not None
    with lake.table(name).manage_snapshots() as manage:
        manage.create_tag(tagged, "release")
    run(sink, range(6, 24), upsert=True)
    table = lake.table(name)
    kept = table.scan(snapshot_id=tagged).to_arrow().sort_by("id")["name"].to_pylist()
    assert kept == ["v3", "v4", "v5"]
    assert [row[1] for row in pyiceberg_rows(table)] == ["v21", "v22", "v23"]


def test_long_offsets_go_with_their_snapshot(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options=KEEP_5)
    sink.start()
    for each in range(14):
        checkpoint, task, results = sink.attempt([(each, "a")])
        end = {"numbers": {"batch": each + 1, "text": "x" * 3000}}
        sink.writer.commit(
            task, results, replace(checkpoint, commit=task.commit, start=checkpoint.end, end=end, plan="p")
        )
        sink.writer.maintenance.maintain()
    files = list((lake.folder / "warehouse" / NAMESPACE / name / "metadata").glob("*-offsets.stats"))
    assert 0 < len(files) <= len(lake.table(name).metadata.snapshots)
    assert Sink(lake, name, options=KEEP_5).start().end["numbers"]["batch"] == 14


@pytest.mark.parametrize(
    ("properties", "options", "expires"),
    [
        ({}, {}, False),
        ({}, KEEP_5, True),
        ({"history.expire.min-snapshots-to-keep": "5"}, {}, True),
        ({"history.expire.min-snapshots-to-keep": "500"}, KEEP_5, False),
        ({"history.expire.max-snapshot-age-ms": "3600000"}, KEEP_5, False),
        ({"history.expire.max-snapshot-age-ms": "5 days"}, KEEP_5, False),
        ({}, {**KEEP_5, "maintenance": False}, False),
    ],
)
def test_the_tables_own_wish_wins(
    lake: Lake, name: str, properties: dict[str, str], options: dict[str, Any], *, expires: bool
) -> None:
    catalog = lake.catalog()
    catalog.create_namespace(NAMESPACE)
    catalog.create_table((NAMESPACE, name), strangers.rows_of([]).schema, properties=properties)
    sink = Sink(lake, name, options=options)
    sink.start()
    run(sink, range(12))
    assert (len(lake.table(name).metadata.snapshots) < 13) is expires


def test_rolled_back_snapshots_take_no_live_file_with_them(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options=KEEP_5)
    sink.start()
    run(sink, range(3))
    before = lake.table(name).metadata.current_snapshot_id
    assert before is not None
    strangers.compact(lake.table(name))
    strangers.set_main(lake.table(name), before)
    for each in range(3, 28):
        sink.put((each, "a"))
    strangers.compact(lake.table(name))
    sink.put((28, "a"))
    sink.writer.maintenance.maintain()
    table = lake.table(name)
    counts = [table.scan(snapshot_id=each.snapshot_id).to_arrow().num_rows for each in table.metadata.snapshots]
    assert counts == [26, 27, 28, 28, 29]


def test_runs_that_nothing_reaches_are_swept(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, name, upsert=True, options=KEEP_5)
    sink.start()
    monkeypatch.setattr("sinkql.machine.clock.time", lambda: 4_000_000_000.0)
    run(sink, range(25), upsert=True)
    index = Path(lake.folder / "state" / sink.id / "index")
    assert len(list(index.iterdir())) < 45
    restarted = Sink(lake, name, upsert=True, options=KEEP_5)
    restarted.start()
    restarted.put((0, "last"))
    assert lake.rows(name)[0] == (0, "last")
