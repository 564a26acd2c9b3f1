"""A running pipeline that commits every 200 milliseconds follows the changes of a Postgres table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.command import Running, start
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import Rows, duckdb_folder

pytestmark = pytest.mark.server

_SQL = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (public.t);
CREATE SINK k FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '200ms');
"""
_CHANGES = (
    "INSERT INTO t SELECT n, 'second ' || n FROM generate_series(21, 30) AS n",
    "UPDATE t SET name = 'third' WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 4 = 0",
    "UPDATE t SET id = id + 100 WHERE id < 6",
    "INSERT INTO t VALUES (4, 'again')",
)


def test_the_table_equals_the_source_after_each_change(
    postgres: Postgres, postgres_database: str, tmp_path: Path
) -> None:
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    (tmp_path / "pipeline.sql").write_text(_SQL.format(port=postgres.port, database=postgres_database))
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int8 PRIMARY KEY, name text)")
        connection.execute("INSERT INTO t SELECT n, 'first ' || n FROM generate_series(1, 20) AS n")
        connection.execute("CREATE PUBLICATION p FOR TABLE t")
        running = start("exec", "pipeline.sql", folder=tmp_path)
        try:
            running.wait_for_commit("materialize.public.k", 1)
            for change in _CHANGES:
                connection.execute(change)
                _until_equal(running, tmp_path / "lake" / "n" / "t", connection)
            assert running.interrupt() == 0
        finally:
            running.kill()
    assert running.commits["materialize.public.k"] >= len(_CHANGES)
    assert "spark started" not in {event["event"] for event in running.events}


def _until_equal(running: Running, table: Path, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Wait until DuckDB reads the rows of the source."""
    expected: Rows = connection.execute("SELECT id, name FROM t ORDER BY id").fetchall()
    deadline = Deadline()
    while duckdb_folder(table) != expected:
        deadline.check("the rows of the source")
        running.look(deadline.left())
