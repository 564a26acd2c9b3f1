"""A user accepts a loss: the sinks continue, and only the reported changes are missing."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from capture.pipeline import QUICK, Running, Sinks, drain, once
from capture.server import Change, FakeStream, Server, position
from sinkql import physical
from sinkql.capture import messages
from sinkql.capture.control import CaptureIntervals
from sinkql.capture.reader import LogReader
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import LogRetention, Position
from sinkql.connector_api.stream import Limit
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.resume import wants_full_refresh
from support.patience import Deadline

_MANY = Limit(1_000_000)


class Slotted(FakeStream):
    """A server that may have lost a slot."""

    def check(self) -> None:
        if (self.server.path.parent / "lost").exists():
            raise SinkqlError("SQ3702", f"the server has removed changes, at {time.time_ns()}")

    def renew(self) -> None:
        super().renew()
        (self.server.path.parent / "lost").unlink(missing_ok=True)


class Unslotted(Slotted):
    """A server that keeps its whole log and has no slots."""

    def create(self) -> Position:
        super().create()
        return position(self.server.end())


class Keeper(Sinks):
    """Sinks WITH (EXISTING ROWS = KEEP)."""

    def job(self, name: str, *, max_rows: int = 50) -> physical.Job:
        made = super().job(name, max_rows=max_rows)
        write = msgspec.structs.replace(made.write, options={**made.write.options, "existing_rows": "keep"})
        return msgspec.structs.replace(made, write=write)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    made = Server.make(tmp_path / "server.db")
    made.commit([("t", key, "old") for key in range(30)])
    return made


def _running(sinks: Sinks, pace: CaptureIntervals = QUICK) -> Running:
    return Running(sinks, pace, stream=lambda: Slotted(sinks.server))


def _code(sinks: Sinks, name: str = "a") -> str:
    with pytest.raises(SinkqlError) as failed:
        once(sinks, name)
    return failed.value.code


def _skip(sinks: Sinks, code: str = "SQ3702") -> None:
    messages.send(sinks.directory.messages, "skip", messages.LossAcceptance(code))


def _lose(sinks: Sinks, server: Server) -> None:
    """Change rows while no capture runs, and lose the changes."""
    server.commit([("t", 1, "new"), ("t", 2, None), ("t", 100, "more")])
    with server.open() as connection:
        connection.execute("UPDATE slot SET confirmed = (SELECT max(lsn) FROM wal)")
    (server.path.parent / "lost").touch()


def _lose_log(sinks: Sinks, change: Change) -> None:
    """Lose a log with a change that the server no longer has."""
    sinks.server.commit([change])
    with _running(sinks) as running:
        running.until(lambda: sinks.server.confirmed() == sinks.server.end())
    discard(sinks.directory)


def test_sinks_run_a_full_refresh_after_changes_that_the_server_lost(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with _running(sinks):
        once(sinks, "a")
        once(sinks, "b")
    _lose(sinks, server)
    with _running(sinks, replace(QUICK, kept_seconds=3600.0)) as running:
        assert _code(sinks) == "SQ3702"
        _skip(sinks)
        running.until(lambda: running.host.reports[-1].status != "stalled")
        once(sinks, "a")
        assert sinks.rows("a") == server.rows()
        server.commit([("t", 3, "after")])
        once(sinks, "b")
        once(sinks, "a")
    assert sinks.rows("a") == sinks.rows("b") == server.rows()
    first = sinks.directory.entry(sinks.directory.numbers()[0])
    assert first is not None
    assert first.kind == "gap"
    assert first.problem is not None
    assert first.problem.startswith("SQ3702: the server has removed changes")


def test_full_refresh_starts_over_if_more_is_lost(tmp_path: Path, server: Server) -> None:
    server.commit([("t", key, "old") for key in range(30, 300)])
    sinks, lost = Sinks(tmp_path), False
    with _running(sinks):
        once(sinks)
    _lose(sinks, server)
    running = _running(sinks)

    def between(step: str, rows: int) -> None:
        nonlocal lost, running
        if rows and not lost:
            lost = True
            running.__exit__()
            server.commit([("t", 4, None), ("t", 5, "newer")])
            _lose(sinks, server)
            running = _accepting(sinks)

    running = _accepting(sinks)
    loop = sinks.loop("a")
    try:
        loop.start(epoch=1, once=True)
        with pytest.raises(SinkqlError, match="SQ3438"):
            loop.full_refresh(between)
        once(sinks)
    finally:
        running.__exit__()
    assert sinks.rows() == server.rows()


def _accepting(sinks: Sinks) -> Running:
    """Start a capture and accept its loss; return it when its new capture epoch has begun."""
    before = messages.latest_epoch(sinks.directory.messages).number
    running = _running(sinks)
    running.__enter__()
    running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
    _skip(sinks)
    running.until(
        lambda: (
            messages.latest_epoch(sinks.directory.messages).number > before
            and messages.latest_epoch(sinks.directory.messages).begin
        )
    )
    return running


def test_running_sink_starts_a_full_refresh(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with _running(sinks):
        loop = once(sinks)
    _lose(sinks, server)
    with _running(sinks) as running:
        running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
        _skip(sinks)
        reader, start = loop.readers["t"], loop.checkpoint.end
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        running.until(lambda: wants_full_refresh(reader, start["t"]) and reader.latest(start["t"], _MANY) != start["t"])
        with pytest.raises(SinkqlError) as failed:
            loop.commit_batch(start, {"t": reader.latest(start["t"], _MANY)})
        assert (failed.value.code, failed.value.retryable) == ("SQ3438", True)
        once(sinks)
    assert sinks.rows() == server.rows()


def test_acceptance_covers_only_the_reported_loss(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with _running(sinks):
        once(sinks)
    _skip(sinks)
    with _running(sinks) as running:
        running.confirms()
        assert not (sinks.directory.folder / "skip.json").exists()
    _lose(sinks, server)
    _skip(sinks, "SQ3436")
    with _running(sinks) as running:
        running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
        assert _code(sinks) == "SQ3702"


def test_lost_log_that_alone_had_the_changes_begins_again(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with _running(sinks):
        once(sinks)
    _lose_log(sinks, ("t", 2, None))
    with _running(sinks) as running:
        assert _code(sinks) == "SQ3436"
        _skip(sinks, "SQ3436")
        running.until(lambda: running.host.reports[-1].status != "stalled")
        once(sinks)
        assert sinks.rows() == server.rows()
        server.commit([("t", 2, "two")])
        once(sinks)
    server.commit([("t", 3, "three")])
    discard(sinks.directory)  # the server has all later changes
    with _running(sinks):
        once(sinks)
    assert sinks.rows() == server.rows()
    _lose_log(sinks, ("t", 3, None))
    with _running(sinks):
        assert _code(sinks) == "SQ3436"


def test_sink_that_cannot_refresh_continues_with_later_changes(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with _running(sinks):
        loop = once(sinks)
    _lose_log(sinks, ("t", 1, "lost"))
    start = loop.checkpoint.end["t"]
    reader = loop.readers["t"]
    with _running(sinks) as running:
        running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
        _skip(sinks, "SQ3436")
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        server.commit([("t", 2, "kept")])
    for _ in range(3):  # no entry is deleted before the sink has it
        with _running(sinks) as running:
            running.confirms()
    end = reader.latest(start, _MANY)
    assert sum(file["rows"] for split in reader.splits(start, end) for file in split["files"]) == 1
    assert not wants_full_refresh(reader, end)


def test_sink_with_unchanged_values_continues_with_all_rows(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with _running(sinks):
        loop = once(sinks)
    _lose_log(sinks, ("t", 1, "lost"))
    start, known = loop.checkpoint.end["t"], loop.readers["t"]
    assert isinstance(known, LogReader)
    reader = replace(known, unchanged_values=True)
    with _running(sinks) as running:
        running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
        _skip(sinks, "SQ3436")
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        running.until(lambda: (end := reader.latest(start, _MANY)) != start and end.get("done"))
        end = reader.latest(start, _MANY)
        assert reader.snapshot_running(start)  # until then, changes of rows that the sink lacks are skipped
        assert sum(file["rows"] for split in reader.splits(start, end) for file in split["files"]) == 30
        assert not reader.wants_full_refresh(end)


def test_sink_that_keeps_its_rows_continues_with_later_changes(tmp_path: Path, server: Server) -> None:
    sinks = Keeper(tmp_path, keeping=LogRetention(keep="log"))
    with _running(sinks):
        once(sinks)
    _lose_log(sinks, ("t", 1, "lost"))
    with _running(sinks) as running:
        assert _code(sinks) == "SQ3436"
        _skip(sinks, "SQ3436")
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        server.commit([("t", 2, "kept")])
        loop = once(sinks)
    assert not loop.needs_full_refresh()
    assert (sinks.rows()[1], sinks.rows()[2]) == ("old", "kept")


@pytest.mark.parametrize("code", ["SQ3702", "SQ3436"])
def test_sink_that_continues_reads_the_rest_of_an_initial_snapshot(tmp_path: Path, server: Server, code: str) -> None:
    server.commit([("t", key, "old") for key in range(30, 300)])
    sinks = Keeper(tmp_path, keeping=LogRetention(keep="log") if code == "SQ3436" else LogRetention())
    loop = sinks.loop("a")
    with _running(sinks):
        _first_batch(loop)
    assert 0 < len(sinks.rows()) < 300
    _lose(sinks, server)
    if code == "SQ3436":
        (server.path.parent / "lost").unlink()
        discard(sinks.directory)
    with _running(sinks) as running:
        assert _code(sinks) == code
        _skip(sinks, code)
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        loop = once(sinks)
    assert not loop.needs_full_refresh()
    lost = {2: "old"}  # the deletion of this row is lost
    assert sinks.rows() == lost | server.rows()


def _first_batch(loop: BatchLoop) -> None:
    """Commit some chunks of an initial snapshot."""
    loop.start(epoch=1)
    rows, reader, deadline = 0, loop.readers["t"], Deadline()
    while not rows:
        deadline.check("a chunk of the first snapshot")
        start = loop.checkpoint.end
        committed = loop.commit_batch(start, {"t": reader.latest(start["t"], Limit(50))})
        rows += committed.rows if committed is not None else 0


def test_position_before_the_log_is_an_accepted_loss(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks):
        once(sinks, "b")
    server.commit([("t", 2, "two")])
    with Running(Sinks(tmp_path, names=("a",))) as running:
        once(sinks, "a")
        running.until(lambda: server.confirmed() == server.end())
        running.confirms()
        assert _code(sinks, "b") == "SQ3434"
        messages.send(sinks.directory.messages, "skip/id-b.t", messages.LossAcceptance("SQ3434"))
        running.host.sinks = sinks
        once(sinks, "b")
        assert not (sinks.directory.folder / "skip" / "id-b.t.json").exists()
    assert sinks.rows("b") == server.rows()


def test_folder_lost_after_an_accepted_loss_begins_again(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with _unslotted(sinks):
        once(sinks)
    (tmp_path / "lost").touch()
    with _unslotted(sinks) as running:
        assert _code(sinks) == "SQ3702"
        _skip(sinks)
        running.until(lambda: messages.latest_epoch(sinks.directory.messages).begin)
        loop = once(sinks)
    server.commit([("t", 1, "after"), ("t", 2, None)])
    shutil.rmtree(sinks.directory.folder)
    running = _unslotted(sinks)
    running.host.offsets["id-a"] = loop.checkpoint.end["t"]
    with running:
        loop = sinks.loop("a")
        drain(loop)
    assert not loop.needs_full_refresh()
    assert sinks.rows() == server.rows()
    assert messages.latest_epoch(sinks.directory.messages).number == 1


def _unslotted(sinks: Sinks) -> Running:
    return Running(sinks, stream=lambda: Unslotted(sinks.server))


@pytest.mark.share(3)
@pytest.mark.parametrize("keep", ["server", "log"])
@pytest.mark.parametrize("point", ["era", "renewed", "entry-before", "entry-made"])
def test_interrupted_acceptance_continues(
    tmp_path: Path, server: Server, point: str, keep: Literal["server", "log"], monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(keep=keep))
    with _running(sinks):
        once(sinks)
    _lose(sinks, server)
    with _running(sinks):
        assert _code(sinks) == "SQ3702"
    _skip(sinks)
    broken = _running(sinks)

    def stop(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sinkql.storage.failpoint.point", stop)
        with pytest.raises(KeyboardInterrupt):
            broken.capture.run()
    with _running(sinks):
        drain(sinks.loop("a"))
        assert sinks.rows() == server.rows()
        server.commit([("t", 7, "seven")])
        once(sinks)
    assert sinks.rows() == server.rows()
