"""A streaming query as a worker: one scheduling round per call, with any name of its folder."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sinkql.runtime.batch.failure import with_code
from support.patience import PATIENCE_S, Deadline, joined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_worker_runs_a_round_a_call_and_keeps_no_tick(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.batch_worker import SparkWorker

    played = threading.Semaphore(0)
    worker = SparkWorker(spark, tmp_path / "[my] {own} *?\\ folder", played.release)
    try:
        for _ in range(3):
            worker.start_round()
            assert played.acquire(timeout=PATIENCE_S)
        assert worker.failure() is None
    finally:
        worker.stop()
    assert not played.acquire(blocking=False)
    assert list(tmp_path.glob("*/ticks/*")) == []
    assert str(worker.failure()) == "the query ended"


def test_a_checkpoint_has_as_many_files_after_many_rounds_as_after_a_few(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.batch_worker import SparkWorker

    played = threading.Semaphore(0)
    worker = SparkWorker(spark, tmp_path / "worker", played.release)

    def files() -> int:
        return sum(path.is_file() for path in (tmp_path / "worker").rglob("*"))

    def play() -> int:
        worker.start_round()
        assert played.acquire(timeout=PATIENCE_S)
        return files()

    deadline = Deadline()
    try:
        few = max(play() for _ in range(20))
        for _ in range(20):
            play()
        while play() > few + 12:  # Spark deletes files in another thread, sometimes rounds later
            deadline.check(f"the deletion of files; there are {files()}")
    finally:
        worker.stop()


def test_a_worker_whose_round_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.batch_worker import SparkWorker

    def play() -> None:
        raise ValueError("no round")

    worker = SparkWorker(spark, tmp_path / "worker", play)
    worker.start_round()
    deadline = Deadline()
    while (failure := worker.failure()) is None:
        deadline.check("the worker's failure")
    assert "no round" in str(failure)


def test_a_worker_without_room_names_its_folder(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.batch_worker import SparkWorker

    def play() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    worker = SparkWorker(spark, tmp_path / "worker", play)
    worker.start_round()
    deadline = Deadline()
    while (failure := worker.failure()) is None:
        deadline.check("the worker's failure")
    told = with_code(failure)
    assert (told.code, told.message) == ("SQ4306", f'no space left on device for file "{tmp_path / "worker"}"')


def test_a_worker_may_be_stopped_while_its_round_ends(spark: SparkSession, tmp_path: Path) -> None:
    from sinkql.runtime.spark.batch_worker import SparkWorker

    begun, ended = threading.Event(), threading.Event()

    def play() -> None:
        begun.set()
        assert stopping.wait(PATIENCE_S)
        ended.set()

    worker = SparkWorker(spark, tmp_path / "worker", play)
    stopping = threading.Event()
    worker.start_round()
    assert begun.wait(PATIENCE_S)
    stop = threading.Thread(target=worker.stop, daemon=True)
    stop.start()
    stopping.set()
    joined(stop)
    assert ended.is_set()
    assert worker.failure() is not None
