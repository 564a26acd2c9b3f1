"""The progress of initial snapshots and the positions of sinks are reported while they change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from capture.pipeline import QUICK, Running, Sinks, once
from capture.server import FakeStream, Server
from sinkql.capture import messages
from sinkql.connector_api.stream import FirstSnapshot, Limit
from sinkql.runtime.batch.resume import is_consistent_at
from support.patience import PATIENCE_S, Deadline


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server.make(tmp_path / "server.db")


def test_initial_snapshot_is_measured_in_rows_and_chunks_until_its_commit(tmp_path: Path, server: Server) -> None:
    server.commit([("t", key, "old") for key in range(95)])
    sinks = Sinks(tmp_path)
    loop = sinks.loop("a")
    reader = loop.readers["t"]
    start = reader.initial(at_end=False)
    assert reader.measure(start).snapshot == FirstSnapshot()
    with Running(sinks, stream=lambda: FakeStream(server, chunk_seconds=0.1)) as running:
        reader.latest(start, Limit(1))
        seen: list[FirstSnapshot] = []

        def rows() -> int:
            found = reader.measure(start).snapshot
            assert found is not None
            seen.append(found)
            return found.rows

        running.until(lambda: rows() == 95)
        assert any(0 < each.rows < 95 and each.of_rows == 95 and each.of_chunks for each in seen)
        assert not any(each.done for each in seen)
        assert running.host.reports[-1].details["offset_committed"] is None  # not the distance from the beginning
        loop = once(sinks)
        whole = reader.measure(loop.checkpoint.end["t"]).snapshot
        running.confirms()
        details = running.host.reports[-1].details
    assert whole == FirstSnapshot(95, 95, 10, 10, done=True)
    assert loop.checkpoint.consistent
    assert "snapshots" not in details
    assert (details["unit"], details["offset_known"], details["offset_committed"]) == ("commits", 1, 1)


def test_table_is_inconsistent_until_its_initial_snapshot_is_complete(tmp_path: Path, server: Server) -> None:
    server.commit([("t", key, "old") for key in range(95)])
    sinks = Sinks(tmp_path)
    with Running(sinks):
        loop = sinks.loop("a")
        loop.start(epoch=1)
        said: list[bool | None] = []
        deadline = Deadline()
        while not said or not said[-1]:
            deadline.check("the whole first snapshot")
            start = loop.checkpoint.end
            end = {"t": loop.readers["t"].latest(start["t"], Limit(30))}
            if end != start:
                loop.commit_batch(start, end)
                said.append(loop.checkpoint.consistent)
    assert said[0] is False
    assert said[-1] is True
    assert is_consistent_at(loop.readers, loop.checkpoint.end)
    lake = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake")
    table = lake.load_table("n.a")
    found = [each.summary.get("sinkql.consistent") for each in table.snapshots() if each.summary]
    assert list(dict.fromkeys(found)) == [None, "false", "true"]
    assert table.properties["sinkql.id-a.consistent"] == "true"


def test_capture_that_ends_before_its_first_confirmation_reports_retained_bytes(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "one")])
    sinks = Sinks(tmp_path)
    with Running(sinks, pace=replace(QUICK, confirm_seconds=PATIENCE_S)) as running:
        once(sinks)
        server.commit([("u", 1, "of the other table")])
    details = running.host.reports[-1].details
    assert (details["kept_by"], details["retained_bytes"], details["offset_known"]) == ("server", 100, 2)


def test_last_offsets_of_sinks_are_reported_for_tables_no_longer_captured(tmp_path: Path, server: Server) -> None:
    """The process may end before the next capture session begins."""
    server.commit([("t", 1, "one")])
    sinks = Sinks(tmp_path, names=("a", "b"), tables=(("b", "u"),))
    with Running(sinks, pace=replace(QUICK, confirm_seconds=PATIENCE_S)) as running:
        once(sinks, "a")
        once(sinks, "b")
        server.commit([("t", 2, "two"), ("u", 2, "dos")])
        once(sinks, "a")
        once(sinks, "b")
        running.host.sinks = replace(sinks, names=("a",))
        running.until(lambda: any(each.last for each in running.host.reports))
        told = next(each for each in running.host.reports if each.last)
    assert told.details["offset_committed"] == 2


def test_late_sink_is_behind_by_the_changes_of_its_tables_alone(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "one")])
    sinks = Sinks(tmp_path, names=("a", "b"), tables=(("b", "u"),))
    with Running(sinks) as running:
        once(sinks, "a")
        once(sinks, "b")
        for number in range(3):
            server.commit([("u", number, "of the other table")])
        once(sinks, "b")
        running.confirms()
        beside = running.host.reports[-1].details
        server.commit([("t", 2, "two")])
        running.until(lambda: running.captured() == 5)
        running.confirms()
        behind = running.host.reports[-1].details
        places = dict(messages.all_of(sinks.directory.messages, "at", messages.ReaderPosition))
    assert places["id-a.t"].to < places["id-b.u"].to
    assert beside["offset_committed"] == 4
    assert behind["offset_committed"] == 1
