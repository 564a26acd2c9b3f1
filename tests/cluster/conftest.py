"""A Spark cluster without a shared folder, and a real S3, for all tests of clusters."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from support.postgres import Postgres
from support.postgres import postgres as new_postgres
from support.seaweed import Seaweed, seaweed
from support.spark_cluster import SparkCluster, spark_cluster


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running


@pytest.fixture(scope="package")
def machines() -> None:
    """Skip the tests if this user cannot create namespaces."""
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True).returncode:
        pytest.skip("the machines of these tests are namespaces, which this user cannot create: run them as root")


@pytest.fixture(scope="package")
def cluster(machines: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="package")
def catalogs() -> Iterator[Postgres]:
    with new_postgres() as running:
        yield running
