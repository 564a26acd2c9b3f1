"""Sinks move from this machine to a cluster and back with all that they keep: nothing is lost, doubled, made anew."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.feed import ALL
from cluster.lab import lab
from support.postgres import Postgres
from support.seaweed import Seaweed
from support.spark_cluster import SparkCluster

pytestmark = pytest.mark.soak

_SMALL = "CREATE CLUSTER small (SIZE = 'local[2]', STATE = 's3://data/state', AWS CONNECTION = aws);"


def test_sinks_move_to_a_cluster_and_back_while_rows_come(
    tmp_path: Path, server: Seaweed, cluster: SparkCluster, catalogs: Postgres
) -> None:
    with lab("moving", tmp_path, server, cluster, catalogs, first=_SMALL, cluster_of="small") as one:
        one.host.interrupt()
        one.move()
        moving = [f"ALTER SINK {table}_sink SET CLUSTER" for table in ALL]
        moving.append("ALTER MATERIALIZED VIEW groups SET CLUSTER")
        for there in ("big", "small", "big"):
            one.more()
            one.another("exec", "script.sql", script="".join(f"{each} {there};\n" for each in moving))
            for _ in moving:
                one.running.wait_for(partial(_starting, there))
            one.turn()


def _starting(cluster: str, event: Mapping[str, Any]) -> bool:
    return event.get("event") == "starting" and event["cluster"] == cluster
