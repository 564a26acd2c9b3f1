"""Whole processes with Spark, killed: both of their sinks go on in the next one, no row lost, none doubled."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import load_catalog

from crash.pipeline import write_input
from support.command import Running, run, start
from support.fault import armed
from support.readers import Rows, duckdb_folder, pyiceberg_rows

pytestmark = pytest.mark.slow

_PIPELINE = """
CREATE CLUSTER c (SIZE = 'local[2]');
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE events (n bigint NOT NULL, k integer, v integer, u text)
  FROM FILES (PATH = 'in', GLOB = '*.json', MAX FILES PER COMMIT = 1) FORMAT JSON;
CREATE MATERIALIZED VIEW per_key AS
SELECT k, count(*) AS events, count(DISTINCT u) AS users, max(v) AS most, sum(v) AS total FROM events GROUP BY k;
CREATE SINK raw IN CLUSTER c FROM events
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
    for number in range(2):
        write_input(tmp_path, first=1000 * number, rows=60)
    return tmp_path


@pytest.fixture
def started(folder: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    running = start("exec", "pipeline.sql", folder=folder, environment=armed(request.param))
    yield running
    running.kill()


def check(folder: Path) -> None:
    """Run both sinks to the end and compare their tables with the input."""
    ended = run("exec", "--once", "pipeline.sql", folder=folder)
    assert ended.returncode == 0, ended.stderr
    check_tables(folder)


def check_tables(folder: Path) -> None:
    for table, sql in _EXPECTED.items():
        assert expected(folder, sql) == Counter(found(folder, table))


def expected(folder: Path, sql: str) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW events AS SELECT * FROM read_json('{folder}/in/*.json', format = 'newline_delimited', "
            "columns = {n: 'BIGINT', k: 'INTEGER', v: 'INTEGER', u: 'VARCHAR'})"
        )
        return Counter(connection.execute(sql).fetchall())


def found(folder: Path, table: str) -> Rows:
    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{folder}/lake/catalog.db", warehouse=f"file://{folder}/lake"
    )
    loaded = catalog.load_table(f"n.{table}")
    rows = pyiceberg_rows(loaded, _COLUMNS[table])
    assert rows == duckdb_folder(loaded.location(), ", ".join(_COLUMNS[table]))
    return rows


@pytest.mark.parametrize(
    "started", ["commit-request#5=kill", "commit-reply#6=kill", "state-manifest#3=kill", "status#5=kill",
                "checkpoint#4=kill"], indirect=True
)  # fmt: skip
def test_a_killed_process_is_gone_on_with(started: Running, folder: Path) -> None:
    assert started.end() == -9
    check(folder)


@pytest.mark.parametrize("started", [""], indirect=True)
def test_a_process_group_killed_anywhere_is_gone_on_with(started: Running, folder: Path) -> None:
    started.wait_for_commit("materialize.public.keys", 2)
    started.kill()
    for queries in (folder / ".sinkql").rglob("queries"):
        shutil.rmtree(queries)  # with the checkpoint: it is only a hint
    check(folder)


def test_a_killed_task_is_run_again_by_the_same_process(folder: Path) -> None:
    faults = armed("data-file#3=kill")  # the third of each Python worker
    ended = run("--output", "json", "exec", "--once", "pipeline.sql", folder=folder, environment=faults)
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert "SQ3001" in {event["error"]["code"] for event in events if event.get("event") == "stalled"}
    check_tables(folder)
