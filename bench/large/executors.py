"""Compare the CPU of the same batches in a local process and on 1, 2 and 4 executors that share no folder.

Rows are Parquet files in a local S3 (seaweedfs), which also has the table and STATE. `aggregate` counts and sums
100,000 groups. `upsert` keeps the latest row of 400,000 keys. All runs have the same number of buckets, and commit the
same batches one after another. The first batches warm up. For the rest, prints the CPU seconds of the driver, with its
Java and Python, and of the workers with their executors, and the bytes of state fetched. DuckDB counts the rows of the
table at the end.

Each worker runs like a separate machine (`support.spark_cluster`, which needs root), with executors of one core. They
share this machine's cores, so wall time means nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from bench.common import ROOT, median, show
from bench.meter import ENVIRONMENT, tree_cpu
from sinkql.session.session import Session

if TYPE_CHECKING:
    from support.seaweed import Seaweed
    from support.spark_cluster import SparkCluster

_WARM, _BUCKETS, _KEYS, _GROUPS = 4, 4, 400_000, 100_000
_SCRIPT = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = '{s3}',
  REGION = 'us-east-1');
CREATE CLUSTER c ({cluster}, STATE = 's3://data/state/{name}', AWS CONNECTION = aws);
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '{rest}', WAREHOUSE = 'lake',
  CREDENTIAL = 'admin:' || SECRET key);
CREATE SOURCE s (k bigint NOT NULL, v bigint) FROM FILES CONNECTION aws (PATH = 's3://data/in/{name}') FORMAT PARQUET;
CREATE VIEW grouped AS SELECT k % {groups} AS g, v FROM s;
CREATE MATERIALIZED VIEW sums AS SELECT g, count(*) AS n, sum(v) AS v FROM grouped GROUP BY g;
CREATE SINK z {sink} WITH (COMMIT INTERVAL = '1s', BUCKETS = {buckets});
"""
_TABLE = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}') USING AWS CONNECTION aws"
_SINKS = {
    "aggregate": f"FROM sums {_TABLE} KEY (g) MODE UPSERT",
    "upsert": f"FROM s {_TABLE} KEY (k) NOT ENFORCED MODE UPSERT",
}
_ROWS_LEFT = {"aggregate": _GROUPS, "upsert": _KEYS}


@dataclass(slots=True)
class _Spent:
    """The cost of the measured batches: CPU seconds of the driver and of the executors, and bytes fetched."""

    driver: list[float] = field(default_factory=list)
    executors: list[float] = field(default_factory=list)
    fetched: list[int] = field(default_factory=list)

    @property
    def whole(self) -> float:
        """Return the median CPU seconds of a batch."""
        return median([a + b for a, b in zip(self.driver, self.executors, strict=True)])


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("--kind", choices=sorted(_SINKS), default="aggregate")
    parser.add_argument("--rows", type=int, default=400_000, help="rows of a batch")
    parser.add_argument("--batches", type=int, default=8, help="number of measured batches")
    parser.add_argument("--executors", type=int, nargs="*", default=[0, 1, 2, 4], help="0 means a local process")


def run(arguments: argparse.Namespace) -> None:
    """Run the same batches with each number of executors, and print their cost."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.seaweed import seaweed

    lines = []
    with tempfile.TemporaryDirectory() as folder, seaweed(Path(folder) / "s3") as server:
        first = 0.0
        for number in arguments.executors:
            found = _measured(Path(folder), server, number, arguments.kind, arguments.rows, arguments.batches)
            first = first or found.whole
            lines.append((
                f"{number} executors" if number else "local",
                f"{found.whole:.2f}", f"{median(found.driver):.2f}", f"{median(found.executors):.2f}",
                f"{found.whole / first:.2f}", f"{median(found.fetched) / 1e6:.2f}",
            ))  # fmt: skip
            print(*lines[-1], flush=True)
    show([("", "CPU-s a batch", "driver", "executors", "to the first", "MB fetched a batch"), *lines])


def _measured(folder: Path, server: Seaweed, executors: int, kind: str, rows: int, batches: int) -> _Spent:
    from support.readers import duckdb_rest
    from support.seaweed import SECRET
    from support.spark_cluster import spark_cluster

    name = f"{kind}{executors}"
    home = folder / name
    home.mkdir()
    storage = pyarrow.fs.S3FileSystem(
        access_key="admin", secret_key=SECRET, endpoint_override=f"127.0.0.1:{server.s3}", scheme="http",
        region="us-east-1",
    )  # fmt: skip
    spent = _Spent()
    with ExitStack() as stack:
        cluster: SparkCluster | None = None
        what = "SIZE = 'local[2]'"
        if executors:
            cluster = stack.enter_context(spark_cluster(home / "cluster", workers=executors))
            what = f"MASTER = '{cluster.url}', EXECUTORS = {executors}, CORES = 1, MEMORY = '1g'"
        (home / "pipeline.sql").write_text(
            _SCRIPT.format(
                secret=SECRET, s3=server.storage["s3.endpoint"], rest=f"http://127.0.0.1:{server.rest}", cluster=what,
                name=name, groups=_GROUPS, buckets=_BUCKETS, sink=_SINKS[kind].format(name=name),
            )
        )  # fmt: skip
        pid, events = stack.enter_context(_running(home))
        rng, before, fetched = np.random.default_rng(1), (0.0, 0.0), 0
        for number in range(_WARM + batches):
            table = pa.table({"k": rng.integers(0, _KEYS, rows), "v": rng.integers(0, 1000, rows)})
            if number == 0:  # the first batch inserts all keys
                table = pa.table({"k": np.arange(_KEYS), "v": np.zeros(_KEYS, np.int64)})
            with storage.open_output_stream(f"data/in/{name}/{number:04}.parquet") as file:
                pq.write_table(table, file)
            next(events)
            now, so_far = (tree_cpu(pid), _cpu_of(cluster)), _fetched(home)
            if number >= _WARM:
                spent.driver.append(now[0] - before[0])
                spent.executors.append(now[1] - before[1])
                spent.fetched.append(so_far - fetched)
            before, fetched = now, so_far
    ((count,),) = duckdb_rest(f"n.{name}", rest_port=server.rest, s3_port=server.s3, secret=SECRET, columns="count(*)")
    assert count == _ROWS_LEFT[kind], f"the table has {count} rows, expected {_ROWS_LEFT[kind]}"
    return spent


@contextmanager
def _running(home: Path) -> Iterator[tuple[int, Iterator[dict[str, Any]]]]:
    """Run the pipeline of a folder; yield the process id and the events of its commits."""
    command = [sys.executable, "-m", "sinkql", "--output", "json", "exec", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        told = (json.loads(line) for line in process.stdout if '"event"' in line)
        try:
            yield process.pid, (each for each in told if each["event"] == "committed")
        finally:
            process.terminate()
            process.communicate()


def _cpu_of(cluster: SparkCluster | None) -> float:
    return sum(tree_cpu(worker.first) for worker in cluster.workers) if cluster is not None else 0.0


def _fetched(home: Path) -> int:
    """Return the bytes of state fetched since the sink began."""
    with Session(home / ".sinkql" / "catalog.db") as session:
        found = session.execute("SELECT sum(fetched_bytes) FROM mz_internal.mz_state;")
    return int(found[-1].rows[0][0] or 0)
