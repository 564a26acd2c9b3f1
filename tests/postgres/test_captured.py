"""Tables of a real server in Iceberg: the capture is a process, and the sinks' batches run without Spark."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog import load_catalog

from capture.pipeline import drain, run_once
from sinkql.capture import messages
from sinkql.capture.object_log_store import ObjectLogStore
from sinkql.capture.runner import discard
from sinkql.connector_api.health_check import HealthCheck
from sinkql.errors import SinkqlError
from sinkql.physical.job import encode
from sinkql.runtime.batch.events import Event
from sinkql.runtime.batch.metrics import ProgressMeter
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session.server_check import checks_of_catalog
from sinkql.session.session import Session
from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
from sinkql.session.sink.workload import CatalogWorkload
from support.catalog import server_url
from support.command import start
from support.cpu_account import descends, processes
from support.fault import armed
from support.namespace import is_stopped
from support.patience import Deadline
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.readers import duckdb_folder
from support.running import loop_of
from support.seaweed import seaweed

from .pipeline import capturing

pytestmark = pytest.mark.server
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES EXPOSE PROGRESS AS p;
CREATE SINK a FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders SELECT n, 'old ' || n FROM generate_series(1, 1000) AS n")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield connection


def test_rows_from_before_and_changes_arrive(tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]) -> None:
    info = database.info
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        with capturing(session):
            run_once(session)
            assert len(duckdb_folder(tmp_path / "lake" / "n" / "a")) == 1000
            database.execute("DELETE FROM orders WHERE id % 2 = 0")
            database.execute("UPDATE orders SET name = 'new', id = id + 10000 WHERE id < 100")
            database.execute("INSERT INTO orders VALUES (2, 'again')")
            run_once(session)
            expected = database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()
            assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected
            assert database.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (1,)
        session.execute("DROP SOURCE s CASCADE")
        assert database.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)


def test_how_far_a_source_is_can_be_asked(tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]) -> None:
    info = database.info
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        (job,) = session.jobs(None)
        told: list[Event] = []
        meter = ProgressMeter(job.sink_id, session.catalog.control, told.append)
        with capturing(session):
            loop = loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine())
            drain(loop)
            meter.sample(job.sink, loop.readers, loop.checkpoint.end, waits=False, last=True)
        assert _asked(session, "statistics", "snapshot_records_known, snapshot_records_staged, snapshot_committed") == {
            "s": (1000, 1000, True),
            "orders": (1000, 1000, True),
        }
        # the statistics that the capture reported last, as it ended
        ((known, committed),) = set(_asked(session, "statistics", "offset_known, offset_committed").values())
        (end,) = database.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone() or ()
        assert 0 < committed <= known <= end
        ((lsn,),) = session.execute("SELECT lsn FROM p")[0].rows
        assert 0 < lsn <= known
        assert session.execute("SHOW SUBSOURCES ON s")[0].rows == (("orders", "subsource"), ("p", "progress"))
        ((behind, unit, consistent),) = set(_asked(session, "progress", "behind, unit, consistent").values())
        assert (behind, unit, consistent) == (known - committed, "bytes", True)
        columns, ((*sink,),) = session.status()
        assert sink[columns.index("behind")] == f"{behind} bytes"
        columns, ((*source,),) = session.source_status()
        assert source[: columns.index("lag_seconds")] == ["s", "created", f"{behind} bytes"]
        retained = _asked(session, "progress", "retained_bytes, log_bytes, kept_by")["s"]
        assert retained[0] > 0
        assert retained[2] == "server"
        lake = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"{tmp_path}/lake")
        assert lake.load_table("n.a").properties[f"sinkql.{job.sink_id}.consistent"] == "true"


def test_run_tells_how_far_a_first_snapshot_is(tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]) -> None:
    info = database.info
    (tmp_path / "p.sql").write_text(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
    # the capture's process stops before its first chunk is in the log
    running = start("exec", "p.sql", "--once", folder=tmp_path, environment=armed("chunk-read=stop"))
    first = running.wait_for(lambda event: event.get("event") == "snapshotting")
    _continue(running.process.pid)
    last = running.wait_for(lambda event: event.get("event") == "snapshotting" and event["done"])
    assert running.end() == 0
    assert not first["done"]
    assert {name: last[name] for name in ("sink", "rows", "of_rows", "chunks", "of_chunks")} == {
        "sink": "materialize.public.a", "rows": 1000, "of_rows": 1000, "chunks": 1, "of_chunks": 1,
    }  # fmt: skip


def _continue(ancestor: int) -> None:
    """Continue the descendant of a process that has stopped, when it has."""
    deadline = Deadline()
    while True:
        parents = {pid: times.parent for (pid, _), times in processes().items()}
        for pid in parents:
            with suppress(OSError):
                if descends(pid, ancestor, parents) and is_stopped(pid):
                    os.kill(pid, signal.SIGCONT)
                    return
        deadline.check("a process that has stopped")


def _asked(session: Session, which: str, columns: str) -> dict[str, tuple[Any, ...]]:
    """Return columns of a system relation by the names of sources."""
    query = f"SELECT o.name, {columns} FROM mz_internal.mz_source_{which} AS s JOIN mz_objects AS o ON o.id = s.id"
    return {name: tuple(rest) for name, *rest in session.execute(query)[0].rows}


def test_changes_that_the_server_lost_are_skipped(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """The error's hint works."""
    info = database.info
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        with capturing(session):
            run_once(session)
        database.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        database.execute("DELETE FROM orders WHERE id % 2 = 0")
        database.execute("UPDATE orders SET name = 'new', id = id + 10000 WHERE id < 100")
        with capturing(session):
            with pytest.raises(SinkqlError, match=r"SQ3701.*\n?.*\n?.*ALTER SOURCE … SKIP"):
                run_once(session)
            assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
            capture_directory = CatalogCaptureDirectory(
                session.catalog, CatalogWorkload(session.catalog), session.access.secret
            )
            notes, deadline = capture_directory.folder(capture_directory.captures()[0]).messages, Deadline()
            while not messages.latest_epoch(notes).begin:
                deadline.check("another slot")
            run_once(session)
            database.execute("DELETE FROM orders WHERE id % 3 = 0")
            run_once(session)
        expected = database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()
        assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected


def test_rows_are_computed_again_if_both_log_and_state_are_lost(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]
) -> None:
    info = database.info
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        with capturing(session):
            run_once(session)
            capture_directory = CatalogCaptureDirectory(
                session.catalog, CatalogWorkload(session.catalog), session.access.secret
            )
            folder = capture_directory.folder(capture_directory.captures()[0])
        discard(folder)
        (job,) = session.jobs()
        lost = list(session.context(job).folder.glob("state*"))
        assert lost
        for each in lost:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        database.execute("DELETE FROM orders WHERE id % 2 = 0")
        database.execute("UPDATE orders SET name = 'new', id = id + 10000 WHERE id < 100")
        with capturing(session):
            with pytest.raises(SinkqlError, match="SQ3438"):
                run_once(session)
            loop = loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine())
            loop.start(epoch=2, once=True)
            loop.full_refresh()
            database.execute("DELETE FROM orders WHERE id % 3 = 0")
            run_once(session)
        expected = database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()
        assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected


def test_rows_that_cannot_be_computed_again_are_kept_if_the_user_says_so(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """The error's hint works: another source of the sink no longer has the rows that were read from it."""
    info, file = database.info, tmp_path / "in" / "more.csv"
    file.parent.mkdir()
    file.write_text("id,name\n-1,file\n-2,file\n")
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        session.execute(
            f"CREATE SOURCE f (id integer, name text) FROM FILES (PATH '{file.parent}') FORMAT CSV WITH HEADER;"
            "CREATE MATERIALIZED VIEW every AS SELECT id, name FROM orders UNION ALL SELECT id, name FROM f;"
            "CREATE SINK u FROM every INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'u') KEY (id) "
            "NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');"
        )
        with capturing(session):
            run_once(session, "u")
        database.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        database.execute("DELETE FROM orders WHERE id = 1")
        database.execute("UPDATE orders SET name = 'new' WHERE id < 100")
        file.unlink()
        with capturing(session):
            with pytest.raises(SinkqlError, match=r"SQ3701"):
                run_once(session, "u")
            session.execute("ALTER SOURCE s SKIP;")
            with pytest.raises(SinkqlError, match=r"SQ3439.*\n?.*\n?.*ALTER SOURCE … SKIP again") as failed:
                run_once(session, "u")
            (job,) = session.jobs(("u",))
            session.catalog.control.status(job.sink_id, "failed", error=f"{failed.value.code}: {failed.value.message}")
            assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
            run_once(session, "u")
            database.execute("DELETE FROM orders WHERE id % 3 = 0")
            run_once(session, "u")
        expected = database.execute("SELECT id, name FROM orders").fetchall()
        kept = [(-1, "file"), (-2, "file"), (1, "old 1")]
        assert duckdb_folder(tmp_path / "lake" / "n" / "u") == sorted(expected + kept)


def test_tables_that_have_moved_to_another_server_are_read_there(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """The error's hint works although the table has a new OID."""
    info = database.info
    with Session(tmp_path / "catalog.db") as session, postgres_server() as other:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        with capturing(session):
            run_once(session)
        other.execute(f"CREATE DATABASE {info.dbname}")
        other.execute(
            "CREATE TABLE first (); CREATE TABLE orders (id int PRIMARY KEY, name text); CREATE PUBLICATION p FOR "
            "TABLE orders; INSERT INTO orders SELECT n, 'moved ' || n FROM generate_series(500, 1100) AS n",
            info.dbname,
        )
        session.execute(f"ALTER CONNECTION pg SET (PORT = {other.port})")
        with capturing(session), pytest.raises(SinkqlError, match=r"SQ3703.*\n?.*REFRESH REFERENCES"):
            run_once(session)
        session.execute("ALTER SOURCE s REFRESH REFERENCES")
        with capturing(session):
            with pytest.raises(SinkqlError, match=r"SQ3701.*"):
                run_once(session)
            assert [each.code for each in session.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
            run_once(session)
            other.execute("DELETE FROM orders WHERE id % 3 = 0", info.dbname)
            run_once(session)
        expected = other.execute("SELECT id, name FROM orders ORDER BY id", info.dbname)
        assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected


@pytest.mark.share(2)
@pytest.mark.parametrize("wait", [0.02, 0.0], ids=["now and then", "all the time"])
def test_rows_without_a_key_come_and_go_as_often_as_on_the_server(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]], wait: float
) -> None:
    info = database.info
    _make_odd(database)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        session.execute(
            "CREATE SINK b FROM odd INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b') MODE APPEND "
            "WITH (COMMIT INTERVAL = '1s')"
        )
        stopping = threading.Event()
        writer = threading.Thread(target=_write, args=(info.dsn, stopping, wait))
        writer.start()
        try:
            with capturing(session):
                run_once(session, "b")
                stopping.set()
                writer.join()
                run_once(session, "b")
        finally:
            stopping.set()
            writer.join()
    expected = dict(database.execute("SELECT x, count(*) FROM odd GROUP BY x").fetchall())
    found: Counter[object] = Counter()
    for x, diff, _ in duckdb_folder(tmp_path / "lake" / "n" / "b"):
        found[x] += diff
    assert {x: count for x, count in found.items() if count} == expected


def test_table_without_a_key_is_emptied(tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]) -> None:
    info = database.info
    _make_odd(database)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=info.port, database=info.dbname))
        session.execute(
            "CREATE MATERIALIZED VIEW counts AS SELECT x, count(*) AS n FROM odd GROUP BY x;"
            "CREATE SINK c FROM counts INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'c') KEY (x) "
            "MODE UPSERT WITH (COMMIT INTERVAL = '1s')"
        )
        with capturing(session):
            run_once(session, "c")
            for turn in range(2):
                database.execute("TRUNCATE odd")
                database.execute(f"INSERT INTO odd SELECT n % 7 FROM generate_series(1, 50 + {turn}) AS n")
            _again(session, "c")
            database.execute("DELETE FROM odd WHERE x = 3")
            database.execute("INSERT INTO odd VALUES (100)")
            _again(session, "c")
    expected = database.execute("SELECT x, count(*) FROM odd GROUP BY x ORDER BY x").fetchall()
    assert duckdb_folder(tmp_path / "lake" / "n" / "c") == expected


def _make_odd(database: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Create a table without a key that has equal rows."""
    database.execute("CREATE TABLE odd (x int)")
    database.execute("ALTER TABLE odd REPLICA IDENTITY FULL")
    database.execute("INSERT INTO odd SELECT n % 10 FROM generate_series(1, 500) AS n")


def _again(session: Session, name: str) -> None:
    """Run a sink, and run it again if it stopped for a full refresh."""
    try:
        run_once(session, name)
    except SinkqlError as error:
        if error.code != "SQ3438":
            raise
        run_once(session, name)


def _write(where: str, stopping: threading.Event, wait: float) -> None:
    """Change rows of the table without a key until `stopping` is set."""
    with psycopg.connect(where, autocommit=True) as connection:
        turn = 0
        while not stopping.wait(wait):
            turn += 1
            connection.execute("UPDATE odd SET x = %s WHERE x = %s", (turn % 13, turn % 10))
            connection.execute("INSERT INTO odd VALUES (%s)", (turn,))


def test_another_host_continues_at_once_where_one_died(
    tmp_path: Path,
    postgres: Postgres,
    database: psycopg.Connection[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lease of the log's writer has not expired, but the shared catalog says which host captures."""
    monkeypatch.setenv("SINKQL_CATALOG_KEY", base64.b64encode(bytes(32)).decode())
    url, info = server_url(postgres, tmp_path / "first"), database.info
    with seaweed(tmp_path / "seaweed") as server:
        with Session(url) as session:
            session.execute(
                f"CREATE SECRET key AS '{server.secret}'; CREATE CONNECTION aws TO AWS (ACCESS KEY ID = "
                f"'{server.user}', SECRET ACCESS KEY = SECRET key, ENDPOINT = 'http://127.0.0.1:{server.s3}');"
            )
            text = _SQL.format(folder=tmp_path, port=info.port, database=info.dbname)
            where = "LOG = 's3://data/logs/', AWS CONNECTION = aws"
            session.execute(text.replace("EXPOSE PROGRESS AS p;", f"EXPOSE PROGRESS AS p WITH ({where});"))
            with capturing(session):
                run_once(session)
            capture_directory = CatalogCaptureDirectory(
                session.catalog, CatalogWorkload(session.catalog), session.access.secret
            )
            store = capture_directory.folder(capture_directory.captures()[0]).store
            assert isinstance(store, ObjectLogStore)
            head, _ = store._objects.get(store._head_key) or (b"", "")
            late = json.dumps({**json.loads(head), "until": time.time() + 1000})  # as if the holder had not released it
            store._objects.put(store._head_key, late.encode())
        database.execute("UPDATE orders SET name = 'new' WHERE id < 100")
        with Session(url.replace("/first", "/second")) as session, capturing(session):
            run_once(session)
    expected = database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()
    assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected


@pytest.mark.share(2)
@pytest.mark.parametrize("by_cluster", [False, True])
def test_log_may_be_in_a_bucket(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]], *, by_cluster: bool
) -> None:
    info = database.info
    with seaweed(tmp_path / "seaweed") as server, Session(tmp_path / "catalog.db") as session:
        session.execute(
            f"CREATE SECRET key AS '{server.secret}'; CREATE CONNECTION aws TO AWS (ACCESS KEY ID = '{server.user}', "
            f"SECRET ACCESS KEY = SECRET key, ENDPOINT = 'http://127.0.0.1:{server.s3}');"
        )
        text = _SQL.format(folder=tmp_path, port=info.port, database=info.dbname)
        where = "LOG = 's3://data/logs/', AWS CONNECTION = aws"
        if by_cluster:
            session.execute("CREATE CLUSTER c (SIZE = 'local[1]', STATE = 's3://data/logs/', AWS CONNECTION = aws);")
            text, where = text.replace("CREATE SOURCE s ", "CREATE SOURCE s IN CLUSTER c "), "MAX LOG SIZE = '1GB'"
        session.execute(text.replace("EXPOSE PROGRESS AS p;", f"EXPOSE PROGRESS AS p WITH (KEEP = 'log', {where});"))
        told = [each for each in checks_of_catalog(session.catalog) if each.name == "s: log"]
        assert told == ([] if by_cluster else [HealthCheck("s: log", "ok", "s3://data/logs/ has conditional writes")])
        (job,) = session.jobs()
        assert server.secret not in encode(job).decode()
        with capturing(session):
            run_once(session)
            database.execute("UPDATE orders SET name = 'new', id = id + 10000 WHERE id < 100")
            run_once(session)
            expected = database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()
            assert duckdb_folder(tmp_path / "lake" / "n" / "a") == expected
        capture_directory = CatalogCaptureDirectory(
            session.catalog, CatalogWorkload(session.catalog), session.access.secret
        )
        log = capture_directory.folder(capture_directory.captures()[0])
        assert len(log.numbers()) > 2
        assert not (log.folder / "log").exists()
        # the stored state of the publication moves to another host with the log
        assert log.store.noted("publication.json") is not None
        assert not (log.folder / "publication.json").exists()
        with pytest.raises(SinkqlError) as failed:
            session.execute("ALTER SOURCE s SET (LOG = 's3://data/elsewhere')")
        assert failed.value.code == "SQ2340"
        if by_cluster:
            with pytest.raises(SinkqlError) as failed:
                session.execute("ALTER SOURCE s SET CLUSTER quickstart")
            assert failed.value.code == "SQ2617"
        session.execute("DROP SOURCE s CASCADE")
        assert isinstance(log.store, ObjectLogStore)
        assert list(log.store._objects.list("logs/")) == []
