"""Workers are killed and lose their folders at each step of tasks, and the tables are still correct."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.lab import Lab, lab
from cluster.worker import arm_tasks, cache
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_POINTS = (
    "read", "exchange-sent", "exchange-received", "arrangement-run", "state-put", "state-got", "state-report",
    "index-run", "data-file",
)  # fmt: skip


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    with lab("executors", tmp_path_factory.mktemp("hosts"), server, cluster, catalogs) as found:
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("point", _POINTS)
def test_a_worker_is_killed_in_a_task(one: Lab, point: str, number: int) -> None:
    one.lose(one.stop_in_tasks(f"{point}#{number}=stop"))
    one.check()


@pytest.mark.parametrize("point", ["arrangement-run", "state-report", "index-run"])
def test_all_workers_are_killed_and_come_back_later(one: Lab, point: str) -> None:
    one.stop_in_tasks(f"{point}=stop")
    for worker in one.workers:
        worker.kill()
    one.more()
    for worker in one.workers:
        worker.start()
    one.cluster.wait_for_workers(len(one.workers))
    one.check()


@pytest.mark.parametrize("point", ["read", "state-put", "data-file"])
def test_a_task_fails_as_often_as_spark_lets_it(one: Lab, point: str) -> None:
    """Its process is killed at the point in each attempt, so the batch fails and is retried."""
    arm_tasks(one.workers, f"{point}=kill")
    one.more()
    one.running.wait_for(lambda event: event.get("event") == "stalled")
    one.heal()
    one.check()


@pytest.mark.parametrize("suffix", [".arrow", ".run", ".index"])
@pytest.mark.parametrize("how", ["cut off", "deleted"])
def test_what_executors_keep_is_damaged(one: Lab, suffix: str, how: str) -> None:
    one.turn()
    files = [path for worker in one.workers for path in cache(worker, suffix)]
    assert files
    for path in files:
        if how == "deleted":
            path.unlink()
        else:
            data = path.read_bytes()
            path.chmod(0o600)
            with path.open("r+b") as file:
                file.truncate(len(data) // 2)
    one.turn()
