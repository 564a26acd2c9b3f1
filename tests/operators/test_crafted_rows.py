"""Keys crafted to collide under an unkeyed hash stay distinct in each clause that compares rows."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from capture.pipeline import drained
from operators.test_crafted_keys import crafted
from sinkql.session import Session
from support.readers import Rows, duckdb_folder
from support.running import loop_of

pytestmark = pytest.mark.long

VALUES = list(crafted(20))
_NAMES = {value: name for name, value in enumerate(VALUES)}
_SQL = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, k bytea NOT NULL);
CREATE TABLE u (id bigint PRIMARY KEY, k bytea NOT NULL);
CREATE MATERIALIZED VIEW v AS {query};
CREATE SINK s FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'v') {clauses}
  WITH (COMMIT INTERVAL = '1s');
"""
_ALL, _HALF = range(20), range(0, 20, 2)
"""The values of `t`, each twice, and of `u`: one of each pair."""
CASES = {
    "GROUP BY": ("SELECT k, count(*) AS n FROM t GROUP BY k", "KEY (k)", [(each, 2) for each in _ALL]),
    "DISTINCT": ("SELECT DISTINCT k, 1 AS n FROM t", "KEY (k)", [(each, 1) for each in _ALL]),
    "count(DISTINCT)": ("SELECT id % 1 AS k, count(DISTINCT k) AS n FROM t GROUP BY id % 1", "KEY (k)", [(0, 20)]),
    "JOIN": ("SELECT t.k, t.id AS n FROM t JOIN u ON t.k = u.k", "KEY (n) NOT ENFORCED",
             [(each, each + more) for each in _HALF for more in (0, 100)]),
    "LEFT JOIN": ("SELECT t.k, t.id AS n FROM t LEFT JOIN u ON t.k = u.k WHERE u.k IS NULL", "KEY (n) NOT ENFORCED",
                  [(each, each + more) for each in _ALL if each % 2 for more in (0, 100)]),
    "NOT EXISTS": ("SELECT k, id AS n FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)", "KEY (n)",
                   [(each, each + more) for each in _ALL if each % 2 for more in (0, 100)]),
    "EXCEPT": ("SELECT k, 1 AS n FROM t EXCEPT SELECT k, 1 FROM u", "KEY (k) NOT ENFORCED",
               [(each, 1) for each in _ALL if each % 2]),
    "row_number": ("SELECT k, n FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM t) AS x "
                   "WHERE n = 1", "KEY (k) NOT ENFORCED", [(each, 1) for each in _ALL]),
    "window": ("SELECT k, sum(id) OVER (PARTITION BY k) AS n FROM t", "KEY (k) NOT ENFORCED",
               [(each, 2 * each + 100) for each in _ALL]),
    "KEY": ("SELECT k, id AS n FROM t WHERE id >= 100", "KEY (k) NOT ENFORCED", [(each, each + 100) for each in _ALL]),
}  # fmt: skip
_IN_THE_GATE = ("JOIN", "row_number", "KEY")


@pytest.mark.parametrize(
    "clause", [pytest.param(each, marks=() if each in _IN_THE_GATE else pytest.mark.soak) for each in CASES]
)
def test_crafted_keys_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clause: str) -> None:
    query, clauses, expected = CASES[clause]
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_SQL.format(query=query, clauses=f"{clauses} MODE UPSERT"))
        for relation, first, numbers in (("t", 0, _ALL), ("u", 0, _HALF), ("t", 100, _ALL)):
            rows = ", ".join(rf"({first + each}, '\x{VALUES[each].hex()}')" for each in numbers)
            session.execute(f"INSERT INTO {relation} VALUES {rows};")
            (job,) = session.jobs(("s",))
            drained(partial(loop_of, job, session.context(job), session.catalog.registry))
    found: Rows = duckdb_folder(tmp_path / "lake/n/v", "k, n")
    assert Counter(expected) == Counter((_NAMES.get(key, key), number) for key, number in found)
