"""Failures of workers: failpoints in their tasks, processes that stop there, and deaths."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from cluster.host import Host, arm
from sinkql.storage import failpoint
from support.namespace import send, stopped
from support.patience import Deadline
from support.spark_cluster import INSTALLED, SparkCluster, Worker

_FAILPOINTS = "/tmp/faults"
CONF = {
    **INSTALLED,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    f"spark.executorEnv.{failpoint.RULES}": failpoint.CHANGING,
    f"spark.executorEnv.{failpoint.CONFIRMED_BY}": _FAILPOINTS,
}
"""Settings that allow tests to change failpoints in tasks, without optimizations that pay off only after minutes."""
_LOOK_S = 0.05
_Machine = TypeVar("_Machine", Host, Worker)


def arm_tasks(workers: Iterable[Worker], rules: str) -> None:
    """Arm these failpoints in tasks from now on; disarm all if `rules` is empty."""
    for worker in workers:
        arm(worker.root / _FAILPOINTS.lstrip("/"), rules)


def wait_for_stopped(machines: Sequence[_Machine], meanwhile: Callable[[], object]) -> _Machine:
    """Return a worker or a host that has a process stopped at a failpoint."""
    deadline = Deadline()
    while True:
        for machine in machines:
            if stopped(machine.first):
                return machine
        deadline.check("a process stopped at a failpoint")
        meanwhile()
        time.sleep(_LOOK_S)


def release(workers: Iterable[Worker]) -> None:
    """Disarm all failpoints in tasks, and continue the processes that have stopped."""
    for worker in workers:
        arm_tasks([worker], "")
        send(stopped(worker.first), signal.SIGCONT)


def cache(worker: Worker, suffix: str) -> list[Path]:
    """Return the files of state with a suffix in the caches of a worker's executors."""
    return [path for path in (worker.root / "var/spark/local").rglob(f"*{suffix}") if path.is_file()]


def restart(cluster: SparkCluster, worker: Worker) -> None:
    """Start a worker that was killed, and wait until the master knows it."""
    worker.start()
    cluster.wait_for_workers(len(cluster.workers))
