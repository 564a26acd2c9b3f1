"""Rows that do not fit the columns of a source, in chunks and in changes, under each ON ERROR."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.readers import Rows, duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_SERVER = """
SET sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION';
CREATE TABLE t (id int PRIMARY KEY, d date, x varchar(1000), b varbinary(9));
INSERT INTO t VALUES (1, '2024-01-01', 'a', NULL), (2, '2024-02-31', REPEAT('ä', 500), X'00ff');
INSERT INTO t VALUES (3, '2024-01-03', 'c', NULL);
"""
_LATER = """
SET sql_mode = 'ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION';
UPDATE t SET d = '2023-02-29' WHERE id = 1;
INSERT INTO t VALUES (4, '2024-01-04', 'd', NULL), (5, '2024-04-31', 'e', X'01');
DELETE FROM t WHERE id = 3;
"""
_SINK = """
CREATE SOURCE {name} FROM MYSQL CONNECTION my FOR TABLES ({database}.t AS {name}_t) WITH (ON ERROR = {policy});
CREATE SINK {name}_sink FROM {name}_t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_LONG = "ä" * 500


def test_rows_that_do_not_fit_are_left_out_kept_or_stop_the_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: MariaDb, database: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _run(server, database, _SERVER)
    with Session() as session:
        session.execute(
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
            f"CREATE SECRET p AS '{PASSWORD.replace(chr(39), 2 * chr(39))}';"
            f"CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {server.port}, USER 'reader', PASSWORD SECRET p);"
        )
        policies = {"a_skip": "SKIP", "b_dead": "'DEAD LETTER'", "c_fail": "FAIL"}  # c_fail runs last
        for name, policy in policies.items():
            session.execute(_SINK.format(name=name, policy=policy, database=database))
        with capturing(session):
            _catch_up(session, turn=1)
            _run(server, database, _LATER)
            _catch_up(session, turn=2)
        for name in ("a_skip", "b_dead"):
            assert _rows(name, "id, x") == [(1, "a"), (4, "d")]
        letters = _rows("b_dead__errors", "position, message, raw")
        assert [
            json.loads(raw) for _, _, raw in sorted(letters, key=lambda each: json.loads(each[2])["new"]["id"])
        ] == [
            {"new": {"id": 1, "d": _hex("2023-02-29"), "x": "a", "b": None}},
            {"new": {"id": 2, "d": _hex("2024-02-31", text=True), "x": _LONG, "b": "\\x00ff"}},
            {"new": {"id": 5, "d": _hex("2024-04-31"), "x": "e", "b": "\\x01"}},
        ]
        assert all(message.startswith('column "d": 202') and "is not a date" in message for _, message, _ in letters)
        assert f"the first snapshot of {database}.t, id = 2" in [position for position, _, _ in letters]
        assert not Path("lake/n/a_skip__errors").exists()
        assert _rows("c_fail", "id") == []
        for name in ("b_dead_t", "b_dead"):
            with pytest.raises(SinkqlError) as refused:
                session.execute(f"REPLAY ERRORS FROM {name}")
            assert refused.value.code == "SQ3394"


def _hex(day: str, *, text: bool = False) -> str:
    """Return the bytes of a date: text as in a query, or three packed bytes as in the log."""
    if text:
        return "\\x" + day.encode().hex()
    year, month, date = map(int, day.split("-"))
    return "\\x" + (year << 9 | month << 5 | date).to_bytes(3, "little").hex()


def _run(server: MariaDb, database: str, script: str) -> None:
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        for each in filter(str.strip, script.split(";\n")):
            cursor.execute(each)
        connection.commit()


def _catch_up(session: Session, *, turn: int) -> None:
    with pytest.raises(SinkqlError, match="invalid row of source") as raised:
        catch_up(session, turn=turn)
    assert raised.value.code == "SQ3101"


def _rows(table: str, columns: str) -> Rows:
    return duckdb_folder(Path("lake/n") / table, columns.replace("position", '"position"'))
