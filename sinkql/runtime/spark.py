"""A cluster's master and configuration → a running Spark session, its noise in a file."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sinkql.errors import SinkqlError
from sinkql.runtime.java import check_java
from sinkql.runtime.source import SplitSource

_SILENT = logging.CRITICAL + 1
_STREAMING = "org.apache.spark.sql.execution.streaming"
_RULES = "org.apache.spark.sql.catalyst.optimizer"
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold what a Spark application is started with: `folder` is private to it and takes all its files."""

    master: str
    conf: Mapping[str, str]
    folder: Path
    name: str = "sinkql"

    @property
    def local(self) -> bool:
        """Tell whether all of it runs on this machine."""
        return self.master.startswith("local")

    @property
    def log(self) -> Path:
        """Return the file that Spark's log and its workers' output go to."""
        return self.folder / "spark.log"


def buckets(settings: Settings) -> int:
    """Return the number of shuffle partitions, which are the buckets of state and key indexes."""
    return int(settings.conf.get("spark.sql.shuffle.partitions") or max(2, _cores(settings.master)))


def start(settings: Settings) -> SparkSession:
    """Start Spark and return its session; raises SQ4001 (no Java), SQ4002 (too old), SQ4003 (Spark does not start)."""
    check_java()
    # At debug they print all that goes to the JVM, tasks with their credentials too.
    for logger in ("py4j", "py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(logger).setLevel(_SILENT)
    conf = settings.folder / "conf"
    conf.mkdir(parents=True, mode=0o700, exist_ok=True)
    _write_private(conf / "log4j2.properties", _LOG4J.format(file=settings.log))
    defaults = {**_defaults(settings), **settings.conf, **_required(settings, conf)}
    _write_private(conf / "spark-defaults.conf", "".join(f"{key} {_escaped(defaults[key])}\n" for key in defaults))
    with settings.log.open("a") as output, _environment(conf):
        session = _launch(settings, output)
    session.dataSource.register(SplitSource)
    # These print to the terminal what is raised, and told, as well.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).setLevel(_SILENT)
    return session


def stop(session: SparkSession) -> None:
    """Stop Spark and its JVM, so that another may be started in this process."""
    gateway = SparkContext._gateway
    session.stop()
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None


def _defaults(settings: Settings) -> dict[str, str]:
    """Return what a cluster's CONF may override."""
    collector = "-XX:+UseSerialGC" if settings.local else "-XX:+UseG1GC"
    # Ten times the usual patience before code is compiled for speed: a start and a small batch cost a quarter less,
    # while the loops of a large batch still get there at once.
    patience = ["Invocation=50000", "MinInvocation=6000", "Compile=150000", "BackEdge=400000"]
    compiler = " ".join(f"-XX:Tier4{each.replace('=', 'Threshold=')}" for each in patience)
    log = f"-Dlog4j2.configurationFile=file:{settings.folder}/conf/log4j2.properties"
    return {
        "spark.driver.memory": "2g",
        "spark.driver.defaultJavaOptions": f"{collector} {compiler} {log}",
        "spark.sql.shuffle.partitions": str(buckets(settings)),
        "spark.local.dir": str(settings.folder / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _required(settings: Settings, conf: Path) -> dict[str, str]:
    """Return what correct rows, and a small cost a batch, depend on."""
    required = {
        "spark.master": settings.master,
        "spark.app.name": settings.name,
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.adaptive.enabled": "false",
        # These leave out work that gives no rows; stateful tasks and tallies need it done all the same.
        "spark.sql.optimizer.excludedRules": ",".join(
            f"{_RULES}.{rule}" for rule in ("PruneFilters", "PropagateEmptyRelation")
        ),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        "spark.sql.streaming.pollingDelay": "100ms",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1",
        "spark.sql.streaming.stopTimeout": "10s",
        # The other one runs a program for each file that it writes.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_STREAMING}.FileSystemBasedCheckpointFileManager",
        "spark.sql.warehouse.dir": str(settings.folder / "warehouse"),
        "spark.python.daemon.module": "sinkql.runtime.daemon",
        "spark.python.worker.reuse": "true",
        "spark.ui.liveUpdate.period": "-1",
    }
    if settings.local:
        required |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return required


def _cores(master: str) -> int:
    wanted = re.match(r"local\[(\d+)", master)
    if wanted is not None:
        return int(wanted[1])
    return 1 if master == "local" else len(os.sched_getaffinity(0))


def _launch(settings: Settings, output: TextIO) -> SparkSession:
    try:
        gateway = launch_gateway(SparkConf(loadDefaults=False), {"stdout": output, "stderr": output})
        context = SparkContext(gateway=gateway)
    except Exception as error:
        raise SinkqlError(
            "SQ4003",
            "Spark does not start",
            detail=_last_lines(settings.log) or str(error),
            hint=f"Look into {settings.log}, and at the CONF of the cluster.",
        ) from error
    context.setLogLevel("WARN")
    return SparkSession(context)


@contextmanager
def _environment(conf: Path) -> Iterator[None]:
    """Set what the JVM and its Python workers inherit, for as long as it takes to start them."""
    wanted = {
        "SPARK_CONF_DIR": str(conf),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _escaped(value: str) -> str:
    """Write a value as a Java properties file wants it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else ""
