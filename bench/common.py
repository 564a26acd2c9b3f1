"""What the benchmarks share: where things lie, SinkQL's side of a run, reading tables back, and printing."""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.meter import Cost, measure

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".bench"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"


def iceberg_jar() -> Path:
    """Return Iceberg's Spark runtime, fetched by Maven the first time."""
    jar = HOME / "jars" / "iceberg-spark-runtime-4.0_2.13-1.11.0.jar"
    if not jar.exists():
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        command = ["mvn", "-q", "-B", plugin, f"-Dartifact={ICEBERG}", f"-DoutputDirectory={jar.parent}"]
        subprocess.run(command, check=True)
    return jar


def run_spark(kind: str, source: Path, work: Path, *, files: int, cores: int) -> Cost:
    """Run the job that a user would write today; its table is `warehouse/n/t` below `work`."""
    work.mkdir(parents=True, exist_ok=True)
    arguments = [kind, str(source), str(work), str(iceberg_jar()), str(files), str(cores)]
    command = [sys.executable, "-m", "bench.spark_job", *arguments]
    return measure(command, folder=work, environment={"PYTHONPATH": str(ROOT)})


def run_sinkql(script: str, work: Path, *, tree: Path = ROOT) -> Cost:
    """Run a script once, with a checkout of SinkQL; its table is `lake/n/t` below `work`."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "pipeline.sql").write_text(script)
    command = [sys.executable, "-m", "sinkql", "exec", "--once", "pipeline.sql"]
    return measure(command, folder=work, environment={"PYTHONPATH": str(tree), "SINKQL_ARCHIVE": "off"})


def script(columns: dict[str, str], source: Path, sink: str, *, cores: int, files: int) -> str:
    """Return a pipeline from JSON files into the table n.t; `sink` is what follows INTO …."""
    typed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    return (
        f"CREATE CLUSTER bench (SIZE = 'local[{cores}]');\n"
        "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');\n"
        f"CREATE SOURCE s ({typed}) FROM FILES (PATH = '{source}', MAX FILES PER COMMIT = {files}) FORMAT JSON;\n"
        "CREATE SINK k IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')\n"
        f"  {sink} WITH (COMMIT INTERVAL = '1s');\n"
    )


def read_back(table: Path, columns: Sequence[str]) -> tuple[Any, ...]:
    """Return count and sums of an Iceberg table, as DuckDB reads it."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (extension,) = package.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    sums = ", ".join(f"sum({column})" for column in columns)
    found = connection.execute(f"SELECT count(*), {sums} FROM iceberg_scan('{table}')").fetchone()
    assert found is not None
    return tuple(found)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table; the first one is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells))
