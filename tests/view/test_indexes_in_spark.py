"""Sinks that look up rows in the indexes of a view, in processes with Spark; their tables equal DuckDB's answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from sinkql.session import Session
from support.command import run
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow
_TABLES = {"t": "id BIGINT, g INTEGER, x INTEGER", "l": "id BIGINT, g INTEGER, name TEXT"}
_VIEW = "SELECT g, count(*) AS n, max(x) AS m FROM t GROUP BY g"
_JOINS = {
    "outer_": "SELECT l.id, l.name, v.n, v.m FROM l LEFT JOIN v ON v.g = l.g",
    "anti_": "SELECT l.id, l.name FROM l WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.g = l.g)",
    "pairs_": "SELECT a.g, b.g AS h, a.n FROM v AS a JOIN v AS b ON a.n = b.n",
    "sums_": "SELECT v.m, count(*) AS c FROM l JOIN v ON v.g = l.g GROUP BY v.m",
}
_KEYS = {"outer_": "id", "anti_": "id", "pairs_": "g, h", "sums_": "m"}
_SETUP = """
CREATE CLUSTER c (SIZE = 'local[2]');
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
"""
_SINK = """CREATE SINK s_{name} IN CLUSTER c FROM {name}
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY ({key}) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_STEPS = (
    ("INSERT INTO t SELECT i, nullif(i % 7, 0), i FROM generate_series(1, 40) AS s(i)",
     "INSERT INTO l SELECT i, nullif(i % 9, 8), 'l' || i FROM generate_series(1, 30) AS s(i)"),
    ("DELETE FROM t WHERE id % 3 = 0", "UPDATE l SET g = 5 WHERE id < 6", "INSERT INTO t VALUES (100, 8, 1)"),
    ("DROP INDEX by_g", "DELETE FROM t WHERE g = 5", "INSERT INTO l VALUES (100, 8, 'new')"),
    ("CREATE INDEX by_g ON v (g)", "UPDATE l SET g = 1 WHERE g = 2", "DELETE FROM l WHERE id = 100"),
)  # fmt: skip


def _script(folder: Path) -> None:
    tables = [f"CREATE TABLE {name} ({columns});\n" for name, columns in _TABLES.items()]
    views = [f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in _JOINS.items()]
    sinks = [_SINK.format(name=name, key=key) for name, key in _KEYS.items()]
    view = f"CREATE MATERIALIZED VIEW v AS {_VIEW};\nCREATE INDEX by_g ON v (g);\nCREATE INDEX by_n ON v (n);\n"
    (folder / "pipeline.sql").write_text(_SETUP + "".join(tables) + view + "".join(views) + "".join(sinks))


def _expected(statements: Sequence[str]) -> dict[str, Counter[tuple[object, ...]]]:
    with duckdb.connect() as connection:
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.execute(f"CREATE VIEW v AS {_VIEW}")
        for each in statements:
            if "INDEX" not in each:
                connection.execute(each)
        return {name: Counter(connection.execute(query).fetchall()) for name, query in _JOINS.items()}


def _tables(folder: Path) -> dict[str, Counter[tuple[object, ...]]]:
    columns = {"outer_": "id, name, n, m", "anti_": "id, name", "pairs_": "g, h, n", "sums_": "m, c"}
    return {name: Counter(duckdb_folder(folder / "lake" / "n" / name, columns[name])) for name in _JOINS}


def _kept(folder: Path) -> dict[str, set[str]]:
    """Return the arrangements of each job."""
    with Session(folder / ".sinkql") as session:
        (found,) = session.execute(
            "SELECT s.name, k.arrangement FROM mz_internal.mz_state AS k JOIN mz_objects AS s ON s.id = k.object_id"
        )
    kept: dict[str, set[str]] = {}
    for name, arrangement in found.rows:
        kept.setdefault(name, set()).add(arrangement)
    return kept


@pytest.mark.soak
@pytest.mark.parametrize("runs", [((0, 1), (2,)), ((0,), (1,), (2,), (3,))], ids=["few", "each"])
def test_tables_of_sinks_that_look_up_in_indexes_are_what_duckdb_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: tuple[tuple[int, ...], ...]
) -> None:
    _script(tmp_path)
    monkeypatch.chdir(tmp_path)
    done: list[str] = []
    for number, steps in enumerate(runs):
        statements = [each for step in steps for each in _STEPS[step]]
        with Session() as session:
            session.execute(("" if number else Path("pipeline.sql").read_text()) + ";".join(statements))
        done += statements
        ended = run("--output", "json", "up", "--once", folder=tmp_path)
        assert ended.returncode == 0, ended.stderr + ended.stdout
        assert not [line for line in ended.stdout.splitlines() if json.loads(line).get("event") == "rebuilding"]
        assert _tables(tmp_path) == _expected(done), number
