"""The recovered state of a real server's table equals the lost state, row by row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sinkql.session import Session
from support.postgres import Postgres
from support.rebuilt import Rows, run_history, sink_views

from .pipeline import capturing

pytestmark = [pytest.mark.server, pytest.mark.long]
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
"""


def _change(database: psycopg.Connection[Any], rows: Rows) -> None:
    """Commit a transaction or two; long values do not change, so that the server omits them."""
    dice = rows.dice
    with database.transaction():
        for row in rows.some():
            database.execute("INSERT INTO t VALUES (%s, %s, %s, repeat('x', 5000))", row)
        if dice.random() < 0.5:
            database.execute("UPDATE t SET v = v + 1 WHERE k = %s", (dice.randrange(5),))
        if dice.random() < 0.5:
            database.execute("UPDATE t SET id = id + 100000 WHERE id < 100000 AND v = %s", (dice.randrange(8),))
    database.execute("DELETE FROM t WHERE v = %s", (dice.randrange(8),))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 50))])
def test_state_computed_again_is_the_state_that_was(
    postgres: Postgres, postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    dice = random.Random(f"rebuilt postgres {seed}")
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    with psycopg.connect(where, autocommit=True) as database, Session() as session:
        database.execute("CREATE TABLE t (id bigint PRIMARY KEY, k bigint, v bigint, long text)")
        database.execute("ALTER TABLE t ALTER long SET STORAGE EXTERNAL")
        database.execute("CREATE PUBLICATION p FOR ALL TABLES")
        session.execute(_SQL.format(port=postgres.port, database=postgres_database))
        names, rows = sink_views(session, dice), Rows(dice)
        with capturing(session):
            run_history(session, dice, names, lambda: _change(database, rows))
