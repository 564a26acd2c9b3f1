"""The settings of executors on other machines, and whether they can run SinkQL.

The driver's file server sends executors the archive of SinkQL and its packages (`package`). They unpack it in their
working folder, where their Python finds it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.runtime.spark import internals
from sinkql.runtime.spark.master import ADDRESSED, KUBERNETES, STANDALONE, own_address, unanswered
from sinkql.runtime.spark.package import cached_archives, python_version
from sinkql.runtime.spark.settings import CORES, requested_cores
from sinkql.state_store.directory import EXECUTOR
from sinkql.storage import files as storage_files

EXPECTED = "SINKQL_PYTHON"
"""The variable that tells executors the required version of Python."""
_FOLDER = "sinkql"
_ENVIRONMENT = "spark.executorEnv."
_PYTHON = "spark.pyspark.python"
_ARCHIVES = "spark.archives"
_OF_YARN = "spark.yarn.dist.archives"
"""The files that YARN distributes, to which spark-submit adds its --archives."""
_HANDED_OUT = "spark.sinkql.archives"
_OF_ALL = "default"
"""The name of Spark's archives for all jobs."""
_PATH = f"{_ENVIRONMENT}PYTHONPATH"
_HOST = "spark.driver.host"
_FILES = "spark.files"
_LEAVING = (
    "spark.decommission.enabled",
    "spark.storage.decommission.enabled",
    "spark.storage.decommission.rddBlocks.enabled",
    "spark.storage.decommission.shuffleBlocks.enabled",
)
"""A decommissioned executor passes on data that others have not fetched yet, and gets no further tasks."""
_AUTHENTICATE, _SECRET = "spark.authenticate", "spark.authenticate.secret"
_GIVEN_SECRET = "_SPARK_AUTH_SECRET"
"""The variable with which Spark's own programs pass on the secret."""
_CERTIFICATES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_VOLUMES, _FOLDERS = "spark.kubernetes.executor.volumes.emptyDir.", "spark-local-dir-"
_ELSEWHERE = ("spark.kubernetes.executor.podTemplateFile", "spark.kubernetes.local.dirs.tmpfs")
"""Settings that may already give pods a folder for spilled data."""
_SCRATCH = "/var/data/spark"
"""The folder on executors' pods; Spark would use the path of this machine."""
_WAITING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_LOOK_SECONDS = 0.1
_WATCH_SECONDS = 2.0
_ASK_SECONDS = 10.0
_SHOWN = 12
_READ_BYTES = 1 << 16
_PATIENCE = "120s"
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LEADS = "ALIVE"
"""The status of a master that grants executors: others are standby or recovering."""
_PAGES = "Look at the master's page for free cores and memory, and at the log of an executor, if one started."
_PODS = "Look at the pods: kubectl describe pods --selector spark-role=executor, and kubectl logs, if one started."
_REMOVED = "removed the application: its executors end as they start"
_FORGOTTEN = "forgotten the application, since its master was restarted"
_SAID = re.compile(r"^\s*(?:Error from python worker:\s*)?(SinkQL needs Python .+)$", re.MULTILINE)
_OF_JAVA = re.compile(r"\s*at |\s*$|PYTHONPATH was:|  /|.*EOFException|.*Driver stacktrace")
_OF_API = re.compile(r"KubernetesClientException: (.+)")
_STATUS = re.compile(r"^Failure executing: .*? Message: |\. Received status: .*")
"""The text around the meaningful sentence."""
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)", re.MULTILINE)
_FORBIDDEN = re.compile(r"\b40[13]\b|[Ff]orbidden|Unauthorized")
_STOPPED = re.compile("stopped SparkContext|Spark context stopped")
_ABSENT = re.compile(r'Cannot run program "([^"]+)"')


def python(conf: Mapping[str, str]) -> str:
    """Return the Python of the executors: the cluster's Python of this process's version."""
    return conf.get(_PYTHON) or f"python{python_version()}"


def with_executor_settings(master: str, conf: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings, with additions by which executors find SinkQL and the driver; users' settings win.

    `folder` receives copies of files for executors. Raises SQ4050 if no master answers, SQ4053, SQ4054.
    """
    settings = {**conf}
    if master.startswith(ADDRESSED) and (here := own_address(master)) is not None:
        settings.setdefault(_HOST, here)
    if master.startswith(KUBERNETES) and not any(name.startswith(_ELSEWHERE) or _FOLDERS in name for name in conf):
        settings[f"{_VOLUMES}{_FOLDERS}1.mount.path"] = _SCRATCH
    if master.startswith(KUBERNETES):
        settings.setdefault(_AUTHENTICATE, "true")  # Spark generates the secret; other masters may have their own
    if master.startswith(STANDALONE):
        wanted = requested_cores(conf)
        if wanted is not None:  # a standalone master grants all cores of a machine, and no number of executors
            settings.setdefault(CORES, "1")
            if not _elastic(conf):
                settings.setdefault("spark.cores.max", str(wanted))
        if settings.get(_AUTHENTICATE) == "true" and _GIVEN_SECRET in os.environ:
            settings.setdefault(_SECRET, "in the environment")  # the variable wins, but Spark requires the setting
    for name in _LEAVING:
        settings.setdefault(name, "true")
    if _elastic(conf):  # otherwise idle executors stay because of their shuffle files
        settings.setdefault("spark.dynamicAllocation.shuffleTracking.enabled", "false")
    if conf.get(_ARCHIVES) != "":  # an empty setting means that SinkQL is installed there
        archives = [archive for archive in conf.get(_ARCHIVES, "").split(",") if archive]
        folders = [_FOLDER]
        if not any(archive.endswith(f"#{_FOLDER}") for archive in [*archives, *conf.get(_OF_YARN, "").split(",")]):
            packages = cached_archives()
            folders = [f"{_FOLDER}{number or ''}" for number in range(len(packages))]
            named = [f"{path}#{folder}" for path, folder in zip(packages, folders, strict=True)]
            if master.startswith(STANDALONE):
                settings[_HANDED_OUT] = ",".join(named)
            else:
                archives += named
        settings[_ARCHIVES] = ",".join(archives)
        settings[_PATH] = ":".join([*folders, *filter(None, [conf.get(_PATH)])])
    settings[f"{_ENVIRONMENT}{EXECUTOR}"] = "1"
    settings[f"{_ENVIRONMENT}{EXPECTED}"] = python_version()
    return settings | _trusted(settings, folder)


def ship_archives(context: SparkContext, conf: Mapping[str, str]) -> None:
    """Send executors the archives that `with_executor_settings` names, and have them unpacked there.

    `SparkContext.addArchive` would also unpack them in the driver, which has all packages.
    """
    java, jvm = internals.java_context(context).sc(), internals.jvm(context)
    archives = java.addedArchives()
    if not archives.contains(_OF_ALL):
        archives.put(_OF_ALL, jvm.scala.collection.concurrent.TrieMap())
    for path, _, folder in (archive.partition("#") for archive in conf.get(_HANDED_OUT, "").split(",") if archive):
        url = java.env().rpcEnv().fileServer().addFile(jvm.java.io.File(path))
        archives.apply(_OF_ALL).put(f"{url}#{folder}", clock.time_ms())


def _trusted(conf: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return settings that make executors trust the certificate files named in this process's environment."""
    files, environment = [setting for setting in (conf.get(_FILES),) if setting], {}
    for name in _CERTIFICATES:
        path = Path(os.environ.get(name, ""))
        if f"{_ENVIRONMENT}{name}" not in conf and path.is_file():
            copy = folder / f"{name.lower()}.pem"  # the executor's working folder has it too
            storage_files.write_atomic(copy, path.read_bytes(), sync=False)
            files.append(str(copy))
            environment[f"{_ENVIRONMENT}{name}"] = copy.name
    return environment | ({_FILES: ",".join(files)} if environment else {})


class Application(Protocol):
    """The request for executors: see `SparkSettings`."""

    @property
    def master(self) -> str:
        """Return the address of the master."""

    @property
    def conf(self) -> Mapping[str, str]:
        """Return the user's settings."""

    @property
    def log(self) -> Path:
        """Return the file of Spark's log."""


class Executors:
    """The executors of a Spark application, watched by a thread: it ends jobs that would wait for executors forever."""

    def __init__(self, context: SparkContext, settings: Application, end: Callable[[], None]) -> None:
        """Start watching; `end` is called if Spark gives the application up."""
        master, conf = settings.master, settings.conf
        self._log, self._logged = settings.log, 0
        self.error: SinkqlError | None = None
        self._context = context
        self._java = internals.java_context(context)
        self._tracker = context.statusTracker()
        self._master = master
        self._python = python(conf)
        self._asked = _elastic(conf)
        self._patience = _seconds(conf.get(_WAITING, _PATIENCE))
        self._end = end
        self._left = threading.Event()
        self._trying = threading.Lock()
        self._tried = False
        threading.Thread(target=self._watch, name="executors", daemon=True).start()

    def try_first(self, stops: Callable[[], bool]) -> None:
        """Wait for the first executor, and check that its Python runs SinkQL; raises SQ4051 and SQ4052.

        The application stays if none comes in time, and another call continues to wait. Returns early if it `stops`.
        """
        with self._trying:
            deadline = clock.monotonic() + self._patience
            while not self._tried and not stops():
                try:
                    self._try(deadline)
                except Py4JError:
                    if self.error is None:
                        raise
                    raise self.error from None

    def look(self) -> SinkqlError | None:
        """Return why waiting jobs were ended; None once executors exist again."""
        with suppress(Py4JError, OSError):  # Java has ended
            self._given_up()
        return self.error

    def leave(self) -> None:
        """Stop watching: Spark will stop."""
        self._left.set()

    def _given_up(self) -> bool:
        """Return whether Spark has stopped, or will stop, without a request from here."""
        if not self._java.sc().isStopped():
            return self._left.is_set()
        if not self._left.is_set():
            self._give_up(_REMOVED)
        return True

    def _try(self, deadline: float) -> None:
        if not self._count() and not self._asked:  # executors come without a job, or only for one
            if clock.monotonic() > deadline:
                raise self._missing()
            clock.sleep(_LOOK_SECONDS)
            return
        try:
            self._context.parallelize([0], 1).map(lambda _: None).collect()
        except Py4JJavaError as error:
            if self.error is not None or self._java.sc().isStopped():
                raise self.error or self._no_executors_error(_REMOVED) from None
            raise _refused(str(error), self._python) from None
        self._tried = True

    def _watch(self) -> None:
        alone_at: float | None = None
        asked_at = clock.monotonic()
        with suppress(Py4JError, OSError):  # Java has ended
            while not clock.wait(self._left, _WATCH_SECONDS):
                if self._given_up():
                    return
                if self._count():
                    alone_at = self.error = None
                    self._logged = self._length()
                    continue
                waiting = bool(self._tracker.getActiveJobsIds())
                if (waiting or self._trying.locked()) and clock.monotonic() > asked_at + _ASK_SECONDS:
                    asked_at = clock.monotonic()
                    if self._forgotten():
                        self._give_up(_FORGOTTEN)
                        return
                if not waiting:
                    alone_at = None
                elif alone_at is None:
                    alone_at = clock.monotonic()
                elif clock.monotonic() > alone_at + self._patience:
                    self.error = self._missing()
                    self._java.cancelAllJobs()

    def _give_up(self, did: str) -> None:
        self.error = self._no_executors_error(did)
        self._end()

    def _forgotten(self) -> bool:
        """Return whether the leading master does not know the application, and so will never give it an executor."""
        if not self._master.startswith(STANDALONE):
            return False
        jvm, application = internals.jvm(self._context), self._context.applicationId
        asked = getattr(getattr(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$"), "MODULE$")
        for address in self._master.removeprefix(STANDALONE).split(","):
            url = f"{STANDALONE}{address}"
            with suppress(SinkqlError, Py4JJavaError):  # the master does not answer
                own_address(url)  # Spark would wait for minutes
                place = jvm.org.apache.spark.rpc.RpcAddress.fromSparkURL(url)
                master = jvm.org.apache.spark.SparkEnv.get().rpcEnv().setupEndpointRef(place, "Master")
                state = master.askSync(asked, jvm.scala.reflect.ClassTag.Any())
                if state.status().toString() == _LEADS:
                    return all(activeapp.id() != application for activeapp in state.activeApps())
        return False

    def _count(self) -> int:
        """Return the number of executors: Spark also counts the driver."""
        return int(self._java.sc().getExecutorMemoryStatus().size()) - 1

    def _missing(self) -> SinkqlError:
        answer = ""
        if self._master.startswith(KUBERNETES):  # Spark repeats its request, and reports errors only in its log
            with suppress(OSError), self._log.open("rb") as log:
                log.seek(max(self._logged, self._length() - _READ_BYTES))
                answer = _api_answer(log.read().decode(errors="replace"))
        if _FORBIDDEN.search(answer):
            return refused_by_api(self._master, answer)
        return self._no_executors_error(f"given no executor for {self._patience:.0f} seconds", answer)

    def _length(self) -> int:
        with suppress(OSError):
            return self._log.stat().st_size
        return 0

    def _no_executors_error(self, did: str, answer: str = "") -> SinkqlError:
        return _no_executors_error(self._master, str(self._context.getConf().get(_HOST)), did, answer)


def _no_executors_error(master: str, host: str, did: str, answer: str = "") -> SinkqlError:
    """Return the error for a cluster that `did` something instead of giving executors to a driver at `host`."""
    look = _PODS if master.startswith(KUBERNETES) else _PAGES
    return SinkqlError(
        "SQ4051",
        f'the cluster at "{master}" has {did}',
        detail=f"executors must reach this process at {host}" + (f"\n{answer}" if answer else ""),
        hint=f"{look} CORES, MEMORY and EXECUTORS set the request, 'spark.driver.host' in CONF the address at which "
        "executors reach this machine.",
    )


def startup_error(error: Exception, master: str, conf: Mapping[str, str]) -> SinkqlError | None:
    """Return the error of an application that its master removed or refused at the start; None for other errors."""
    text = str(error)
    if _STOPPED.search(text):
        return _no_executors_error(master, conf.get(_HOST, ""), _REMOVED)
    if master.startswith(KUBERNETES) and (answer := _api_answer(text)):
        return refused_by_api(master, answer)
    return None


def _api_answer(text: str) -> str:
    """Return the API server's last answer in Spark's text, or why it did not answer; empty without one."""
    answers = [*_OF_API.finditer(text)]
    if not answers:
        return ""
    last = answers[-1]
    causes = [cause.group(1) for cause in _CAUSE.finditer(text, last.end())]
    return "\n".join(dict.fromkeys([_STATUS.sub("", last.group(1)), *causes[-1:]]))


def refused_by_api(master: str, answer: str) -> SinkqlError:
    """Return the error of a Kubernetes API server that refuses Spark's requests, with its reason in `said`."""
    if not _FORBIDDEN.search(answer):
        return unanswered(master, answer)
    return SinkqlError(
        "SQ4056",
        f'the API server at "{master}" refuses a request of Spark',
        detail=answer,
        hint="Give the account the role of deploy/kubernetes.yaml in the namespace of the executors, and set both in "
        "CONF, outside a pod: 'spark.kubernetes.authenticate.oauthTokenFile', 'spark.kubernetes.namespace'.",
    )


def _elastic(conf: Mapping[str, str]) -> bool:
    return conf.get("spark.dynamicAllocation.enabled") == "true"


def _refused(text: str, python_: str) -> SinkqlError:
    """Return the error for executors whose Python does not start, from Java's message."""
    version_error, absent = _SAID.search(text), _ABSENT.search(text)
    detail = None
    if version_error is not None:
        message = f"the executors' {python_} is of another version: {version_error[1].strip()}"
    elif absent is not None:
        message = f'the executors have no program "{absent[1]}"'
    else:
        message = f"the executors' {python_} does not run SinkQL"
        lines = [line.strip() for line in text.splitlines() if not _OF_JAVA.match(line)]
        detail = "\n".join(lines[-_SHOWN:])
    return SinkqlError(
        "SQ4052",
        message,
        detail=detail,
        hint=f"Install Python {python_version()} on the machines of the cluster, and name it in CONF if it is not on "
        f"their PATH: MAP['{_PYTHON}' => '/usr/bin/python{python_version()}'].",
    )


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h)?", text.strip())
    return int(match[1]) * _UNITS[match[2] or ""] if match is not None else _seconds(_PATIENCE)
