"""A sink that reads two tables of one source reports its positions for each table separately."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.pipeline import drain
from sinkql.capture import messages
from sinkql.capture.log import LogDirectory
from sinkql.capture.runner import discard
from sinkql.connector_api.stream import Limit
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session.session import Session
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import duckdb_folder
from support.running import loop_of

from .pipeline import capturing

pytestmark = pytest.mark.server
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE MATERIALIZED VIEW every AS SELECT id, name FROM orders UNION ALL SELECT id, name FROM people;
CREATE SINK u FROM every INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'u') KEY (id) NOT ENFORCED
  MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def database(postgres: Postgres, postgres_database: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    where = f"host=127.0.0.1 port={postgres.port} user=postgres dbname={postgres_database}"
    with psycopg.connect(where, autocommit=True) as connection:
        for name, first in (("orders", 1), ("people", 101)):
            connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, name text)")
            connection.execute(f"INSERT INTO {name} SELECT n, 'old' FROM generate_series({first}, {first + 9}) AS n")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield connection


def _loop(session: Session) -> BatchLoop:
    (job,) = session.jobs(("u",))
    return loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine())


def _commits_changes_of(loop: BatchLoop, table: str) -> None:
    """Commit a batch with changes of this table only."""
    loop.start(epoch=1)
    (source,) = (read.source for read in loop.job.reads() if read.options["table"]["name"][-1] == table)
    start, deadline = loop.checkpoint.end, Deadline()
    while (end := loop.readers[source].latest(start[source], Limit(100))) == start[source]:
        deadline.check("the changes")
    assert loop.commit_batch(start, {**start, source: end})


def test_log_that_is_lost_begins_again_where_the_sink_is_in_the_table_that_it_read_less_far(
    tmp_path: Path, database: psycopg.Connection[tuple[Any, ...]]
) -> None:
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(folder=tmp_path, port=database.info.port, database=database.info.dbname))
        with capturing(session):
            drain(_loop(session))
            database.execute("UPDATE people SET name = 'new'")
            _commits_changes_of(_loop(session), "people")
            (folder,) = (tmp_path / "capture").iterdir()
            notes = LogDirectory.local(folder).messages
            least = min(at.to for _, at in messages.all_of(notes, "at", messages.ReaderPosition))
            deadline = Deadline()
            while (said := messages.status(notes)) is None or said.confirmed < least:
                deadline.check("the confirmation")
        discard(LogDirectory.local(folder))
        database.execute("UPDATE orders SET name = 'new'")
        with capturing(session):
            drain(_loop(session))
        ids = (*range(1, 11), *range(101, 111))
        assert duckdb_folder(tmp_path / "lake" / "n" / "u") == [(id_, "new") for id_ in ids]
