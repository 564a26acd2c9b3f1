"""Make Java's archive of the classes that Spark's start and some kinds of batches load.

    python -m sinkql.runtime.spark.class_archive_run [FILE]

The default FILE is the archive that Spark starts with on this machine; if it exists, nothing happens. The program runs
a separate Spark, when the machine is idle.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its customary name

from sinkql.machine import clock
from sinkql.runtime.spark import session as spark
from sinkql.runtime.spark.batch_worker import SparkWorker
from sinkql.runtime.spark.class_archive import archive_of, tidy
from sinkql.runtime.spark.java import check_java
from sinkql.runtime.spark.settings import SparkSettings

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE_SECONDS = 1800.0
_OPTIONS = "SPARK_SUBMIT_OPTS"


def main() -> None:
    os.environ["SINKQL_ARCHIVE"] = "off"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else archive_of(check_java().home, spark.HOME).path
    if path.exists():
        return
    if len(sys.argv) > 1:  # no process waits for it
        os.nice(19)
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    try:
        _rehearse(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    tidy(path)


def _rehearse(draft: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        os.environ[_OPTIONS] = f"{os.environ.get(_OPTIONS, '')} -XX:ArchiveClassesAtExit={draft}"
        session = spark.start(SparkSettings("local[2]", {}, Path(folder), "rehearsal of a start"))
        try:
            done = threading.Event()

            def play() -> None:
                try:
                    _play(session)
                finally:
                    done.set()

            worker = SparkWorker(session, Path(folder) / "worker", play)
            worker.start_round()
            clock.wait(done, _PATIENCE_SECONDS)
            worker.stop()
        finally:
            spark.stop(session, _PATIENCE_SECONDS)


def _play(session: SparkSession) -> None:
    """Run the work of batches: tasks, and SQL between Arrow rows."""

    def count(number: int, rows: Iterator[int]) -> Iterator[int]:
        yield number + sum(rows)

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    session.sparkContext.parallelize([1, 2], 2).mapPartitionsWithIndex(count).collect()
    rows = session.range(0, 100, 1, 2).mapInArrow(pass_on, "id BIGINT")
    rows = rows.where(F.expr("id > 1")).selectExpr(
        "id % 7 AS k", "CAST(id AS STRING) AS t", "CAST(id AS DECIMAL(9, 2)) d"
    )
    for frame in (rows, rows.unionAll(rows)):
        groups = frame.repartition(2, "k").groupBy("k").agg(F.expr("count(1) AS n"), F.expr("max(t) AS t"), F.sum("d"))
        groups.withColumn("b", F.pmod(F.hash("k"), F.lit(2))).select("k", "n").mapInArrow(
            pass_on, "k BIGINT, n BIGINT"
        ).collect()


if __name__ == "__main__":
    main()
