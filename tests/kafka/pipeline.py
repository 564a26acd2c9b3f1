"""SQL over a real broker; sinks run here without Spark, and DuckDB reads their tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.kafka import Kafka
from support.readers import Rows, duckdb_folder, open_table
from support.running import drain, loop_of

_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CONNECTION kafka TO KAFKA (BROKER '{address}', SECURITY PROTOCOL = 'PLAINTEXT');
"""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """An open catalog in a folder."""

    broker: Kafka
    folder: Path
    session: Session

    @classmethod
    @contextmanager
    def at(cls, broker: Kafka, folder: Path) -> Iterator[Pipeline]:
        """Open the catalog of the working folder, `folder`, with connections `lake` and `kafka`."""
        with Session() as session:
            session.execute(_SETUP.format(address=broker.address))
            yield cls(broker, folder, session)

    def run(self, sql: str) -> None:
        """Run statements."""
        self.session.execute(sql)

    def sink(self, relation: str, mode: str = "ENVELOPE NONE", more: str = "") -> None:
        """Create a sink of a relation into a table of the same name."""
        self.run(
            f"CREATE SINK {relation}_sink FROM {relation} INTO ICEBERG CATALOG CONNECTION lake "
            f"(NAMESPACE = 'n', TABLE = '{relation}') {mode} WITH (COMMIT INTERVAL = '1s'{more});"
        )

    def job(self, relation: str) -> physical.Job:
        """Return the job of a relation's sink."""
        return next(job for job in self.session.jobs() if job.sink.endswith(f".{relation}_sink"))

    def loop(self, relation: str, buckets: int = 2) -> BatchLoop:
        """Return the loop of a relation's sink, not started."""
        job = self.job(relation)
        return loop_of(job, self.session.context(job), discover(), engine=LocalEngine(buckets))

    def drain(self, relation: str) -> BatchLoop:
        """Commit everything available now, like a run with `--once`; return the sink's loop."""
        loop = self.loop(relation)
        loop.start(epoch=1, once=True)
        drain(loop)
        return loop

    def rows(self, relation: str, columns: str = "*") -> Rows:
        """Return the sorted rows of a relation's table, read by DuckDB."""
        return duckdb_folder(open_table(self.folder / "lake", f"n.{relation}").location(), columns)

    def source(self, name: str, columns: str, topic: str, clauses: str, options: str = "") -> None:
        """Create a source of a topic."""
        self.run(f"CREATE SOURCE {name} {columns} FROM KAFKA CONNECTION kafka (TOPIC '{topic}'{options}) {clauses};")
