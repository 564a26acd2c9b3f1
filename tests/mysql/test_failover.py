"""A server dies and its replica takes over: sinks continue there, or report the missing transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.pipeline import run_once
from postgres.pipeline import capturing
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb, mariadb
from support.patience import Deadline
from support.readers import duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long, pytest.mark.soak]

_SQL = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES (d.t);
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[MariaDb, MariaDb]]:
    """Start a server and its replica."""
    with (
        mariadb(_folder(tmp_path, "one")) as first,
        mariadb(_folder(tmp_path, "two"), "--server-id=2", "--log-slave-updates=1") as second,
    ):
        first.run(
            "CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY, v text)", "INSERT INTO d.t VALUES (1, 'a')"
        )
        first.run("CREATE USER copy@'%'", "GRANT REPLICATION SLAVE ON *.* TO copy@'%'")
        second.run(
            "CREATE DATABASE d", "CREATE TABLE d.t (id int PRIMARY KEY, v text)", "INSERT INTO d.t VALUES (1, 'a')"
        )
        ((position,),) = first.rows("SELECT @@gtid_binlog_pos")
        second.run(
            "RESET MASTER",
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {first.port}, MASTER_USER = 'copy', "
            "MASTER_USE_GTID = slave_pos",
            "START SLAVE",
        )
        yield first, second


def _folder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _once(session: Session) -> None:
    run_once(session, "a")


def _taken_over(first: MariaDb, second: MariaDb) -> None:
    ((position,),) = first.rows("SELECT @@gtid_binlog_pos")
    assert second.rows(f"SELECT MASTER_GTID_WAIT('{position}', 60)") == ((0,),)
    first.stop()
    second.run("STOP SLAVE", "RESET SLAVE ALL")


def test_sinks_continue_at_a_replica_that_has_all(
    servers: tuple[MariaDb, MariaDb], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_SQL.format(password=PASSWORD.replace("'", "''"), port=first.port))
        with capturing(session):
            _once(session)
            first.run("INSERT INTO d.t VALUES (2, 'b')")
            _once(session)
            first.run("UPDATE d.t SET v = 'c' WHERE id = 1")  # no capture has read this change
            _taken_over(first, second)
            second.run("INSERT INTO d.t VALUES (3, 'd')", "DELETE FROM d.t WHERE id = 2")
            session.execute(f"ALTER CONNECTION my SET (PORT = {second.port});")
            _again(session)
    assert duckdb_folder("lake/n/a") == [(1, "c"), (3, "d")]


def test_what_a_replica_lacks_is_told(
    servers: tuple[MariaDb, MariaDb], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_SQL.format(password=PASSWORD.replace("'", "''"), port=first.port))
        with capturing(session):
            _once(session)
            ((position,),) = first.rows("SELECT @@gtid_binlog_pos")
            assert second.rows(f"SELECT MASTER_GTID_WAIT('{position}', 60)") == ((0,),)
            second.run("STOP SLAVE", "RESET SLAVE ALL")
            first.run("INSERT INTO d.t VALUES (2, 'lost')")
            _once(session)
            first.stop()
            second.run("INSERT INTO d.t VALUES (3, 'd')")  # it has the same transaction number
            session.execute(f"ALTER CONNECTION my SET (PORT = {second.port});")
            deadline = Deadline()
            code = ""
            while code != "SQ4467":
                deadline.check(f"SQ4467: {code}")
                try:
                    _once(session)
                except SinkqlError as error:
                    code = error.code
            assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
            _again(session)
            second.run("INSERT INTO d.t VALUES (4, 'e')")
            _again(session)
    assert duckdb_folder("lake/n/a") == [(1, "a"), (3, "d"), (4, "e")]


def _again(session: Session) -> None:
    """Run the sink, and again while the capture is still connected to the old server."""
    deadline = Deadline()
    while True:
        try:
            _once(session)
        except SinkqlError as error:
            if not deadline.left() or not (error.retryable or error.code == "SQ4467"):
                raise
        else:
            return
