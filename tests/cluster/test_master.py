"""The master is restarted: with its recovery files the application continues, without them another one starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.lab import lab
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak


@pytest.fixture
def master(cluster: SparkCluster) -> Iterator[SparkCluster]:
    yield cluster
    cluster.restart_master()


def test_a_master_that_forgot_the_application_gets_another(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, master: SparkCluster, catalogs: Postgres
) -> None:
    with lab("forgot", tmp_path_factory.mktemp("hosts"), server, master, catalogs, tables=("latest",)) as one:
        (before,) = master.applications()
        master.restart_master()
        one.more()
        stalled = one.running.wait_for(lambda event: event.get("event") == "stalled")
        assert stalled["error"]["code"] == "SQ4051"
        assert "has forgotten the application" in stalled["error"]["message"]
        one.check()
        (now,) = master.applications()
        assert now != before


def test_a_master_that_recovers_the_application_keeps_it(
    tmp_path_factory: pytest.TempPathFactory, server: Seaweed, master: SparkCluster, catalogs: Postgres
) -> None:
    kept = ("-Dspark.deploy.recoveryMode=FILESYSTEM", f"-Dspark.deploy.recoveryDirectory={master.folder}/recovery")
    master.restart_master(*kept)
    with lab("recovers", tmp_path_factory.mktemp("hosts"), server, master, catalogs, tables=("latest",)) as one:
        before = master.applications()
        master.restart_master(*kept)
        one.turn()
        assert master.applications() == before
