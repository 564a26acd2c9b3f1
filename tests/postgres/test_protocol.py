"""Each part of the initial snapshot's protocol, step by step: the table is right with it and wrong without it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import QUICK, FakeHost
from sinkql.capture.log import LogWriter
from sinkql.capture.messages import CaptureEpoch
from sinkql.capture.position import LogPosition
from sinkql.capture.reader import LogReader
from sinkql.capture.retention import SinkRegistry
from sinkql.capture.session import CaptureSession
from sinkql.connector_api.cdc import CapturedSource, CapturedTable
from sinkql.connector_api.stream import Limit
from sinkql.connectors.postgres.chunk import PostgresChunkRead
from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.stream import PostgresStream, forget
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from support.patience import Deadline, joined
from support.postgres import Postgres
from support.postgres import postgres as postgres_server

from .mutant import MUTANTS
from .reading import login, tables
from .world import ServerSinks, have_commits_wait

pytestmark = pytest.mark.server
_PACE = replace(
    QUICK, entry_seconds=0.0, quiet_seconds=1000.0, kept_seconds=1000.0, chunk_bytes=1, hold_seconds=0.0, parallel=1
)
_TABLE = """
CREATE TABLE t (id int PRIMARY KEY, v int, long text);
ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
CREATE PUBLICATION p FOR TABLE t;
INSERT INTO t SELECT i, 0, repeat(i::text, 4000) FROM generate_series(1, 4) AS i;
"""


class Stepped:
    """A capture that runs step by step, and sinks that read its log; chunks have two rows."""

    def __init__(self, server: Postgres, database: str, folder: Path) -> None:
        self.server, self.database = server, database
        self.run(_TABLE)
        self.source = CapturedSource(str(uuid.uuid4()), "s", "postgres", None, {"publication": "p", "tuning": {}})
        self.sinks = ServerSinks(folder, ("a", "b"), of=tables(server, database)["t"], id=self.source.id)
        self.loops: dict[str, BatchLoop] = {}
        self.sessions = 0
        self.begin()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self.server.execute(sql, self.database)

    def begin(self) -> None:
        """Start a capture."""
        self.sessions += 1
        log = LogWriter.open(self.sinks.directory, self.sessions, new_id=f"log {self.sessions}")
        self.stream = PostgresStream(login(self.server, self.database), self.source, failure)
        registry = SinkRegistry(
            FakeHost(self.sinks, epoch=self.sessions), self.sinks.directory.messages, _PACE.look_seconds
        )
        self.session = CaptureSession(
            log,
            self.stream,
            options=self.sinks.keeping,
            intervals=_PACE,
            registry=registry,
            sinks=self.sinks.subscribed_sinks(),
            epoch=CaptureEpoch(),
        )
        self.session.begin()

    def end(self) -> None:
        """End the capture."""
        self.session.snapshots.close()
        self.stream.close()

    def wants(self, name: str) -> None:
        """Start a sink."""
        loop = self.loops[name] = self.sinks.loop(name)
        loop.start(epoch=1)
        self.sink(name)
        self.session.check_sinks()

    def sink(self, name: str) -> LogPosition:
        """Commit all entries of the log to a sink, one by one; return its position."""
        loop = self.loops[name]
        reader = loop.readers["t"]
        while (end := reader.latest(loop.checkpoint.end["t"], Limit(1))) != loop.checkpoint.end["t"]:
            loop.commit_batch(loop.checkpoint.end, {"t": end})
        return LogPosition(**loop.checkpoint.end["t"])

    def reader(self, name: str) -> LogReader:
        found = self.loops[name].readers["t"]
        assert isinstance(found, LogReader)
        return found

    def chunk(self) -> None:
        """Publish the received changes, and read the next chunk without adding it to the log."""
        self.session.read_chunks()
        assert self.session.snapshots.is_holding
        for each in self.session.snapshots.reading.values():
            each.result()

    def take(self) -> None:
        """Receive the changes committed up to now; publish none of them."""
        end, deadline = self.stream.end(), Deadline()
        while self.session.receiver.buffer.to < end:
            for event in self.stream.receive(0.02):
                self.session.receive(event)
            deadline.check("the server's end")

    def settle(self) -> None:
        """Run the capture up to the server's end, and past the high watermark of all chunks."""
        end, deadline = self.stream.end(), Deadline()
        while True:
            self.session.publisher.requested_end = max(end, self.session.snapshots.high)
            self.session.check_sinks()
            self.session.step()
            whole = not self.session.snapshots.is_holding and not self.session.snapshots.unfinished()
            if whole and self.session.log.to >= max(end, self.session.snapshots.high):
                return
            deadline.check("the end of the snapshot")

    def check(self, *names: str) -> None:
        """Run the capture and the sinks to the end, and compare tables with the server's."""
        self.settle()
        for name in names:
            place = self.sink(name)
            assert place.done
            assert place.to >= place.high
            assert self.sinks.table(name) == {row[0]: row for row in self.run("SELECT id, v, long FROM t")}

    @contextmanager
    def unseen(self, sql: str) -> Iterator[Callable[[], None]]:
        """Run a statement that is in the stream but not visible until the yielded function is called.

        Its commit waits for a standby.
        """
        writer = threading.Thread(target=self.run, args=(sql,), daemon=True)

        def see() -> None:
            have_commits_wait(self.server, "")
            if writer.ident is not None:
                joined(writer)

        try:
            have_commits_wait(self.server, "nobody")
            self._see_one_wait()
            writer.start()
            self._until("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            yield see
        finally:
            see()

    def _see_one_wait(self) -> None:
        """Commit until a commit waits: the server applies a setting with a delay."""
        deadline, waited = Deadline(), False
        while not waited:
            deadline.check("a commit that waits")
            probe = threading.Thread(target=self._commit, daemon=True)
            probe.start()
            while probe.is_alive() and not waited:
                deadline.check("the end of a commit")
                waited = bool(
                    self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
                )
            joined(probe)

    def _commit(self) -> None:
        with suppress(psycopg.OperationalError):  # its backend is terminated
            self.run("SELECT pg_logical_emit_message(true, 'probe', '')")

    def _until(self, sql: str) -> None:
        deadline = Deadline()
        while not self.run(sql):
            deadline.check(sql)


def _hold(stepped: Stepped) -> None:
    """A change that arrives while a chunk is read follows the chunk."""
    stepped.wants("a")
    stepped.chunk()
    stepped.run("UPDATE t SET v = 1 WHERE id = 1")
    stepped.take()
    stepped.check("a")


def _visibility(stepped: Stepped) -> None:
    """A chunk does not follow a change that its transaction does not see."""
    with stepped.unseen("UPDATE t SET v = 1 WHERE id = 1") as see:
        stepped.take()
        stepped.session.publish()
        stepped.wants("a")
        stepped.chunk()
        stepped.session.step()
        see()
    stepped.check("a")


def _visible_end(stepped: Stepped) -> None:
    """Changes that are not visible yet stay in the log: another capture must know them when it reads a chunk."""
    stepped.wants("a")
    stepped.check("a")
    with stepped.unseen("UPDATE t SET v = 1 WHERE id = 1") as see:
        stepped.take()
        stepped.session.publish()
        stepped.sink("a")
        stepped.session.retention.intervals = replace(_PACE, kept_seconds=0.0)
        stepped.session.confirm()
        stepped.end()
        stepped.begin()
        stepped.wants("b")
        stepped.chunk()
        stepped.session.step()
        see()
    stepped.check("a", "b")


def _read_through(stepped: Stepped) -> None:
    """An unchanged long value is read from the server if no chunk has its old row."""
    _begin_with_one_chunk(stepped)
    stepped.run("UPDATE t SET id = 0 WHERE id = 4")
    stepped.take()
    stepped.check("a")


def _wait(stepped: Stepped) -> None:
    """An unchanged value is read in a snapshot that sees the change."""
    _begin_with_one_chunk(stepped)
    with stepped.unseen("UPDATE t SET id = 0 WHERE id = 4") as see:
        stepped.take()
        looks, chunk = count(1), stepped.stream.chunk

        def look_again(table: CapturedTable) -> PostgresChunkRead:
            if next(looks) == 2:
                see()
            return chunk(table)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stepped.stream, "chunk", look_again)
            stepped.session.publish()
        see()
    stepped.check("a")


def _later_high(stepped: Stepped) -> None:
    """A table is not complete while it may have a value from a later position."""
    _begin_with_one_chunk(stepped)
    stepped.run("UPDATE t SET id = 0 WHERE id = 4")
    stepped.chunk()
    stepped.take()
    stepped.run("UPDATE t SET long = 'later' WHERE id = 0; UPDATE t SET v = 5 WHERE id = 3")
    stepped.session.add_chunks()
    stepped.session.publish()
    place = stepped.sink("a")
    now = {row[0]: row for row in stepped.run("SELECT id, v, long FROM t")}
    assert stepped.reader("a").snapshot_running(place.offsets())
    assert stepped.sinks.table("a")[0] == now[0]
    stepped.check("a")


def _missing_keys(stepped: Stepped) -> None:
    """If a row has changed its key before its value was read, the value is read under the new key."""
    _begin_with_one_chunk(stepped)
    stepped.run("UPDATE t SET id = 0 WHERE id = 4")
    stepped.chunk()  # the last chunk, which is not older than the change
    stepped.run("UPDATE t SET v = 1 WHERE id = 1")
    stepped.take()
    stepped.run("UPDATE t SET id = -1 WHERE id = 0")
    stepped.session.add_chunks()
    stepped.session.publish()
    stepped.check("a")


def _begin_with_one_chunk(stepped: Stepped) -> None:
    """Start a sink whose log has one chunk, with the first two rows, and nothing else."""
    stepped.wants("a")
    stepped.chunk()
    assert stepped.session.add_chunks()
    stepped.session.reporter.send_status()
    stepped.sink("a")


_PARTS = {
    "no_hold": _hold,
    "no_visibility_test": _visibility,
    "no_visible_end": _visible_end,
    "no_read_through": _read_through,
    "no_wait": _wait,
    "no_later_high": _later_high,
    "no_missing_keys": _missing_keys,
}


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def stepped(own: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Stepped]]:
    monkeypatch.setattr("sinkql.connectors.postgres.chunk._FIRST_ROWS", 2)
    monkeypatch.setattr("sinkql.connectors.postgres.chunk.PostgresChunkRead._row_limit", lambda self, size: 2)
    made: list[Stepped] = []

    def make() -> Stepped:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Stepped(own, own.database(), folder))
        return made[-1]

    yield make
    for each in made:
        each.end()
        forget(login(own, each.database), each.source, failure)
        own.drop(each.database)


@pytest.mark.share(6)
@pytest.mark.parametrize("mutant", sorted(_PARTS))
def test_a_table_is_right_with_a_part_of_the_protocol_and_wrong_without(
    stepped: Callable[[], Stepped], mutant: str
) -> None:
    _PARTS[mutant](stepped())
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[mutant](patch)
        with pytest.raises((AssertionError, SinkqlError)):
            _PARTS[mutant](stepped())


def test_a_snapshot_ends_though_keys_change_all_the_time(stepped: Callable[[], Stepped]) -> None:
    found = stepped()
    found.run("INSERT INTO t SELECT i, 0, repeat('x', 4000) FROM generate_series(10, 20) AS i")
    found.wants("a")
    found.settle()
    for key in range(10, 20):
        found.run(f"UPDATE t SET id = id + 100 WHERE id = {key}")
        found.take()
        found.run(f"UPDATE t SET id = id + 100 WHERE id = {key + 100}")  # published late: the row has another key
        found.session.publish()
        place = found.sink("a")
    assert not found.reader("a").snapshot_running(place.offsets())
    found.check("a")


def test_what_was_found_late_is_known_to_the_next_capture(stepped: Callable[[], Stepped]) -> None:
    found = stepped()
    _missing_keys(found)
    before = {number: each.high for number, each in found.session.snapshots.generations.items()}
    found.end()
    found.begin()
    assert {number: each.high for number, each in found.session.snapshots.generations.items()} == before
