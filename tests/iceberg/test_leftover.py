"""A sink deletes the orphan files of its failed attempts, and no other files, from its table's folder."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from sinkql.connector_api.stream import StaleFilesError
from sinkql.connectors.iceberg.commit import maintenance
from sinkql.machine import clock
from sinkql.storage import failpoint
from support import strangers
from support.eager import compact_eagerly
from support.fault import armed
from support.lake import NAMESPACE, Lake, Sink, maintain_with


def on_disk(lake: Lake, name: str) -> set[str]:
    return {str(path) for path in (lake.folder / "warehouse" / NAMESPACE / name).rglob("*") if path.is_file()}


def older(paths: set[str]) -> None:
    for path in paths:
        os.utime(path, (time.time() - maintenance._OLD - 60,) * 2)


def fails(sink: Sink, point: str, patch: pytest.MonkeyPatch) -> None:
    """Run a batch that fails at a failpoint."""
    with patch.context() as here:
        here.setattr(failpoint, "_passes", Counter())
        for variable, value in armed(f"{point}=fail").items():
            here.setenv(variable, value)
        with pytest.raises(failpoint.FaultError):
            sink.put((100, "lost"), (101, "lost"))


def cleaned(sink: Sink) -> None:
    sink.writer.maintenance.maintain()


def optimized(sink: Sink) -> None:
    sink.writer.maintenance.optimize()


@pytest.mark.share(2)
@pytest.mark.parametrize("clean", [cleaned, optimized])
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_what_killed_attempts_left_goes(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, clean: Callable[[Sink], None], *, upsert: bool
) -> None:
    first = Sink(lake, name, upsert=upsert)
    first.start()
    first.put((1, "a"), (2, "b"))
    before = on_disk(lake, name)
    first.attempt([(3, "never")])
    fails(first, "commit-request", monkeypatch)
    metadata = lake.folder / "warehouse" / NAMESPACE / name / "metadata"
    location = Path(lake.table(name).metadata_location.removeprefix("file://"))
    (metadata / f"00001-{uuid4()}.metadata.json").write_bytes(location.read_bytes().rstrip())
    (metadata / f".version-hint.text.{uuid4().hex[:16]}").write_text("torn")
    left = on_disk(lake, name) - before
    older(on_disk(lake, name))
    second = Sink(lake, name, upsert=upsert)
    second.start()
    second.put((1, "c"), (4, "d"))
    clean(second)
    assert len(left) >= 6
    assert on_disk(lake, name) & left == set()
    assert before - on_disk(lake, name) == set()
    assert lake.rows(name) == ([(1, "c")] if upsert else [(1, "a"), (1, "c")]) + [(2, "b"), (4, "d")]


def test_what_others_may_need_stays(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    sink.put((1, "a"))
    metadata = lake.folder / "warehouse" / NAMESPACE / name / "metadata"
    data = metadata.parent / "data"
    version = int(Path(lake.table(name).metadata_location).name.partition("-")[0])
    strange = [
        data / f"b0-{sink.id}-99-{uuid4().hex}-a0.parquet",
        data / f"b0-5f6e1c1e-0002-1-{uuid4().hex}-a0.parquet",
        data / "00000-0-somebody.parquet",
        metadata / f"sinkql-{sink.id}-99-{uuid4()}-m0.avro",
        metadata / f"{uuid4()}-m0.avro",
        metadata / f"snap-1-0-{uuid4()}.avro",
        metadata / f"_sinkql-{sink.id}-files-x-1.stats",
        metadata / f"{version + 9:05}-{uuid4()}.metadata.json",
    ]
    for path in strange:
        path.write_text("strange")
    before = on_disk(lake, name)
    older(before)
    sink.put((2, "b"))
    young = data / f"b0-{sink.id}-1-{uuid4().hex}-a0.parquet"
    young.write_text("young")
    sink.writer.maintenance.maintain()
    assert (before | {str(young)}) - on_disk(lake, name) == set()


def test_tagged_rows_stay(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True, options={"retain_snapshots": 1})
    sink.start()
    sink.put((1, "a"), (2, "a"))
    tagged = lake.table(name).metadata.current_snapshot_id
    assert tagged is not None
    with lake.table(name).manage_snapshots() as manage:
        manage.create_tag(tagged, "release")
    sink.put((1, "b"), (2, "b"))
    older(on_disk(lake, name))
    for number in range(3):
        sink.put((3, f"{number}"))
        sink.writer.maintenance.optimize()
    assert lake.table(name).scan(snapshot_id=tagged).to_arrow()["name"].to_pylist() == ["a", "a"]


def test_young_file_goes_once_it_is_old(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, name)
    sink.start()
    before = on_disk(lake, name)
    sink.attempt([(3, "never")])
    left = on_disk(lake, name) - before
    sink.put((1, "a"))
    sink.writer.maintenance.maintain()
    assert left <= on_disk(lake, name)
    older(left)
    due = time.monotonic() + maintenance._EVERY
    for later, gone in ((-60, False), (60, True)):
        monkeypatch.setattr(clock, "monotonic", lambda now=due + later: now)
        sink.put((2, "a"))
        sink.writer.maintenance.maintain()
        assert (left & on_disk(lake, name) == set()) is gone


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_files_of_a_compaction_that_is_not_done_stay(
    any_lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, upsert: bool
) -> None:
    compact_eagerly(monkeypatch)
    monkeypatch.setattr("sinkql.connectors.iceberg.file.data_file.ROW_GROUP_ROWS", 1)
    sink = Sink(any_lake, name, upsert=upsert, options={"maintenance": False})
    sink.start()
    for number in range(4):
        sink.put((2 * number, f"{number}"))
    sink.attempt([(3, "never")])
    sink.put((8, "8"))
    maintenance = sink.writer.maintenance
    maintain_with(sink, maintenance=True)
    steps = iter([True, True, False])
    maintenance.compact(lambda begun: next(steps))
    assert maintenance.schedule.running_id() is not None
    maintenance.orphans.run(lambda: True, now=True)
    sink.put((10, "10"))
    sink.writer.maintenance.maintain()
    assert maintenance.schedule.running_id() is None
    assert any_lake.rows(name) == [(2 * number, f"{number}") for number in range(4)] + [(8, "8"), (10, "10")]


def test_batch_that_is_to_be_redone_leaves_no_files(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"))
    strangers.append(lake.table(name), (5, "b"))
    sink.writer.refresh()
    before = on_disk(lake, name)
    attempt = sink.attempt([(2, "c")])
    written = on_disk(lake, name) - before
    strangers.append(lake.table(name), (6, "b"))
    with pytest.raises(StaleFilesError):
        sink.finish(attempt)
    assert written
    assert written & on_disk(lake, name) == set()


def test_table_of_before_in_the_same_folder_stays(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    first = Sink(lake, name)
    first.start()
    first.put((1, "a"))
    kept = f"{name}_kept"
    lake.catalog().rename_table((NAMESPACE, name), (NAMESPACE, kept))
    second = Sink(lake, name, folder=lake.folder / "state" / f"{name}-anew")  # a sink without a table
    second.start(epoch=5)
    for number in range(3):
        second.put((number, "b"))
    assert lake.table(kept).location() == lake.table(name).location()
    older(on_disk(lake, name))
    second.put((3, "b"))
    optimized(second)
    assert lake.table(kept).scan().to_arrow().to_pylist() == [{"id": 1, "name": "a"}]


def test_nothing_goes_where_the_table_says_so(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options={"retain_snapshots": 1})
    sink.start()
    sink.put((1, "a"))
    with lake.table(name).transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    sink.attempt([(3, "never")])
    older(on_disk(lake, name))
    before = on_disk(lake, name)
    sink.put((2, "b"))
    optimized(sink)
    lost = {Path(path).name for path in before - on_disk(lake, name)}
    assert {each for each in lost if not each.endswith(".metadata.json")} == set()


def test_what_optimize_had_no_time_for_continues_between_batches(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    sink = Sink(lake, name, options={"maintenance": False})
    sink.start()
    before = on_disk(lake, name)
    sink.attempt([(3, "never")])
    left = on_disk(lake, name) - before
    sink.put((1, "a"))
    older(left)
    answers = iter([True, True])
    _, finished = sink.writer.maintenance.optimize(lambda: next(answers, False))
    assert finished
    assert left <= on_disk(lake, name)
    sink.writer.maintenance.maintain()
    assert left & on_disk(lake, name) == set()


def test_torn_metadata_keeps_nothing_else_from_going(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    before = on_disk(lake, name)
    sink.attempt([(3, "never")])
    left = on_disk(lake, name) - before
    torn = lake.folder / "warehouse" / NAMESPACE / name / "metadata" / f"00000-{uuid4()}.metadata.json"
    torn.write_text('{"format-version": 2, "table-')
    older({*left, str(torn)})
    sink.put((1, "a"))
    sink.writer.maintenance.maintain()
    assert left & on_disk(lake, name) == set()
    assert torn.exists()
