"""Sinks move from this machine to a cluster and back with their state: nothing is lost, doubled or recomputed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.lab import SMALL, lab
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak


def test_sinks_move_to_a_cluster_and_back_while_rows_come(
    tmp_path: Path, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> None:
    with lab("moving", tmp_path, server, cluster, catalogs, first=SMALL, cluster_of="small") as one:
        one.host.interrupt()
        one.move()
        for there in ("big", "small", "big"):
            one.go_to(there)
