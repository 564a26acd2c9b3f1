"""Rows of a server that no column of a table can hold, in chunks and in changes, under each ON ERROR."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.postgres import Postgres
from support.readers import Rows, duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_SERVER = """
CREATE TABLE t (id integer PRIMARY KEY, d date);
INSERT INTO t VALUES (1, '2024-01-01'), (2, 'infinity');
CREATE PUBLICATION p FOR TABLE t;
"""
_LATER = """
UPDATE t SET d = '-infinity' WHERE id = 1;
INSERT INTO t VALUES (3, '2024-01-03');
"""
_SINK = """
CREATE SOURCE {name} FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (t AS {name}_t)
  WITH (ON ERROR = {policy});
CREATE SINK {name}_sink FROM {name}_t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


def test_rows_that_do_not_fit_are_left_out_kept_or_stop_the_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres, postgres_database: str
) -> None:
    monkeypatch.chdir(tmp_path)
    postgres.execute(_SERVER, postgres_database)
    with Session() as session:
        session.execute(
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
            f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port}, "
            f"DATABASE '{postgres_database}', USER postgres);"
        )
        policies = {"a_skip": "SKIP", "b_dead": "'DEAD LETTER'", "c_fail": "FAIL"}  # c_fail runs last
        for name, policy in policies.items():
            session.execute(_SINK.format(name=name, policy=policy))
        with capturing(session):
            _catch_up(session, turn=1)
            postgres.execute(_LATER, postgres_database)
            _catch_up(session, turn=2)
        for name in ("a_skip", "b_dead"):
            assert _rows(name, "id, d") == [(1, date(2024, 1, 1)), (3, date(2024, 1, 3))]
        letters = [(message, json.loads(raw)["new"]["id"]) for message, raw in _rows("b_dead__errors", "message, raw")]
        why = 'column "d": only the years 1 to 9999 are supported, not infinity'
        assert sorted(letters) == [(why, 1), (why, 2)]
        assert not Path("lake/n/a_skip__errors").exists()
        assert _rows("c_fail", "id") == []
        session.execute("DROP SOURCE a_skip, b_dead, c_fail CASCADE;")


def _catch_up(session: Session, *, turn: int) -> None:
    with pytest.raises(SinkqlError, match="invalid row of source") as raised:
        catch_up(session, turn=turn)
    assert raised.value.code == "SQ3101"


def _rows(table: str, columns: str) -> Rows:
    return duckdb_folder(Path("lake/n") / table, columns)
