"""A server that is put back from a copy is told until a user accepts the loss, however far its log has grown since."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from mysql.captured import received, source_of, table_of
from sinkql import codec
from sinkql.connector_api.cdc import Event, RowsChanged, TableRows
from sinkql.connectors.mysql.gtid import ReadTransaction
from sinkql.connectors.mysql.stream import MySqlStream, open_stream
from sinkql.errors import SinkqlError
from support.mariadb import MariaDb, mariadb
from support.notes import MemoryNotes
from support.patience import Deadline

pytestmark = pytest.mark.server


@contextmanager
def _stream(server: MariaDb, notes: MemoryNotes) -> Iterator[MySqlStream]:
    stream = open_stream(replace(source_of(server), notes=notes), lambda secret: secret)
    try:
        stream.check()
        yield stream
    finally:
        stream.close()


def _read(server: MariaDb, notes: MemoryNotes, after: str | None) -> tuple[str, list[int]]:
    """Read what follows a position as one capture does; return where it ends, and the rows' ids."""
    rows: list[TableRows] = []

    def keep(event: Event) -> None:
        if isinstance(event, RowsChanged):
            rows.extend(each for parts in event.tables.values() for each in parts)

    with _stream(server, notes) as stream:
        stream.begin(stream.create() if after is None else after, [table_of(server, "d", "t")])
        end = stream.end()
        received(stream, end, keep)
        stream.confirm(end)
    return end, [row["id"] for each in rows for row in each.rows.to_pylist()]


def _insert(server: MariaDb, *ids: int) -> None:
    server.run(*(f"INSERT INTO d.t VALUES ({each})" for each in ids))


def _noted(notes: MemoryNotes) -> ReadTransaction:
    return codec.decoder(list[ReadTransaction]).decode(notes.noted("standing.json") or b"")[-1]


def _wait_past(last: ReadTransaction) -> None:
    """Wait until what is committed has another time than what was read last: MariaDB knows seconds only."""
    deadline = Deadline()
    while time.time() < last.at / 1_000_000 + 1:
        deadline.check("the next second: MariaDB knows no smaller times")


def test_server_that_is_put_back_is_told_until_the_loss_is_accepted(tmp_path: Path) -> None:
    notes = MemoryNotes()
    with mariadb(tmp_path) as server:
        server.run("CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY)")
        with _stream(server, notes) as stream:
            end = stream.create()
        _insert(server, 1, 2)
        end, ids = _read(server, notes, end)
        assert ids == [1, 2]
        server.stop()  # a crash, after which the same log goes on
        assert server.start()
        _insert(server, 3)
        end, ids = _read(server, notes, end)
        assert ids == [3]
        server.run("SHUTDOWN")
        assert server.process is not None
        server.process.wait()
        subprocess.run(["cp", "-a", str(server.folder / "data"), str(server.folder / "copy")], check=True)
        assert server.start()
        _insert(server, 10, 11, 12)
        end, ids = _read(server, notes, end)
        assert ids == [10, 11, 12]
        server.stop()
        subprocess.run(["rm", "-rf", str(server.folder / "data")], check=True)
        (server.folder / "copy").rename(server.folder / "data")
        assert server.start()
        _wait_past(_noted(notes))
        for others in (range(20, 21), range(21, 24), range(24, 40)):  # fewer, the same number, more
            _insert(server, *others)
            with pytest.raises(SinkqlError) as told:
                _read(server, notes, end)
            assert told.value.code == "SQ4467"
        with _stream(server, notes) as stream:
            stream.renew()
            end = stream.create()
        _insert(server, 50)
        end, ids = _read(server, notes, end)
        assert ids == [50]
        other = msgspec.structs.replace(_noted(notes), server="9", id="0-9-9")  # which commits in another order
        notes.note("standing.json", msgspec.json.encode([other]))
        _insert(server, 51)
        assert _read(server, notes, end)[1] == [51]


def test_a_server_that_sends_no_log_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = MemoryNotes()
    with mariadb(tmp_path) as server:
        server.run("CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY)")
        with _stream(server, notes) as stream:
            end = stream.create()
        _insert(server, 1)
        end, _ = _read(server, notes, end)
        monkeypatch.setattr("sinkql.connectors.mysql.history_check._WAIT_S", -1.0)
        with pytest.raises(SinkqlError, match="the server does not send its log") as error:
            _read(server, notes, end)
        assert error.value.retryable


def test_server_whose_log_was_reset_is_told_until_the_loss_is_accepted(tmp_path: Path) -> None:
    """The numbers of its transactions begin again, and grow past the place."""
    notes = MemoryNotes()
    with mariadb(tmp_path) as server:
        server.run("CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY)")
        with _stream(server, notes) as stream:
            end = stream.create()
        _insert(server, *range(5))
        end, ids = _read(server, notes, end)
        assert ids == list(range(5))
        _insert(server, 10, 11)
        _wait_past(_noted(notes))
        server.run("RESET MASTER")
        for others in (range(20, 21), range(21, 30), range(30, 60)):  # fewer than were read, about as many, more
            _insert(server, *others)
            with pytest.raises(SinkqlError) as told:
                _read(server, notes, end)
            assert told.value.of_loss
        with _stream(server, notes) as stream:
            stream.renew()
            end = stream.create()
        _insert(server, 70)
        assert _read(server, notes, end)[1] == [70]
