"""Tables of a real server are in Iceberg tables: a capture of its own process, a sink's batches without Spark."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import drain
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.process.captures import captured
from sinkql.session.session import Session
from sinkql.session.sink.desk import CatalogDesk
from sinkql.session.sink.roster import CatalogRoster
from support.postgres import Postgres
from support.readers import duckdb_folder
from support.running import loop_of

pytestmark = pytest.mark.server
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINK a FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders SELECT n, 'old ' || n FROM generate_series(1, 1000) AS n")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield connection


def _once(session: Session, *names: str) -> None:
    (job,) = session.jobs(names or None)
    drain(loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine()))


def test_rows_from_before_and_changes_arrive(tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]) -> None:
    info = database.info
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        desk = CatalogDesk(session.catalog, CatalogRoster(session.catalog), session.access.secret)
        with captured(desk):
            _once(session)
            assert len(duckdb_folder(tmp_path / "lake" / "n" / "a")) == 1000
            database.execute("DELETE FROM orders WHERE id % 2 = 0")
            database.execute("UPDATE orders SET name = 'new', id = id + 10000 WHERE id < 100")
            database.execute("INSERT INTO orders VALUES (2, 'again')")
            _once(session)
            expected = database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()
            assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected
            assert database.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (1,)
        session.execute("DROP SOURCE s CASCADE")
        assert database.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)


def test_rows_without_a_key_come_and_go_as_often_as_on_the_server(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]
) -> None:
    info = database.info
    database.execute("CREATE TABLE odd (x int)")
    database.execute("ALTER TABLE odd REPLICA IDENTITY FULL")
    database.execute("INSERT INTO odd SELECT n % 10 FROM generate_series(1, 500) AS n")
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        session.execute(
            "CREATE SINK b FROM odd INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b') MODE APPEND "
            "WITH (COMMIT INTERVAL = '1s')"
        )
        desk = CatalogDesk(session.catalog, CatalogRoster(session.catalog), session.access.secret)
        stopping = threading.Event()
        writer = threading.Thread(target=_write, args=(info.dsn, stopping))
        writer.start()
        try:
            with captured(desk):
                _once(session, "b")
                stopping.set()
                writer.join()
                _once(session, "b")
        finally:
            stopping.set()
            writer.join()
    expected = dict(database.execute("SELECT x, count(*) FROM odd GROUP BY x").fetchall())
    found: Counter[object] = Counter()
    for x, diff, _ in duckdb_folder(tmp_path / "lake" / "n" / "b"):
        found[x] += diff
    assert {x: count for x, count in found.items() if count} == expected


def _write(where: str, stopping: threading.Event) -> None:
    """Change rows of the table without a key, now and then."""
    with psycopg.connect(where, autocommit=True) as connection:
        turn = 0
        while not stopping.wait(0.02):
            turn += 1
            connection.execute("UPDATE odd SET x = %s WHERE x = %s", (turn % 13, turn % 10))
            connection.execute("INSERT INTO odd VALUES (%s)", (turn,))
