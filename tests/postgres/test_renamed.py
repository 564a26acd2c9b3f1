"""A column that is renamed upstream stops the sinks that read it, and those alone; the hint has them go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from capture.pipeline import run_once
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import duckdb_folder

from .pipeline import capturing

pytestmark = [pytest.mark.server, pytest.mark.long]

_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (public.t);
CREATE MATERIALIZED VIEW other AS SELECT id, w FROM t;
CREATE SINK reads FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'reads') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
CREATE SINK reads_not FROM other INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'reads_not') KEY (id)
  MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def session(
    tmp_path: Path, postgres: Postgres, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    postgres.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text, w text); INSERT INTO t VALUES (1, 'v', 'w'); "
        "CREATE PUBLICATION p FOR TABLE t",
        postgres_database,
    )
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(port=postgres.port, database=postgres_database))
        yield session
        session.execute("DROP SOURCE s CASCADE;")


def test_renamed_column_stops_its_sinks_alone(session: Session, postgres: Postgres, postgres_database: str) -> None:
    """It is put back once, which SKIP takes in, and then stays renamed."""
    server = partial(postgres.execute, database=postgres_database)
    with capturing(session):
        for name in ("reads", "reads_not"):
            run_once(session, name)
        for number, way in enumerate(("SKIP", "REFRESH REFERENCES"), 2):
            server("ALTER TABLE t RENAME v TO v2")
            server(f"INSERT INTO t VALUES ({number}, 'v', 'w')")
            run_once(session, "reads_not")
            assert duckdb_folder(Path("lake/n/reads_not")) == [(each, "w") for each in range(1, number + 1)]
            error = _stopped(session, "reads")
            assert error.code == "SQ3433"
            said = [each.replace("…", "s") for each in re.findall(r"ALTER SOURCE[^;]*;", error.hint or "")]
            assert said == ["ALTER SOURCE s REFRESH REFERENCES;", "ALTER SOURCE s SKIP;"]
            if way == "SKIP":
                server("ALTER TABLE t RENAME v2 TO v")
                server("UPDATE t SET w = 'w'")
            (job,) = session.jobs(("reads",))
            session.catalog.control.status(job.sink_id, "stalled", error=f"{error.code}: {error.message}")
            session.execute(f"ALTER SOURCE s {way};")
            run_once(session, "reads")
            columns = "id, v, w" if way == "SKIP" else "id, v2, w"
            assert duckdb_folder(Path("lake/n/reads"), columns) == server(f"SELECT {columns} FROM t ORDER BY id")
            run_once(session, "reads_not")


def _stopped(session: Session, name: str) -> SinkqlError:
    deadline = Deadline()
    while True:
        try:
            run_once(session, name)
        except SinkqlError as error:
            return error
        deadline.check("an error")
