"""Children of a run, with a stand-in for their work: none outlives its parent, however that is killed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from sinkql.connector_api.registry import discover
from sinkql.runtime.batch.events import Event, SparkStarting
from sinkql.runtime.process import child, supervisor
from sinkql.runtime.process.application import RunSpec
from sinkql.runtime.process.child import Child
from sinkql.runtime.sink.host import SinkOutcome
from support.patience import PATIENCE_S, Deadline, joined
from support.running import FixedWorkload, MemoryControl, contexts, counter, job

_LONG = SparkStarting("x" * (1 << 20))
"""An event that does not fit into a pipe's buffer."""


def _workload(folder: Path, *clusters: str, progress: Callable[[Event], None] = lambda _: None) -> RunSpec:
    workload = FixedWorkload([job(counter(up_to=5), folder, table=name, cluster=name) for name in clusters])
    return RunSpec(
        workload, lambda one: contexts(folder, one), discover(), MemoryControl(), progress, once=True, takeover=False
    )


def _until_stopped(cluster: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
    assert stopping.wait(PATIENCE_S)
    return [SinkOutcome(cluster, "stopped")]


class _Family:
    """A process that does not listen to its children; each child reports its start and holds a pipe open."""

    def __init__(self) -> None:
        self._alive, self._held = os.pipe()
        self._pids: list[int] = []

    def start(self, workload: RunSpec) -> None:
        """Start the processes and wait until each child has reported its start."""
        self._parent = multiprocessing.get_context("fork").Process(target=self._run, args=(workload,), daemon=False)
        self._parent.start()
        os.close(self._held)
        for _ in workload.workload.now():
            self._pids.append(int.from_bytes(self._read(4), "big"))

    def there(self) -> None:
        """Report the start of a child, from within it."""
        os.write(self._held, os.getpid().to_bytes(4, "big"))

    def ends(self) -> bool:
        """Kill the parent and wait until no child is left."""
        self._parent.kill()
        self._parent.join()
        return self._read(1) == b""

    def clear(self) -> None:
        """Kill the remaining processes."""
        self._parent.kill()
        self._parent.join()
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(self._alive)

    def _run(self, workload: RunSpec) -> None:
        children: list[Child] = []
        for work in workload.workload.now():
            children.append(Child.start([work], workload, children))
        os.close(self._held)
        threading.Event().wait()

    def _read(self, size: int) -> bytes:
        assert wait([self._alive], PATIENCE_S), "a child neither started nor ended"
        return os.read(self._alive, size)


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Family]:
    monkeypatch.setattr(Child, "_listen", lambda each, workload: None)
    found = _Family()
    yield found
    found.clear()


def test_children_that_speak_as_their_parent_is_killed_end(
    family: _Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elder_lives, elder = os.pipe()

    def run_here(cluster: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
        family.there()
        if cluster == "younger":  # it ends after the older child, which must not wait for it
            os.close(elder)
            os.read(elder_lives, 1)
        workload.progress(_LONG)
        return []

    monkeypatch.setattr(child, "run_application", run_here)
    family.start(_workload(tmp_path, "elder", "younger"))
    os.close(elder)
    assert family.ends()
    os.close(elder_lives)


def test_a_child_whose_parent_is_killed_before_it_looks_ends(
    family: _Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def orphaned() -> None:
        parent = os.getppid()
        family.there()
        while os.getppid() == parent:
            time.sleep(0.01)

    monkeypatch.setattr(os, "setpgrp", orphaned)
    monkeypatch.setattr(child, "run_application", _until_stopped)
    family.start(_workload(tmp_path, "one"))
    assert family.ends()


def test_a_child_that_is_killed_as_it_speaks_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def say_and_die(cluster: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
        workload.progress(SparkStarting(cluster))
        setattr(Connection, "_send_bytes", die)  # noqa: B010  # affects only the fork
        workload.progress(SparkStarting("another"))
        return []

    heard: list[Event] = []
    monkeypatch.setattr(child, "run_application", say_and_die)
    outcomes = _ended(_workload(tmp_path, "one", progress=heard.append))
    assert [outcome.error.code for outcome in outcomes if outcome.error is not None] == ["SQ4004"]
    assert heard == [SparkStarting("one")]


def test_a_signal_that_comes_before_its_handler_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = child._run

    def signalled(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        run(*arguments)

    monkeypatch.setattr(child, "_run", signalled)
    monkeypatch.setattr(child, "run_application", _until_stopped)
    assert _ended(_workload(tmp_path, "one")) == [SinkOutcome("one", "stopped")]


@pytest.mark.parametrize("run", [supervisor.run_until_stopped, supervisor.run_until_done])
def test_who_cannot_be_told_ends_nothing(
    run: Callable[[RunSpec], list[SinkOutcome]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run_here(cluster: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
        for _ in range(3):
            workload.progress(_LONG)
        return [SinkOutcome(f"materialize.public.{cluster}", "caught up")]

    def closed(event: Event) -> NoReturn:
        raise OSError(errno.EIO, "the terminal is gone")

    monkeypatch.setattr(child, "run_application", run_here)
    monkeypatch.setattr(supervisor, "run_application", run_here)
    outcomes = run(_workload(tmp_path, "one", "two", progress=closed))
    assert [outcome.ending for outcome in outcomes] == ["caught up", "caught up"]
    assert capsys.readouterr().err.count("\nOSError") == 6


def test_a_run_that_fails_here_ends_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise MemoryError

    def start(*arguments: Any) -> Child:
        children.append(begin(*arguments))
        return children[-1]

    children, begin = list[Child](), Child.start
    monkeypatch.setattr(Child, "start", start)
    monkeypatch.setattr(child, "run_application", _until_stopped)
    monkeypatch.setattr(supervisor, "run_application", fail)
    with pytest.raises(MemoryError):
        supervisor.run_until_done(_workload(tmp_path, "one", "two", "three"))
    assert [each.process.exitcode for each in children] == [0, 0]


class _Captures:
    """Captures with one source; the process that starts capturing it is killed."""

    def __init__(self) -> None:
        self.parent = os.getpid()

    def captures(self) -> list[Any]:
        if os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return [None]


def test_a_run_whose_sources_nobody_captures_any_more_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(cluster: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
        assert stopping.wait(PATIENCE_S)
        return [
            SinkOutcome(each.job.sink, "stopped") for each in workload.workload.now() if each.job.cluster == cluster
        ]

    monkeypatch.setattr(child, "run_application", stopped)
    monkeypatch.setattr(supervisor, "run_application", stopped)
    workload = replace(_workload(tmp_path, "one", "two"), captures=cast(Any, _Captures()))
    outcomes = supervisor.run_until_done(workload)
    assert [(each.ending, each.error and each.error.code) for each in outcomes] == [("failed", "SQ4004")] * 2


class _Later:
    """Captures without a source until a file exists; another file shows that a capture process has read them."""

    def __init__(self, folder: Path) -> None:
        self.parent, self.from_now, self.found = os.getpid(), folder / "from_now", folder / "found"

    def captures(self) -> list[Any]:
        if not self.from_now.exists():
            return []
        if os.getpid() != self.parent:
            self.found.touch()
        return []


def test_source_that_a_sink_reads_while_it_runs_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture_directory = _Later(tmp_path)

    def altered(cluster: str, workload: RunSpec, stopping: threading.Event) -> list[SinkOutcome]:
        capture_directory.from_now.touch()
        deadline = Deadline()
        while not capture_directory.found.exists():
            deadline.check("the capture process")
        return [SinkOutcome(each.job.sink, "stopped") for each in workload.workload.now()]

    monkeypatch.setattr(supervisor, "run_application", altered)
    outcomes = supervisor.run_until_done(
        replace(_workload(tmp_path, "one"), captures=cast(Any, capture_directory), once=False)
    )
    assert [(each.ending, each.error) for each in outcomes] == [("stopped", None)]


def _ended(workload: RunSpec) -> list[SinkOutcome]:
    """Run a child until it is caught up; return its outcomes."""
    started = Child.start(workload.workload.now(), workload)
    outcomes: list[SinkOutcome] = []
    waiting = threading.Thread(target=lambda: outcomes.extend(started.outcomes()), daemon=True)
    waiting.start()
    joined(waiting)
    return outcomes


def test_the_first_cluster_elsewhere_is_the_one_that_was_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = {"near": "local[1]", "far": "spark://far:7077", "farther": "yarn"}
    jobs = [job(counter(), tmp_path, table=name, cluster=name, master=master) for name, master in masters.items()]
    works = FixedWorkload(jobs).now()
    assert supervisor._submitted(works) is None
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert (supervisor._submitted(works), supervisor._submitted(works[:1])) == ("far", None)
