"""Batches that continue from the table's checkpoint, on a real table without Spark."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Checkpoint, Committed, StaleFilesError, Writer
from sinkql.connectors.iceberg.key_index.run import open_run
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.batch.events import Event, SinkCommitted, SinkCompacted, SinkRecovering
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.storage import failpoint
from support.eager import compact_eagerly
from support.fault import armed
from support.running import MemoryControl, contexts, counter, csv_files, drain, job, output, rows

GROUPED = physical.Aggregate(
    physical.Map(counter(up_to=100), (output("g", "`counter` % 3"), output("v", "`counter`"))),
    "a1",
    (physical.Column("g", BIGINT),),
    (
        physical.AggregateCall("n", "count", None, False, BIGINT),
        physical.AggregateCall("m", "max", "v", False, BIGINT),
    ),
    "append",
)
EXPECTED_GROUPS = [(0, 33, 99), (1, 34, 100), (2, 33, 98)]


@pytest.fixture(autouse=True)
def _no_passes() -> Iterator[None]:
    failpoint._passes.clear()
    yield
    failpoint._passes.clear()


def open_loop(each: physical.Job, folder: Path, events: list[Event] | None = None) -> BatchLoop:
    registry = discover()
    context = contexts(folder, each)
    readers = {read.source: registry.reader(read, context) for read in each.reads()}
    writer = registry.writer(each.write, context)
    told = events if events is not None else []
    return BatchLoop(each, readers, writer, LocalEngine(), context.folder, MemoryControl(), told.append)


def run_once(each: physical.Job, folder: Path, *, epoch: int = 1) -> int:
    loop = open_loop(each, folder)
    loop.start(epoch=epoch, once=True)
    return drain(loop)


def test_batches_up_to_the_target_are_in_the_table(tmp_path: Path) -> None:
    assert run_once(job(counter(up_to=25), tmp_path, max_rows=10), tmp_path) == 3
    assert [(number,) for number in range(1, 26)] == rows(tmp_path)


def test_a_second_start_continues_where_the_first_stopped(tmp_path: Path) -> None:
    run_once(job(counter(up_to=25), tmp_path), tmp_path)
    longer = job(counter(up_to=40), tmp_path)
    loop = open_loop(longer, tmp_path)
    with pytest.raises(SinkqlError) as refused:
        loop.start(epoch=2, once=True)
    assert refused.value.code == "SQ3410"  # a different UP TO is a different plan
    assert run_once(job(counter(up_to=25), tmp_path), tmp_path, epoch=3) == 0
    assert len(rows(tmp_path)) == 25


def test_a_batch_that_the_table_has_is_finished_and_not_written_again(tmp_path: Path) -> None:
    loop = open_loop(job(counter(up_to=25), tmp_path), tmp_path)
    start = loop.start(epoch=1, once=True).end
    drain(loop)
    assert loop.commit_batch(start, loop.checkpoint.end) is None
    assert len(rows(tmp_path)) == 25


def test_a_batch_that_the_table_does_not_know_is_not_written(tmp_path: Path) -> None:
    loop = open_loop(job(counter(up_to=25), tmp_path), tmp_path)
    begin = loop.start(epoch=1).end["counter"]
    with pytest.raises(OutdatedStartError):
        loop.commit_batch({"counter": {**begin, "count": 7}}, {"counter": {**begin, "count": 9}})
    assert rows(tmp_path) == []


def test_offsets_that_moved_are_committed_without_rows(tmp_path: Path) -> None:
    none = physical.Map(counter(up_to=25), (), output("w", "`counter` < 0", "boolean"))
    events: list[Event] = []
    loop = open_loop(job(none, tmp_path), tmp_path, events)
    loop.start(epoch=1, once=True)
    drain(loop)
    assert [(event.rows, event.read) for event in events if isinstance(event, SinkCommitted)] == [(0, 25)]
    assert loop.caught_up()
    assert rows(tmp_path) == []


@pytest.mark.parametrize("stops", [False, True])
def test_compactions_are_told_and_a_sink_that_is_to_stop_begins_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stops: bool
) -> None:
    compact_eagerly(monkeypatch)
    events: list[Event] = []
    loop = open_loop(job(counter(up_to=25), tmp_path, max_rows=5), tmp_path, events)
    loop.maintenance.budget.stops = lambda: stops
    loop.start(epoch=1, once=True)
    drain(loop)
    told = [event.compacted for event in events if isinstance(event, SinkCompacted)]
    assert bool(told) is not stops
    assert all(each.problem is None and each.files_after < each.files_before for each in told)
    assert [(number,) for number in range(1, 26)] == rows(tmp_path)


def test_compaction_that_fails_is_told_and_the_sink_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)
    for name, value in armed("compaction-read=fail").items():
        monkeypatch.setenv(name, value)
    events: list[Event] = []
    loop = open_loop(job(counter(up_to=25), tmp_path, max_rows=5), tmp_path, events)
    loop.start(epoch=1, once=True)
    drain(loop)
    told = [event.compacted.problem for event in events if isinstance(event, SinkCompacted)]
    assert told[0] == "fault at compaction-read"
    assert [(number,) for number in range(1, 26)] == rows(tmp_path)


@pytest.mark.parametrize("how", ["torn", "gone"])
def test_an_index_that_is_lost_between_batches_is_recreated(tmp_path: Path, how: str) -> None:
    loop = open_loop(job(counter(up_to=20, cardinality=5), tmp_path, key=("counter",), max_rows=10), tmp_path)
    told: list[Event] = []

    def damage(event: Event) -> None:
        told.append(event)
        if len(told) > 1:
            return
        open_run.cache_clear()
        for path in (tmp_path / "state").rglob("*.run"):
            path.unlink()
            if how == "torn":
                path.write_bytes(b"torn")

    loop.report.progress = damage
    loop.start(epoch=1, once=True)
    drain(loop)
    committed, recovering, *others = told
    assert isinstance(committed, SinkCommitted)
    assert isinstance(recovering, SinkRecovering)
    assert recovering.lost.code == "SQ3411"
    assert {type(each) for each in others} == {SinkCommitted}
    assert rows(tmp_path) == [(number,) for number in range(16, 21)]


def test_an_endless_source_is_refused_before_its_table_is_touched(tmp_path: Path) -> None:
    with pytest.raises(SinkqlError) as refused:
        run_once(job(counter(), tmp_path), tmp_path)
    assert refused.value.code == "SQ2405"


@dataclass
class Conflicting:
    """A writer whose first commits conflict."""

    writer: Writer
    left: int

    def commit(self, *arguments: Any, **named: Any) -> Committed:
        self.left -= 1
        if self.left >= 0:
            raise StaleFilesError
        return self.writer.commit(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.writer, name)


@pytest.mark.parametrize(("conflicts", "expected"), [(2, 3), (5, 0)])
def test_a_batch_is_written_again_after_a_conflict_but_not_for_ever(
    tmp_path: Path, conflicts: int, expected: int
) -> None:
    loop = open_loop(job(counter(up_to=3), tmp_path), tmp_path)
    loop.table.writer = Conflicting(loop.writer, conflicts)
    loop.start(epoch=1, once=True)
    if expected:
        drain(loop)
    else:
        with pytest.raises(SinkqlError) as stalled:
            drain(loop)
        assert stalled.value.code == "SQ5206"
    assert len(rows(tmp_path)) == expected


@pytest.mark.parametrize(
    "point",
    ["read-marker", "data-files", "state-manifest", "attached", "committed", "released", "status", "maintained"],
)
@pytest.mark.parametrize("body", [counter(up_to=100), GROUPED], ids=["append", "grouped"])
def test_a_batch_that_failed_anywhere_is_neither_lost_nor_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, body: physical.Operator
) -> None:
    each = job(body, tmp_path, key=("g",) if isinstance(body, physical.Aggregate) else (), max_rows=30)
    for name, value in armed(f"{point}#2=fail").items():
        monkeypatch.setenv(name, value)
    for epoch in range(1, 4):
        try:
            run_once(each, tmp_path, epoch=epoch)
        except failpoint.FaultError:
            continue
        break
    expected = EXPECTED_GROUPS if each.write.key else [(number,) for number in range(1, 101)]
    assert expected == rows(tmp_path)


def test_what_a_source_keeps_is_restored_from_the_table_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n2\n")
    each = job(csv_files(tmp_path), tmp_path)
    assert run_once(each, tmp_path) == 1
    shutil.rmtree(contexts(tmp_path, each).folder)
    (tmp_path / "in" / "b.csv").write_text("id\n3\n")
    assert run_once(each, tmp_path, epoch=2) == 1
    assert rows(tmp_path) == [(1,), (2,), (3,)]


def test_what_a_source_keeps_and_lost_twice_stalls_the_sink(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n2\n")
    each = job(csv_files(tmp_path), tmp_path)
    run_once(each, tmp_path)
    shutil.rmtree(contexts(tmp_path, each).folder)
    for kept in (tmp_path / "lake").rglob("*-files-*.json*"):
        kept.unlink()
    with pytest.raises(SinkqlError) as stalled:
        run_once(each, tmp_path, epoch=2)
    assert stalled.value.code == "SQ3412"


@pytest.mark.parametrize("upsert", [False, True])
def test_a_sink_that_idles_writes_again_what_cleaners_take_for_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, upsert: bool
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.checkpoint._INLINE_LIMIT", 10)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id\n1\n")
    loop = open_loop(job(csv_files(tmp_path), tmp_path, key=("id",) if upsert else ()), tmp_path)
    loop.start(epoch=1, once=True)
    drain(loop)
    folder = tmp_path / "lake" / "n" / "t" / "metadata"
    own = [
        path for path in folder.glob("_sinkql-*") if "-offsets" not in path.name or loop.checkpoint.commit in path.name
    ]
    newest = {path: path.read_bytes() for path in own}
    assert len(newest) == 2
    old = time.time() - 2 * 86400
    for gone in (False, True):
        for path in newest:
            os.utime(path, (old, old))
            if gone:
                path.unlink()
        loop.maintenance.refresh_files()
        assert not gone or not any(path.exists() for path in newest)  # a few hours later
        monkeypatch.setattr(loop.maintenance, "_refresh_at", 0.0)
        loop.maintenance.refresh_files()
        assert {path: path.read_bytes() for path in newest} == newest
        assert all(path.stat().st_mtime > old for path in newest)
    loop.writer.refresh()


def _full() -> Checkpoint:
    raise OSError(ENOSPC, "No space left on device")


@pytest.mark.parametrize("trouble", ["file", "damage", "disk", "table"])
def test_a_sink_whose_files_cannot_be_written_again_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.checkpoint._INLINE_LIMIT", 10)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id\n1\n")
    loop = open_loop(job(csv_files(tmp_path), tmp_path), tmp_path)
    loop.start(epoch=1, once=True)
    drain(loop)
    folder = tmp_path / "lake" / "n" / "t" / "metadata"
    (source,) = loop.checkpoint.end
    reader = loop.readers[source].files
    assert reader is not None
    (kept,) = reader.required_files(loop.checkpoint.end[source])
    (offsets,) = folder.glob(f"_sinkql-*{loop.checkpoint.commit}-offsets*")
    (copy,) = folder.glob(f"_sinkql-*{Path(kept).name}*")
    whole = copy.read_bytes()
    os.utime(copy, (1, 1))
    offsets.unlink()
    if trouble == "file":
        (loop.folder / kept).unlink()
    elif trouble == "damage":
        (loop.folder / kept).write_bytes(b"[")
    elif trouble == "disk":
        monkeypatch.setattr(loop.writer, "refresh", _full)
    else:
        load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/lake.db").drop_table("n.t")
    monkeypatch.setattr(loop.maintenance, "_refresh_at", 0.0)
    loop.maintenance.refresh_files()
    assert offsets.exists() == (trouble != "table")
    assert copy.read_bytes() == whole
