"""A driver hangs, another host takes over, and the driver goes on: what it was about to commit is refused."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from cluster.lab import Lab, lab
from support.namespace import processes, send
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_TABLES = ("raw", "joined")
_CONF = {"spark.cores.max": "1"}
"""Executors of a driver that hangs stay: there is room for one of another driver."""


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("hosts")
    with lab("taken", folder, server, cluster, catalogs, conf=_CONF, tables=_TABLES) as found:
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("point", ["data-files", "commit-request", "commit-reply"])
def test_a_driver_hangs_and_goes_on_when_another_host_has_taken_over(one: Lab, point: str) -> None:
    one.stop_driver(f"{point}=stop")
    send(processes(one.host.first), signal.SIGSTOP)
    before = one.take_over()
    try:
        one.check()
        send(processes(before.first), signal.SIGCONT)
        before.running.wait_for(lambda event: event.get("why") == "fenced")
        one.turn()
    finally:
        before.kill()
