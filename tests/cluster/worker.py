"""What happens to workers: faults in their tasks, processes that stopped there, deaths."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from cluster.host import arm
from sinkql import faults
from support.patience import Deadline
from support.spark_cluster import SparkCluster, Worker

_FAULTS = "/tmp/faults"
CONF = {
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    f"spark.executorEnv.{faults.RULES}": faults.CHANGING,
    f"spark.executorEnv.{faults.CONFIRMED_BY}": _FAULTS,
}
"""What lets tests change faults in tasks, and leaves out what pays after minutes only."""
_LOOK_S = 0.05
_STOPPED = "T"


def arm_tasks(workers: Iterable[Worker], rules: str) -> None:
    """Have these faults in tasks from here on; none where there are no rules."""
    for worker in workers:
        arm(worker.root / _FAULTS.lstrip("/"), rules)


def wait_for_stopped(workers: Sequence[Worker], meanwhile: Callable[[], object]) -> Worker:
    """Return a worker of which a process has stopped at a fault."""
    deadline = Deadline()
    while True:
        for worker in workers:
            if stopped(worker):
                return worker
        deadline.check("a process that stops")
        meanwhile()
        time.sleep(_LOOK_S)


def stopped(worker: Worker) -> list[int]:
    """Return the processes of a worker that are stopped, by the numbers that they have here."""
    found = []
    for pid in worker.processes():
        with suppress(OSError):
            _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            if fields.split()[0] == _STOPPED:
                found.append(pid)
    return found


def release(workers: Iterable[Worker]) -> None:
    """Have no more faults in tasks, and let those go on that have stopped."""
    for worker in workers:
        arm_tasks([worker], "")
        for pid in stopped(worker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def cache(worker: Worker, suffix: str) -> list[Path]:
    """Return the files of state with such names that executors of a worker have."""
    return [path for path in (worker.root / "var/spark/local").rglob(f"*{suffix}") if path.is_file()]


def restart(cluster: SparkCluster, worker: Worker) -> None:
    """Start a worker that was killed, and wait until the master knows it."""
    worker.start()
    cluster.wait_for_workers(len(cluster.workers))
