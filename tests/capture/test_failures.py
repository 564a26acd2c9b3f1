"""Failures between a server and its log: each has its error, or the capture recovers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capture.pipeline import QUICK, FakeHost, Running, Sinks, drain, once, registry
from capture.server import FakeStream, Server, position, table
from sinkql.capture import messages, sink_messages
from sinkql.capture.control import SubscribedSink
from sinkql.capture.log import LogDirectory, LogWriter
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import Event, LogRetention, SchemaChanged
from sinkql.connector_api.stream import Context, Limit
from sinkql.errors import SinkqlError
from sinkql.state_store.directory import EXECUTOR
from support.running import loop_of

_MANY = Limit(1_000_000)
_KEEPING = replace(QUICK, kept_seconds=3600.0)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    made = Server.make(tmp_path / "server.db")
    made.commit([("t", 1, "one")])
    return made


def _code(sinks: Sinks, name: str = "a") -> str:
    with pytest.raises(SinkqlError) as failed:
        once(sinks, name)
    return failed.value.code


def test_compiled_source_is_not_read(tmp_path: Path) -> None:
    made = Sinks(tmp_path).job("a")
    read = made.reads()[0]
    read.options["source_id"] = None
    with pytest.raises(SinkqlError) as refused:
        loop_of(made, Context(made.sink, made.sink_id, tmp_path, lambda _: ""), registry())
    assert refused.value.code == "SQ3430"


def test_run_without_a_capture_raises_that_none_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_messages, "_PATIENCE_SECONDS", 0.01)
    with pytest.raises(SinkqlError, match="SQ3431"):  # `once` would retry
        drain(Sinks(tmp_path).loop("a"))


def test_truncated_table_stops_a_sink_with_on_truncate_fail(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(on_truncate="fail"))
    with Running(sinks):
        once(sinks)
        server.commit([("t", 2, "two")])
        server.commit([("t", -1, None), ("t", 3, "three")])
        server.commit([("u", -1, None)])
        assert _code(sinks) == "SQ3432"


def test_batch_ends_before_a_table_is_truncated(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks) as running:
        once(sinks)
        server.commit([("t", 2, "two")])
        running.until(lambda: running.captured() == server.end())
        server.commit([("t", 3, "gone"), ("t", -1, None), ("t", 4, "four")])
        running.until(lambda: running.captured() == server.end())
        loop = sinks.loop("a")
        loop.start(epoch=1)
        reader = loop.readers["t"]
        start = loop.checkpoint.end["t"]
        before = reader.latest(start, _MANY)
        after = reader.latest(before, _MANY)
        assert reader.snapshot is not None
        cleared = [reader.snapshot.truncated_between(*step) for step in ((start, before), (before, after))]
    assert cleared == [False, True]


def test_lost_column_stops_the_sink_after_earlier_changes(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"), tables=(("b", "u"),))
    with Running(sinks):
        once(sinks, "a")
        once(sinks, "b")
        server.commit([("t", 2, "two")])
        server.commit([("t", -2, None)])
        server.commit([("u", 1, "of another table")])
        assert _code(sinks, "a") == "SQ3433"
        once(sinks, "b")
    assert sinks.rows("a") == {1: "one", 2: "two"}
    assert sinks.rows("b") == {1: "of another table"}


def test_lost_log_begins_again_at_the_sinks(tmp_path: Path, server: Server) -> None:
    for key in range(2, 60):
        server.commit([("t", key, "old")])
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks):
        once(sinks, "a")
    server.commit([("t", 1, "new"), ("t", 2, None)])
    with Running(sinks):
        once(sinks, "b")
        server.commit([("t", 3, "newer")])
    discard(sinks.directory)
    with Running(sinks):
        once(sinks, "a")
        once(sinks, "b")
    assert sinks.rows("a") == sinks.rows("b") == server.rows()


def test_new_log_that_ends_at_a_sink_has_the_next_changes(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks):
        once(sinks, "a")
        server.commit([("t", 2, "two")])
        once(sinks, "b")
    discard(sinks.directory)
    with Running(sinks) as running:
        running.until(lambda: running.captured() == server.end())
        once(sinks, "b")
        server.commit([("t", 3, "three")])
        once(sinks, "b")
    assert sinks.rows("b") == server.rows()


def test_all_files_of_a_source_may_be_lost(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks):
        loop = once(sinks)
    server.commit([("t", 2, "two")])
    shutil.rmtree(sinks.directory.folder)
    again = Running(sinks)
    again.host.offsets["id-a"] = loop.checkpoint.end["t"]
    with again:
        once(sinks)
    assert sinks.rows() == server.rows()


def test_sink_before_the_beginning_of_the_log_stops(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, names=("a", "b"))
    with Running(sinks):
        once(sinks, "b")
    server.commit([("t", 2, "two")])
    with Running(Sinks(tmp_path, names=("a",))) as running:  # an older catalog without the sink
        once(sinks, "a")
        running.until(lambda: server.confirmed() == server.end())
        running.confirms()
        assert _code(sinks, "b") == "SQ3434"


@pytest.mark.parametrize("what", ["data", "log", "data, seen elsewhere"])
def test_damaged_file_is_read_again_from_the_server(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    what, _, elsewhere = what.partition(", ")
    sinks = Sinks(tmp_path)
    with Running(sinks) as running:
        once(sinks)
        server.commit([("t", 2, "two")])
        running.until(lambda: running.captured() == server.end())
    for path in (sinks.directory.folder / what).glob("*.*"):
        path.write_bytes(path.read_bytes()[:-30])
    with Running(sinks) as running:
        if what == "data":
            with monkeypatch.context() as patched:
                if elsewhere:  # an executor on another machine does not report to the capture
                    patched.setenv(EXECUTOR, "1")
                assert _code(sinks) == "SQ3435"
            running.until(lambda: not (sinks.directory.folder / "damaged.json").exists())
        once(sinks)
    assert sinks.rows() == server.rows()


def test_damage_report_of_another_log_is_removed(tmp_path: Path, server: Server) -> None:
    """A reader may report a file of an earlier log; the present log is not damaged."""
    sinks = Sinks(tmp_path)
    notes = sinks.directory.messages
    with Running(sinks, _KEEPING) as running:
        once(sinks)
        first = sinks.directory.entry(0)
        messages.send(notes, "damaged", messages.DamagedFileReport("of a log before", "1-a-t.arrow"))
        running.until(lambda: messages.receive(notes, "damaged", messages.DamagedFileReport) is None)
        server.commit([("t", 2, "two")])
        once(sinks)
    assert sinks.directory.entry(0) == first
    assert sinks.rows() == server.rows()


def test_lost_log_that_alone_had_the_changes_stops_its_sinks(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with Running(sinks):
        once(sinks)
    server.commit([("t", 2, "two")])
    with Running(sinks) as running:
        running.until(lambda: server.confirmed() == server.end())
    discard(sinks.directory)
    with Running(sinks):
        assert _code(sinks) == "SQ3436"


def test_returning_server_is_read_and_a_refusing_one_stops_the_sinks(tmp_path: Path, server: Server) -> None:
    lost = SinkqlError("SQ3431", "connection lost")
    refused = SinkqlError("SQ4011", "wrong password")
    fails = {"receive": [lost, lost, lost]}
    sinks = Sinks(tmp_path)
    with Running(sinks, stream=lambda: FakeStream(server, fails=fails)) as running:
        running.until(lambda: not fails["receive"] and running.host.reports[-1].status == "running")
        once(sinks)
        assert "stalled" in [each.status for each in running.host.reports]
        fails["receive"] = [refused] * 1000
        running.until(lambda: len(fails["receive"]) < 998)
        assert _code(sinks) == "SQ4011"
        fails["receive"].clear()
        running.until(lambda: running.host.reports[-1].status == "running")
        running.confirms()
        once(sinks)


def test_failure_without_a_code_is_reported_and_retried(tmp_path: Path, server: Server) -> None:
    class Broken(FakeStream):
        def look(self) -> object:  # type: ignore[override]  # it never returns
            if not broken:
                return super().look()
            broken.pop()
            raise RuntimeError("unforeseen")

    broken = [1, 2, 3]
    sinks = Sinks(tmp_path)
    late = replace(QUICK, confirm_seconds=1.0)  # a confirmation between two failures would reset their count
    with Running(sinks, late, stream=lambda: Broken(server)) as running:
        once(sinks)
        server.commit([("t", 2, "two")])
        once(sinks)
        codes = {each.error.code for each in running.host.reports if each.error is not None}
    assert codes == {"SQ3437"}
    assert sinks.rows() == server.rows()


def test_second_capture_fences_the_first(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks) as first:
        once(sinks)
        second = Running(sinks)
        second.host.epoch = 2  # the epoch of its lease
        with second:
            server.commit([("t", 2, "two")])
            once(sinks)
            first.until(lambda: first.host.lost)
            once(sinks)
    assert sinks.rows() == server.rows()


def test_unavailable_catalog_keeps_no_change_from_the_log(tmp_path: Path, server: Server) -> None:
    class Deaf(FakeHost):
        deaf = False

        def subscribed_sinks(self) -> Sequence[SubscribedSink]:
            if self.deaf:
                raise SinkqlError("SQ4107", "busy")
            return super().subscribed_sinks()

    sinks = Sinks(tmp_path)
    running = Running(sinks)
    running.capture.host = running.host = host = Deaf(sinks)
    with running:
        once(sinks)
        host.deaf = True
        server.commit([("t", 2, "two")])
        once(sinks)
    assert sinks.rows() == server.rows()


def test_log_lost_during_a_snapshot_knows_the_high_watermark(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks):
        once(sinks)
    (file,) = (sinks.directory.folder / "at").glob("*.json")
    high = "f" * 16
    file.write_text(json.dumps({**json.loads(file.read_text()), "high": high}))
    discard(sinks.directory)
    with Running(sinks) as running:
        running.until(running.entries)
        first = sinks.directory.entry(sinks.directory.numbers()[0])
    assert first is not None
    assert [(each.done, each.high) for each in first.generations] == [(True, high)]


def test_recreated_sinks_read_a_source_with_a_damaged_log(tmp_path: Path, server: Server) -> None:
    """The text of SQ3436 recommends it."""
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with Running(sinks, _KEEPING):
        once(sinks)
    sinks.directory.store.delete_entry(sinks.directory.numbers()[1])
    with Running(sinks):
        assert _code(sinks) == "SQ3436"
    anew = Sinks(tmp_path, names=("b",), keeping=sinks.keeping)
    with Running(anew) as running:
        running.confirms()  # it has cleared the error
        once(anew, "b")
    assert anew.rows("b") == server.rows()


def test_log_with_a_lost_end_begins_again(tmp_path: Path, server: Server) -> None:
    """A process that dies while it deletes a log leaves no entries that look like a log."""
    sinks = Sinks(tmp_path)
    with Running(sinks, _KEEPING) as running:
        once(sinks)
        server.commit([("t", 2, "two")])
        once(sinks)
        running.until(lambda: server.confirmed() == server.end())
    assert len(sinks.directory.numbers()) > 1

    def ended(place: Path, **_: object) -> None:
        """Delete the last entry, and die."""
        if place.exists():
            sorted(place.iterdir())[-1].unlink()
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", ended)
        with pytest.raises(KeyboardInterrupt):
            discard(sinks.directory)
    with Running(sinks):
        once(sinks)
    assert sinks.rows() == server.rows()


def test_log_of_a_suspended_capture_begins_again_after_another_was_lost(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    slept = server.end()
    with Running(sinks) as running:
        once(sinks)
        server.commit([("t", 2, "two")])
        once(sinks)
        running.until(lambda: server.confirmed() == server.end())
    discard(sinks.directory)
    LogWriter.open(sinks.directory, 1, new_id="slept").add("open", start=position(slept), to=position(slept), at=0.0)
    server.commit([("t", 3, "three")])
    with Running(sinks):
        once(sinks)
    assert sinks.rows() == server.rows()


def test_log_that_a_slow_capture_continued_is_read_again(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks, _KEEPING) as slow:
        once(sinks)
        log = sinks.directory.entry(0)

        class Meanwhile(FakeStream):
            def check(self) -> None:
                if slow.thread.is_alive():
                    server.commit([("t", 2, "two")])
                    once(sinks)
                    slow.until(lambda: server.confirmed() == server.end())
                    slow.__exit__()
                super().check()

        running = Running(sinks, _KEEPING, stream=lambda: Meanwhile(server))
        running.host.epoch = 2
        with running:
            running.until(lambda: not slow.thread.is_alive())
            server.commit([("t", 3, "three")])
            once(sinks)
    assert sinks.rows() == server.rows()
    assert sinks.directory.entry(0) == log


def test_late_confirmation_does_not_stop_a_new_log(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks):
        once(sinks)
    discard(sinks.directory)
    confirmed = [position(server.end())]
    with server.open() as connection:
        connection.execute("UPDATE slot SET confirmed = 0")
    server.commit([("t", 2, "two")])

    class Late(FakeStream):
        def begin(self, *arguments: Any) -> None:
            if confirmed:
                self.confirm(confirmed.pop())
                raise SinkqlError("SQ3702", "lost")
            super().begin(*arguments)

    with Running(sinks, stream=lambda: Late(sinks.server)) as running:
        once(sinks)
    assert not confirmed
    assert "stalled" not in {each.status for each in running.host.reports}
    assert sinks.rows() == server.rows()


def test_server_that_lost_everything_is_reported_at_the_beginning_of_a_log(tmp_path: Path, server: Server) -> None:
    fails = {"begin": [SinkqlError("SQ3702", "lost") for _ in range(10_000)]}
    sinks = Sinks(tmp_path)
    with Running(sinks, stream=lambda: FakeStream(sinks.server, fails=fails)) as running:
        running.until(lambda: running.host.reports or len(fails["begin"]) < 9_000)
        assert _code(sinks) == "SQ3702"


def test_capture_that_has_lost_its_lease_deletes_no_log(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks, _KEEPING):
        once(sinks)
    # the lease holder may already be deleting this log
    sinks.directory.store.delete_entry(sinks.directory.numbers()[1])
    left = sinks.directory.numbers()
    running = Running(sinks)
    running.host.epoch = 0
    with running:
        running.until(lambda: running.host.lost or sinks.directory.numbers() != left)
    assert sinks.directory.numbers() == left


def test_capture_suspended_at_its_start_deletes_no_data_of_the_next(tmp_path: Path) -> None:
    place = LogDirectory.local(tmp_path)
    slept = LogWriter.open(place, 9, new_id="log")
    for epoch in (8, 9, 10):
        place.store.write(f"{epoch}-a-t.arrow", b"")
    slept.sweep()
    assert [path.name for path in place.store.data.iterdir()] == ["10-a-t.arrow"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("last", ["a", "b"])
def test_log_begins_again_if_a_sink_inside_an_entry_cannot_continue(tmp_path: Path, server: Server, last: str) -> None:
    class Holes(FakeHost):
        def subscribed_sinks(self) -> Sequence[SubscribedSink]:
            found = super().subscribed_sinks()
            return [
                replace(each, table=replace(each.table, has_unchanged_values=each.table.id == "t")) for each in found
            ]

    tables = (("a", "t"), ("b", "u")) if last == "a" else (("a", "u"), ("b", "t"))
    sinks = Sinks(tmp_path, names=("a", "b"), tables=tables)
    running = Running(sinks, _KEEPING)
    running.host = running.capture.host = Holes(sinks)

    def tell(to: int) -> None:
        for name, read in tables:
            messages.send(
                sinks.directory.messages, f"at/id-{name}.{read}", messages.ReaderPosition(read, position(to), "lost", 7)
            )

    def log() -> str:
        entry = sinks.directory.entry(0)
        return entry.log if entry is not None else ""

    FakeStream(server).create()
    server.commit([("t", 2, "two")])
    server.commit([("t", 3, "three")])
    tell(1)
    with running:
        running.until(lambda: running.captured() == server.end())
        first = log()
        tell(2)  # the sinks' position since before that log
        running.until(lambda: log() not in ("", first))


def test_sink_of_a_table_that_the_server_does_not_send_waits_with_its_error(tmp_path: Path, server: Server) -> None:
    """The capture begins no further generations for it."""
    said = [SchemaChanged(replace(table(), columns=()), "it is in no publication", lost=True)]

    class Unsent(FakeStream):
        def receive(self, seconds: float) -> Sequence[Event]:
            return [said.pop()] if said else super().receive(seconds)

    sinks = Sinks(tmp_path)
    with Running(sinks, _KEEPING, stream=lambda: Unsent(server)) as running:
        running.until(lambda: not said)
        assert _code(sinks) == "SQ3440"
        running.confirms()
        running.confirms()
        kinds = [entry.kind for number in sinks.directory.numbers() if (entry := sinks.directory.entry(number))]
        assert kinds.count("begin") == 1
        said.append(SchemaChanged(table()))
        running.until(lambda: not said)
        once(sinks)
    assert sinks.rows() == server.rows()


def test_sink_does_not_get_an_error_that_was_fixed_before_its_request(tmp_path: Path, server: Server) -> None:
    """The capture checks the server periodically, so its last answer may be older than the request."""
    said = [SchemaChanged(replace(table(), columns=()), "it is in no publication", lost=True)]

    class Seldom(FakeStream):
        looked = False

        def receive(self, seconds: float) -> Sequence[Event]:
            return [said.pop()] if said else super().receive(seconds)

        def looked_since(self, moment: float) -> bool:
            if self.looked:
                return True
            self.looked = True
            said.append(SchemaChanged(table()))
            return False

    sinks = Sinks(tmp_path)
    with Running(sinks, _KEEPING, stream=lambda: Seldom(server)) as running:
        running.until(lambda: not said)
        once(sinks)
    assert sinks.rows() == server.rows()


def test_log_that_begins_again_within_a_first_batch_is_read_by_the_next(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    loop = sinks.loop("a")
    loop.start(epoch=1)
    reader = loop.readers["t"]
    start = reader.initial(at_end=False)
    with Running(sinks) as running:
        running.until(lambda: reader.latest(start, _MANY) != start)
        end = reader.latest(start, _MANY)
    discard(sinks.directory)
    with pytest.raises(SinkqlError) as failed:
        reader.splits(start, end)
    assert failed.value.code == "SQ3435"
    with Running(sinks):
        once(sinks)
    assert sinks.rows() == server.rows()


def test_transaction_that_no_snapshot_saw_before_a_crash_is_not_confirmed_after_it(
    tmp_path: Path, server: Server
) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks) as running:
        once(sinks)
        running.until(lambda: server.confirmed() == server.end())
        before = server.end()
        hidden = server.commit([("t", 2, "two")], seen=False)
        running.until(lambda: running.captured() >= hidden)
        once(sinks)
    with Running(sinks) as running:
        running.confirms()
        running.confirms()
        assert server.confirmed() == before
        server.see_all()
        running.until(lambda: server.confirmed() == hidden)


def test_attempts_that_fail_early_add_nothing_to_the_log(tmp_path: Path, server: Server) -> None:
    sinks = Sinks(tmp_path)
    with Running(sinks):
        once(sinks)
    before = len(sinks.directory.numbers())
    fails = {"begin": [SinkqlError("SQ3431", "no answer") for _ in range(10)]}
    with Running(sinks, stream=lambda: FakeStream(sinks.server, fails=fails)) as running:
        running.until(lambda: not fails["begin"])
        assert len(sinks.directory.numbers()) <= before + 1
        server.commit([("t", 2, "two")])
        once(sinks)
    assert sinks.rows() == server.rows()


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_lost_log_begins_again_if_the_server_still_has_confirmed_changes(
    tmp_path: Path, server: Server, how: str
) -> None:
    sinks = Sinks(tmp_path, keeping=LogRetention(keep="log"))
    with Running(sinks):
        once(sinks)
    server.commit([("t", 2, "two")])
    with Running(sinks, _KEEPING) as running:
        running.until(lambda: server.confirmed() == server.end())
    if how == "deleted":
        discard(sinks.directory)
    else:
        sinks.directory.store.delete_entry(sinks.directory.numbers()[1])
    with Running(sinks, stream=lambda: FakeStream(server, remembers=True)):
        once(sinks)
    assert sinks.rows() == server.rows()
