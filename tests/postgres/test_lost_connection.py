"""A connection that is lost without notice is closed; slow answers are awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from sinkql.connector_api import dead_connection
from sinkql.connectors.postgres.copy import copy_out
from sinkql.connectors.postgres.slot import drop_slot
from sinkql.errors import SinkqlError
from support.front import Front, front, noting
from support.patience import Deadline
from support.postgres import Postgres

from .reading import Reading, login_at, tables

pytestmark = pytest.mark.server


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes silent connections be checked soon."""

    def hurry() -> None:
        monkeypatch.setattr(dead_connection, "SILENCE_S", 0.3)
        monkeypatch.setattr(dead_connection, "_LOOK_S", 0.1)

    return hurry


@pytest.fixture
def before(postgres: Postgres) -> Iterator[Front]:
    with front(postgres.port) as found:
        yield found


def _lose(before: Front) -> None:
    """Drop the traffic of the present connections; let new connections through."""
    before.mute()
    before.open()


def test_a_query_that_is_never_answered_fails(before: Front, postgres_database: str, hasty: Callable[[], None]) -> None:
    with login_at(before.port, postgres_database).connect() as connection:
        hasty()
        _lose(before)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with login_at(before.port, postgres_database).connect() as connection:
        _lose(before)
        with pytest.raises(psycopg.Error):
            copy_out(connection, "SELECT 1", [])


def test_a_query_that_the_server_works_on_is_awaited(
    postgres: Postgres, before: Front, postgres_database: str, hasty: Callable[[], None]
) -> None:
    """The query waits for a lock, which is released after the server was asked twice about it."""
    at_work = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    deadline = Deadline()
    with (
        login_at(before.port, postgres_database).connect() as connection,
        login_at(postgres.port, postgres_database).connect() as other,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = noting(connection)
        other.execute("SELECT pg_advisory_lock(1)")
        answer = pool.submit(lambda: connection.execute("SELECT 7 FROM pg_advisory_lock(1)").fetchall())
        while not other.execute(at_work).fetchall():
            deadline.check("the query")
        hasty()
        while len(asked) < 2:
            deadline.check("a second check of the connection")
        other.execute("SELECT pg_advisory_unlock(1)")
        assert answer.result() == [(7,)]
    assert asked[:2] == [True, True]


def test_a_stream_that_says_nothing_fails(
    before: Front, postgres: Postgres, postgres_database: str, hasty: Callable[[], None]
) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t", postgres_database)
    of = tables(postgres, postgres_database)
    there = Postgres(postgres.folder, before.port)
    stream = Reading(there, postgres_database, of)
    try:
        stream.begin()
        stream.read()
        hasty()
        _lose(before)
        with pytest.raises(SinkqlError, match="SQ44"):
            _receive_for_ever(stream)
    finally:
        stream.stream.close()
        with login_at(postgres.port, postgres_database).connect() as connection:
            drop_slot(connection, stream.source.id, "s")


def _receive_for_ever(stream: Reading) -> None:
    deadline = Deadline()
    while True:
        stream.stream.receive(0.1)
        deadline.check("the end of the stream")
