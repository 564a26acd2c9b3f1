"""A connection that a server, or what is between, has lost without a word is broken off; slow answers are awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from sinkql.connectors.postgres.copy import copy_out
from sinkql.connectors.postgres.slot import drop_slot
from sinkql.errors import SinkqlError
from sinkql.extension import silence
from support.front import Front, front
from support.patience import Deadline
from support.postgres import Postgres

from .reading import Reading, login_at, tables

pytestmark = pytest.mark.server


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what has connections be asked for soon."""

    def hurry() -> None:
        monkeypatch.setattr(silence, "SILENCE_S", 0.3)
        monkeypatch.setattr(silence, "_LOOK_S", 0.1)

    return hurry


@pytest.fixture
def before(postgres: Postgres) -> Iterator[Front]:
    with front(postgres.port) as found:
        yield found


def _lose(before: Front) -> None:
    """Have what is connected get nothing more; others that come are let through."""
    before.mute()
    before.open()


def test_a_query_that_is_never_answered_fails(before: Front, postgres_database: str, hasty: Callable[[], None]) -> None:
    hasty()
    with login_at(before.port, postgres_database).connect() as connection:
        _lose(before)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with login_at(before.port, postgres_database).connect() as connection:
        _lose(before)
        with pytest.raises(psycopg.Error):
            copy_out(connection, "SELECT 1", [])


def test_a_query_that_the_server_works_on_is_awaited(
    before: Front, postgres_database: str, hasty: Callable[[], None]
) -> None:
    hasty()
    with login_at(before.port, postgres_database).connect() as connection:
        assert connection.execute("SELECT pg_sleep(1), 1").fetchall() == [("", 1)]


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
