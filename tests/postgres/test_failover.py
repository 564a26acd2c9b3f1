"""A standby replaces a source's server: sinks continue, or stop and refresh their rows; no table is wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from capture.pipeline import run_once
from sinkql.capture import messages
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
from sinkql.session.sink.workload import CatalogWorkload
from support.patience import Deadline
from support.postgres import Postgres, run, standby
from support.postgres import postgres as postgres_server
from support.readers import duckdb_folder

from .pipeline import capturing

pytestmark = [pytest.mark.server, pytest.mark.long]

_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE 'postgres', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@dataclass
class _Pair:
    """A server and its standby."""

    primary: Postgres
    other: Postgres

    def fail_over(self) -> None:
        """Kill the server, and promote the standby at the same port."""
        self.primary.stop(signal.SIGQUIT)
        self.other.stop()
        self.other.port = self.primary.port
        self.other.start()
        run("pg_ctl", "-D", self.other.data, "-w", "promote")

    def replayed(self) -> None:
        """Wait until the standby has replayed all changes."""
        end = self.primary.execute("SELECT pg_current_wal_insert_lsn()::text")[0][0]
        _wait(lambda: self.other.execute(f"SELECT pg_last_wal_replay_lsn() >= '{end}'")[0][0])

    def synced(self) -> bool:
        """Return whether the slot is on the standby too: it is once it has passed the standby's first position."""
        self.primary.execute("SELECT pg_log_standby_snapshot()")
        return bool(self.other.execute("SELECT 1 FROM pg_replication_slots WHERE synced AND NOT temporary"))


@pytest.fixture
def pair() -> Iterator[_Pair]:
    with postgres_server() as primary:
        primary.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i"
        )
        primary.execute("CREATE PUBLICATION p FOR TABLE t; SELECT pg_create_physical_replication_slot('standby', true)")
        settings = {
            "primary_slot_name": "standby",
            "hot_standby_feedback": "on",
            "sync_replication_slots": "on",
            "primary_conninfo": primary.address(),
        }
        with standby(primary, settings) as other:
            yield _Pair(primary, other)


@pytest.fixture
def session(tmp_path: Path, pair: _Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(port=pair.primary.port))
        yield session


def test_sinks_continue_with_a_slot_that_the_standby_has(session: Session, pair: _Pair) -> None:
    with capturing(session):
        _sync(session, pair)
        pair.primary.execute("UPDATE t SET v = 1 WHERE id < 5; DELETE FROM t WHERE id = 6")
        run_once(session)
        pair.primary.execute("UPDATE t SET v = 2 WHERE id = 1")  # perhaps not read before the failover
        pair.replayed()
        pair.fail_over()
        pair.other.execute("INSERT INTO t VALUES (100, 100); UPDATE t SET v = 3 WHERE id = 2")
        run_once(session)
        assert duckdb_folder(Path("lake/n/a")) == _rows(pair.other)
        pair.other.execute("DELETE FROM t WHERE id = 3")
        run_once(session)
        assert duckdb_folder(Path("lake/n/a")) == _rows(pair.other)


@pytest.mark.soak  # a slot that is gone is also tried in test_captured.py
def test_sinks_stop_where_the_standby_has_no_slot(session: Session, pair: _Pair) -> None:
    pair.other.execute("ALTER SYSTEM SET sync_replication_slots = off")
    pair.other.execute("SELECT pg_reload_conf()")
    with capturing(session):
        run_once(session)
        pair.replayed()
        pair.fail_over()
        pair.other.execute("INSERT INTO t VALUES (100, 100); DELETE FROM t WHERE id = 1")
        assert _stopped(session).code == "SQ3701"
        _skip(session)
        assert duckdb_folder(Path("lake/n/a")) == _rows(pair.other)


def test_sinks_stop_where_they_have_what_the_standby_lacks(session: Session, pair: _Pair) -> None:
    with capturing(session):
        _sync(session, pair)
        pair.other.stop()
        pair.primary.execute("INSERT INTO t VALUES (50, 50)")
        run_once(session)
        assert (50, 50) in duckdb_folder(Path("lake/n/a"))
        pair.fail_over()
        pair.other.execute("INSERT INTO t VALUES (100, 100); DELETE FROM t WHERE id = 1")
        assert _stopped(session).code == "SQ3709"
        _skip(session)
        assert duckdb_folder(Path("lake/n/a")) == _rows(pair.other)
        pair.other.execute("DELETE FROM t WHERE id = 100")
        run_once(session)
        assert duckdb_folder(Path("lake/n/a")) == _rows(pair.other)


def _sync(session: Session, pair: _Pair) -> None:
    """Run the sink until the standby has its slot."""
    deadline = Deadline()
    while not pair.synced():
        pair.primary.execute("UPDATE t SET v = v + 1 WHERE id = 9")
        run_once(session)
        deadline.check("the slot on the standby")


def _stopped(session: Session) -> SinkqlError:
    """Run the sink until it stops with an error that is not retryable."""
    deadline = Deadline()
    while True:
        try:
            run_once(session)  # succeeds until the capture has met the new server
        except SinkqlError as error:
            if not error.retryable:
                return error
        deadline.check("an error that is not retryable")


def _skip(session: Session) -> None:
    """Accept the loss, and run the full refresh of the sink."""
    assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    capture_directory = CatalogCaptureDirectory(
        session.catalog, CatalogWorkload(session.catalog), session.access.secret
    )
    notes = capture_directory.folder(capture_directory.captures()[0]).messages
    _wait(lambda: messages.latest_epoch(notes).begin)
    run_once(session)


def _rows(server: Postgres) -> list[tuple[int, ...]]:
    return server.execute("SELECT * FROM t ORDER BY id")


def _wait(done: Callable[[], object]) -> None:
    deadline = Deadline()
    while not done():
        deadline.check("the awaited condition")
