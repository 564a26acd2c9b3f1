"""Two concurrent attempts at a task, and executors that leave: exactly one attempt counts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from cluster.lab import Lab, lab
from cluster.worker import release, restart, wait_for_stopped
from support.namespace import stopped
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_TABLES = ("raw", "joined")

_CONF = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("hosts")
    with lab("attempts", folder, server, cluster, catalogs, conf=_CONF, tables=_TABLES) as found:
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("point", ["read", "state-got", "arrangement-run", "state-put", "index-run", "data-file"])
def test_another_attempt_is_made_beside_one_that_hangs(one: Lab, point: str) -> None:
    """The hanging attempt continues after its rival was committed."""
    one.arm_one(f"{point}=stop")
    one.more()
    wait_for_stopped(one.workers, lambda: one.running.look(0.0))
    one.check()
    release(one.workers)
    one.turn()


@pytest.mark.parametrize("point", ["arrangement-run", "data-file"])
def test_an_executor_is_decommissioned(one: Lab, point: str) -> None:
    worker = one.stop_in_tasks(f"{point}=stop")
    for pid in worker.executors():
        os.kill(pid, signal.SIGPWR)
    release(one.workers)
    one.check()
    one.turn()


def test_a_worker_is_decommissioned(one: Lab) -> None:
    worker = one.stop_in_tasks("data-file=stop")
    worker.decommission()
    release(one.workers)
    one.check()
    worker.kill()
    restart(one.cluster, worker)
    one.turn()


def test_attempts_that_hang_everywhere_continue(one: Lab) -> None:
    one.stop_in_tasks("state-report=stop")
    while not all(stopped(worker.first) for worker in one.workers):
        one.running.look(0.05)
    release(one.workers)
    one.check()
