"""A server's commits reach Iceberg tables through a capture's log."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from capture.pipeline import QUICK, Running, Sinks, again, drain, once, registry
from capture.server import FakeStream, Server
from sinkql import physical
from sinkql.connector_api.cdc import Event, LogRetention
from sinkql.connector_api.stream import Limit, ReadCounts, Reader, Split
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local import batch
from sinkql.runtime.local.map import mapped
from support.patience import Deadline
from support.running import MemoryControl, job, loop_of

_MANY = Limit(1_000_000)


def _rows(reader: Reader, split: Split) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in reader.read(split, ReadCounts()) for row in batch.to_pylist()]


def _read_on(loop: BatchLoop) -> None:
    """Commit new changes until a commit fails."""
    deadline, reader = Deadline(), loop.readers["t"]
    while True:
        deadline.check("a failure")
        end = {"t": reader.latest(loop.checkpoint.end["t"], _MANY)}
        if end != loop.checkpoint.end:
            loop.commit_batch(loop.checkpoint.end, end)


def _late(running: Running) -> list[str]:
    """Return the names of sinks in the last reported error."""
    error = running.host.reports[-1].error
    return re.findall(r'"([^"]*)"', (error and error.detail) or "")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server.make(tmp_path / "server.db")


def test_rows_are_added_and_deleted(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "one"), ("u", 1, "of another table")])
    sinks = Sinks(tmp_path)
    with Running(sinks):
        once(sinks)
        assert sinks.rows() == {1: "one"}
        server.commit([("t", 2, "two"), ("t", 1, None)])
        once(sinks)
    assert sinks.rows() == {2: "two"}


def test_old_rows_are_read_in_chunks_while_others_change(tmp_path: Path, server: Server) -> None:
    server.commit([("t", key, "old") for key in range(95)])
    sinks = Sinks(tmp_path)
    with Running(sinks):
        reader = sinks.loop("a").readers["t"]
        start, turn = reader.initial(at_end=False), 0
        while not (found := reader.latest(start, _MANY)).get("done"):
            turn += 1
            key = turn * 7 % 95
            server.commit([("t", key, f"new {turn}"), ("t", key + 1, None)], seen=turn % 3 > 0)
            if turn % 5 == 0:
                server.see_all()
        server.see_all()
        once(sinks)
    assert found["chunks"] > 1
    assert sinks.rows() == server.rows()


def test_chunk_that_does_not_see_a_captured_commit_is_read_again(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "old")])
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks) as running:
        once(sinks, "a")
        hidden = server.commit([("t", 2, "committed, and not seen yet")], seen=False)
        once(sinks, "a")
        assert running.host.reports[-1].status == "running"
        assert server.confirmed() == hidden - 1
        running.wants("b")
        running.until(lambda: running.host.reports[-1].status == "snapshotting")
        running.confirms()
        assert running.host.reports[-1].details["snapshots"] == {"public.t": {"chunks": 0, "rows": 0}}
        server.see_all()
        once(sinks, "b")
    assert sinks.rows("b") == server.rows() == {1: "old", 2: "committed, and not seen yet"}


def test_server_keeps_the_changes_that_a_stopped_sink_needs(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "one")])
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks) as running:
        once(sinks, "a")
        once(sinks, "b")
        held = server.end()
        server.commit([("t", 2, "two")])
        once(sinks, "a")
        running.confirms()
        assert server.confirmed() == held
        once(sinks, "b")
        running.until(lambda: server.confirmed() == server.end())
    assert sinks.rows("a") == sinks.rows("b") == {1: "one", 2: "two"}


def test_log_keeps_changes_if_the_server_keeps_too_much(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"), keeping=LogRetention(max_retained=1000))
    with Running(sinks) as running:
        once(sinks, "a")
        once(sinks, "b")
        for number in range(30):
            server.commit([("t", number, "new")])
        once(sinks, "a")
        running.until(lambda: server.confirmed() == server.end())
        running.until(lambda: running.host.reports[-1].details["kept_by"] == "log")
    with Running(sinks) as running:  # keeps the setting that the log recorded
        once(sinks, "b")
        assert sinks.rows("b") == server.rows()
        running.until(lambda: running.host.reports[-1].details["kept_by"] == "server")
        read = min({json.loads(path.read_text())["entry"] for path in (sinks.directory.folder / "at").glob("*.json")})
        running.until(lambda: sinks.directory.numbers()[0] > read)


def test_capture_waits_for_sinks_if_the_log_is_full(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"), keeping=LogRetention(keep="log", max_log=20_000))
    with Running(sinks, pace=replace(QUICK, full_seconds=0.0)) as running:
        once(sinks, "a")
        once(sinks, "b")
        for number in range(120):
            server.commit([("t", number, secrets.token_hex(200))])
        running.until(lambda: running.host.reports[-1].status == "stalled")
        server.commit([("t", 0, "beyond the log")])
        told = running.host.reports[-1]
        assert told.error is not None
        assert told.error.code == "SQ3443"
        assert 20_000 < told.details["log_bytes"] < 60_000
        a = sinks.loop("a")
        a.start(epoch=1)
        with pytest.raises(SinkqlError, match="full"):  # a has read everything, and b has not
            _read_on(a)
        running.until(lambda: _late(running) == ["id-b"])
        earlier = len(running.host.reports)
        running.host.sinks = replace(sinks, names=("a",))  # b is dropped
        running.until(lambda: "running" in {report.status for report in running.host.reports[earlier:]})
        once(sinks, "a")
    assert sinks.rows("a") == server.rows()


def test_new_table_is_captured_from_its_first_sink_on(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "one"), ("u", 1, "uno")])
    sinks = Sinks(tmp_path)
    more = Sinks(tmp_path, names=("a", "b"), tables=(("b", "u"),))
    with Running(sinks) as running:
        once(sinks, "a")
        server.commit([("u", 2, "dos")])
        once(sinks, "a")
        running.host.sinks = more
        server.commit([("u", 3, "tres"), ("t", 2, "two")])
        once(more, "b")
        once(more, "a")
    assert more.rows("b") == {1: "uno", 2: "dos", 3: "tres"}
    assert more.rows("a") == {1: "one", 2: "two"}


def test_sink_from_the_end_on_has_no_older_rows(tmp_path: Path, server: Server) -> None:
    server.commit([("t", 1, "one")])
    sinks = Sinks(tmp_path)
    with Running(sinks):
        loop = sinks.loop("a")
        start = loop.readers["t"].initial(at_end=True)
        server.commit([("t", 2, "two")])
        target = loop.readers["t"].target(start)
        end, deadline = start, Deadline()
        while not loop.readers["t"].target_reached(end, target):
            deadline.check("the target")
            end = loop.readers["t"].latest(end, _MANY, target)
        found = [row for split in loop.readers["t"].splits(start, end) for row in _rows(loop.readers["t"], split)]
    assert found == [(2, "two", 1)]


def test_full_refresh_reads_the_rows_of_the_server(tmp_path: Path, server: Server) -> None:
    server.commit([("t", key, "old") for key in range(95)])
    sinks = Sinks(tmp_path)
    with Running(sinks):
        once(sinks)
        server.commit([("t", 1, "new"), ("t", 2, None)])
        once(sinks)
        server.commit([("t", 3, "not read before")])
        drain(again(sinks))
        assert sinks.rows() == {key: text for key, text in server.rows().items() if key % 2}
        server.commit([("t", 5, "after"), ("t", 7, None)])
        drain(again(sinks))
    assert sinks.rows() == {key: text for key, text in server.rows().items() if key % 2}


def test_rows_that_overwrite_each_other_are_accounted_for(tmp_path: Path, server: Server) -> None:
    server.commit([("t", key, "old") for key in range(4)])
    sinks, control = Sinks(tmp_path), MemoryControl()
    body = physical.Normalize(sinks.job("a").write.input, "rows", ("id",))
    made = msgspec.structs.replace(job(body, tmp_path, table="a", key=("id",)), sink_id=sinks.job("a").sink_id)

    def run() -> dict[str, int]:
        drain(loop_of(made, sinks.context(made), registry(), control=control))
        counts = [each["counts"] | {"written": each["rows"] - each["counts"]["removed"]} for each in control.commits]
        control.commits.clear()
        return {name: total for name in counts[0] if (total := sum(each[name] for each in counts))}

    sinks.context(made).folder.mkdir(parents=True)
    with Running(sinks):
        assert run() == {"read": 4, "written": 4}
        server.commit([("t", 0, "lost"), ("t", 0, "new"), ("t", 1, "old"), ("t", 2, None), ("t", 9, None)])
        assert run() == {"read": 5, "written": 1, "removed": 1, "superseded": 1, "filtered": 2}
    assert sinks.rows() == server.rows()


def test_a_capture_never_waits_for_changes_beyond_the_time_of_its_next_entry(tmp_path: Path, server: Server) -> None:
    waits: list[float] = []

    class Timed(FakeStream):
        def receive(self, seconds: float) -> Sequence[Event]:
            waits.append(seconds)
            return super().receive(seconds)

    server.commit([("t", 1, "one")])
    sinks = Sinks(tmp_path)
    with Running(sinks, replace(QUICK, receive_seconds=60.0), lambda: Timed(server)):
        once(sinks)
    assert sinks.rows() == server.rows()
    assert waits
    assert max(waits) <= QUICK.entry_seconds


def test_rows_of_a_full_refresh_are_accounted_for(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.commit([("t", key, "old") for key in range(4)])
    sinks = Sinks(tmp_path)
    with Running(sinks):
        once(sinks)
        with monkeypatch.context() as patched:
            patched.setattr(batch, "mapped", lambda *given: pa.concat_tables([mapped(*given)] * 4))
            with pytest.raises(SinkqlError, match="accounted for"):
                drain(again(sinks))
        assert sinks.rows() == server.rows()
        loop = again(sinks)
        drain(loop)
    assert isinstance(loop.report.control, MemoryControl)
    (commit,) = loop.report.control.commits
    counts = {name: count for name, count in commit["counts"].items() if count}
    assert counts == {"read": 4, "filtered": 2, "superseded": 2}
    assert commit["rows"] == 0
