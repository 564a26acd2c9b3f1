"""An append sink on a real catalog: its commits, and the rows that readers return."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sinkql.errors import SinkqlError
from support.lake import Lake, Sink
from support.maintainer import Maintainer


def test_rows_of_every_commit_are_read(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    expected: list[tuple[int, str | None]] = []
    for batch in range(3):
        rows = [(batch * 10 + each, None if each == 2 else f"n{each}") for each in range(4)]
        committed = sink.put(*rows)
        expected += rows
        assert (committed.rows, committed.files) == (4, 2)
        assert sorted(expected) == any_lake.rows(name)


def test_first_claim_records_where_the_sink_starts(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    claimed = sink.start()
    assert claimed.end == claimed.start == {"numbers": {"batch": 0}}
    assert (claimed.plan, claimed.epoch) == ("none", 1)
    assert claimed == sink.writer.load_checkpoint()
    assert any_lake.rows(name) == []


def test_restart_continues_from_the_checkpoint_with_a_higher_epoch(any_lake: Lake, name: str) -> None:
    first = Sink(any_lake, name)
    first.start()
    last = first.put((1, "a")).checkpoint
    second = Sink(any_lake, name)
    claimed = second.start()
    assert (claimed.end, claimed.commit, claimed.epoch) == (last.end, last.commit, 2)
    second.put((2, "b"))
    assert any_lake.rows(name) == [(1, "a"), (2, "b")]


def test_the_catalogs_epoch_is_a_floor(lake: Lake, name: str) -> None:
    assert Sink(lake, name).start(epoch=7).epoch == 7
    assert Sink(lake, name).start(epoch=3).epoch == 8


def test_a_batch_without_rows_moves_the_checkpoint(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    sink.put((1, "a"))
    committed = sink.put()
    assert (committed.rows, committed.files) == (0, 0)
    assert committed.checkpoint == sink.writer.load_checkpoint()
    assert any_lake.rows(name) == [(1, "a")]


def test_changelog_has_diff_and_a_time_that_only_grows(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name, changelog=True)
    sink.start()
    sink.put((1, "a"))
    sink = Sink(any_lake, name, changelog=True)
    sink.start()
    sink.put((2, "b"))
    rows = any_lake.rows(name, ("id", "_mz_diff", "_mz_timestamp"))
    assert [row[:2] for row in rows] == [(1, 1), (2, 1)]
    assert rows[0][2] < rows[1][2]


def test_changelog_time_never_goes_back(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, name, changelog=True)
    sink.start()
    monkeypatch.setattr("sinkql.machine.clock.time_ns", lambda: 1000 * 10**9)
    for each in range(3):
        sink.put((each, "a"))
    assert [row[0] for row in lake.rows(name, ("_mz_timestamp",))] == [1_000_000, 1_000_001, 1_000_002]


def test_changelog_time_survives_a_restart_on_a_slow_clock(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in (2000, 1000):
        monkeypatch.setattr("sinkql.machine.clock.time_ns", lambda now=seconds * 10**9: now)
        sink = Sink(lake, name, changelog=True)
        sink.start()
        sink.put((1, "a"))
    assert [row[0] for row in lake.rows(name, ("_mz_timestamp",))] == [2_000_000, 2_000_001]


def test_long_offsets_stand_in_a_file(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    checkpoint, task, results = sink.attempt([(1, "a")])
    end = {"numbers": {"batch": 1, "files": [f"part-{number:05d}.json" for number in range(500)]}}
    sink.writer.commit(task, results, replace(checkpoint, commit=task.commit, start=checkpoint.end, end=end, plan="p"))
    head = any_lake.table(name).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert len(head.summary["sinkql.offsets"] or "") < 300
    again = Sink(any_lake, name)
    assert again.start().end == end


def test_offsets_file_that_was_changed_stops_the_sink(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    checkpoint, task, results = sink.attempt([(1, "a")])
    end = {"numbers": {"batch": 1, "text": "x" * 3000}}
    sink.writer.commit(task, results, replace(checkpoint, commit=task.commit, start=checkpoint.end, end=end, plan="p"))
    (file,) = (lake.folder / "warehouse" / "shop" / name / "metadata").glob("*-offsets.stats")
    file.write_text(file.read_text().replace("xxx", "xyx", 1))
    with pytest.raises(SinkqlError) as caught:
        sink.writer.refresh()
    assert caught.value.code == "SQ3502"


def test_what_a_sink_needs_of_its_own_is_no_orphan(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    checkpoint, task, results = sink.attempt([(1, "a")])
    sink.writer.files.store_file("seen-1", b"one")
    end = {"numbers": {"batch": 1, "text": "x" * 3000}}
    sink.writer.commit(task, results, replace(checkpoint, commit=task.commit, start=checkpoint.end, end=end, plan="p"))
    orphan = lake.folder / "warehouse" / "shop" / name / "metadata" / "somebodys.stats"
    orphan.write_text("strange")
    Maintainer(lambda: lake.table(name), random.Random(0)).remove_orphans()
    assert not orphan.exists()
    again = Sink(lake, name)
    assert again.start().end == end
    assert again.writer.files.load_file("seen-1") == b"one"


def test_attachments_are_kept_once(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    assert sink.writer.files.load_file("seen-1") is None
    sink.writer.files.store_file("seen-1", b"one")
    sink.writer.files.store_file("seen-1", b"other")
    assert sink.writer.files.load_file("seen-1") == b"one"


def test_sinks_share_an_append_table_and_do_not_fence_each_other(any_lake: Lake, name: str) -> None:
    first = Sink(any_lake, name, id="sink-a")
    second = Sink(any_lake, name, id="sink-b", options={"existing_rows": "keep"})
    first.start()
    second.start()
    for each in range(3):
        first.put((each, "a"))
        second.put((10 + each, "b"))
    assert any_lake.rows(name) == [(0, "a"), (1, "a"), (2, "a"), (10, "b"), (11, "b"), (12, "b")]
