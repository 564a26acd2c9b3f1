"""State recovery from a real server's table gives the same state, row by row."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from postgres.pipeline import capturing
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.rebuilt import Rows, run_history, sink_views

pytestmark = [pytest.mark.server, pytest.mark.long]
_SQL = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database});
"""


def _change(server: MariaDb, database: str, rows: Rows) -> None:
    dice = rows.dice
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO t VALUES {', '.join(map(str, rows.some()))}")
        if dice.random() < 0.5:
            cursor.execute(f"UPDATE t SET v = v + 1 WHERE k = {dice.randrange(5)}")
        if dice.random() < 0.5:
            cursor.execute(f"UPDATE t SET id = id + 100000 WHERE id < 100000 AND v = {dice.randrange(8)}")
        cursor.execute("COMMIT")
        cursor.execute(f"DELETE FROM t WHERE v = {dice.randrange(8)}")
        cursor.execute("COMMIT")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 50))])
def test_state_computed_again_is_the_state_that_was(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    dice = random.Random(f"rebuilt mysql {seed}")
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id bigint PRIMARY KEY, k bigint, v bigint)")
    with Session() as session:
        session.execute(_SQL.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database))
        names, rows = sink_views(session, dice), Rows(dice)
        with capturing(session):
            run_history(session, dice, names, lambda: _change(server, database, rows))
