"""Queries and previews of captured tables show the server's present rows, and leave nothing on the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.cli.main import run_command
from sinkql.session import Session
from support.postgres import Postgres

pytestmark = pytest.mark.server


@pytest.fixture
def script(
    postgres: Postgres, postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield a script for a source of tables: with a key, without a key, and with a value that SinkQL cannot hold."""
    monkeypatch.chdir(tmp_path)
    postgres.execute(
        "CREATE TYPE mood AS ENUM ('glad', 'sad');"
        "CREATE TABLE orders (id int PRIMARY KEY, amount numeric(12,2), at timestamptz, how mood, pads text);"
        "INSERT INTO orders SELECT n, n + 0.5, '2026-03-01 12:00+01', 'sad', repeat('x', 100) "
        "FROM generate_series(1, 20000) n;"
        "CREATE TABLE keyless (n int, at timestamp); ALTER TABLE keyless REPLICA IDENTITY FULL;"
        "INSERT INTO keyless VALUES (1, '2026-01-01'), (1, '2026-01-01'), (2, 'infinity');"
        "CREATE PUBLICATION p FOR ALL TABLES",
        postgres_database,
    )
    place = f"HOST '127.0.0.1', PORT {postgres.port}, DATABASE '{postgres_database}', USER postgres"
    yield (
        f"CREATE CONNECTION pg TO POSTGRES ({place});"
        "CREATE SOURCE shop FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;"
    )
    assert postgres.execute(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{postgres_database}'") == []


def test_a_table_is_previewed_as_the_server_has_it(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pipeline.sql").write_text(script)
    assert run_command(["preview", "-f", "pipeline.sql", "orders", "--limit", "2", "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(row.values())[:4] for row in rows] == [
        [1, "1.50", "2026-03-01 11:00:00+00", "sad"],
        [2, "2.50", "2026-03-01 11:00:00+00", "sad"],
    ]


def test_types_are_those_of_the_columns(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pipeline.sql").write_text(script)
    assert run_command(["preview", "-f", "pipeline.sql", "orders", "--types", "--limit", "0", "--output", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"column": "id", "type": "integer"},
        {"column": "amount", "type": "numeric(38,2)"},
        {"column": "at", "type": "timestamptz"},
        {"column": "how", "type": "text"},
        {"column": "pads", "type": "text"},
    ]


def test_queries_read_all_that_there_is_now(script: str, postgres: Postgres, postgres_database: str) -> None:
    with Session() as session:
        session.execute(script)
        (found,) = session.execute("SELECT id FROM orders WHERE id > 19997;")
        assert sorted(found.rows) == [(19998,), (19999,), (20000,)]
        postgres.execute("DELETE FROM orders WHERE id = 19998", postgres_database)
        (found,) = session.execute("SELECT id FROM orders WHERE id > 19997;")
        assert sorted(found.rows) == [(19999,), (20000,)]


def test_a_limit_asks_for_few_rows(script: str, postgres: Postgres, postgres_database: str) -> None:
    with Session() as session:
        session.execute(script)
        session.preview("orders", limit=3)
    postgres.execute("SELECT pg_stat_force_next_flush()", postgres_database)
    ((read,),) = postgres.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'orders'", postgres_database
    )
    assert 0 < read < 1000


def test_rows_without_a_key_are_as_many_as_there_are(script: str) -> None:
    with Session() as session:
        session.execute(script)
        found = session.preview("keyless")
    assert [row[0] for row in found.rows] == [1, 1]
    assert [notice.message for notice in found.notices] == ['invalid rows of source "keyless" that are left out: 1']
