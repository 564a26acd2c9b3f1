"""Sinks on one worker, without Spark: each is scheduled separately, and none delays another."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.lowering import placement
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.events import Event, SinkCommitted, SinkStalled, SinkStarted, SinkStopped
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.schedule import scheduler
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from sinkql.runtime.schedule.schedule import ScheduleLimits
from sinkql.runtime.schedule.scheduler import BatchScheduler
from sinkql.runtime.sink import control, incarnation, life
from sinkql.runtime.sink.host import SharedSpark, SinkHost, SinkOutcome
from sinkql.runtime.sink.runner import SinkRunner
from support.batch_worker import ThreadWorker
from support.patience import PATIENCE_S, joined
from support.running import FixedWorkload, MemoryControl, contexts, counter, job, rows


class _Engine(LocalEngine):
    """An engine that fails for the sinks of some tables."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: set[str] = set()

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        if job.write.options["table"] in self.failing:
            raise SinkqlError("SQ3304", "the source does not answer")
        return super().execute(job, batch)


@dataclass
class _Sinks:
    """Concurrent sinks, and counts of their events by table and kind."""

    folder: Path
    jobs: list[physical.Job]
    engine: _Engine = field(default_factory=_Engine)
    control: MemoryControl = field(default_factory=MemoryControl)
    counts: Counter[tuple[str, type[Event]]] = field(default_factory=Counter)
    outcomes: list[SinkOutcome] = field(default_factory=list)
    workers: list[ThreadWorker] = field(default_factory=list)
    runs: list[SinkRunner] = field(default_factory=list)
    told: threading.Condition = field(default_factory=threading.Condition)

    def tell(self, event: Event) -> None:
        with self.told:
            self.counts[getattr(event, "sink", "").rpartition(".")[2], type(event)] += 1
            self.told.notify_all()

    def waits(self, table: str, kind: type[Event], times: int = 1) -> None:
        """Wait until a sink has emitted `times` more events of a kind."""
        with self.told:
            wanted = self.counts[table, kind] + times
            assert self.told.wait_for(lambda: self.counts[table, kind] >= wanted, PATIENCE_S)

    def worker(self, round_: Callable[[], None]) -> ThreadWorker:
        self.workers.append(ThreadWorker(round_))
        return self.workers[-1]


@contextmanager
def _running(sinks: _Sinks) -> Iterator[None]:
    """Run the sinks until they end; stop the remaining ones at the end of the block."""
    workload = FixedWorkload(sinks.jobs)
    stopping = threading.Event()
    host = SinkHost(
        SharedSpark(object, 2, sinks.folder), discover(), sinks.control, sinks.tell, workload,
        lambda each: contexts(sinks.folder, each), once=False, stopping=stopping,
    )  # fmt: skip
    host.scheduler = BatchScheduler(
        {"in process": sinks.worker, "Spark": sinks.worker}, ScheduleLimits(slow=PATIENCE_S)
    )  # a slow machine opens no second worker
    runs = sinks.runs = [SinkRunner(host, work) for work in workload.now()]
    threads = [threading.Thread(target=lambda run=run: sinks.outcomes.append(run.run()), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for run, thread in zip(runs, threads, strict=True):
            run.wake.set()
            joined(thread)
        host.scheduler.close()


@pytest.fixture
def sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Sinks:
    """Return two sinks of numbers that commit every few milliseconds."""
    found = _Sinks(
        tmp_path, [job(counter(name), tmp_path, table=name, interval_ms=20, execution="SPARK") for name in "ab"]
    )
    engine = PlacedEngine(found.engine, lambda: found.engine)
    monkeypatch.setattr(SharedSpark, "engine", lambda shared, session, buckets: engine)
    monkeypatch.setattr(placement, "SPARK_INTERVAL", timedelta(milliseconds=1))
    monkeypatch.setattr(life, "_FIRST_WAIT", 0.001)
    for module in (control, incarnation):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(scheduler, "_CHECK_SECONDS", 0.01)
    return found


def _whole(folder: Path, table: str) -> int:
    """Return how many numbers are in a table, after checking that it has each of them once."""
    found = rows(folder, table)
    assert [(n,) for n in range(1, len(found) + 1)] == found
    return len(found)


def test_a_sink_that_fails_for_ever_delays_no_other_and_continues_once_it_can(sinks: _Sinks) -> None:
    sinks.engine.failing.add("a")
    with _running(sinks):
        sinks.waits("a", SinkStalled, 3)
        sinks.waits("b", SinkCommitted, 3)
        sinks.waits("a", SinkStalled)
        assert sinks.counts["a", SinkCommitted] == 0
        sinks.engine.failing.clear()
        sinks.waits("a", SinkCommitted, 2)
    assert (sinks.counts["a", SinkStarted], sinks.counts["b", SinkStarted]) == (1, 1)
    assert len(sinks.workers) == 1
    assert min(_whole(sinks.folder, table) for table in "ab") > 0
    assert [outcome.ending for outcome in sinks.outcomes] == ["stopped", "stopped"]


def test_a_sink_that_stalls_is_not_compacted_meanwhile(sinks: _Sinks) -> None:
    sinks.engine.failing.add("a")
    with _running(sinks):
        sinks.waits("a", SinkStalled)
        sinks.control.asking["id-a"] = 1
        sinks.waits("a", SinkStalled, 3)
        assert sinks.control.begun == []
        sinks.engine.failing.clear()
        assert sinks.control.optimized_once.wait(PATIENCE_S)
    assert sinks.control.begun[0] == 1


def test_a_sink_whose_table_is_being_compacted_waits_in_no_worker(sinks: _Sinks) -> None:
    with _running(sinks):
        sinks.waits("a", SinkCommitted)
        with sinks.runs[0].batches.lock:  # as OPTIMIZE SINK holds it
            committed = sinks.counts["a", SinkCommitted]
            sinks.waits("b", SinkCommitted, 5)
            assert sinks.counts["a", SinkCommitted] == committed
        sinks.waits("a", SinkCommitted, 2)
    assert min(_whole(sinks.folder, table) for table in "ab") > 0


def test_a_sink_that_stops_leaves_the_others_running(sinks: _Sinks) -> None:
    with _running(sinks):
        sinks.waits("a", SinkCommitted)
        sinks.control.wanted["id-a"] = "stopped"
        sinks.waits("a", SinkStopped)
        committed = sinks.counts["a", SinkCommitted]
        sinks.waits("b", SinkCommitted, 3)
        assert sinks.counts["a", SinkCommitted] == committed
    assert min(_whole(sinks.folder, table) for table in "ab") > 0


def test_another_interval_and_another_limit_hold_without_a_new_start(sinks: _Sinks) -> None:
    sinks.jobs[0] = msgspec.structs.replace(sinks.jobs[0], commit_interval=timedelta(hours=1))
    with _running(sinks):
        sinks.waits("b", SinkCommitted, 3)
        assert sinks.counts["a", SinkCommitted] == 0
        sinks.jobs[0] = msgspec.structs.replace(
            sinks.jobs[0], commit_interval=timedelta(milliseconds=5), max_rows_per_commit=1
        )
        sinks.waits("a", SinkCommitted, 3)
    assert sinks.counts["a", SinkStarted] == 1
    assert max(commit["rows"] for commit in sinks.control.commits if commit["sink"] == "id-a") == 1


def test_sinks_continue_in_another_worker_where_one_ended(sinks: _Sinks) -> None:
    with _running(sinks):
        for table in "ab":
            sinks.waits(table, SinkCommitted)
        sinks.workers[0].broken = RuntimeError("Java ended")
        for table in "ab":
            sinks.waits(table, SinkCommitted, 10)
    assert len(sinks.workers) == 2
    assert sum(sinks.counts[table, SinkStarted] for table in "ab") > 2, "no sink was started again"
    assert min(_whole(sinks.folder, table) for table in "ab") > 0
