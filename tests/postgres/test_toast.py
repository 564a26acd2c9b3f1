"""Unchanged long values that a real server omits, changes of their keys, and TRUNCATE; DuckDB reads the tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.session import Session
from support.postgres import Postgres
from support.readers import Rows, duckdb_folder, sorted_rows

pytestmark = [pytest.mark.server, pytest.mark.long]

_TABLE = """
CREATE TABLE letters (a integer, b text, n integer, body text, note text, PRIMARY KEY (b, a));
ALTER TABLE letters ALTER body SET STORAGE EXTERNAL, ALTER note SET STORAGE EXTERNAL;
CREATE PUBLICATION letters FOR TABLE letters;
"""
_SCRIPT = """
CREATE SECRET password AS 'not asked for';
CREATE CONNECTION pg TO POSTGRES (HOST '{host}', PORT {port}, DATABASE '{database}', USER '{user}',
  PASSWORD SECRET password);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'letters') FOR TABLES (public.letters);
CREATE MATERIALIZED VIEW long AS SELECT left(body, 1) AS first, count(note) AS notes, sum(n) AS n
  FROM letters WHERE length(body) > 3000 GROUP BY left(body, 1);
CREATE MATERIALIZED VIEW notes AS SELECT b, a, note FROM letters WHERE a < 3;
CREATE SINK all_letters FROM letters INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'letters')
  KEY (a, b) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK long_letters FROM long INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'long')
  KEY (first) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK notes_sink FROM notes INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'notes')
  KEY (a, b) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_NOTES = "SELECT b, a, note FROM letters WHERE a < 3"
_LETTERS = "SELECT a, b, n, body, note FROM letters"
_LONG = """SELECT left(body, 1), count(note), sum(n) FROM letters WHERE length(body) > 3000 GROUP BY left(body, 1)"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session() as opened:
        yield opened


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_tables_have_what_the_server_did_not_send_again(
    seed: int, session: Session, postgres: Postgres, postgres_database: str
) -> None:
    rng = random.Random(seed)
    server = postgres, postgres_database
    postgres.execute(_TABLE, postgres_database)
    postgres.execute(_transaction(rng, 12), postgres_database)
    with postgres.connect(postgres_database) as connection:
        user = connection.info.user
    session.execute(_SCRIPT.format(host="127.0.0.1", port=postgres.port, database=postgres_database, user=user))
    with capturing(session):
        for turn, size in enumerate((0, 6, 25, 12), 1):
            for _ in range(3):
                postgres.execute(_transaction(rng, size), postgres_database)
            if turn == 3:
                postgres.execute(f"TRUNCATE letters; {_transaction(rng, 6)}", postgres_database)
            catch_up(session, turn=turn)
            assert duckdb_folder("lake/n/letters", "a, b, n, body, note") == _rows(*server, _LETTERS)
            assert duckdb_folder("lake/n/long", "first, notes, n") == _rows(*server, _LONG)
            assert duckdb_folder("lake/n/notes", "b, a, note") == _rows(*server, _NOTES)
    session.execute("DROP SOURCE s CASCADE;")


def test_value_follows_its_row_though_another_has_the_key_that_it_had(
    session: Session, postgres: Postgres, postgres_database: str
) -> None:
    postgres.execute(_TABLE, postgres_database)
    postgres.execute("INSERT INTO letters VALUES (1, 'x', 1, repeat('p', 4000))", postgres_database)
    with postgres.connect(postgres_database) as connection:
        user = connection.info.user
    session.execute(_SCRIPT.format(host="127.0.0.1", port=postgres.port, database=postgres_database, user=user))
    with capturing(session):
        catch_up(session, turn=1)
        for number in range(3):  # past all changes that the initial snapshot may contain
            postgres.execute(f"INSERT INTO letters VALUES ({number}, 'z', 0, 'q')", postgres_database)
            catch_up(session, turn=2 + number)
        postgres.execute(
            "UPDATE letters SET a = 2 WHERE a = 1 AND b = 'x'; INSERT INTO letters VALUES (1, 'x', 5, 'short');"
            "UPDATE letters SET n = 3 WHERE a = 2 AND b = 'x';",
            postgres_database,
        )
        catch_up(session, turn=6)
        assert duckdb_folder("lake/n/letters", "a, b, n, body, note") == _rows(postgres, postgres_database, _LETTERS)
    session.execute("DROP SOURCE s CASCADE;")


def _transaction(rng: random.Random, size: int) -> str:
    """Return statements that change rows; some change values or keys without setting the long value."""
    found = []
    for number in range(size):
        a, other, b = rng.randrange(6), rng.randrange(6), rng.choice("xy")
        body, note = (f"'{character * rng.choice([10, 4000, 9000])}'" for character in (rng.choice("pqr"), "n"))
        found.append(
            rng.choice(
                [
                    f"INSERT INTO letters VALUES ({a}, '{b}', {number}, {body}, {rng.choice([note, 'NULL'])}) "
                    f"ON CONFLICT (b, a) DO UPDATE SET n = {number}, note = {note}",
                    f"INSERT INTO letters VALUES ({a}, '{b}', {number}, {body}) ON CONFLICT DO NOTHING",
                    f"UPDATE letters SET n = n + 1 WHERE a = {a}",
                    f"UPDATE letters SET note = {note} WHERE a = {a} AND b = '{b}'",
                    f"UPDATE letters SET a = {other}, n = {number} WHERE a = {a} AND b = '{b}' "
                    f"AND NOT EXISTS (SELECT FROM letters AS l WHERE l.a = {other} AND l.b = '{b}')",
                    f"DELETE FROM letters WHERE a = {a} AND b = '{b}'",
                ]
            )
        )
    return ";\n".join(["BEGIN", *found, "COMMIT"])


def _rows(postgres: Postgres, database: str, sql: str) -> Rows:
    return sorted_rows(postgres.execute(sql, database))
