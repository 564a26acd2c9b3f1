"""Random changes of a real server, with captures that end and servers that are killed: the table is the server's."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from capture.pipeline import SOURCE, Running, Sinks, once
from mysql.captured import source_of, table_of
from sinkql import physical
from sinkql.capture.control import SubscribedSink
from sinkql.connector_api.cdc import CapturedTable, LogRetention, source_options, table_options
from sinkql.connectors.mysql.stream import open_stream
from sinkql.errors import GoneError
from support.mariadb import MariaDb
from support.patience import PATIENCE_S, Deadline, joined
from support.readers import duckdb_folder
from support.running import job

pytestmark = [pytest.mark.server, pytest.mark.long]

_WORDS = ("a", "A", "b ", "é", "E", "zz", "", "O'k")
_CREATE = """
CREATE TABLE t (a int, b varchar(8) COLLATE utf8mb4_bin, v text, d decimal(30,6), made datetime(6), PRIMARY KEY (b, a))
"""
_COLUMNS = "a, b, v, d, made"
_TURNS = 120


@dataclass(frozen=True)
class _Sinks(Sinks):
    """One sink of a table of a real server."""

    captured: CapturedTable | None = None

    def job(self, name: str, *, max_rows: int = 50) -> physical.Job:
        assert self.captured is not None
        options = table_options(source_options(SOURCE, "my", {}, self.keeping), self.captured)
        read = physical.Read("t", "MYSQL", options, self.captured.columns, "upsert", key=self.captured.key)
        return job(read, self.folder, table=name, key=self.captured.key, max_rows=500)

    def subscribed_sinks(self) -> list[SubscribedSink]:
        assert self.captured is not None
        return [SubscribedSink(f"id-{name}", self.captured) for name in self.names]


class _Writer:
    """Random changes of a table, in transactions; a killed server may lose its open ones."""

    def __init__(self, server: MariaDb, database: str, seed: int, turns: threading.Semaphore) -> None:
        self._server, self._database, self._random, self._turns = server, database, random.Random(seed), turns

    def run(self) -> None:
        turn = 0
        while turn < _TURNS:
            with suppress(pymysql.Error), self._server.connect(database=self._database, autocommit=False) as connection:
                while turn < _TURNS:
                    assert self._turns.acquire(timeout=PATIENCE_S)
                    with suppress(pymysql.err.IntegrityError), connection.cursor() as cursor:
                        self._change(cursor)
                    connection.rollback() if self._random.random() < 0.1 else connection.commit()
                    turn += 1

    def _change(self, cursor: Any) -> None:
        draw = self._random
        for _ in range(draw.choice((1, 1, 1, 3))):
            a, b = draw.randrange(9), draw.choice(_WORDS)
            value = (draw.choice((None, "v" * draw.randrange(3000))), f"{draw.randrange(-(10**9), 10**9)}.000001")
            match draw.randrange(12):
                case 0 | 1 | 2 | 3:
                    cursor.execute(
                        "INSERT INTO t VALUES (%s, %s, %s, %s, NOW(6)) ON DUPLICATE KEY UPDATE v = 'again'",
                        (a, b, *value),
                    )
                case 4 | 5:
                    cursor.execute("UPDATE t SET v = %s, d = %s WHERE a = %s", (*value, a))
                case 6:
                    cursor.execute("UPDATE t SET a = a + 100 WHERE a = %s", (a,))
                case 7 | 8:
                    cursor.execute("DELETE FROM t WHERE a = %s", (a,))
                case 9:
                    cursor.execute("DELETE FROM t WHERE a >= 100 AND b = %s", (b,))
                case 10:
                    cursor.execute("SAVEPOINT s")
                    cursor.execute("UPDATE t SET d = d + 1")
                    cursor.execute("ROLLBACK TO s")
                case 11:
                    if draw.random() < 0.1:
                        cursor.execute("TRUNCATE TABLE t")


def _catch_up(sinks: _Sinks) -> None:
    """Run the sink to the end of the log; retry if the capture reconnects during its first batch."""
    deadline = Deadline()
    while True:
        deadline.check("the end of the log")
        try:
            once(sinks)
        except GoneError as error:
            if not error.retryable:
                raise
        else:
            return


def _rows(found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=lambda row: (row[0], row[1]))


def _run(server: MariaDb, database: str, folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute(_CREATE)
        for number in range(draw.choice((0, 700))):
            cursor.execute("INSERT INTO t VALUES (%s, 'old', 'old', %s, NOW(6))", (number, number))
    sinks = _Sinks(folder, keeping=LogRetention("log"), captured=table_of(server, database, "t"))
    source = source_of(server, f"{database} {seed}")

    def stream() -> Any:  # Any, because the fake stream has more members
        return open_stream(source, lambda name: name)

    turns = threading.Semaphore(0)
    made = [_Writer(server, database, seed * 7 + number, turns) for number in range(2)]
    writers = [threading.Thread(target=each.run, daemon=True) for each in made]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        with Running(sinks, stream=stream):
            for _ in range(draw.randrange(1, 4)):
                turns.release(30)
                _catch_up(sinks)
            if draw.random() < 0.3:
                turns.release(5)
                server.stop()
                assert server.start()
                turns.release(5)
                _catch_up(sinks)
    joined(*writers)
    with Running(sinks, stream=stream):
        _catch_up(sinks)
    found = duckdb_folder(str(folder / "lake" / "n" / "a"), _COLUMNS)
    expected = server.rows(f"SELECT {_COLUMNS} FROM {database}.t")
    assert _rows(expected) == _rows(found)


@pytest.mark.parametrize("seed", range(1))
def test_the_table_is_the_servers(server: MariaDb, database: str, tmp_path: Path, seed: int) -> None:
    _run(server, database, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 26))
def test_the_table_is_the_servers_many_times(server: MariaDb, database: str, tmp_path: Path, seed: int) -> None:
    _run(server, database, tmp_path, seed)
