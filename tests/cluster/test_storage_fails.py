"""S3 or the catalog does not answer or is slow, or STATE has lost files, while batches run on a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.fs
import pytest

from cluster.feed import storage
from cluster.lab import Lab, lab
from cluster.worker import arm_tasks, cache, release
from support.postgres import Postgres
from support.proxy import Rule
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_TABLES = ("raw", "joined")


@pytest.fixture(scope="module")
def long_lived(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> Iterator[Lab]:
    with lab("storage", tmp_path_factory.mktemp("hosts"), server, cluster, catalogs, tables=_TABLES) as found:
        yield found


@pytest.fixture
def one(long_lived: Lab) -> Lab:
    long_lived.heal()
    return long_lived


@pytest.mark.parametrize("what", ["s3", "rest"])
def test_nobody_answers_for_a_while(one: Lab, what: str) -> None:
    rule: Rule = getattr(one, what)
    rule.down = True
    one.more()
    one.running.wait_for(lambda event: event.get("event") == "stalled")
    one.running.wait_for(lambda event: event.get("event") == "stalled")
    rule.down = False
    one.check()


@pytest.mark.parametrize("point", ["read", "arrangement-run", "state-put", "index-run", "data-file"])
def test_s3_is_gone_when_a_task_is_in_its_middle(one: Lab, point: str) -> None:
    one.stop_in_tasks(f"{point}=stop")
    one.s3.down = True
    release(one.workers)
    one.running.wait_for(lambda event: event.get("event") == "stalled")
    one.s3.down = False
    one.check()


@pytest.mark.parametrize("slow", [0.05, 0.2])
def test_each_request_takes_long(one: Lab, slow: float) -> None:
    one.s3.slow = slow
    one.turn()


@pytest.mark.parametrize("slow", [0.05, 0.2])
def test_a_worker_is_killed_while_each_request_takes_long(one: Lab, slow: float) -> None:
    one.s3.slow = slow
    one.lose(one.stop_in_tasks("state-put=stop"))
    one.check()


@pytest.mark.parametrize("suffix", [".arrow", ".run", ".index"])
@pytest.mark.parametrize("how", ["deleted", "damaged"])
@pytest.mark.parametrize("moved", [False, True])
def test_what_state_lost_is_computed_again(one: Lab, suffix: str, how: str, moved: bool) -> None:
    """Executors have no copies of the files, and neither has the driver after a move."""
    one.turn()
    if moved:
        one.host.kill()
    bucket = storage(one.server)
    found = bucket.get_file_info(pyarrow.fs.FileSelector("data/state", recursive=True))
    names = [each.path for each in found if each.path.endswith(suffix)]
    assert names
    for name in names:
        if how == "deleted":
            bucket.delete_file(name)
        else:
            with bucket.open_output_stream(name) as file:
                file.write(b"nothing that anybody wrote")
    for worker in one.workers:
        for path in cache(worker, suffix):
            path.unlink()
    if moved:
        one.move()
    one.more()
    one.check(rebuilds=True)


def test_a_task_that_fails_at_a_point_is_tried_again(one: Lab) -> None:
    arm_tasks(one.workers, "state-put=fail,index-run=fail,data-file=fail")
    one.more()
    one.check()
