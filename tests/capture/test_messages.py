"""Messages between sinks and a capture arrive late, or while the receiver is busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from capture.pipeline import QUICK, FakeHost, Running, Sinks, once
from capture.server import COLUMNS, FakeStream, Server, position
from sinkql.capture import messages
from sinkql.capture.control import SubscribedSink
from sinkql.capture.position import LogPosition
from sinkql.capture.reader import LogReader
from sinkql.capture.retention import SinkPositions
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import CapturedTable, LogRetention
from sinkql.connector_api.stream import Limit
from sinkql.errors import SinkqlError
from sinkql.storage.key_value import FolderStore

_MANY = Limit(1_000_000)
_KEYLESS = CapturedTable("t", ("public", "t"), COLUMNS, ())


@pytest.fixture
def server(tmp_path: Path) -> Server:
    made = Server.make(tmp_path / "server.db")
    made.commit([("t", 1, "one")])
    return made


@dataclass
class Keyless(FakeHost):
    """A catalog whose sinks read a table without a key."""

    def subscribed_sinks(self) -> Sequence[SubscribedSink]:
        return [SubscribedSink(f"id-{name}", _KEYLESS) for name in self.sinks.names]


def _end(reader: LogReader, place: LogPosition) -> str | None:
    """Return the position that a sink reaches; None if it must retry."""
    try:
        return str(reader.latest(place.offsets(), _MANY)["to"])
    except SinkqlError as error:
        if error.retryable:
            return None
        raise


def test_sink_that_commits_late_from_a_lost_log_continues_at_its_position(tmp_path: Path, server: Server) -> None:
    """The next log has no entry with both rows that the sink has and rows that it lacks."""
    sinks = Sinks(tmp_path)
    FakeStream(server).create()
    for number in range(2, 6):
        server.commit([("t", number, "more")])
    running = Running(sinks)
    running.host = running.capture.host = Keyless(sinks)
    messages.send(sinks.directory.messages, "at/id-a.t", messages.ReaderPosition("t", position(1), "lost", 7))
    with running:
        running.until(lambda: running.captured() >= server.end())
        place = LogPosition("lost", 8, position(3), done=True)
        messages.send(sinks.directory.messages, "at/id-a.t", place.at("t"))
        reader = LogReader("t", "id-a", sinks.directory, _KEYLESS, sinks.keeping, "retract")
        running.until(lambda: _end(reader, place) == position(server.end()))
        splits = reader.splits(place.offsets(), reader.latest(place.offsets(), _MANY))
    rows = sum(file["rows"] for split in splits for file in split["files"])
    assert rows == 2


@dataclass
class Late(FakeHost):
    """A catalog without the last sink, as read before the sink was created."""

    def subscribed_sinks(self) -> Sequence[SubscribedSink]:
        return super().subscribed_sinks()[:-1]


def test_messages_of_a_new_sink_count_before_the_catalog_is_read_again(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    running = Running(sinks, replace(QUICK, look_seconds=1000.0))
    running.host = running.capture.host = Late(sinks)
    with running:
        once(sinks, "a")
        held = position(server.end())
        sinks.loop("b").readers["t"].initial(at_end=True)
        server.commit([("t", 2, "two")])
        once(sinks, "a")
        running.confirms()
        assert position(server.confirmed() or 0) <= held
        assert running.host.reports[-1].details["sinks_to"] == held


def test_sink_that_moved_to_another_host_is_at_its_position_in_the_catalog(tmp_path: Path, server: Server) -> None:
    """The message on the first host is outdated."""
    sinks = Sinks(tmp_path)
    with Running(sinks) as running:
        once(sinks)
        told = sinks.directory.folder / "at" / "id-a.t.json"
        before = told.read_bytes()
        server.commit([("t", 2, "two")])
        known = once(sinks).checkpoint.end["t"]
        told.write_bytes(before)
        running.host.offsets = {"id-a": known}
        running.until(lambda: server.confirmed() == server.end())
        running.confirms()
        assert running.host.reports[-1].details["sinks_to"] == position(server.end())


def test_later_position_of_message_and_catalog_counts(tmp_path: Path, server: Server) -> None:
    """The message follows each commit, and a later one may concern another log."""
    place = LogPosition("log", 7, position(3), done=True, era=1)
    earlier = (
        place,
        msgspec.structs.replace(place, entry=6, to=position(3)),
        LogPosition("older", 9, position(2), done=True, era=1),
        LogPosition("older", 9, position(8), done=True),
    )
    notes = FolderStore(tmp_path)
    messages.send(notes, "at/id-a.t", place.at("t"))
    for known in earlier:
        client = SubscribedSink("id-a", _KEYLESS, known.offsets())
        assert dict(SinkPositions.read(notes, [client], messages.CaptureEpoch(1)).by_reader) == {
            "id-a.t": place.at("t")
        }
    further = msgspec.structs.replace(place, entry=8, to=position(4))
    anew = msgspec.structs.replace(place, entry=5, to=position(2), generation=1, done=False)
    for later in (further, anew):
        client = SubscribedSink("id-a", _KEYLESS, later.offsets())
        assert dict(SinkPositions.read(notes, [client], messages.CaptureEpoch(1)).by_reader) == {
            "id-a.t": later.at("t")
        }


def test_messages_of_a_dropped_sink_no_longer_count(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks) as running:
        once(sinks, "a")
        once(sinks, "b")
        server.commit([("t", 2, "two")])
        once(sinks, "a")
        running.host.sinks = replace(sinks, names=("a",))
        running.until(lambda: server.confirmed() == server.end())
        assert not (sinks.directory.folder / "at" / "id-b.t.json").exists()


def test_fixed_error_is_not_raised_in_the_next_sink(tmp_path: Path, server: Server) -> None:
    fails = {"check": [SinkqlError("SQ4011", "wrong password")] * 1000}
    patient = replace(QUICK, first_wait=1000.0, longest_wait=1000.0)
    sinks = Sinks(tmp_path)
    with Running(sinks, patient, stream=lambda: FakeStream(server, fails=fails)) as running:
        running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
        with pytest.raises(SinkqlError) as failed:
            once(sinks)
        assert failed.value.code == "SQ4011"
        fails["check"].clear()
        once(sinks)
    assert sinks.rows() == server.rows()


def test_running_sink_makes_the_capture_retry(tmp_path: Path, server: Server) -> None:
    fails = {"check": [SinkqlError("SQ4011", "wrong password")]}
    patient = replace(QUICK, first_wait=1000.0, longest_wait=1000.0)
    sinks = Sinks(tmp_path)
    with Running(sinks, patient, stream=lambda: FakeStream(server, fails=fails)) as running:
        running.until(lambda: running.host.reports and running.host.reports[-1].status == "stalled")
        reader = sinks.loop("a").readers["t"]
        running.until(lambda: reader.latest(LogPosition().offsets(), _MANY) != LogPosition().offsets())


def test_run_with_an_end_raises_the_permanent_error_of_its_capture(tmp_path: Path, server: Server) -> None:
    """The capture fails after the run has chosen its target."""
    fails: dict[str, list[SinkqlError]] = {}
    sinks = Sinks(tmp_path)
    with Running(sinks, stream=lambda: FakeStream(server, fails=fails)) as running:
        once(sinks)
        loop = sinks.loop("a")
        loop.start(epoch=2)
        reader, place = loop.readers["t"], [loop.checkpoint.end["t"]]
        target = {"until": position(server.end() + 1)}
        fails["receive"] = fails["check"] = [SinkqlError("SQ4011", "refused")] * 1000
        with pytest.raises(SinkqlError) as failed:
            running.until(lambda: place.append(reader.latest(place.pop(), _MANY, target)))
    assert failed.value.code == "SQ4011"


def test_altered_source_moves_retention_to_the_log(tmp_path: Path, server: Server) -> None:
    with Running(Sinks(tmp_path)) as running:
        once(running.sinks)
        assert running.host.reports[-1].details["kept_by"] == "server"
    altered = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    server.commit([("t", 2, "two")])
    with Running(altered) as running:
        running.until(lambda: server.confirmed() == server.end())
        running.confirms()
        assert running.host.reports[-1].details["kept_by"] == "log"
    discard(altered.directory)
    with Running(altered), pytest.raises(SinkqlError) as failed:
        once(altered)
    assert failed.value.code == "SQ3436"
    with Running(Sinks(tmp_path, names=("b",))) as running:
        once(running.sinks, "b")
        assert running.host.reports[-1].details["kept_by"] == "server"
