"""The process that writes a catalog in Postgres is killed around each message to the server: all is done or undone."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog.test_killed_writing import _SCRIPT, _STATEMENTS, _state
from sinkql.catalog.address import ServerUrl
from sinkql.catalog.open_store import open_server
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.catalog.sqlite.database import Memory
from sinkql.catalog.system import LAYOUT
from sinkql.session import Session
from support.catalog import server_address
from support.patience import ended
from support.postgres import Postgres

pytestmark = [pytest.mark.server, pytest.mark.long]
_FORK = multiprocessing.get_context("fork")
_MOST = 8  # cases of a statement, evenly spaced


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the test's folder, where the sink's lake is, with a fixed key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, "A" * 43 + "=")


def _run(url: ServerUrl, statement: str, sent: Synchronized[int], *, fatal: int, after: bool) -> None:
    session = Session(url)
    execute: Callable[..., Any] = psycopg.Connection.execute

    def counted(self: Any, *arguments: Any, **more: Any) -> Any:
        sent.value += 1
        if sent.value == fatal and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = execute(self, *arguments, **more)
        if sent.value == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    psycopg.Connection.execute = counted  # type: ignore[method-assign]  # this process does nothing else
    session.execute(statement)


class Case:
    """A statement to run over a catalog; each run has a new copy of the catalog."""

    def __init__(self, server: Postgres, folder: Path, name: str) -> None:
        self.server, self.folder, self.statement = server, folder, _STATEMENTS[name]
        with Session(self.url()) as session:
            session.execute(_SCRIPT)
            copy = session.catalog.database.copy()
        assert isinstance(copy, Memory)
        self.copy = copy

    def url(self) -> ServerUrl:
        return server_address(self.server, self.folder / ".sinkql")

    def run(self, *, fatal: int = 0, after: bool = False) -> tuple[list[str], int]:
        """Run the statement; return the state after it, and the number of messages to the server."""
        url, sent = self.url(), _FORK.Value("i", 0)
        open_server(url, LAYOUT).replace(self.copy)
        process = _FORK.Process(target=_run, args=(url, self.statement, sent), kwargs={"fatal": fatal, "after": after})
        process.start()
        assert ended(process) == [-signal.SIGKILL if fatal else 0]
        return _state(url), sent.value


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["ALTER", "COMMIT"])
def test_statement_killed_at_any_message_is_done_or_undone(postgres: Postgres, tmp_path: Path, name: str) -> None:
    case = Case(postgres, tmp_path, name)
    untouched = case.url()
    open_server(untouched, LAYOUT).replace(case.copy)
    before = _state(untouched)
    after, messages = case.run()
    assert before != after
    moments = [(number, late) for number in range(1, messages + 1) for late in (False, True)]
    chosen = [*moments[:: 1 + len(moments) // _MOST], moments[-1]]
    found = [case.run(fatal=number, after=late)[0] for number, late in chosen]
    assert [state for state in found if state not in (before, after)] == []
    assert {state == after for state in found} == {True, False}
