"""The settings of a Spark application, and what follows from them without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.machine.cores import local_cores

PATIENCE_SECONDS = 30.0
"""How long Spark may take to stop."""
CORES = "spark.executor.cores"
_EXECUTORS = "spark.executor.instances"
PORT = "PYSPARK_GATEWAY_PORT"
_MOST_WORKERS = 8
_CORES_ELSEWHERE = 8
"""The assumed number of executors if the cluster's settings do not limit it."""
_LISTENING = (
    "spark.eventLog.", "spark.extraListeners", "spark.plugins", "spark.metrics.", "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners", "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions",
)  # fmt: skip
"""Settings that may give the JVM work to do as it ends."""
_JAVA_OPTIONS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_WRITING = re.compile("(?i)exit|agent|flight")
"""Java options of that kind: an archive of classes, a coverage, a recording."""
_SUBMITTED = "PYSPARK_SUBMIT_ARGS"
_GIVING_OPTIONS = "--driver-java-options"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings to start a Spark application; `folder` is private to it, for its log and its spilled data.

    A `submitted` application runs in the JVM that started this process. `tasks` are the modules that Python workers
    load when they start, see `task_modules`; None loads those of all connectors and operators.
    """

    master: str
    conf: Mapping[str, str]
    folder: Path
    name: str = "sinkql"
    submitted: bool = False
    tasks: tuple[str, ...] | None = None

    @property
    def local(self) -> bool:
        """Return whether all of it runs on this machine."""
        return self.master.startswith("local")

    @property
    def killable(self) -> bool:
        """Return whether a Spark without a running batch can be killed without loss."""
        options = " ".join(os.environ.get(name, "") for name in _JAVA_OPTIONS)
        submitted = os.environ.get(_SUBMITTED, "")
        listening = any(name.startswith(_LISTENING) for name in self.conf) or any(
            option in f"{options} {submitted}" for option in (*_LISTENING, _GIVING_OPTIONS)
        )
        return self.local and not listening and not _WRITING.search(options)

    @property
    def log(self) -> Path:
        """Return the file of Spark's log and its workers' output."""
        return self.folder / "spark.log"


def bucket_count(settings: SparkSettings) -> int:
    """Return the number of shuffle partitions, which are the buckets of state and key indexes."""
    setting = settings.conf.get("spark.sql.shuffle.partitions")
    if setting:
        return int(setting)
    return max(2, _cores(settings)) if settings.local else 2 * _cores(settings)


def worker_count(settings: SparkSettings) -> int:
    """Return how many sinks can run a batch at the same time."""
    return min(_MOST_WORKERS, _cores(settings)) if settings.local else _MOST_WORKERS


class CancelledError(Exception):
    """The start of Spark was cancelled."""


def _cores(settings: SparkSettings) -> int:
    """Return how many tasks can run together; on a remote cluster, the requested number."""
    if not settings.local:
        return requested_cores(settings.conf) or _CORES_ELSEWHERE
    return local_cores(settings.master)


def requested_cores(conf: Mapping[str, str]) -> int | None:
    """Return the total number of requested cores of all executors; None if the settings do not limit it."""
    executors = conf.get(_EXECUTORS)
    return int(executors) * int(conf.get(CORES, "1")) if executors is not None else None


def submitted() -> bool:
    """Return whether a JVM started this process, as spark-submit does, and listens to it."""
    return PORT in os.environ
