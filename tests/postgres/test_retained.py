"""MAX RETAINED WAL limits the WAL that the server retains for a stopped sink."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import run_once
from sinkql.session.session import Session
from support.patience import Deadline
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.readers import duckdb_folder

from .pipeline import capturing

pytestmark = [pytest.mark.server, pytest.mark.long]
_MB = 1 << 20
_BOUND, _ABOVE = 16 * _MB, 64 * _MB
_AHEAD = 32 * _MB
"""More than the capture leaves unconfirmed: what it retains for the sink, and what it has read in the last second."""
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES WITH (MAX RETAINED WAL = '16MB');
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""
_WRITE = "INSERT INTO t SELECT n, repeat(md5(n::text), 300) FROM generate_series(%s::int, %s::int) AS n"
_SLOT = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8 FROM pg_replication_slots"


@pytest.fixture
def database() -> Iterator[psycopg.Connection[Any]]:
    with postgres_server({"max_wal_size": "64MB"}) as server, connected(server) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        connection.execute("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
        connection.execute("INSERT INTO t VALUES (0, 'first')")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield connection


def connected(server: Postgres) -> psycopg.Connection[Any]:
    return server.connect(server.database())


def _write(database: psycopg.Connection[Any], megabytes: int, *, of_server: bool) -> tuple[int, int]:
    """Write megabytes one by one; return the most bytes that the slot retained, and the number of checks.

    At most 32 MB are written ahead of what the capture has confirmed. A slot restarts where the server has recorded its
    running transactions, which it does every fifteen seconds. With `of_server`, one megabyte is written per second.
    Otherwise, megabytes are written at full speed, and the transactions are recorded after each.
    """
    most, looks, deadline = 0, 0, Deadline()
    for turn in range(megabytes):
        database.execute(_WRITE, (turn * 100 + 1, turn * 100 + 100))
        if not of_server:
            database.execute("SELECT pg_log_standby_snapshot()")
        while True:
            ((retained,),) = database.execute(_SLOT).fetchall()
            most, looks = max(most, retained), looks + 1
            if (ahead := _ahead(database)) <= _AHEAD:
                break
            deadline.check(f"the capture, which is {ahead} bytes behind")
            time.sleep(0.02)
        if of_server:
            time.sleep(1.0)
    return most, looks


def _ahead(database: psycopg.Connection[Any]) -> int:
    """Return how many bytes the server has written since the position that the capture has confirmed."""
    ((ahead,),) = database.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8 FROM pg_replication_slots"
    ).fetchall()
    return int(ahead)


def _check(folder: Path, database: psycopg.Connection[Any], megabytes: int, *, of_server: bool) -> tuple[int, int]:
    info = database.info
    with Session(folder / "catalog.db") as session:
        session.execute(_SQL.format(folder=folder, port=info.port, database=info.dbname))
        with capturing(session):
            run_once(session)
            most, looks = _write(database, megabytes, of_server=of_server)
            assert _BOUND / 2 < most <= _BOUND + _ABOVE, f"{most / _MB:.0f} MB"
            run_once(session)
        rows = database.execute("SELECT id, v FROM t ORDER BY id").fetchall()
        assert duckdb_folder(folder / "lake" / "n" / "a") == rows
    return most, looks


def test_a_sink_that_does_not_run_holds_no_more_than_its_source_says(
    tmp_path: Path, database: psycopg.Connection[Any]
) -> None:
    _check(tmp_path, database, 100, of_server=False)


@pytest.mark.soak
@pytest.mark.parametrize(("megabytes", "of_server"), [(500, False), (150, True)])
def test_a_sink_that_does_not_run_for_long_holds_no_more_than_its_source_says(
    tmp_path: Path,
    database: psycopg.Connection[Any],
    capsys: pytest.CaptureFixture[str],
    megabytes: int,
    *,
    of_server: bool,
) -> None:
    most, looks = _check(tmp_path, database, megabytes, of_server=of_server)
    with capsys.disabled():
        print(f"\nat most {most / _MB:.0f} MB in {looks} looks at {megabytes} MB")
