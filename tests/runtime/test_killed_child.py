"""A child that is killed while it speaks: its parent hears of its end all the same."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from sinkql.extension.registry import discover
from sinkql.runtime.batch.progress import Event, SparkStarting
from sinkql.runtime.process import child
from sinkql.runtime.process.application import Workload
from sinkql.runtime.process.child import Child
from sinkql.runtime.sink.host import SinkOutcome
from support.patience import PATIENCE_S
from support.running import FixedRoster, MemoryControl, contexts, counter, job


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _say_and_die(cluster: str, workload: Workload, stopping: threading.Event) -> list[SinkOutcome]:
    workload.progress(SparkStarting(cluster))
    setattr(Connection, "_send_bytes", _die)  # noqa: B010  # of the fork alone
    workload.progress(SparkStarting("another"))
    return []


def test_a_child_that_is_killed_as_it_speaks_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Event] = []
    monkeypatch.setattr(child, "run_here", _say_and_die)
    each = job(counter(up_to=5), tmp_path)
    roster = FixedRoster([each])
    workload = Workload(
        roster, lambda one: contexts(tmp_path, one), discover(), MemoryControl(), heard.append,
        once=False, takeover=False,
    )  # fmt: skip
    started = Child.start(roster.now(), workload)
    outcomes: list[SinkOutcome] = []
    waiting = threading.Thread(target=lambda: outcomes.extend(started.outcomes()), daemon=True)
    waiting.start()
    waiting.join(PATIENCE_S)
    assert [outcome.error.code for outcome in outcomes if outcome.error is not None] == ["SQ4004"]
    assert heard == [SparkStarting(each.cluster)]
