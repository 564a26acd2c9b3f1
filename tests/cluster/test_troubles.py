"""The failures of a cluster that each run of CI tests: one pipeline moves to it, survives them, and leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.lab import SMALL, Lab, lab
from cluster.worker import release
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.soak]

_TABLES = ("raw", "joined")


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("hosts")
    with lab("troubles", folder, server, cluster, catalogs, tables=_TABLES, first=SMALL, cluster_of="small") as found:
        found.host.kill()
        found.alter("big")
        found.move()
        found.turn()
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


def test_each_request_takes_long(one: Lab) -> None:
    one.s3.slow = 0.2
    one.turn()


def test_s3_is_gone_when_a_task_is_in_its_middle(one: Lab) -> None:
    one.stop_in_tasks("arrangement-run=stop")
    one.s3.down = True
    release(one.workers)
    one.running.wait_for(lambda event: event.get("event") == "stalled")
    one.s3.down = False
    one.check()


def test_a_worker_is_killed_in_a_task(one: Lab) -> None:
    one.lose(one.stop_in_tasks("index-run=stop"))
    one.check()


def test_the_driver_and_a_worker_are_killed(one: Lab) -> None:
    worker = one.stop_in_tasks("state-put=stop")
    one.host.kill()
    one.lose(worker)
    one.more()
    one.move()
    one.check()


def test_the_sinks_leave_for_this_machine(one: Lab) -> None:
    one.go_to("small")
