"""A connection that a server, or what is between, has lost without a word is broken off; slow answers are awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest

from sinkql.connectors.mysql import connection as connection_module
from sinkql.connectors.mysql.connection import connect, rows
from sinkql.connectors.mysql.snapshot import _packets
from sinkql.errors import SinkqlError
from sinkql.extension import silence
from support.front import Front, front
from support.mariadb import PASSWORD, MariaDb
from support.silent import silent

from .captured import text

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "SILENCE_S", 0.3)
    monkeypatch.setattr(silence, "_LOOK_S", 0.1)


@pytest.fixture
def before(server: MariaDb) -> Iterator[Front]:
    with front(server.port) as found:
        yield found


def _connected(port: int) -> Any:
    options = {"host": "127.0.0.1", "port": port, "user": text("reader"), "password": text(PASSWORD)}
    return connect({**options, "ssl_mode": "disabled"}, lambda name: name, name="my")


@pytest.mark.parametrize("ask", [rows, lambda connection, query: list(_packets(connection, query))])
def test_a_query_that_is_never_answered_fails(before: Front, ask: Callable[[Any, str], object]) -> None:
    found = _connected(before.port)
    before.mute()
    before.open()
    with pytest.raises(pymysql.Error):
        ask(found, "SELECT 1")


def test_a_query_that_the_server_works_on_is_awaited(before: Front) -> None:
    found = _connected(before.port)
    assert rows(found, "SELECT SLEEP(1), 1") == [(0, 1)]
    assert [len(each) for each in _packets(found, "SELECT SLEEP(1), 1")] == [1]
    found.close()


def test_what_never_greets_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_CONNECT_S", 0.2)
    with silent() as (url, _), pytest.raises(SinkqlError, match="SQ4460"):
        _connected(int(url.rpartition(":")[2]))
