"""A server restored from a copy is an error until a user accepts the loss, however much its log has grown since."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from sinkql.connectors.postgres.slot import application_name, find_slot, free_slot, slot_name
from sinkql.errors import SinkqlError
from support.notes import MemoryNotes
from support.patience import Deadline
from support.postgres import Postgres
from support.postgres import postgres as new_server

from .reading import Reading, tables

pytestmark = pytest.mark.server


@pytest.fixture
def server() -> Iterator[Postgres]:
    with new_server() as found:
        found.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t")
        yield found


def _reading(server: Postgres, notes: MemoryNotes, id_: str = "0a") -> Reading:
    return Reading(server, "postgres", tables(server, "postgres"), id_, notes)


def _read(server: Postgres, notes: MemoryNotes, after: str | None, *, confirmed: bool = True) -> tuple[str, list[int]]:
    """Read the changes after a position as one capture does; return the end position and the rows' ids."""
    reading = _reading(server, notes)
    try:
        reading.begin(after)
        ids = [row["id"] for row in reading.rows("t")]
        end = reading.stream._server_timelines().position(reading.stream._to)
        reading.stream._history.save()
        if confirmed:
            reading.stream.confirm(end)
            reading.stream.receive(0.1)
    finally:
        reading.stream.close()
    return end, ids


def _insert(server: Postgres, *ids: int) -> None:
    with server.connect() as connection:
        for each in ids:
            connection.execute(f"INSERT INTO t VALUES ({each}, 'v') ON CONFLICT (id) DO UPDATE SET v = 'w'")


@pytest.mark.parametrize("grown", [300, *(pytest.param(each, marks=pytest.mark.soak) for each in (0, 1))])
def test_server_that_is_put_back_is_told_until_the_loss_is_accepted(server: Postgres, grown: int) -> None:
    notes = MemoryNotes()
    first = _reading(server, notes)
    first.stream.close()
    _insert(server, 1)
    end, ids = _read(server, notes, first.start)
    assert ids == [1]
    server.stop()
    copy = server.folder / "copy"
    subprocess.run(["cp", "-a", str(server.data), str(copy)], check=True)
    server.start()
    _insert(server, *range(2, 30))
    end, ids = _read(server, notes, end)
    assert ids == list(range(2, 30))
    server.stop()
    subprocess.run(["rm", "-rf", str(server.data)], check=True)
    copy.rename(server.data)
    server.start()
    _insert(server, *range(1000, 1000 + grown))
    for _ in range(2):
        with pytest.raises(SinkqlError) as told:
            _read(server, notes, end)
        assert told.value.code == "SQ3709"
        _insert(server, *range(2000, 2100))  # however much the log grows
    skipped = _reading(server, notes)
    skipped.stream.renew()
    start = skipped.stream.create()
    skipped.stream.close()
    _insert(server, 5000)
    assert _read(server, notes, start)[1] == [5000]


def test_server_that_crashed_continues(server: Postgres) -> None:
    """A crash may move the slot back: changes that were read arrive again, and are recognized."""
    notes = MemoryNotes()
    first = _reading(server, notes)
    first.stream.close()
    end = first.start
    for number in range(1, 6):
        _insert(server, number)
        end, ids = _read(server, notes, end, confirmed=number % 2 == 0)
        assert ids == [number]
        if number > 2:
            server.restart(signal.SIGQUIT)
    _insert(server, 10, 11)
    server.execute("ALTER TABLE t ADD more int")
    _insert(server, 12)
    assert _read(server, notes, end)[1] == [10, 11, 12]


def test_where_nothing_follows_what_comes_again_the_reader_continues(server: Postgres) -> None:
    """The stream keeps table descriptions from a transaction that it has read; they begin no unfinished transaction."""
    notes = MemoryNotes()
    first = _reading(server, notes)
    first.stream.close()
    _insert(server, 1)
    end, _ = _read(server, notes, first.start, confirmed=False)
    server.execute("CREATE TABLE other (id int)")
    ((place,),) = server.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    again = _reading(server, notes)
    try:
        again.begin(end)
        assert again.stream._replication is not None
        assert again.stream._replication._check is not None
        deadline = Deadline()
        while again.stream._to < place:
            again.stream.receive(0.1)
            deadline.check(f"{place} of the server's log")
    finally:
        again.stream.close()


def test_what_the_earlier_run_confirms_as_it_ends_counts(server: Postgres) -> None:
    first = _reading(server, MemoryNotes())
    _insert(server, 1)
    first.begin()
    assert [row["id"] for row in first.rows("t")] == [1]
    with server.connect() as connection:
        before = find_slot(connection, slot_name("0a"))
        assert before is not None
        first.stream.confirm(first.stream._server_timelines().position(first.stream._to))
        deadline = Deadline()
        while find_slot(connection, slot_name("0a")) == before:
            deadline.check("the slot's confirmed position")
        found = free_slot(connection, before, application_name("0a"), "s")
    first.stream.close()
    assert found is not None
    assert (found.confirmed, found.reader) == (first.stream._to, None)


@pytest.mark.parametrize("made", ["again", pytest.param("copied", marks=pytest.mark.soak)])
def test_slot_that_others_drop_and_make_again_is_a_loss(server: Postgres, made: str) -> None:
    """No slot has the changes that were committed in between."""
    notes = MemoryNotes()
    first = _reading(server, notes)
    slot = slot_name(first.source.id)
    first.stream.close()
    _insert(server, 1)
    end, ids = _read(server, notes, first.start)
    assert ids == [1]
    server.drop_slot(slot)
    _insert(server, 2, 3)
    if made == "again":
        server.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    else:
        server.execute("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
        server.execute(f"SELECT pg_copy_logical_replication_slot('theirs', '{slot}')")
    for _ in range(2):
        _insert(server, 4)
        with pytest.raises(SinkqlError) as told:
            _read(server, notes, end)
        assert told.value.of_loss
