"""A run's first batch is waited for once there is work in it to lose; until then the process may end without it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from sinkql.extension.registry import discover
from sinkql.extension.stream import JobOffsets
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.process import application
from sinkql.runtime.process.application import Workload, _Application
from sinkql.runtime.sink import runner
from sinkql.runtime.sink.host import Host, SinkOutcome
from support.patience import PATIENCE_S
from support.running import FixedRoster, MemoryControl, contexts, counter, job


@dataclass
class _Loop:
    """Batches that end when they are told to."""

    begun: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)

    def process(self, start: JobOffsets, end: JobOffsets, *, more: bool) -> None:
        self.begun.set()
        assert self.ending.wait(PATIENCE_S)

    def conflicts(self) -> int:
        return 0

    def caught_up(self) -> bool:
        return False

    def run(self, process: Callable[[JobOffsets, JobOffsets, bool], None]) -> threading.Thread:
        """Run a batch in a thread, until it is in the middle."""
        self.begun.clear()
        running = threading.Thread(target=process, args=({}, {}, False), daemon=True)
        running.start()
        assert self.begun.wait(PATIENCE_S)
        return running

    def end(self, running: threading.Thread) -> None:
        self.ending.set()
        running.join(PATIENCE_S)
        self.ending.clear()


def _no_spark() -> NoReturn:
    raise AssertionError


def _runner(folder: Path, stopping: threading.Event) -> runner.SinkRunner:
    roster = FixedRoster([job(counter(up_to=5), folder)])
    host = Host(
        _no_spark, 2, discover(), MemoryControl(), lambda _: None, roster, lambda each: contexts(folder, each),
        once=False, stopping=stopping,
    )  # fmt: skip
    (work,) = roster.now()
    return runner.SinkRunner(host, work, ran=True)


def _application(run: runner.SinkRunner, stopping: threading.Event) -> _Application:
    workload = Workload(
        run.host.roster, run.host.contexts, run.host.registry, run.host.control, run.host.progress,
        once=False, takeover=False,
    )  # fmt: skip
    found = _Application(workload, stopping, cast(Any, None), [run.work])
    found.running[run.sink_id] = (run, cast(Any, None))
    return found


@pytest.mark.parametrize(("young_seconds", "left"), [(1e6, True), (0.0, False)])
def test_a_first_batch_is_left_while_it_is_young(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, young_seconds: float, left: bool
) -> None:
    monkeypatch.setattr(runner, "_YOUNG_SECONDS", young_seconds)
    monkeypatch.setattr(application, "_PATIENCE_SECONDS", -1.0)
    stopping, loop = threading.Event(), _Loop()
    run = _runner(tmp_path, stopping)
    batch = loop.run(run._process(cast(BatchLoop, loop)))
    stopping.set()
    found = _application(run, stopping)
    assert found._stuck() == left
    if left:
        found._leave()
        ((_, outcome),) = found.ended.values()
        assert outcome == SinkOutcome(run.job.sink, "stopped", early=True)
    loop.end(batch)


def test_a_later_batch_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "_PATIENCE_SECONDS", -1.0)
    stopping, loop = threading.Event(), _Loop()
    run = _runner(tmp_path, stopping)
    process = run._process(cast(BatchLoop, loop))
    loop.end(loop.run(process))
    batch = loop.run(process)
    assert not _application(run, stopping)._stuck()
    loop.end(batch)
    assert _application(run, stopping)._stuck()
