"""Tables and publications are altered while sinks run: one table's sink stops, then fully refreshes its table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import run_once
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import duckdb_folder

from .pipeline import capturing

pytestmark = [pytest.mark.server, pytest.mark.long]

_SERVER = """
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE u (id int PRIMARY KEY);
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE mid PARTITION OF parted FOR VALUES FROM (10) TO (20);
INSERT INTO t SELECT i, repeat('x', 3000) FROM generate_series(1, 5) AS i;
INSERT INTO u VALUES (1);
INSERT INTO parted VALUES (1), (11);
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR TABLE t, u, parted WITH (publish_via_partition_root = true);
"""
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINKS FOR TABLES (t, u, parted) INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def session(
    tmp_path: Path, postgres: Postgres, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    monitor = "sinkql.connectors.postgres.publication_monitor"
    monkeypatch.setattr(f"{monitor}._WATCH_S", 0.0)  # forked processes inherit it
    postgres.execute(_SERVER, postgres_database)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(port=postgres.port, database=postgres_database))
        yield session
        session.execute("DROP SOURCE s CASCADE;")


_CHANGES = {
    "the publication": (
        "t",
        "ALTER PUBLICATION p DROP TABLE t; UPDATE t SET v = 'a' WHERE id = 1; DELETE FROM t WHERE id = 2",
        'publication "p" no longer has the table',
        "ALTER PUBLICATION p ADD TABLE t; UPDATE t SET v = 'b' WHERE id = 3",
    ),
    "the replica identity": (
        "t",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT; UPDATE t SET id = 10 WHERE id = 1",
        "no longer has REPLICA IDENTITY FULL",
        "ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET v = 'b' WHERE id = 3",
    ),
    "no replica identity": (
        "t",
        "ALTER TABLE t REPLICA IDENTITY NOTHING; INSERT INTO t VALUES (6, 'six')",
        "the replica identity of table",
        "ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET v = 'b' WHERE id = 3",
    ),
    "another index": (
        "t",
        "CREATE UNIQUE INDEX other ON t (id) INCLUDE (v); ALTER TABLE t DROP CONSTRAINT t_pkey; "
        "ALTER TABLE t REPLICA IDENTITY DEFAULT; INSERT INTO t VALUES (6, 'six')",
        "the replica identity of table",
        "ALTER TABLE t ADD PRIMARY KEY (id); ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET v = 'b' WHERE id = 3",
    ),
    "partitions": (
        "parted",
        "CREATE TABLE high (id int PRIMARY KEY); INSERT INTO high VALUES (21), (22); BEGIN;"
        "ALTER TABLE parted ATTACH PARTITION high FOR VALUES FROM (20) TO (30);"
        "ALTER TABLE parted DETACH PARTITION low; COMMIT",
        'table "public.parted" has lost partitions',
        "INSERT INTO parted VALUES (12)",
    ),
}
"""A table, the change on the server, the error's detail, and the fix with a later change."""


@pytest.mark.share(6)
@pytest.mark.parametrize("what", _CHANGES)
def test_sink_of_an_altered_table_stops_and_computes_its_rows_again(
    session: Session, postgres: Postgres, postgres_database: str, what: str
) -> None:
    table, altered, said, mended = _CHANGES[what]
    with capturing(session):
        for name in ("t", "u", "parted"):
            _once(session, name)
        _each(postgres, postgres_database, f"{altered}; INSERT INTO u VALUES (2)")
        error = _stopped(session, table)
        assert error.code == "SQ3440"
        assert said in (error.detail or "")
        _once(session, "u")
        assert duckdb_folder(Path("lake/n/u")) == [(1,), (2,)]
        assert _stopped(session, table).code == "SQ3440"  # it does not continue without the user
        _each(postgres, postgres_database, mended)
        _fail(session, table, error)
        assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
        _once(session, table)
        assert duckdb_folder(Path("lake/n") / table) == _rows(postgres, postgres_database, table)
        _each(postgres, postgres_database, f"DELETE FROM {table} WHERE id = 3 OR id = 11")
        _once(session, table)
        assert duckdb_folder(Path("lake/n") / table) == _rows(postgres, postgres_database, table)


def _once(session: Session, name: str) -> None:
    run_once(session, f"{name}_sink")


def _stopped(session: Session, name: str) -> SinkqlError:
    """Run a sink until it stops with an error."""
    deadline = Deadline()
    while True:
        try:
            _once(session, name)
        except SinkqlError as error:
            return error
        deadline.check("an error")


def _fail(session: Session, name: str, error: SinkqlError) -> None:
    """Record in the catalog that a sink failed, as its process does."""
    (job,) = session.jobs((f"{name}_sink",))
    session.catalog.control.status(job.sink_id, "stalled", error=f"{error.code}: {error.message}")


def _rows(postgres: Postgres, database: str, table: str) -> list[tuple[Any, ...]]:
    return postgres.execute(f"SELECT * FROM {table} ORDER BY id", database)


def _each(postgres: Postgres, database: str, statements: str) -> None:
    with psycopg.connect(postgres.address(database), autocommit=True) as connection:
        for each in statements.split(";"):
            connection.execute(each)
