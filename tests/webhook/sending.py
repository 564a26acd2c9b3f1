"""Sources that accept requests, and senders of requests."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from capture.pipeline import drained
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.process.capture_processes import captures_running
from sinkql.session.session import Session
from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
from sinkql.session.sink.workload import CatalogWorkload
from support.patience import Deadline
from support.readers import Rows, duckdb_folder
from support.running import loop_of

LAKE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
"""
SINK = """
CREATE SINK {name} FROM {source} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  {mode} WITH (COMMIT INTERVAL = '1s');
"""


@dataclass(frozen=True)
class Answered:
    """The answer to a request."""

    status: int
    text: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Sender:
    """A sender of requests to a port."""

    port: int

    def send(
        self, path: str, body: bytes | str | Any, headers: Mapping[str, str] | None = None, *, method: str = "POST"
    ) -> Answered:
        """Send a request over a new connection; a body that is neither text nor bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, data, dict(headers or {}))
            found = connection.getresponse()
            return Answered(found.status, found.read().decode(), {k.lower(): v for k, v in found.headers.items()})

    def listening(self, path: str) -> None:
        """Wait until the source at a path accepts requests; only there is a GET answered with 405."""
        deadline = Deadline()
        while True:
            try:
                if self.send(path, b"", method="GET").status == 405:
                    return
            except OSError:
                pass
            deadline.check(f"requests to {path}")


def path_of(name: str) -> str:
    return f"/api/webhook/materialize/public/{name}"


@contextmanager
def capturing(session: Session) -> Iterator[None]:
    """Capture the sources of all sinks within the block."""
    with captures_running(
        CatalogCaptureDirectory(session.catalog, CatalogWorkload(session.catalog), session.access.secret)
    ):
        yield


def once(session: Session, *names: str) -> None:
    """Run sinks, without Spark, over all accepted requests."""
    for job in session.jobs(names or None):
        drained(partial(loop_of, job, session.context(job), session.catalog.registry, engine=LocalEngine()))


def rows(folder: Path, name: str = "a", columns: str = "*") -> Rows:
    """Return the rows that DuckDB reads from a sink's table."""
    return duckdb_folder(folder / "lake" / "n" / name, columns)
