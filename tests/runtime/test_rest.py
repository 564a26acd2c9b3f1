"""Spark rests only while nothing of it is in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Size
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.events import silent
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.local.measured_engine import SharedPlacement
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from sinkql.runtime.sink.host import SharedSpark, SinkHost
from sinkql.runtime.sink.runner import SinkRunner
from sinkql.runtime.spark.application import SparkApplication
from sinkql.runtime.spark.settings import CancelledError
from support.running import FixedWorkload, MemoryControl, contexts, counter, job
from support.threaded_spark import ThreadedSpark


@pytest.fixture
def spark() -> Iterator[ThreadedSpark]:
    found = ThreadedSpark()
    with found.installed():
        yield found


def _application(folder: Path) -> SparkApplication:
    each = job(counter(), folder)
    return SparkApplication([each], contexts(folder, each), silent, threading.Event(), submitted=False)


def test_spark_does_not_rest_below_a_worker_that_was_opened_meanwhile(spark: ThreadedSpark, tmp_path: Path) -> None:
    application = _application(tmp_path)
    shared = SharedSpark.of(application)
    workers = [shared.open_worker(lambda: None) for _ in range(2)]
    for worker in workers:
        application.rest()
        assert spark.living() is not None
        worker.stop()
    application.rest()
    assert spark.living() is None
    again: Any = application.session()
    assert again is spark.living() is not None


def test_a_worker_that_does_not_stop_keeps_spark_no_longer(spark: ThreadedSpark, tmp_path: Path) -> None:
    application = _application(tmp_path)
    worker: Any = SharedSpark.of(application).open_worker(lambda: None)

    def stop() -> None:
        raise RuntimeError("it does not stop")

    worker.worker.stop = stop
    with pytest.raises(RuntimeError):
        worker.stop()
    application.rest()
    assert spark.living() is None


def test_a_worker_that_is_not_opened_keeps_no_spark(spark: ThreadedSpark, tmp_path: Path) -> None:
    application = _application(tmp_path)
    application.begin()
    session: Any = application.session()
    session.died = True
    shared = SharedSpark.of(application)
    shared.session = lambda: session
    with pytest.raises(ConnectionResetError):
        shared.open_worker(lambda: None)
    assert application._uses == 0


def test_spark_does_not_rest_while_an_engine_executes(tmp_path: Path) -> None:
    uses: list[str] = []

    @contextmanager
    def in_use() -> Iterator[None]:
        uses.append("begun")
        yield
        uses.append("ended")

    class Engine(LocalEngine):
        def execute(self, job: physical.Job, batch: Batch) -> Outcome:
            uses.append("executes")
            raise KeyError

    placed = PlacedEngine(LocalEngine(policy="decline"), Engine, in_use)
    with pytest.raises(KeyError):
        placed.spark.execute(job(counter(), tmp_path), Any)  # type: ignore[arg-type]  # a batch that nothing reads
    assert uses == ["begun", "executes"]


def test_spark_does_not_rest_if_this_process_would_have_much_to_do_without_it(
    spark: ThreadedSpark, tmp_path: Path
) -> None:
    application = _application(tmp_path)
    shared = SharedSpark.of(application)
    application.begin()
    with shared.placement.locked() as placement:
        placement.ran_in_process("a", Size(1, 1), 30.0, at=time.monotonic())
    shared.rest_if_unneeded()
    assert spark.living() is not None
    shared.placement = SharedPlacement()
    shared.rest_if_unneeded()
    assert spark.living() is None


def test_the_spark_that_a_sink_waits_for_does_not_rest(tmp_path: Path) -> None:
    """Otherwise its start would be cancelled, and the sink would end as if it was stopped."""
    uses, seen = 0, []

    @contextmanager
    def in_use() -> Iterator[None]:
        nonlocal uses
        uses += 1
        yield
        uses -= 1

    def session() -> Any:
        seen.append(uses)
        raise CancelledError

    each = job(counter(up_to=5), tmp_path, execution="SPARK")
    workload = FixedWorkload([each])
    host = SinkHost(
        SharedSpark(session, 2, tmp_path, in_use=in_use), discover(), MemoryControl(), silent, workload,
        lambda one: contexts(tmp_path, one), once=False,
    )  # fmt: skip
    SinkRunner(host, workload.now()[0]).run()
    assert seen == [1]
