"""A stopping run waits for its first batch only if work would be lost; otherwise the process ends without it."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import JobOffsets
from sinkql.errors import LeaseLostError
from sinkql.logical.type import BIGINT
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.process import application
from sinkql.runtime.process.application import RunSpec, _Application
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from sinkql.runtime.sink import incarnation
from sinkql.runtime.sink.host import SharedSpark, SinkHost, SinkOutcome
from sinkql.runtime.sink.runner import SinkRunner
from support.patience import PATIENCE_S
from support.running import FixedWorkload, MemoryControl, contexts, counter, job, rows


@dataclass
class _Gate:
    """A gate in the middle of a batch; it can raise an error instead of letting the batch pass."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error


class _Engine(LocalEngine):
    """A local engine with a gate before its work."""

    def __init__(self, gate: _Gate | None = None) -> None:
        super().__init__()
        self.gate = gate

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        if self.gate is not None:
            self.gate.wait()
        return super().execute(job, batch)


@dataclass
class _Control(MemoryControl):
    """A catalog with a gate before it records a commit."""

    gate: _Gate | None = None

    def committed(self, sink_id: str, **told: Any) -> None:
        if self.gate is not None:
            self.gate.wait()
        super().committed(sink_id, **told)


class _NoSparkError(Exception):
    pass


def _no_spark() -> NoReturn:
    raise _NoSparkError


@dataclass
class _Run:
    """A running sink of five numbers without Spark, in an application that will be stopped."""

    folder: Path
    body: physical.Operator = field(default_factory=counter)
    engine: _Engine = field(default_factory=_Engine)
    control: _Control = field(default_factory=_Control)
    stopping: threading.Event = field(default_factory=threading.Event)
    runner: SinkRunner = field(init=False)
    application: _Application = field(init=False)
    raised: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        workload = FixedWorkload([job(self.body, self.folder)])
        host = SinkHost(
            SharedSpark(_no_spark, 2, self.folder), discover(), self.control, lambda _: None, workload,
            lambda each: contexts(self.folder, each), once=False, stopping=self.stopping,
        )  # fmt: skip
        (work,) = workload.now()
        self.runner = SinkRunner(host, work)
        self.runner.batches.ran = True
        spec = RunSpec(workload, host.contexts, host.registry, host.control, host.progress, once=False, takeover=False)
        self.application = _Application(spec, self.stopping, cast(Any, None), [work])
        self.application.running[self.runner.sink_id] = (self.runner, cast(Any, None))

    def claim(self, epoch: int = 1) -> BatchLoop:
        self.runner.host.control.acquire(self.runner.sink_id, owner=self.runner.owner, takeover=True)
        return self.runner.incarnation().claim(epoch, self.placed())

    def placed(self) -> PlacedEngine:
        """Return the engine, for both places."""
        return PlacedEngine(self.engine, lambda: self.engine)

    def batch(self, loop: BatchLoop, gate: _Gate) -> threading.Thread:
        """Start the next batch in a thread, with one number; return when it reaches the gate."""
        process = self.runner.incarnation().process(loop, self.placed())
        begin, end = loop.checkpoint.end, _after(loop.checkpoint.end)

        def call() -> None:
            try:
                process(begin, end, True, "in process")
            except Exception as error:
                self.raised.append(error)

        return _begun(threading.Thread(target=call, daemon=True), gate)

    def rows(self) -> int:
        return len(rows(self.folder))


def _after(offsets: JobOffsets) -> JobOffsets:
    """Return the offsets one number later."""
    return {name: {**offset, "count": offset["count"] + 1} for name, offset in offsets.items()}


def _begun(thread: threading.Thread, gate: _Gate) -> threading.Thread:
    thread.start()
    assert gate.reached.wait(PATIENCE_S)
    return thread


def _end(thread: threading.Thread, gate: _Gate) -> None:
    gate.opened.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "_PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(incarnation, "_YOUNG_SECONDS", 1e6)


@pytest.mark.parametrize(("young_seconds", "left"), [(1e6, True), (0.0, False)])
def test_a_first_batch_is_left_while_it_is_young_and_commits_nothing_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, young_seconds: float, left: bool
) -> None:
    monkeypatch.setattr(incarnation, "_YOUNG_SECONDS", young_seconds)
    gate = _Gate()
    run = _Run(tmp_path, engine=_Engine(gate))
    batch = run.batch(run.claim(), gate)
    run.stopping.set()
    assert run.application._is_stuck() == left
    run.application._abandon_stuck()
    outcomes = [outcome for _, outcome in run.application.ended.values()]
    assert outcomes == ([SinkOutcome(run.runner.job.sink, "stopped", early=True)] if left else [])
    _end(batch, gate)
    assert [type(error) for error in run.raised] == ([incarnation.StoppedError] if left else [])
    assert run.rows() == (0 if left else 1)


def test_a_first_batch_that_committed_is_waited_for(tmp_path: Path) -> None:
    gate = _Gate()
    run = _Run(tmp_path, control=_Control(gate=gate))
    batch = run.batch(run.claim(), gate)
    run.stopping.set()
    assert run.rows() == 1
    assert not run.application._is_stuck()
    assert run.runner.release_for_move() is None
    _end(batch, gate)
    assert len(run.control.commits) == 1
    assert run.application._is_stuck()
    assert run.application._with_early(run.runner, cast(SinkOutcome, run.runner.release_for_move())).exit_code == 0


def test_no_batch_is_young_once_the_sink_has_committed_in_an_earlier_incarnation(tmp_path: Path) -> None:
    gate = _Gate()
    gate.opened.set()
    run = _Run(tmp_path, engine=_Engine(gate))
    _end(run.batch(run.claim(), gate), gate)
    run.engine.gate = again = _Gate()
    batch = run.batch(run.claim(2), again)
    run.stopping.set()
    assert not run.application._is_stuck()
    _end(batch, again)
    assert (run.raised, run.rows()) == ([], 2)


def test_a_first_batch_that_failed_makes_nothing_young(tmp_path: Path) -> None:
    gate = _Gate(error=ValueError())
    run = _Run(tmp_path, engine=_Engine(gate))
    _end(run.batch(run.claim(), gate), gate)
    assert run.raised == [gate.error]
    with run.runner.batches.lock:  # as OPTIMIZE SINK holds it
        assert run.runner.batches.is_busy


def test_a_batch_that_needs_no_query_is_a_batch_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = counter(up_to=5)
    call = physical.AggregateCall("n", "count", None, False, BIGINT)
    gate = _Gate()
    run = _Run(tmp_path, physical.Aggregate(read, "a1", (), (call,), read.change), control=_Control(gate=gate))
    run.runner.batches.ran = False
    engine = PlacedEngine(run.engine, lambda: run.engine)
    monkeypatch.setattr(SharedSpark, "engine", lambda shared, session, buckets: engine)
    batch = _begun(threading.Thread(target=_incarnation, args=(run.runner,), daemon=True), gate)
    run.stopping.set()
    assert not run.application._is_stuck()
    _end(batch, gate)
    assert (run.runner.batches.ran, run.rows()) == (True, 1)


def test_a_sink_whose_lease_was_lost_as_it_began_does_not_say_that_it_was_stopped(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    lost = LeaseLostError("SQ5202", "sink was taken over")
    run.runner.lose_lease(lost)
    outcome = run.runner.run()
    assert outcome == SinkOutcome(run.runner.job.sink, "fenced", lost)


def _incarnation(run: SinkRunner) -> None:
    run.host.control.acquire(run.sink_id, owner=run.owner, takeover=True)
    with suppress(_NoSparkError):
        present = run.incarnation()
        present.claim_table(1)
        present.commit_pending()
