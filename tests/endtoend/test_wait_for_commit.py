"""`wait_for_commit` returns once the tables have all available rows, even if no new rows arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.session import Session
from support.patience import PATIENCE_S
from support.readers import duckdb_folder

pytestmark = pytest.mark.slow

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CLUSTER one (SIZE = 'local[1]');
CREATE SOURCE orders (id bigint, amount bigint) FROM FILES (PATH = 'orders') FORMAT JSON;
CREATE MATERIALIZED VIEW sums AS SELECT id % 2 AS odd, sum(amount) AS amount FROM orders GROUP BY id % 2;
"""
_SINK = """
CREATE SINK {name} IN CLUSTER one FROM sums INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY (odd) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


def test_it_returns_where_nothing_new_comes_and_after_what_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders").mkdir()
    Path("orders", "1.json").write_text('{"id": 1, "amount": 2}\n{"id": 2, "amount": 3}\n')
    with Session() as session:
        session.execute(_SCRIPT + _SINK.format(name="a") + _SINK.format(name="b"))  # two sinks make the view a job
        with session.running() as sinks:
            sinks.wait_for_commit(timeout=PATIENCE_S)
            sinks.wait_for_commit(timeout=PATIENCE_S)  # no rows have arrived since
            Path("orders", "2.json").write_text('{"id": 3, "amount": 4}\n')
            sinks.wait_for_commit(timeout=PATIENCE_S)
        expected = [(0, 3), (1, 6)]
        for name in "ab":
            found = sorted((int(odd), int(amount)) for odd, amount in duckdb_folder(Path("lake", "n", name)))
            assert found == expected
        assert list((session.catalog.database.folder / "waits" / "asked").iterdir()) == []
