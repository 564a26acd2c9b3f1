"""A sink ends between its commit and the report of it, and then the log is lost: the sink continues without loss."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from capture.pipeline import QUICK, Running, once
from sinkql.capture import messages
from sinkql.capture.reader import LogReader
from sinkql.capture.runner import discard
from sinkql.connector_api.cdc import CapturedSource
from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.stream import PostgresStream, forget
from support.postgres import Postgres

from .reading import login, tables
from .world import ServerSinks

pytestmark = pytest.mark.server

_LONG = "repeat(md5(id::text), 90)"
_SERVER = f"""
CREATE TABLE t (id int PRIMARY KEY, v int, long text);
ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
INSERT INTO t SELECT id, 0, {_LONG} FROM generate_series(1, 5) AS id;
CREATE PUBLICATION p FOR TABLE t;
"""


class EndedError(Exception):
    """The sink's process ends."""


@dataclass(frozen=True)
class Pipeline:
    """Table `t` of a database, and its sink; a log entry has all changes of `entry_seconds`."""

    postgres: Postgres
    database: str
    sinks: ServerSinks
    source: CapturedSource

    def captured(self, *, entry_seconds: float = 0.01) -> Running:
        server = login(self.postgres, self.database)
        pace = replace(QUICK, entry_seconds=entry_seconds)
        return Running(self.sinks, pace, stream=lambda: PostgresStream(server, self.source, failure))  # type: ignore[arg-type, return-value]

    def change(self, *statements: str) -> None:
        """Run each statement in a transaction."""
        for each in statements:
            self.postgres.execute(each, self.database)

    def ended_after_its_commit(self) -> None:
        """Run the sink up to its next commit, without reporting the commit to the capture."""

        def ended(*_: object) -> None:
            raise EndedError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogReader, "after_commit", ended)
            with pytest.raises(EndedError):
                once(self.sinks)

    def has_a_generation(self) -> bool:
        """Return whether the capture, which still sees the sink waiting, has published where the sink may join."""
        said = messages.status(self.sinks.directory.messages)
        first = self.sinks.directory.numbers()[:1]
        return bool(said and first and said.joinable and said.log == self.sinks.directory.entry(first[0]).log)  # type: ignore[union-attr]

    def is_whole(self) -> bool:
        """Return whether DuckDB finds the server's rows in the sink's table."""
        expected = {row[0]: row for row in self.postgres.execute("SELECT id, v, long FROM t", self.database)}
        return self.sinks.table("a") == expected


@pytest.fixture
def pipeline(tmp_path: Path, postgres: Postgres, postgres_database: str) -> Iterator[Pipeline]:
    postgres.execute(_SERVER, postgres_database)
    table = tables(postgres, postgres_database)["t"]
    source = CapturedSource(str(uuid.uuid4()), "s", "postgres", None, {"publication": "p", "tuning": {}})
    yield Pipeline(postgres, postgres_database, ServerSinks(tmp_path, of=table, id=source.id), source)
    forget(login(postgres, postgres_database), source, failure)


def test_a_sink_between_changes_that_the_next_log_has_in_one_entry_continues(pipeline: Pipeline) -> None:
    with pipeline.captured():
        once(pipeline.sinks)
        pipeline.change("UPDATE t SET v = 1 WHERE id = 1")
        pipeline.ended_after_its_commit()
    pipeline.change("UPDATE t SET id = 7 WHERE id = 1", "UPDATE t SET v = 2 WHERE id = 7")
    discard(pipeline.sinks.directory)
    end = int(pipeline.postgres.execute("SELECT pg_current_wal_lsn() - '0/0'", pipeline.database)[0][0])
    with pipeline.captured(entry_seconds=1.0) as running:
        running.until(lambda: running.captured() & 0xFFFFFFFFFFFFFFFF >= end)
        once(pipeline.sinks)
    assert pipeline.is_whole()


def test_what_follows_the_first_commit_is_kept_of_a_sink_that_is_known_to_wait(pipeline: Pipeline) -> None:
    with pipeline.captured():
        pipeline.ended_after_its_commit()
    pipeline.change("UPDATE t SET v = 1", "UPDATE t SET id = 7 WHERE id = 1")
    discard(pipeline.sinks.directory)
    with pipeline.captured() as running:
        running.until(pipeline.has_a_generation)
        running.confirms()
    discard(pipeline.sinks.directory)
    with pipeline.captured():
        once(pipeline.sinks)
    assert pipeline.is_whole()
