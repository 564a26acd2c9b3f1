"""A process with Spark or a task is killed: the sinks continue in the next one; no row is lost or duplicated."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from crash.pipeline import write_input
from support.command import run, start
from support.fault import armed
from support.gzipped import write_gzipped
from support.leftover import left, marked
from support.readers import duckdb_folder, pyiceberg_rows

pytestmark = pytest.mark.slow

_PIPELINE = """
CREATE CLUSTER c (SIZE = 'local[2]', EXECUTION = SPARK);
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE events (n bigint NOT NULL, k integer, v integer, u text)
  FROM FILES (PATH = 'in', GLOB = '*.json.gz', MAX FILES PER COMMIT = 1) FORMAT JSON;
CREATE MATERIALIZED VIEW per_key AS
SELECT k, count(*) AS events, count(DISTINCT u) AS users, max(v) AS most, sum(v) AS total FROM events GROUP BY k;
CREATE MATERIALIZED VIEW some AS SELECT * FROM events WHERE n >= 0;
CREATE SINK raw IN CLUSTER c FROM some
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'raw')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK keys IN CLUSTER c FROM per_key
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'keys')
  KEY (k) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_EXPECTED = {
    "raw": "SELECT n, k, v, u FROM events",
    "keys": "SELECT k, count(*), count(DISTINCT u), max(v), sum(v) FROM events GROUP BY k",
}
_COLUMNS = {"raw": ("n", "k", "v", "u"), "keys": ("k", "events", "users", "most", "total")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.sql").write_text(_PIPELINE)
    return tmp_path


@pytest.mark.soak
def test_a_killed_process_is_continued(folder: Path) -> None:
    mark = marked()
    _write(folder, rows=60)
    # Two claims, and a commit that is in its sink's table although the sink got no reply.
    running = start("exec", "pipeline.sql", folder=folder, environment=armed("commit-reply#4=kill") | mark)
    try:
        assert running.end() == -9
    finally:
        running.kill()
    assert left(mark) == []
    assert Counter(pyiceberg_rows(loaded(folder, "raw"), _COLUMNS["raw"])) <= expected(folder, "raw")
    _check_that_a_killed_task_is_continued(folder)


def test_a_killed_task_is_continued(folder: Path) -> None:
    _write(folder, rows=60)
    _check_that_a_killed_task_is_continued(folder)


def _check_that_a_killed_task_is_continued(folder: Path) -> None:
    _write(folder, first=1000, rows=60)
    failpoints = armed("data-file#3=kill")  # the third pass in each Python worker
    ended = run("--output", "json", "exec", "--once", "pipeline.sql", folder=folder, environment=failpoints)
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert "SQ3001" in {event["error"]["code"] for event in events if event.get("event") == "stalled"}
    for table in _EXPECTED:
        assert expected(folder, table) == found(folder, table)


def _write(folder: Path, *, first: int = 0, rows: int) -> None:
    write_input(folder, first=first, rows=rows)
    for path in (folder / "in").glob("*.json"):
        write_gzipped(path.with_suffix(".json.gz"), path.read_text())
        path.unlink()


def expected(folder: Path, table: str) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW events AS SELECT * FROM read_json('{folder}/in/*.json.gz', format = 'newline_delimited', "
            "columns = {n: 'BIGINT', k: 'INTEGER', v: 'INTEGER', u: 'VARCHAR'})"
        )
        return Counter(connection.execute(_EXPECTED[table]).fetchall())


def found(folder: Path, table: str) -> Counter[tuple[object, ...]]:
    rows = pyiceberg_rows(loaded(folder, table), _COLUMNS[table])
    assert rows == duckdb_folder(folder / "lake" / "n" / table, ", ".join(_COLUMNS[table]))
    return Counter(rows)


def loaded(folder: Path, table: str) -> Table:
    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{folder}/lake/catalog.db", warehouse=f"file://{folder}/lake"
    )
    return catalog.load_table(f"n.{table}")
