"""A column renamed on the server stops only the sinks that read it; the hint lets them continue."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from capture.pipeline import run_once
from sinkql.connector_api.cdc import CapturedTable
from sinkql.connectors.postgres.chunk import PostgresChunkRead
from sinkql.connectors.postgres.stream import PostgresStream
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.patience import PATIENCE_S, Deadline
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
    """The column is renamed back once, which SKIP handles, and then stays renamed."""
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


@pytest.mark.share(2)
@pytest.mark.parametrize("told", [False, True], ids=["unseen", "told"])
def test_column_renamed_while_its_table_is_read(
    told: bool, session: Session, postgres: Postgres, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sinks that do not read the column get all rows; with `told`, a later change reveals the new name."""
    server = partial(postgres.execute, database=postgres_database)
    server("INSERT INTO t SELECT n, 'v', 'w' FROM generate_series(2, 9) AS n")
    shared = multiprocessing.get_context("fork")  # the capture is a forked process
    first, reads, go_on = shared.Semaphore(1), shared.Event(), shared.Event()
    chunk = PostgresStream.chunk

    def reading(stream: PostgresStream, table: CapturedTable) -> PostgresChunkRead:
        if not first.acquire(block=False):
            reads.set()
            assert go_on.wait(PATIENCE_S)
        return chunk(stream, table)

    monkeypatch.setattr(PostgresStream, "chunk", reading)
    monkeypatch.setattr(PostgresChunkRead, "_row_limit", lambda *_: 2)
    with capturing(session), ThreadPoolExecutor() as pool:
        others = pool.submit(run_once, session, "reads_not")
        assert reads.wait(PATIENCE_S)
        server("ALTER TABLE t RENAME v TO v2")
        if told:
            server("INSERT INTO t VALUES (10, 'v', 'w')")
        go_on.set()
        others.result(PATIENCE_S)
        expected = server("SELECT id, w FROM t ORDER BY id")
        run_once(session, "reads_not")
        assert duckdb_folder(Path("lake/n/reads_not")) == expected
        assert _stopped(session, "reads").code == ("SQ3433" if told else "SQ3711")
        (job,) = session.jobs(("reads",))
        session.catalog.control.status(job.sink_id, "stalled", error="SQ3433: it was renamed")
        session.execute("ALTER SOURCE s REFRESH REFERENCES;")
        server("INSERT INTO t VALUES (11, 'v', 'w')")
        run_once(session, "reads")
        assert duckdb_folder(Path("lake/n/reads"), "id, v2, w") == server("SELECT id, v2, w FROM t ORDER BY id")
        run_once(session, "reads_not")
        assert duckdb_folder(Path("lake/n/reads_not")) == server("SELECT id, w FROM t ORDER BY id")
