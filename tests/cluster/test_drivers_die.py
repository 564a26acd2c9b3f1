"""The driver is killed at each step of a batch, and continues on a host without any local state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.lab import Lab, lab
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_TABLES = ("raw", "joined", "groups", "twins")

_POINTS = (
    "read-marker",
    "data-files",
    "state-manifest",
    "state-kept",
    "index-kept",
    "commit-request",
    "commit-reply",
    "committed",
)


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    with lab("drivers", tmp_path_factory.mktemp("hosts"), server, cluster, catalogs, tables=_TABLES) as found:
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("point", _POINTS)
def test_the_driver_is_killed(one: Lab, point: str) -> None:
    one.stop_driver(f"{point}=stop")
    one.move()
    one.check()


@pytest.mark.parametrize("point", ["read", "arrangement-run", "state-put", "index-run", "data-file"])
def test_the_driver_and_a_worker_are_killed(one: Lab, point: str) -> None:
    worker = one.stop_in_tasks(f"{point}=stop")
    one.host.kill()
    one.lose(worker)
    one.more()
    one.move()
    one.check()
