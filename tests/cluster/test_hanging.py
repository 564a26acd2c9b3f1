"""Workers hang for longer than the driver waits for them, and do no harm when they continue."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from cluster.lab import Lab, lab
from cluster.worker import release
from support.namespace import processes, send
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_TABLES = ("raw", "joined")

_CONF = {
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "30s",
}
"""The driver gives up an executor after these times without an answer, as if the network had failed."""


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    with lab(
        "hanging", tmp_path_factory.mktemp("hosts"), server, cluster, catalogs, conf=_CONF, tables=_TABLES
    ) as found:
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("point", ["read", "arrangement-run", "state-put", "index-run", "data-file"])
def test_nothing_is_heard_of_a_worker_until_its_executors_are_given_up(one: Lab, point: str) -> None:
    """Its tasks continue and end after other tasks have done their work."""
    worker = one.stop_in_tasks(f"{point}=stop")
    one.hang(worker)
    one.check()
    release(one.workers)
    one.turn()
    one.cluster.wait_for_cores(len(one.workers))


def test_nothing_is_heard_of_any_worker(one: Lab) -> None:
    one.stop_in_tasks("data-file=stop")
    for worker in one.workers:
        send(processes(worker.first), signal.SIGSTOP)
    one.running.wait_for(lambda event: event.get("event") == "stalled")
    release(one.workers)
    one.check()
