"""A connection that the server or the network lost silently is closed; slow answers are awaited."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest

from sinkql.connector_api import dead_connection
from sinkql.connectors.mysql import connection as connection_module
from sinkql.connectors.mysql.connection import connect, rows
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.connectors.mysql.snapshot import _read_packets
from sinkql.errors import SinkqlError
from support.front import Front, front, noting
from support.mariadb import PASSWORD, MariaDb
from support.patience import Deadline
from support.silent import silent

from .captured import text

pytestmark = pytest.mark.server


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes silent connections be probed soon."""

    def hurry() -> None:
        monkeypatch.setattr(dead_connection, "SILENCE_S", 0.3)
        monkeypatch.setattr(dead_connection, "_LOOK_S", 0.1)

    return hurry


@pytest.fixture
def before(server: MariaDb) -> Iterator[Front]:
    with front(server.port) as found:
        yield found


def _connected(port: int) -> Any:
    options = MySqlConnection("127.0.0.1", port, text("reader"), "disabled", text(PASSWORD))
    return connect(options, lambda name: name, name="my")


_BY_ROWS_OR_PACKETS = pytest.mark.parametrize(
    "ask", [rows, lambda connection, query: list(_read_packets(connection, query))], ids=["rows", "packets"]
)


@_BY_ROWS_OR_PACKETS
def test_a_query_that_is_never_answered_fails(
    before: Front, ask: Callable[[Any, str], object], hasty: Callable[[], None]
) -> None:
    found = _connected(before.port)
    before.mute()
    before.open()
    hasty()
    with pytest.raises(pymysql.Error):
        ask(found, "SELECT 1")


@_BY_ROWS_OR_PACKETS
def test_a_query_that_the_server_works_on_is_awaited(
    server: MariaDb, before: Front, ask: Callable[[Any, str], Any], hasty: Callable[[], None]
) -> None:
    """The server waits for a lock until it has been probed twice."""
    found = _connected(before.port)
    asked = noting(found)
    at_work = f"SELECT 1 FROM information_schema.processlist WHERE id = {found.thread_id()} AND info LIKE '%GET_LOCK%'"
    deadline = Deadline()
    with server.connect() as other, other.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT GET_LOCK('held', 0)")
        answer = pool.submit(ask, found, "SELECT GET_LOCK('held', 3600)")
        while not server.rows(at_work):
            deadline.check("the query")
        hasty()
        while len(asked) < 2:
            deadline.check("two probes")
        cursor.execute("SELECT RELEASE_LOCK('held')")
        assert len(answer.result()) == 1
    assert asked[:2] == [True, True]
    found.close()


class _Pair:
    """A connection on which a wait for an answer is due for a probe."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.near = socket.create_connection(listener.getsockname())
        self.far, _ = listener.accept()
        listener.close()
        self.silence = dead_connection.ResponseWatch(self.near.fileno, lambda: False)

    def closed(self) -> bool:
        """Return whether the connection was shut down."""
        self.near.setblocking(False)
        try:
            return self.near.recv(1) == b""
        except BlockingIOError:
            return False


@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_that_comes_before_the_server_is_asked_counts(
    hasty: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *, answered: bool
) -> None:
    """The thread that probes may be late, so an answer counts if it comes before the probe."""
    monkeypatch.setattr(dead_connection, "_WATCH", watch := dead_connection._Watch())
    watch._runs = True  # only this test probes
    pair, deadline = _Pair(), Deadline()
    with pair.silence:
        hasty()
        while not pair.silence.is_due():
            deadline.check("silence")
        if answered:
            pair.far.sendall(b"x")
            pair.near.recv(1)
            while dead_connection._silence(pair.near.fileno()) < dead_connection._LOOK_S:
                deadline.check("a silent connection")
        pair.silence.probe()
        assert pair.closed() is not answered
    pair.near.close()
    pair.far.close()


def test_what_never_greets_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_CONNECT_S", 0.2)
    with silent() as (url, _), pytest.raises(SinkqlError, match="SQ4460"):
        _connected(int(url.rpartition(":")[2]))
