"""Start a Spark session with a cluster's master and settings; its output goes to a file."""

from __future__ import annotations

import logging
import os
import pwd
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from sinkql.errors import SinkqlError, temporary_folder_error
from sinkql.runtime.spark import cluster, internals
from sinkql.runtime.spark.class_archive import Archive, archive_of
from sinkql.runtime.spark.java import Java, check_java
from sinkql.runtime.spark.jvm import Jvm
from sinkql.runtime.spark.python_function import register
from sinkql.runtime.spark.settings import PATIENCE_SECONDS, CancelledError, SparkSettings, bucket_count
from sinkql.runtime.spark.task_modules import task_modules
from sinkql.storage import files

_PYSPARK = Path(pyspark.__file__).parent
HOME = _PYSPARK if _PYSPARK.is_dir() else Path(os.environ.get("SPARK_HOME", _PYSPARK))
"""The folder of Spark; with spark-submit, pyspark is in a zip beside it."""
_SILENT = logging.CRITICAL + 1
_STREAMING = "org.apache.spark.sql.execution.streaming"
_RULES = "org.apache.spark.sql.catalyst.optimizer"
_NEVER = "3650d"
_FEW_CORES = 2
_OF_JVM = ("spark.driver.memory", "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
"""Settings that a running JVM can no longer change."""
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


class SparkStart:
    """A start of Spark in a separate thread, which can be cancelled while another thread waits for it."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._jvm = Jvm()
        self._session: Future[SparkSession] = Future()
        self._executors: cluster.Executors | None = None
        self._begun = False
        self._lock = threading.Lock()

    def begin(self, then: Callable[[], object] = lambda: None) -> bool:
        """Start Spark, and call `then` in the thread when it is up; return False if it was started before."""
        with self._lock:
            if self._begun:
                return False
            self._begun = True
        threading.Thread(target=self._run, args=(then,), daemon=True).start()
        return True

    @property
    def begun(self) -> bool:
        """Return whether the start has begun."""
        return self._begun

    @property
    def is_up(self) -> bool:
        """Return whether Spark runs."""
        return self._session.done() and self._session.exception() is None

    @property
    def failed(self) -> bool:
        """Return whether the start failed, and can be tried again."""
        error = self._session.exception() if self._session.done() else None
        return isinstance(error, SinkqlError) and error.retryable

    @property
    def starved(self) -> SinkqlError | None:
        """Return why the last jobs were interrupted for lack of executors."""
        return self._executors.look() if self._executors is not None else None

    def death(self) -> int | None:
        """Return the exit code of a Java that ended while Spark was up, without a request from here."""
        return self._jvm.ended_with if self.is_up and not self._jvm.killed else None

    def wait(self, seconds: float) -> None:
        """Wait for the end of Java, at most this long."""
        self._jvm.wait(seconds)

    def result(self, timeout: float | None = None) -> SparkSession:
        """Wait for the session; raises the errors of `start`, CancelledError, and TimeoutError after `timeout`."""
        return self._session.result(timeout)

    def try_executor(self, stops: Callable[[], bool]) -> None:
        """Wait for a remote executor, once; raises SQ4051 and SQ4052, CancelledError if it `stops` before."""
        if self._executors is not None:
            self._executors.try_first(stops)
            if stops():
                raise CancelledError

    def cancel(self) -> None:
        """End a start that is not complete, immediately."""
        if not self._session.done():
            self._jvm.kill()

    def end(self, patience: float = PATIENCE_SECONDS) -> None:
        """Stop Spark if it is up, and cancel its start otherwise.

        A killable Spark is killed immediately, others after `patience` seconds.
        """
        if not self._begun:
            return
        if self._executors is not None:
            self._executors.leave()
        if self.settings.killable:
            self._jvm.kill()
        self.cancel()
        waiting = patience if self.settings.submitted else None  # a start there may continue to wait for its cluster
        with suppress(SinkqlError, CancelledError, TimeoutError):
            stop(self._session.result(waiting), patience)

    def _run(self, then: Callable[[], object]) -> None:
        try:
            session = start(self.settings, self._jvm)
        except BaseException as error:
            self._session.set_exception(error)
            return
        if not self.settings.local:
            self._executors = cluster.Executors(session.sparkContext, self.settings, self._jvm.abandon)
        self._session.set_result(session)
        then()


def start(settings: SparkSettings, jvm: Jvm | None = None) -> SparkSession:
    """Start Spark and return its session.

    Raises SQ4001 (no Java), SQ4002 (too old), SQ4003 (Spark does not start) and SQ4006 (a user without a name); for a
    remote cluster SQ4050, SQ4053 and SQ4054; CancelledError if `jvm` is killed during the start.
    """
    java = check_java()
    if not settings.local:
        _check_user()
    archive = archive_of(java.home, HOME)
    # At debug level they print everything sent to the JVM, including tasks with their credentials.
    for logger in ("py4j", "py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(logger).setLevel(_SILENT)
    logging.getLogger().addFilter(_not_of_py4j)
    conf = settings.folder / "conf"
    for directory in (conf, settings.folder / "tmp"):
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    files.write_atomic(conf / "log4j2.properties", _LOG4J.format(file=settings.log).encode(), private=True, sync=False)
    jvm = jvm or Jvm()
    try:
        gateway = _joined(settings, jvm) if settings.submitted else None
        submitted = dict(internals.submitted_conf(gateway).getAll()) if gateway is not None else {}
        wanted = {**_defaults(settings, archive), **submitted, **settings.conf, **_required(settings, conf)}
        if not settings.local:
            wanted = cluster.with_executor_settings(settings.master, wanted, settings.folder)
        text = "".join(f"{key} {_escaped(wanted[key])}\n" for key in wanted)
        files.write_atomic(conf / "spark-defaults.conf", text.encode(), private=True, sync=False)
        with settings.log.open("a") as output, _environment(settings, java):
            session = _launch(settings, jvm, gateway, conf / "spark-defaults.conf", output, wanted)
    except BaseException as error:
        cancelled = jvm.killed
        jvm.kill()
        internals.forget_jvm()
        if cancelled and isinstance(error, Exception):
            raise CancelledError from error
        raise
    if settings.local:
        archive.make()
    # These print errors to the terminal that are raised too.
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(logger).setLevel(_SILENT)
    return session


def _has_name() -> bool:
    """Return whether the system has a name for the user of this process."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def _give_name(gateway: JavaGateway) -> None:
    """Make Hadoop, which Spark requires, accept a user without a name."""
    users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(os.environ.get("HADOOP_USER_NAME") or "sinkql"))


def _check_user() -> None:
    """Raise SQ4006 for a user without a name, which Spark requires at its start on a cluster."""
    if not _has_name():
        user = os.geteuid()
        raise SinkqlError(
            "SQ4006",
            f"Spark needs the name of its user, and the system has none for user id {user}",
            hint=f"Run echo 'sinkql:x:{user}:{os.getegid()}::/tmp:/bin/sh' >> /etc/passwd as root, as in the "
            "container's image, or run SinkQL as a user that has a name.",
        )


def stop(session: SparkSession, patience: float = PATIENCE_SECONDS) -> None:
    """Stop Spark and its JVM, so that this process can start another; kill a JVM that does not end."""
    gateway = internals.current_gateway()
    if gateway is not None:
        with gateway.proc.ending(patience=patience), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about a JVM that died before
            if gateway.proc.killed:
                _let_go(session)
            else:
                session.stop()
            gateway.proc.shut(gateway)
    internals.forget_jvm()


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether a record is not py4j's: it logs the end of a JVM to the root logger, and raises it too."""
    return record.module not in ("java_gateway", "clientserver")


def _unsaid(request: object, client_address: object) -> None:
    """Suppress the message about a JVM that ends while it is connected."""


def _let_go(session: SparkSession) -> None:
    """Close this process's connections to a killed JVM; its server takes half a second to notice."""
    server = internals.accumulator_server(session.sparkContext)

    def close() -> None:
        server.shutdown()
        server.server_close()

    threading.Thread(target=close, daemon=True).start()


def _defaults(settings: SparkSettings, archive: Archive) -> dict[str, str]:
    """Return the settings that a cluster's CONF may override."""
    collector = "-XX:+UseSerialGC" if settings.local else "-XX:+UseG1GC"
    # The threshold for compilation is ten times the default: a start and a small batch cost a quarter less, while the
    # loops of a large batch still reach it immediately.
    patience = ["Invocation=50000", "MinInvocation=6000", "Compile=150000", "BackEdge=400000"]
    compiler = " ".join(f"-XX:Tier4{setting.replace('=', 'Threshold=')}" for setting in patience)
    folder = settings.folder.absolute()
    log = _java_option(f"-Dlog4j2.configurationFile={(folder / 'conf' / 'log4j2.properties').as_uri()}")
    files = _java_option(f"-Djava.io.tmpdir={folder / 'tmp'}") if _runs_files(settings) else ""
    shared = _java_option(archive.option) if settings.local and archive.option else ""
    return {
        "spark.driver.memory": "2g",
        "spark.driver.defaultJavaOptions": f"{collector} {compiler} {log} {files} {shared}",
        "spark.executor.defaultJavaOptions": f"{_collector(settings)} {compiler}",
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Java uses a home folder called ? for a user without a name
        **({"spark.jars.ivy": str(folder / "ivy")} if not _has_name() else {}),
    }


def _collector(settings: SparkSettings) -> str:
    """Return the garbage collector of executors: with few cores, parallel collector threads slow down the tasks."""
    few = int(settings.conf.get("spark.executor.cores", "1")) <= _FEW_CORES
    return "-XX:+UseSerialGC" if few else "-XX:+UseParallelGC"


def _required(settings: SparkSettings, conf: Path) -> dict[str, str]:
    """Return the settings that correct rows, and a low cost per batch, depend on."""
    required = {
        "spark.master": settings.master,
        "spark.app.name": settings.name,
        "spark.sql.shuffle.partitions": str(bucket_count(settings)),
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.adaptive.enabled": "false",
        # Expressions behind a guard are computed only if the guard passes, as in `v <> 0 AND 100 / v BETWEEN 5 AND 50`.
        # Otherwise shared expressions would be computed before the guard, and BETWEEN's operand in a step below.
        "spark.sql.subexpressionElimination.enabled": "false",
        "spark.sql.alwaysInlineCommonExpr": "true",
        # To infer filters from others, the optimizer substitutes columns' expressions for each other. For a few
        # dependent columns it makes thousands of them, which takes seconds in each batch.
        "spark.sql.constraintPropagation.enabled": "false",
        # The first two skip work that returns no rows, but stateful tasks and the record accounting need it. The third
        # changes the order of additions and multiplications of integers, and so which steps overflow.
        "spark.sql.optimizer.excludedRules": ",".join(
            f"{_RULES}.{rule}" for rule in ("PruneFilters", "PropagateEmptyRelation", "ReorderAssociativeOperator")
        ),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        "spark.sql.streaming.pollingDelay": "250ms",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1",
        # A worker's checkpoint is temporary, but each round adds six files to it.
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "1s",
        "spark.sql.streaming.stopTimeout": "10s",
        # The default committer runs a program for each file that it writes.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_STREAMING}.FileSystemBasedCheckpointFileManager",
        # Each sink's jobs have a separate pool, so that no sink waits for the last task of another sink's large batch.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.warehouse.dir": str(settings.folder / "warehouse"),
        "spark.python.daemon.module": "sinkql.runtime.spark.daemon",
        "spark.python.worker.reuse": "true",
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.ui.liveUpdate.period": "-1",
    }
    if settings.local:
        required |= {
            # Executors on other machines find the modules themselves, since they may have other packages.
            "spark.executorEnv.SINKQL_TASKS": ",".join(task_modules() if settings.tasks is None else settings.tasks),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # All users of a machine can reach its loopback address. Spark generates the secret, and keeps it in memory.
            "spark.authenticate": "true",
            # Data in this process is not lost, however long the machine was asleep or busy.
            "spark.storage.blockManagerHeartbeatTimeoutMs": _NEVER,
            "spark.executor.heartbeat.maxFailures": "1000000000",
        }
    return required


def _joined(settings: SparkSettings, jvm: Jvm) -> JavaGateway:
    try:
        return jvm.join()
    except Exception as error:
        raise _not_started(settings, error) from error


def _launch(
    settings: SparkSettings,
    jvm: Jvm,
    gateway: JavaGateway | None,
    properties: Path,
    output: TextIO,
    wanted: Mapping[str, str],
) -> SparkSession:
    try:
        if gateway is None:
            gateway = jvm.start(HOME, properties, output, master=settings.master)
            # These also override PYSPARK_SUBMIT_ARGS and Java's options.
            conf = SparkConf().setAll([*_required(settings, properties.parent).items()])
        else:
            conf = internals.submitted_conf(gateway)
            conf.setAll([(key, value) for key, value in wanted.items() if not key.startswith(_OF_JVM)])
        gateway.proc = jvm
        if settings.local and not _has_name():
            _give_name(gateway)
        context = SparkContext(gateway=gateway, conf=conf)
        if not settings.local:
            cluster.ship_archives(context, wanted)
        session = SparkSession(context)
        register(session)
    except Exception as error:
        refused = None if settings.local else cluster.startup_error(error, settings.master, wanted)
        raise refused or temporary_folder_error() or _not_started(settings, error) from error
    internals.accumulator_server(context).handle_error = _unsaid
    context.setLogLevel("WARN")
    return session


def _not_started(settings: SparkSettings, error: Exception) -> SinkqlError:
    return SinkqlError(
        "SQ4003",
        "Spark did not start",
        detail=_last_lines(settings.log) or str(error),
        hint=f"Read {settings.log}, and check the CONF of the cluster.",
    )


def _runs_files(settings: SparkSettings) -> bool:
    """Return whether Spark's processes can see its folder, and load libraries from it."""
    return settings.local and not os.statvfs(settings.folder).f_flag & os.ST_NOEXEC


@contextmanager
def _environment(settings: SparkSettings, java: Java) -> Iterator[None]:
    """Set the environment of the JVM and its Python workers while they start."""
    wanted = {
        # A missing folder: Spark adds it to the class path, where an archive of classes allows no folder with files.
        "SPARK_CONF_DIR": str(HOME / "none"),
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable if settings.local else cluster.python(settings.conf),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **java.environment,
        # A setting would apply to remote executors too.
        "SPARK_LOCAL_DIRS": str(settings.folder / "local"),
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


def _java_option(option: str) -> str:
    """Quote an option for a list of options: a folder's name may contain spaces and quotes."""
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'


def _escaped(value: str) -> str:
    """Escape a value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else ""
