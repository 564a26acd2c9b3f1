"""A log is lost during an initial snapshot: each sink gets all rows, at any position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capture.pipeline import QUICK, Running, Sinks, once
from capture.server import Server, position
from sinkql.capture import messages
from sinkql.capture.log_store import FolderLogStore
from sinkql.capture.position import LogPosition
from sinkql.capture.reader import LogReader
from sinkql.capture.retention import SinkPositions
from sinkql.capture.runner import discard
from sinkql.connector_api.stream import Limit

_LARGE, _SMALL = (replace(QUICK, chunk_bytes=size) for size in (1000, 200))


class Forgetting(FolderLogStore):
    """A log whose first entry is deleted while a sink resolves its position."""

    def numbers(self) -> list[int]:
        found, once = super().numbers(), self.folder / "forgotten"
        if not once.exists():
            once.touch()
            self.path(found[0]).unlink()
        return found


@pytest.fixture
def server(tmp_path: Path) -> Server:
    made = Server.make(tmp_path / "server.db")
    made.commit([("t", key, "old") for key in range(60)])
    return made


def _read(running: Running, name: str, chunks: int) -> None:
    """Commit entry by entry until a sink has a number of chunks."""
    loop = running.sinks.loop(name)
    loop.start(epoch=1)
    reader = loop.readers["t"]
    while (start := loop.checkpoint.end)["t"].get("chunks", 0) < chunks:
        running.until(lambda start=start: reader.latest(start["t"], Limit(1)) != start["t"])  # type: ignore[misc]  # of the lambda's default
        loop.commit_batch(start, {"t": reader.latest(start["t"], Limit(1))})


@pytest.mark.parametrize(("far", "near"), [("a", "b"), ("b", "a")])
def test_chunks_of_two_logs_are_not_compared_by_their_numbers(
    tmp_path: Path, server: Server, far: str, near: str
) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks, _LARGE) as running:
        running.wants(near)
        _read(running, far, 3)  # up to key 29
        _read(running, near, 1)  # up to key 9
    discard(sinks.directory)
    with Running(sinks, _SMALL) as running:
        _read(running, near, 5)  # up to key 17, although it is the fifth chunk
    discard(sinks.directory)
    with Running(sinks, _LARGE):
        once(sinks, far)
        once(sinks, near)
    assert sinks.rows(far) == sinks.rows(near) == server.rows()


def test_sink_that_waits_only_for_changes_keeps_no_chunk_from_another(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks, _SMALL) as running:
        running.wants("a")
        _read(running, "b", 20)
        _read(running, "a", 1)
    discard(sinks.directory)
    with Running(sinks, replace(QUICK, chunk_bytes=100_000)):
        once(sinks, "a")  # its log has everything after the second chunk
    mark = sinks.directory.folder / "at" / "id-a.t.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "high": position(server.end() + 1)}))
    server.commit([("t", 1, "new"), ("t", 59, None)])
    discard(sinks.directory)
    with Running(sinks, _LARGE):
        once(sinks, "b")
        once(sinks, "a")
    assert sinks.rows("a") == sinks.rows("b") == server.rows()


def test_sink_that_begins_later_can_continue_from_the_server(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks, replace(_SMALL, kept_seconds=1000.0)) as running:
        once(sinks, "a")
        server.commit([("t", 1, "new")])
        once(sinks, "a")
        running.until(lambda: server.confirmed() == server.end())
        _read(running, "b", 3)  # although the log has chunks from the beginning
    discard(sinks.directory)
    with Running(sinks, _SMALL):
        once(sinks, "b")
    assert sinks.rows("b") == server.rows()


def test_sink_that_has_just_committed_is_known(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    sinks, all_of = Sinks(tmp_path), messages.all_of
    with Running(sinks) as running:
        running.wants("a")
        loop = sinks.loop("a")
        reader = loop.readers["t"]
        running.until(lambda: reader.latest(LogPosition().offsets(), Limit(1)) != LogPosition().offsets())
        place = reader.latest(LogPosition().offsets(), Limit(1))

    def committing(*arguments: Any) -> Iterator[tuple[str, Any]]:
        yield from all_of(*arguments)
        reader.after_commit(place)

    monkeypatch.setattr(messages, "all_of", committing)
    found = SinkPositions.read(sinks.directory.messages, sinks.subscribed_sinks())
    assert found.by_reader or found.requests


def test_entry_ends_at_the_position_of_a_sink(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks) as running:
        once(sinks, "b")
        server.commit([("t", 1, "new")])
        at = once(sinks, "a").checkpoint.end["t"]
        server.commit([("t", 2, "newer")])
        running.until(lambda: running.captured() == server.end())
    discard(sinks.directory)
    with Running(sinks, replace(QUICK, entry_seconds=1000.0, quiet_seconds=1000.0)):
        once(sinks, "b")
        found = [sinks.directory.entry(number) for number in sinks.directory.numbers()]
        once(sinks, "a")
    assert LogPosition(**at).to in [each.to for each in found if each is not None and each.kind == "changes"]
    assert sinks.rows("a") == sinks.rows("b") == server.rows()


def test_entry_deleted_while_a_sink_resolves_its_position_is_not_needed(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks):
        at = once(sinks).checkpoint.end["t"]
    discard(sinks.directory)
    server.commit([("t", 1, "new")])
    with Running(sinks) as running:
        running.until(lambda: running.captured() == server.end())
    reader = sinks.loop("a").readers["t"]
    assert isinstance(reader, LogReader)
    place = replace(reader, log=replace(reader.log, store=Forgetting(reader.folder))).latest(at, Limit(1))
    assert LogPosition(**place).to == position(server.end())


def test_log_that_ends_at_a_sink_has_its_position(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks):
        once(sinks, "b")
        server.commit([("t", 1, "new")])
        at = once(sinks, "a").checkpoint.end["t"]
    discard(sinks.directory)
    with Running(sinks) as running:
        running.until(lambda: running.captured() == server.end())
        reader = sinks.loop("a").readers["t"]
        assert LogPosition(**reader.latest(at, Limit(1))).to == LogPosition(**at).to
