"""Unchanged values are read from tables that were dropped or altered since; other tables continue."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from capture.pipeline import Running, Sinks, once
from sinkql import physical
from sinkql.capture.control import SubscribedSink
from sinkql.capture.log import LogDirectory, source_folder
from sinkql.connector_api.cdc import CapturedSource, CapturedTable, source_options, table_options
from sinkql.connectors.postgres.chunk import PostgresChunkRead
from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.stream import PostgresStream, forget
from sinkql.errors import SinkqlError
from support.patience import PATIENCE_S
from support.postgres import Postgres
from support.readers import duckdb_folder
from support.running import job

from .reading import login, tables

pytestmark = pytest.mark.server

_LONG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 80))"
_SERVER = f"""
CREATE TABLE t (id int PRIMARY KEY, v text, w int);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
CREATE TABLE u (id int PRIMARY KEY);
INSERT INTO t VALUES (1, {_LONG}, 1), (2, {_LONG}, 2);
CREATE PUBLICATION p FOR TABLE t, u;
"""


@dataclass(frozen=True)
class Several(Sinks):
    """Sinks of tables of a real server, each named like its table."""

    of: Mapping[str, CapturedTable] = field(kw_only=True)
    id: str = field(kw_only=True)

    @property
    def directory(self) -> LogDirectory:
        return LogDirectory.local(source_folder(self.folder, self.id))

    def table_of(self, name: str) -> str:
        return name

    def job(self, name: str, *, max_rows: int = 300) -> physical.Job:
        table = self.of[name]
        options = table_options(source_options(self.id, "pg", {}, self.keeping), table)
        read = physical.Read(
            name, "FAKE", options, table.columns, "upsert", key=table.key, holes=table.has_unchanged_values
        )
        body = physical.Normalize(read, "rows", table.key) if table.has_unchanged_values else read
        return job(body, self.folder, table=name, key=table.key, max_rows=max_rows)

    def subscribed_sinks(self) -> list[SubscribedSink]:
        return [SubscribedSink(f"id-{name}", self.of[name]) for name in self.names]


@contextmanager
def _between_chunks(
    tmp_path: Path, postgres: Postgres, database: str, done: str
) -> Iterator[tuple[Several, Running, Future[Any]]]:
    """Run a statement after the sink of `t` has one of two chunks and the second chunk was read.

    Both tables are captured. The future has the outcome of that sink.
    """
    postgres.execute(_SERVER, database)
    sinks = Several(tmp_path, ("t", "u"), of=tables(postgres, database), id=str(uuid.uuid4()))
    server, reads, read, go = login(postgres, database), count(1), threading.Event(), threading.Event()
    source = CapturedSource(sinks.id, "db.public.s", "postgres", None, {"publication": "p", "tuning": {}})
    leave = PostgresChunkRead.__exit__

    def left(found: PostgresChunkRead, *error: object) -> None:
        leave(found, *error)
        if threading.current_thread().name.startswith("sinkql-chunk") and next(reads) == 2:
            read.set()
            assert go.wait(PATIENCE_S)

    def stream() -> Any:
        return PostgresStream(server, source, failure)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setattr(PostgresChunkRead, "__exit__", left)
        with Running(sinks, stream=stream) as running:
            sink = pool.submit(once, sinks, "t")
            assert read.wait(PATIENCE_S)
            running.until(lambda: sinks.directory.messages.names("at"))
            postgres.execute(done, database)
            go.set()
            yield sinks, running, sink
    forget(server, source, failure)


def test_a_table_that_was_dropped_with_values_that_are_asked_for_stops_no_other(
    tmp_path: Path, postgres: Postgres, postgres_database: str
) -> None:
    done = "BEGIN; UPDATE t SET id = 3 WHERE id = 2; DROP TABLE t; INSERT INTO u VALUES (7); COMMIT"
    with _between_chunks(tmp_path, postgres, postgres_database, done) as (sinks, running, sink):
        once(sinks, "u")
        assert duckdb_folder(tmp_path / "lake" / "n" / "u") == [(7,)]
        with pytest.raises(SinkqlError) as stopped:
            sink.result(PATIENCE_S)
        assert stopped.value.code in {"SQ3433", "SQ3711"}
        assert not [each.error for each in running.host.reports if each.status == "stalled"]


def test_a_table_that_was_altered_with_values_that_are_asked_for_stops_its_own_sinks(
    tmp_path: Path, postgres: Postgres, postgres_database: str
) -> None:
    done = "BEGIN; UPDATE t SET id = 3 WHERE id = 2; ALTER TABLE t DROP w; INSERT INTO u VALUES (7); COMMIT"
    with _between_chunks(tmp_path, postgres, postgres_database, done) as (sinks, running, sink):
        once(sinks, "u")
        assert duckdb_folder(tmp_path / "lake" / "n" / "u") == [(7,)]
        with pytest.raises(SinkqlError) as stopped:
            sink.result(PATIENCE_S)
        # the value is read, a chunk is read without the column, or the column is dropped while a chunk is read
        assert stopped.value.code in {"SQ3440", "SQ3433", "SQ3711"}
        assert 'column "w"' in f"{stopped.value.message} {stopped.value.detail}"
        table = duckdb_folder(tmp_path / "lake" / "n" / "t")
        assert [(row[0], row[2]) for row in table] in ([(1, 1), (2, 2)], [(1, 1), (3, 2)])
        assert [row[1:2] for row in table] == postgres.execute("SELECT v FROM t ORDER BY id", postgres_database)
        assert not [each.error for each in running.host.reports if each.status == "stalled"]
