"""Shared parts of the benchmarks: folders, running SinkQL and Spark, reading tables back, and printing."""

from __future__ import annotations

import importlib
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench.meter import ENVIRONMENT, Cost, measure

if TYPE_CHECKING:
    import duckdb

    from support.postgres import Postgres

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".bench"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"


def iceberg_jar() -> Path:
    """Return Iceberg's Spark runtime, which Maven downloads the first time."""
    jar = HOME / "jars" / "iceberg-spark-runtime-4.0_2.13-1.11.0.jar"
    if not jar.exists():
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        command = ["mvn", "-q", "-B", plugin, f"-Dartifact={ICEBERG}", f"-DoutputDirectory={jar.parent}"]
        subprocess.run(command, check=True)
    return jar


def run_spark(kind: str, source: Path | str, work: Path, *, limit: int, cores: int, jars: Sequence[Path] = ()) -> Cost:
    """Run the Spark job that a user would write today; its table is `lake/n/t` below `work`."""
    work.mkdir(parents=True, exist_ok=True)
    classes = ",".join(map(str, (iceberg_jar(), *jars)))
    arguments = [kind, str(source), str(work), classes, str(limit), str(cores)]
    command = [sys.executable, "-m", "bench.spark_job", *arguments]
    return measure(command, folder=work, environment={"PYTHONPATH": str(ROOT)})


_WITH_EXCHANGE = (
    "import runpy; from sinkql.runtime.spark.engine import SparkEngine; SparkEngine.exchanges_blobs = {}; "
    "runpy.run_module('sinkql', run_name='__main__')"
)


def run_sinkql(script: str, work: Path, *, tree: Path = ROOT, blobs: bool | None = None) -> Cost:
    """Run a script once, with a checkout of SinkQL; its table is `lake/n/t` below `work`.

    If `blobs` is not None, it decides whether tasks exchange Arrow blobs, or all rows go through Spark SQL.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "pipeline.sql").write_text(script)
    program = ["-m", "sinkql"] if blobs is None else ["-c", _WITH_EXCHANGE.format(blobs)]
    command = [sys.executable, *program, "exec", "--once", "pipeline.sql"]
    return measure(command, folder=work, environment={"PYTHONPATH": str(tree), "SINKQL_ARCHIVE": "off"})


def script(columns: dict[str, str], source: Path, sink: str, *, cores: int, files: int) -> str:
    """Return a pipeline from JSON files into the table n.t; `sink` is the sink's key and mode."""
    typed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    return (
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE SOURCE s ({typed}) FROM FILES (PATH = '{source}', MAX FILES PER COMMIT = {files}) FORMAT JSON;\n"
        "CREATE SINK k IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')\n"
        f"  {sink} WITH (COMMIT INTERVAL = '1s');\n"
    )


def captured_script(server: Postgres, database: str, table: str, key: str, *, cores: int, every: str) -> str:
    """Return a pipeline that upserts a Postgres table of publication `p` into the table n.t."""
    return (
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE CONNECTION p TO POSTGRES (HOST '127.0.0.1', PORT {server.port}, DATABASE '{database}',\n"
        "  USER 'postgres');\n"
        f"CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR TABLES (public.{table});\n"
        f"CREATE SINK z IN CLUSTER bench FROM {table}\n"
        "  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')\n"
        f"  KEY ({key}) MODE UPSERT WITH (COMMIT INTERVAL = '{every}');\n"
    )


@contextmanager
def running(home: Path, options: Sequence[str] = ()) -> Iterator[tuple[int, IO[str]]]:
    """Run the `pipeline.sql` of a folder; yield the process id, and its events as lines of JSON."""
    command = [sys.executable, "-m", "sinkql", "--output", "json", *options, "exec", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT), "SINKQL_ARCHIVE": "off"}
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def reader() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection that reads Iceberg tables."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (extension,) = package.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    return connection


def read_back(table: Path, columns: Sequence[str]) -> tuple[Any, ...]:
    """Return the count and the sums of an Iceberg table, as DuckDB reads it."""
    found = ["count(*)", *(f"sum({column})" for column in columns)]
    row = reader().execute(f"SELECT {', '.join(found)} FROM iceberg_scan('{table}')").fetchone()
    assert row is not None
    return tuple(row)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table; the first row is the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells))
