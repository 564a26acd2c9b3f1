"""Run a catalog's sinks that read Postgres: the captures in separate processes, the sinks here without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.process.capture_processes import captures_running
from sinkql.session import Session
from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
from sinkql.session.sink.workload import CatalogWorkload
from support import running
from support.patience import Deadline
from support.running import loop_of


@contextmanager
def capturing(session: Session) -> Iterator[None]:
    """Capture all sources that sinks read until the block ends."""
    workload = CatalogWorkload(session.catalog, every_seconds=0.0)
    with captures_running(CatalogCaptureDirectory(session.catalog, workload, session.access.secret)):
        yield


def catch_up(session: Session, *, turn: int = 1, engine: Engine | None = None) -> None:
    """Run the sinks in turn, up to the server's last commit; without Spark unless `engine` says otherwise."""
    for job in session.jobs():
        context = session.context(job)
        context.folder.mkdir(parents=True, exist_ok=True)
        loop = loop_of(job, context, session.catalog.registry, engine=engine)
        loop.start(epoch=turn, once=True)
        running.catch_up(loop)


def stalled(session: Session) -> str:
    """Wait until the source is stalled, and return the error's code."""
    query = "SELECT error FROM mz_internal.mz_source_statuses WHERE name = 's' AND status = 'stalled'"
    deadline = Deadline()
    while not (rows := session.execute(query)[0].rows):
        deadline.check("a status")
    return str(rows[0][0]).partition(":")[0]
