"""Hosts that share a catalog: one captures a source, sinks run on another host, and messages reach both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import drained, run_once
from sinkql.capture import messages
from sinkql.capture.log import LogDirectory
from sinkql.capture.object_log_store import ObjectLogStore
from sinkql.capture.reader import LogReader
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.connector_api.stream import Limit
from sinkql.errors import SinkqlError
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session.session import Session
from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
from sinkql.session.sink.workload import CatalogWorkload
from sinkql.state_store.directory import EXECUTOR
from support.catalog import server_address
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import duckdb_folder
from support.running import loop_of
from support.seaweed import seaweed

from .pipeline import capturing

pytestmark = pytest.mark.server
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES {with_};
"""
_SINK = """
CREATE SINK {name} FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_S3 = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = '{user}', SECRET ACCESS KEY = SECRET key,
  ENDPOINT = 'http://127.0.0.1:{port}');
"""
_IN_BUCKET = "WITH (LOG = 's3://data/logs/', AWS CONNECTION = aws)"
_Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[_Connection]:
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders SELECT n, 'old ' || n FROM generate_series(1, 1000) AS n")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield connection


@contextmanager
def _hosts(server: Postgres, folder: Path) -> Iterator[tuple[Session, Session]]:
    """Open a catalog as two hosts with separate folders."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(KEY_VARIABLE, "A" * 43 + "=")
        address = server_address(server, folder / "one")
        with Session(address) as one, Session(replace(address, folder=folder / "two")) as two:
            yield one, two


def _log(session: Session) -> LogDirectory:
    capture_directory = CatalogCaptureDirectory(
        session.catalog, CatalogWorkload(session.catalog), session.access.secret
    )
    return capture_directory.folder(capture_directory.captures()[0])


def _rows(folder: Path, name: str) -> list[tuple[Any, ...]]:
    return duckdb_folder(folder / "lake" / "n" / name)


def _expected(database: _Connection) -> list[tuple[Any, ...]]:
    return database.execute("SELECT id, name FROM orders ORDER BY id").fetchall()


def _again(session: Session, name: str) -> None:
    """Run a sink until it succeeds; only SQ3435 is retried."""
    (job,) = session.jobs((name,))
    deadline = Deadline()
    while True:
        try:
            drained(partial(loop_of, job, session.context(job), session.catalog.registry, engine=LocalEngine()))
        except SinkqlError as error:
            if error.code != "SQ3435":
                raise
            deadline.check("a log that was read again")
        else:
            return


def test_sinks_run_on_a_host_that_does_not_capture_their_source(
    tmp_path: Path, postgres: Postgres, database: _Connection
) -> None:
    info = database.info
    with seaweed(tmp_path / "seaweed") as server, _hosts(postgres, tmp_path) as (one, two):
        one.execute(_S3.format(secret=server.secret, user=server.user, port=server.s3))
        sql = _SQL.format(folder=tmp_path, port=info.port, database=info.dbname, with_=_IN_BUCKET)
        one.execute(sql + _SINK.format(name="a"))
        with capturing(one):
            run_once(one, "a")
            two.execute(_SINK.format(name="b"))  # which waits for its own snapshot
            run_once(two, "b")
            assert _rows(tmp_path, "a") == _rows(tmp_path, "b") == _expected(database)
            database.execute("UPDATE orders SET name = 'new', id = id + 10000 WHERE id < 100")
            run_once(two, "a")  # it ran on the first host before
            run_once(two, "b")
            assert _rows(tmp_path, "a") == _rows(tmp_path, "b") == _expected(database)
            _loses_a_file(one, two, tmp_path, database)
            _is_told_to_skip(one, two, tmp_path, database)
        for session in (one, two):
            assert not (_log(session).folder / "want").exists()
            assert not (_log(session).folder / "at").exists()


def _loses_a_file(one: Session, two: Session, folder: Path, database: _Connection) -> None:
    """Delete a data file of the log: the capturing host learns of it from the host that cannot read the file."""
    store, deadline = _log(one).store, Deadline()
    assert isinstance(store, ObjectLogStore)
    before = _files(store)
    database.execute("INSERT INTO orders VALUES (20000, 'more')")
    while not (new := _files(store) - before):
        deadline.check("a data file")
    store._objects.delete(new)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(EXECUTOR, "1")  # a task sends no messages
        with pytest.raises(SinkqlError, match="SQ3435"):
            run_once(two, "b")
        _again(two, "b")
    assert _rows(folder, "b") == _expected(database)


def _files(store: ObjectLogStore) -> set[str]:
    return {key for key, _ in store._objects.list("logs/") if "/data/" in key}


def _is_told_to_skip(one: Session, two: Session, folder: Path, database: _Connection) -> None:
    """Drop the slot on the server; a user accepts the loss on the second host."""
    database.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
    deadline = Deadline()
    while True:
        try:
            database.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            break
        except psycopg.errors.ObjectInUse:
            database.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            deadline.check("an inactive slot")
    database.execute("DELETE FROM orders WHERE id % 2 = 0")
    with pytest.raises(SinkqlError, match="SQ3701"):
        run_once(two, "b")
    assert [each.code for each in two.execute("ALTER SOURCE s SKIP;")[0].notices] == ["SQ2353"]
    while not messages.latest_epoch(_log(two).messages).begin:
        deadline.check("another slot")
    for session, name in ((one, "a"), (two, "b")):
        run_once(session, name)
        assert _rows(folder, name) == _expected(database)


def test_a_sink_says_that_another_host_has_the_log(tmp_path: Path, postgres: Postgres, database: _Connection) -> None:
    info = database.info
    with _hosts(postgres, tmp_path) as (one, two):
        sql = _SQL.format(folder=tmp_path, port=info.port, database=info.dbname, with_="")
        one.execute(sql + _SINK.format(name="a") + _SINK.format(name="b"))
        with capturing(one):
            run_once(one, "a")
            (job,) = two.jobs(("b",))
            reader = loop_of(job, two.context(job), two.catalog.registry).readers["materialize.public.orders"]
            assert isinstance(reader, LogReader)
            begin = reader.initial(at_end=False)
            assert reader.latest(begin, Limit(1)) == begin  # the capture may still move to this host
            with pytest.raises(SinkqlError, match="SQ3444") as failed:
                replace(reader, since=0.0).latest(begin, Limit(1))
        assert failed.value.retryable
        assert str(tmp_path / "one") in str(failed.value.detail)
        with capturing(two):
            run_once(two, "b")
        assert _rows(tmp_path, "b") == _expected(database)
