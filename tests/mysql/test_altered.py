"""Sinks of altered tables stop before a change that they cannot follow, and lose no row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from capture.pipeline import run_once
from postgres.pipeline import capturing
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.patience import Deadline
from support.readers import duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_ALTERED = {
    "narrowed": ("SQ3433", "MODIFY v varchar(5)", 'column "v" of table "{d}.narrowed" has another type'),
    "dropped": ("SQ3433", "DROP COLUMN v, ADD COLUMN v varchar(20) DEFAULT 'new'", "was dropped or renamed"),
    "swapped": ("SQ3433", "RENAME COLUMN v TO w, RENAME COLUMN w TO v", "was dropped or renamed"),
    "nullable": ("SQ3433", "MODIFY w varchar(20) NULL", 'column "w" of table "{d}.nullable" may be NULL'),
    "keyless": ("SQ3440", "DROP PRIMARY KEY", 'no longer has a unique key of "id"'),
    "renamed": ("SQ3440", "RENAME TO gone", "was dropped or renamed"),
    "loosened": ("SQ3440", "MODIFY v varchar(20) NOT NULL", "by a statement without rows in the log"),
    "wider": (None, "MODIFY v varchar(200)", ""),
}
"""By table: the code of its sink's error (None if the sink continues), the change, and a part of the error's detail."""
_FEW = ("swapped", "keyless", "loosened", "wider")

_MENDED = {
    "narrowed": "ALTER TABLE narrowed MODIFY v varchar(20)",
    "nullable": "UPDATE nullable SET w = '' WHERE w IS NULL; ALTER TABLE nullable MODIFY w varchar(20) NOT NULL",
    "swapped": "ALTER TABLE swapped RENAME COLUMN v TO w, RENAME COLUMN w TO v",
    "keyless": "DELETE FROM keyless WHERE v = 'three'; ALTER TABLE keyless ADD PRIMARY KEY (id)",
    "renamed": "RENAME TABLE gone TO renamed",
}
_SQL = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database});
CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def altered(request: pytest.FixtureRequest) -> Mapping[str, tuple[str | None, str, str]]:
    return {table: _ALTERED[table] for table in request.param}


@pytest.fixture
def session(
    server: MariaDb, database: str, altered: Iterable[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    for table in altered:
        _run(server, database, f"CREATE TABLE {table} (id int PRIMARY KEY, v varchar(20), w varchar(20) NOT NULL)")
        _run(server, database, f"INSERT INTO {table} VALUES (1, NULL, 'w'), (2, 'two', 'w')")
    with Session() as opened:
        opened.execute(_SQL.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database))
        yield opened


@pytest.mark.parametrize(
    "altered", [_FEW, pytest.param(_ALTERED, marks=pytest.mark.soak)], ids=["few", "all"], indirect=True
)
def test_sinks_of_altered_tables_stop_and_compute_their_rows_again(
    server: MariaDb, database: str, session: Session, altered: Mapping[str, tuple[str | None, str, str]]
) -> None:
    with capturing(session):
        for table in altered:
            _once(session, table)
        for table, (_, change, _) in altered.items():
            _run(
                server,
                database,
                "SET sql_mode = ''" if table == "loosened" else "DO 1",
                f"ALTER TABLE {table} {change}",
            )
            now = "gone" if table == "renamed" else table
            _run(server, database, f"INSERT INTO {now} (id, v, w) VALUES (3, 'three', 'w')")
        stopped = {table: _stopped(session, table) for table, (code, _, _) in altered.items() if code}
        for table, error in stopped.items():
            code, _, said = _ALTERED[table]
            assert (error.code, said.format(d=database) in (error.detail or "")) == (code, True), f"{table}: {error}"
        _once(session, "wider")
        assert duckdb_folder("lake/n/wider") == _rows(server, database, "wider")
        _run(server, database, *"; ".join(_MENDED[table] for table in altered if table in _MENDED).split(";"))
        _once(session, "wider")  # so the capture has read the repairs
        for table, error in stopped.items():
            (job,) = session.jobs((f"{table}_sink",))
            session.catalog.control.status(job.sink_id, "stalled", error=f"{error.code}: {error.message}")
        notices = session.execute("ALTER SOURCE s SKIP;")[0].notices
        assert ["SQ2353"] * len(stopped) == [each.code for each in notices]
        for table in stopped:
            _once(session, table)
            _run(server, database, f"UPDATE {table} SET v = 'last' WHERE id = 1")
            _once(session, table)
            assert duckdb_folder(f"lake/n/{table}", "id, v, w") == _rows(server, database, table), table


def _run(server: MariaDb, database: str, *statements: str) -> None:
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        for each in statements:
            cursor.execute(each)


def _rows(server: MariaDb, database: str, table: str) -> list[tuple[Any, ...]]:
    return sorted(server.rows(f"SELECT id, v, w FROM {database}.{table}"))


def _once(session: Session, name: str) -> None:
    run_once(session, f"{name}_sink")


def _stopped(session: Session, name: str) -> SinkqlError:
    """Run a sink until it stops with an error that is not retryable."""
    deadline = Deadline()
    while True:
        try:
            _once(session, name)
        except SinkqlError as error:
            if not error.retryable:
                return error
        deadline.check(f"an error of {name}")
