"""A first snapshot beside writers, by a capture that ends and begins again and may lose its log: nothing is lost."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import QUICK, Running, Sinks, once
from sinkql import physical
from sinkql.capture.host import Client
from sinkql.capture.log import LogFolder, source_folder
from sinkql.capture.process import discard
from sinkql.connectors.postgres.connect import failure
from sinkql.connectors.postgres.stream import PostgresStream, forget
from sinkql.extension.capture import CapturedSource, CapturedTable, source_options, table_options
from support.patience import joined
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.readers import duckdb_folder
from support.running import job

from .reading import login, tables

pytestmark = pytest.mark.server

_LONG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 80))"


@dataclass(frozen=True)
class ServerSinks(Sinks):
    """Sinks of one table of a real server."""

    of: CapturedTable = field(kw_only=True)
    id: str = field(kw_only=True)

    @property
    def place(self) -> LogFolder:
        return LogFolder(source_folder(self.folder, self.id))

    def job(self, name: str, *, max_rows: int = 50) -> physical.Job:
        options = table_options(source_options(self.id, "pg", {}, self.keeping), self.of)
        read = physical.Read("t", "FAKE", options, self.of.columns, "upsert", key=self.of.key, holes=self.of.holes)
        body = physical.Normalize(read, "rows", self.of.key) if self.of.holes else read
        return job(body, self.folder, table=name, key=self.of.key, max_rows=max_rows)

    def clients(self) -> list[Client]:
        return [Client(f"id-{name}", self.of) for name in self.names]

    def table(self, name: str) -> dict[Any, tuple[Any, ...]]:
        rows = duckdb_folder(str(self.folder / "lake" / "n" / name))
        found = {row[0]: tuple(row) for row in rows}
        assert len(found) == len(rows)
        return found


def _write(server: Postgres, database: str, seed: int, stop: threading.Event) -> None:
    """Change rows at random until told to stop: inserts, updates, deletes, other keys, TRUNCATE, rollbacks."""
    chance = random.Random(seed)
    with server.connect(database) as connection:
        while not stop.is_set():
            with suppress(psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation), connection.transaction():
                for _ in range(chance.choice([1, 1, 2, 5, 20])):
                    connection.execute(_change(chance))
                if chance.random() < 0.1:
                    raise psycopg.Rollback
            stop.wait(chance.random() * 0.01)


def _change(chance: random.Random) -> str:
    key, other, what = chance.randint(1, 200), chance.randint(1, 200), chance.random()
    if what < 0.3:
        long = _LONG if chance.random() < 0.3 else "'short'"
        return f"INSERT INTO t VALUES ({key}, {other}, {long}) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
    if what < 0.65:
        return f"UPDATE t SET v = {other} WHERE id = {key}"
    if what < 0.72:
        return f"UPDATE t SET long = {_LONG} WHERE id = {key}"
    if what < 0.87:
        return f"DELETE FROM t WHERE id = {key}"
    if what < 0.998:
        return f"DELETE FROM t WHERE id = {other}; UPDATE t SET id = {other} WHERE id = {key} AND id <> {other}"
    return "TRUNCATE t"


@contextmanager
def _writers(server: Postgres, database: str, seed: int) -> Iterator[None]:
    stop = threading.Event()
    found = [
        threading.Thread(target=_write, args=(server, database, seed * 10 + number, stop), daemon=True)
        for number in range(2)
    ]
    for each in found:
        each.start()
    try:
        yield
    finally:
        stop.set()
        joined(*found)


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    with postgres_server({"max_wal_size": "1GB"}) as server:
        yield server


@contextmanager
def _standby_that_comes_and_goes(server: Postgres, seed: int) -> Iterator[None]:
    """Have commits wait now and then for a standby that is not there."""
    chance, stop = random.Random(seed), threading.Event()

    def toggle() -> None:
        with server.connect() as connection:
            while not stop.wait(chance.random() * 0.2):
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
                connection.execute("SELECT pg_reload_conf()")
                stop.wait(chance.random() * 0.3)
                connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                connection.execute("SELECT pg_reload_conf()")

    toggling = threading.Thread(target=toggle, daemon=True)
    toggling.start()
    try:
        yield
    finally:
        stop.set()
        joined(toggling)


def _run(server: Postgres, folder: Path, seed: int, *, names: tuple[str, ...] = ("a",)) -> None:
    chance, database = random.Random(seed), server.database()
    identity = "ALTER TABLE t REPLICA IDENTITY FULL;" if seed % 4 == 3 else ""
    server.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, v int, long text); {identity} CREATE PUBLICATION p FOR TABLE t;"
        f"ALTER TABLE t ALTER long SET STORAGE EXTERNAL;"
        f"INSERT INTO t SELECT i, i, CASE WHEN i % 3 = 0 THEN repeat(md5(i::text), 90) ELSE 'x' END "
        f"FROM generate_series(1, 200) AS i",
        database,
    )
    source = CapturedSource(str(uuid.uuid4()), "s", "postgres", None, {"publication": "p", "tuning": {}})
    sinks = ServerSinks(folder, names, of=tables(server, database)["t"], id=source.id)

    def stream() -> Any:
        return PostgresStream(login(server, database), source, failure)

    with _writers(server, database, seed), _standby_that_comes_and_goes(server, seed):
        for _ in range(chance.randint(2, 4)):
            with Running(sinks, QUICK, stream):
                once(sinks, chance.choice(names))
            if chance.random() < 0.4:
                discard(sinks.place)
    with Running(sinks, QUICK, stream):
        for name in names:
            once(sinks, name)
    expected = {row[0]: row for row in server.execute("SELECT id, v, long FROM t", database)}
    for name in names:
        assert sinks.table(name) == expected
    forget(login(server, database), source, failure)
    server.drop(database)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.postgres.chunk._FIRST_ROWS", 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 7])  # with REPLICA IDENTITY FULL
def test_tables_are_what_the_server_has(own: Postgres, tmp_path: Path, seed: int) -> None:
    _run(own, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_two_sinks_are_what_the_server_has(own: Postgres, tmp_path: Path, seed: int) -> None:
    _run(own, tmp_path, seed, names=("a", "b"))
