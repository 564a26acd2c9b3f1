"""The hint for a row error suggests CREATE OR REPLACE if, and only if, the sink accepts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.runtime.batch.failure import row_error_hint
from sinkql.session import Session

_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///lake.db', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE MATERIALIZED VIEW m AS SELECT {columns} AS v FROM {relation};
"""
_SINK = """
CREATE SINK {view}_sink FROM {view} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'x', TABLE = '{view}')
  {mode}, COMMIT INTERVAL = '1s');
"""
_UPSERT, _APPEND = "KEY (id) MODE UPSERT WITH (", "MODE APPEND WITH ("
_PLAIN = "id, 10 / {}"


@pytest.mark.parametrize(
    ("columns", "relation", "mode", "taken"),
    [
        ("counter AS id, 10 / {}", "n", _APPEND + "SNAPSHOT = true", True),
        (_PLAIN, "t", _APPEND + "SNAPSHOT = true", False),
        (_PLAIN, "t", _UPSERT + "SNAPSHOT = true", True),
        (_PLAIN, "t", _UPSERT + "SNAPSHOT = false", False),
        (_PLAIN, "t", _UPSERT + "EXISTING ROWS = KEEP", False),
        ("id, sum(10 / {})", "t GROUP BY id", _UPSERT + "SNAPSHOT = true", True),
        ("id, sum(10 / {})", "t GROUP BY id", _APPEND + "SNAPSHOT = true", False),
    ],
)
def test_the_view_is_replaced_where_the_hint_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, relation: str, mode: str, taken: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    value = "counter" if relation == "n" else "v"
    with Session() as session:
        session.execute(_SETUP.format(columns=columns.format(value), relation=relation))
        session.execute(_SINK.format(view="m", mode=mode))
        assert (
            "CREATE OR REPLACE" in row_error_hint(lower("materialize.public.m_sink", session.catalog.plans))
        ) is taken
        query = f"AS SELECT {columns.format(f'NULLIF({value}, 0)')} AS v FROM {relation};"
        refused = None
        try:
            session.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m {query}")
        except SinkqlError as error:
            refused = error.code
        assert refused == (None if taken else "SQ2985")
        session.execute(f"CREATE MATERIALIZED VIEW m2 {query}" + _SINK.format(view="m2", mode=mode))
