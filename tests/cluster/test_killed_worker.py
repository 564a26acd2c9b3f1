"""The case that finds most: a worker is killed while a sink with state and a key index is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.lab import lab
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak


def test_a_worker_that_is_killed_in_a_task_costs_no_row(
    server: Seaweed, cluster: SparkCluster, catalogs: Postgres, tmp_path: Path
) -> None:
    with lab("killed", tmp_path, server, cluster, catalogs, tables=("latest",)) as one:
        one.lose(one.stop_in_tasks("index-run=stop"))
        one.check()
