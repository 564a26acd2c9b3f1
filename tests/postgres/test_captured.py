"""Tables of a real server are in Iceberg tables: a capture of its own process, a sink's batches without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
def database(postgres: Postgres, postgres_database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders SELECT n, 'old ' || n FROM generate_series(1, 1000) AS n")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield connection


def _once(session: Session) -> None:
    (job,) = session.jobs()
    drain(loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine()))


def test_rows_from_before_and_changes_arrive(tmp_path: Path, database: psycopg.Connection[tuple[object, ...]]) -> None:
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
