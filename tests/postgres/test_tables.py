"""Tables of all kinds, from a real server into Iceberg: without a key, partitioned, truncated, filtered."""

from __future__ import annotations

from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.session import Session
from support.postgres import Postgres
from support.readers import Rows, duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_SERVER = """
CREATE TABLE keyless (a integer, b text);
ALTER TABLE keyless REPLICA IDENTITY FULL;
INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y');
CREATE TABLE parted (id integer, part integer, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
INSERT INTO parted VALUES (1, 1, 'a'), (2, 2, 'b');
CREATE TABLE emptied (id integer PRIMARY KEY);
INSERT INTO emptied VALUES (1), (2);
CREATE TABLE filtered (id integer PRIMARY KEY, v integer);
ALTER TABLE filtered REPLICA IDENTITY FULL;
INSERT INTO filtered VALUES (1, 1), (2, 20), (3, 30);
CREATE PUBLICATION p FOR TABLE keyless, parted, emptied, filtered WHERE (v > 10)
  WITH (publish_via_partition_root = true);
"""
_LATER = """
DELETE FROM keyless WHERE a = 2;
UPDATE keyless SET b = 'z';
UPDATE parted SET part = 1 WHERE id = 2;
TRUNCATE emptied;
INSERT INTO emptied VALUES (5);
UPDATE filtered SET v = 40 WHERE id = 1;
UPDATE filtered SET v = 5 WHERE id = 2;
"""
_SINKS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINKS FOR TABLES (parted, emptied, filtered)
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')
  WITH (COMMIT INTERVAL = '1s');
CREATE SINK log FROM keyless
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'log')
  MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
CREATE MATERIALIZED VIEW counted AS SELECT a, b, count(*) AS n FROM keyless GROUP BY a, b;
CREATE SINK counted_sink FROM counted
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'counted')
  KEY (a, b)
  MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


def test_tables_of_all_kinds_follow_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres, postgres_database: str
) -> None:
    monkeypatch.chdir(tmp_path)
    postgres.execute(_SERVER, postgres_database)
    with Session() as session:
        session.execute(
            f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port}, "
            f"DATABASE '{postgres_database}', USER postgres);" + _SINKS
        )
        with capturing(session):
            catch_up(session)
            assert _rows("parted", "emptied", "filtered", "counted") == [
                [(1, 1, "a"), (2, 2, "b")],
                [(1,), (2,)],
                [(2, 20), (3, 30)],
                [(1, "x", 2), (2, "y", 1)],
            ]
            postgres.execute(_LATER, postgres_database)
            catch_up(session, turn=2)
        assert _rows("parted", "emptied", "filtered", "counted") == [
            [(1, 1, "a"), (2, 1, "b")],
            [(5,)],
            [(1, 40), (3, 30)],
            [(1, "z", 2)],
        ]
        changes = duckdb_folder(Path("lake/n/log"), "a, b, _mz_diff")
        assert changes == [(1, "x", -2), (1, "x", 2), (1, "z", 2), (2, "y", -1), (2, "y", 1)]
        session.execute("DROP SOURCE s CASCADE;")


def _rows(*tables: str) -> list[Rows]:
    return [duckdb_folder(Path("lake/n") / table) for table in tables]


def test_a_column_that_comes_later_has_the_servers_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Postgres, postgres_database: str
) -> None:
    monkeypatch.chdir(tmp_path)
    server = "CREATE TABLE t (id integer PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')"
    postgres.execute(f"{server}; CREATE PUBLICATION p FOR TABLE t", postgres_database)
    with Session() as session:
        session.execute(
            f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port}, "
            f"DATABASE '{postgres_database}', USER postgres);"
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
            "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;"
            "CREATE SINKS FOR TABLES (t) INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')"
            "  WITH (COMMIT INTERVAL = '1s');"
        )
        with capturing(session):
            catch_up(session)
            postgres.execute(
                "ALTER TABLE t ADD COLUMN n integer DEFAULT 7; INSERT INTO t VALUES (3, 'c', 8)", postgres_database
            )
            catch_up(session, turn=2)
            assert _rows("t") == [[(1, "a"), (2, "b"), (3, "c")]]
            session.execute("ALTER SOURCE s REFRESH REFERENCES;")
            postgres.execute("UPDATE t SET n = 9 WHERE id = 2", postgres_database)
            catch_up(session, turn=3)
            assert _rows("t") == [[(1, "a", 7), (2, "b", 9), (3, "c", 8)]]
        session.execute("DROP SOURCE s CASCADE;")
