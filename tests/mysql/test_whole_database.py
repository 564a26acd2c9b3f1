"""All tables of a MariaDB database, and new tables and columns through ALTER SOURCE."""

from __future__ import annotations

from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.readers import duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_SOURCE = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database}) EXPOSE PROGRESS AS told;
"""
_EVERY = """
CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'raw')
  WITH (COMMIT INTERVAL = '1s');
"""


def test_tables_that_come_later_are_read(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server.run(
        f"CREATE TABLE {database}.one (id int PRIMARY KEY, v text)",
        f"INSERT INTO {database}.one VALUES (1, 'a')",
    )
    with Session() as session:
        session.execute(_SOURCE.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database))
        session.execute(_EVERY)
        with capturing(session):
            catch_up(session)
            assert duckdb_folder("lake/raw/one") == [(1, "a")]
            server.run(
                f"CREATE TABLE {database}.two (id int PRIMARY KEY)",
                f"INSERT INTO {database}.two VALUES (7)",
                f"INSERT INTO {database}.one VALUES (2, 'b')",
            )
            catch_up(session, turn=2)
            assert duckdb_folder("lake/raw/one") == [(1, "a"), (2, "b")]
            session.execute("ALTER SOURCE s REFRESH REFERENCES;" + _EVERY)
            server.run(f"DELETE FROM {database}.one WHERE id = 1")
            catch_up(session, turn=3)
            assert duckdb_folder("lake/raw/one") == [(2, "b")]
            assert duckdb_folder("lake/raw/two") == [(7,)]
            session.execute("DROP SINK two_sink; ALTER SOURCE s DROP TABLE two;")
            (shown,) = session.execute("SHOW SUBSOURCES ON s;")
            assert list(shown.rows) == [("one", "subsource"), ("told", "progress")]
        assert session.execute("SELECT position FROM told;")[0].rows == server.rows("SELECT @@gtid_binlog_pos")


def test_columns_that_come_later_are_read(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server.run(
        f"CREATE TABLE {database}.one (id int PRIMARY KEY, v text)", f"INSERT INTO {database}.one VALUES (1, 'a')"
    )
    with Session() as session:
        session.execute(_SOURCE.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database))
        session.execute(_EVERY)
        with capturing(session):
            catch_up(session)
            server.run(f"ALTER TABLE {database}.one ADD COLUMN n int", f"INSERT INTO {database}.one VALUES (2, 'b', 5)")
            catch_up(session, turn=2)
            assert duckdb_folder("lake/raw/one") == [(1, "a"), (2, "b")]
            session.execute("ALTER SOURCE s REFRESH REFERENCES;")
            server.run(f"UPDATE {database}.one SET n = 6 WHERE id = 1")
            catch_up(session, turn=3)
            assert duckdb_folder("lake/raw/one", "id, v, n") == [(1, "a", 6), (2, "b", 5)]
