"""A streaming query as a lane: a round a call, whatever its folder is called."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.patience import PATIENCE_S, Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_lane_runs_a_round_a_call_and_keeps_no_tick(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.lane import SparkLane

    played = threading.Semaphore(0)
    lane = SparkLane(spark, tmp_path / "[my] {own} *?\\ folder", played.release)
    try:
        for _ in range(3):
            lane.call()
            assert played.acquire(timeout=PATIENCE_S)
        assert lane.failure() is None
    finally:
        lane.stop()
    assert not played.acquire(blocking=False)
    assert list(tmp_path.glob("*/ticks/*")) == []
    assert str(lane.failure()) == "the query ended"


def test_a_lane_whose_round_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.lane import SparkLane

    def play() -> None:
        raise ValueError("no round")

    lane = SparkLane(spark, tmp_path / "lane", play)
    lane.call()
    deadline = Deadline()
    while (failure := lane.failure()) is None:
        deadline.check("its failure")
    assert "no round" in str(failure)
