"""A sink, an aggregate and a join in a cluster with STATE, run on several hosts in turn."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from sinkql import physical
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.events import Event
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.session.session import Session
from sinkql.state_store.store import StateStore, open_state_store
from support.readers import duckdb_folder
from support.running import drain, loop_of

SINKS = ("latest", "sums", "joined")
_SCRIPT = """
{aws}
CREATE CLUSTER c (SIZE = 'local[2]'{state});
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (id bigint NOT NULL, k bigint, v bigint)
  FROM FILES (PATH = '{folder}/events', GLOB = '*.json') FORMAT JSON;
CREATE SOURCE names (k bigint NOT NULL, name text)
  FROM FILES (PATH = '{folder}/names', GLOB = '*.json') FORMAT JSON;
CREATE MATERIALIZED VIEW summed{own} AS SELECT k, count(*) AS n, sum(v) AS v, max(v) AS most FROM events GROUP BY k;
CREATE MATERIALIZED VIEW named AS SELECT e.id, e.v, n.name FROM events AS e JOIN names AS n ON e.k = n.k;
CREATE SINK latest IN CLUSTER c FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'latest')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK sums IN CLUSTER c FROM summed INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'sums')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
CREATE SINK joined IN CLUSTER c FROM named INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'joined')
  KEY (id) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_AWS = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = '{endpoint}',
  REGION = 'us-east-1');
"""
_OWN = " IN CLUSTER c WITH (COMMIT INTERVAL = '1s')"
_EXPECTED = {
    "latest": "SELECT k, max(id), arg_max(v, id) FROM events GROUP BY k",
    "sums": "SELECT k, count(*), sum(v)::bigint, max(v) FROM events GROUP BY k",
    "joined": "SELECT e.id, e.v, n.name FROM events AS e JOIN names AS n ON e.k = n.k",
}
_COLUMNS = {"latest": "k, id, v", "sums": "k, n, v::bigint, most", "joined": "id, v, name"}


@dataclass
class Pipeline:
    """The catalog, which moves from host to host, and all input rows; `events` are from the last run."""

    folder: Path
    session: Session
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    events: list[Event] = field(default_factory=list)
    epochs: int = 0
    rows: list[dict[str, int]] = field(default_factory=list)
    names: list[dict[str, object]] = field(default_factory=list)
    engine: Engine | None = None
    remote: bool = False
    """Whether the engine runs tasks on other machines."""

    def put(self, count: int) -> None:
        """Write a file of new events, and a file of names until all names are written."""
        number = len(list((self.folder / "events").iterdir()))
        first = len(self.rows)
        new = [
            {"id": first + i, "k": self.chance.randrange(40), "v": self.chance.randrange(1000)} for i in range(count)
        ]
        self.rows += new
        _write(self.folder / "events" / f"{number:04}.json", new)
        if len(self.names) < 40:
            names = [{"k": k, "name": f"name {k}"} for k in range(len(self.names), len(self.names) + 8)]
            self.names += names
            _write(self.folder / "names" / f"{number:04}.json", names)

    def job(self, name: str) -> physical.Job:
        """Return the job of a sink, or of a view with a job."""
        return next(job for job in self.session.jobs([name]) if job.sink == f"materialize.public.{name}")

    def run(self, sink: str, *, batches: bool = True) -> BatchLoop:
        """Start a sink and, with `batches`, commit all available data."""
        job = self.job(sink)
        self.epochs += 1
        self.events.clear()
        context = replace(self.session.context(job), remote=self.remote)
        loop = loop_of(
            job, context, self.session.catalog.registry, engine=self.engine, control=self.session.catalog.control,
            progress=self.events.append,
        )  # fmt: skip
        loop.start(epoch=self.epochs, once=True)
        if batches:
            drain(loop)
        return loop

    def move(self) -> None:
        """Move to a new host, without the local files of sinks."""
        shutil.rmtree(self.folder / "sinks", ignore_errors=True)

    def local(self, sink: str) -> Path:
        """Return the folder of a sink on this host."""
        job = self.job(sink)
        return self.session.context(job).folder

    def store(self, sink: str) -> StateStore:
        """Return the state store of a sink."""
        job = self.job(sink)
        assert job.state is not None
        return open_state_store(job.state, job.sink_id, self.session.context(job).store)

    def kept(self, sink: str) -> set[str]:
        """Return the names of a sink's files in the state store."""
        return {name for name, _ in self.store(sink).list("")}

    def check(self, sink: str) -> None:
        """Check that an independent reader finds the rows that DuckDB computes from all input."""
        with _database().cursor() as connection:
            for name, rows in (("events", self.rows), ("names", self.names)):
                connection.register(name, pa.Table.from_pylist(rows))
            expected = connection.execute(_EXPECTED[sink]).fetchall()
        assert sorted(expected) == sorted(duckdb_folder(self.folder / "lake" / "n" / sink, _COLUMNS[sink]))


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the shared database: opening one takes longer than a query."""
    return duckdb.connect(config={"threads": 1})


@contextmanager
def pipeline(
    folder: Path, state: str | None, *, endpoint: str = "", secret: str = "", own: bool = False
) -> Iterator[Pipeline]:
    """Yield a pipeline in a folder, with its state in `state`, or without STATE if None.

    With `own`, the view `summed` has a separate job.
    """
    for name in ("events", "names"):
        (folder / name).mkdir()
    aws = _AWS.format(endpoint=endpoint, secret=secret) if endpoint else ""
    through = ", AWS CONNECTION = aws" if endpoint else ""
    with Session(folder / "catalog.db") as session:
        kept = f", STATE = '{state}'{through}" if state is not None else ""
        session.execute(_SCRIPT.format(folder=folder, aws=aws, state=kept, own=_OWN if own else ""))
        yield Pipeline(folder, session)


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)))
