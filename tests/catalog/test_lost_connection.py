"""A connection to the catalog's server goes silent, as behind a router that drops it: it is detected and replaced."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from sinkql.catalog.postgres import database as database_module
from sinkql.catalog.postgres.database import ServerDatabase
from sinkql.catalog.system import LAYOUT
from sinkql.connector_api import dead_connection
from sinkql.errors import LateError
from support.catalog import server_address
from support.front import Front, front
from support.patience import PATIENCE_S
from support.postgres import Postgres

pytestmark = pytest.mark.server


@pytest.fixture
def before(postgres: Postgres) -> Iterator[Front]:
    with front(postgres.port) as found:
        yield found


@pytest.fixture
def database(
    postgres: Postgres, before: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServerDatabase]:
    opened = ServerDatabase(server_address(postgres, tmp_path, port=before.port), LAYOUT)
    monkeypatch.setattr(dead_connection, "SILENCE_S", 0.3)
    monkeypatch.setattr(dead_connection, "_LOOK_S", 0.1)
    yield opened
    before.open()
    opened.close()


def _lose(before: Front) -> None:
    """Make open connections silent; new ones still work."""
    before.mute()
    before.open()


def test_a_kept_connection_that_is_lost_is_replaced(database: ServerDatabase, before: Front) -> None:
    _lose(before)
    with database.write() as connection:
        assert connection.scalar("SELECT 1") == 1


def test_a_connection_that_is_lost_in_a_transaction_is_told(database: ServerDatabase, before: Front) -> None:
    def write() -> None:
        with database.write() as connection:
            _lose(before)
            connection.scalar("SELECT 1")

    with pytest.raises(LateError) as caught:
        write()
    assert caught.value.code == "SQ4150"
    with database.read() as connection:
        assert connection.scalar("SELECT 1") == 1


def test_a_server_that_takes_connections_and_never_answers_is_told(
    database: ServerDatabase, before: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(database_module._DEFAULTS, "connect_timeout", 2)
    before.mute()
    with pytest.raises(LateError) as caught, database.read():
        pass
    assert caught.value.code == "SQ4150"


def test_a_statement_that_the_server_works_on_is_awaited(
    database: ServerDatabase, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement waits for a lock, which is released after two checks of the server."""
    said, works, waits = SimpleQueue[bool](), ServerDatabase._is_working, list[int]()

    def asked(found: ServerDatabase, session: int | None) -> bool:
        is_about_the_statement = session in waits  # on a loaded machine, the checking connection itself is checked, too
        alive = works(found, session)
        if is_about_the_statement:
            said.put(alive)
        return alive

    monkeypatch.setattr(ServerDatabase, "_is_working", asked)
    database.close()  # the next connection is guarded by the patched check
    with postgres.connect() as other, ThreadPoolExecutor() as pool, database.read() as connection:
        other.execute("SELECT pg_advisory_lock(7)")
        waits.append(connection.scalar("SELECT pg_backend_pid()"))
        answer = pool.submit(connection.scalar, "SELECT 7 FROM pg_advisory_xact_lock(7)")
        assert [said.get(timeout=PATIENCE_S) for _ in range(2)] == [True, True]
        monkeypatch.setattr(dead_connection, "SILENCE_S", PATIENCE_S)
        other.execute("SELECT pg_advisory_unlock(7)")
        assert answer.result(PATIENCE_S) == 7
