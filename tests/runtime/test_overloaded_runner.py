"""Timeouts on an overloaded machine: a sink retries with growing pauses and reports a timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest

from sinkql.connector_api.registry import discover
from sinkql.errors import LateError, SinkqlError, UnforeseenError
from sinkql.runtime.batch.events import Event, SinkStage, SinkStalled, SinkStarted
from sinkql.runtime.schedule.scheduler import BatchScheduler
from sinkql.runtime.sink import life
from sinkql.runtime.sink.host import SharedSpark, SinkHost, SinkOutcome
from sinkql.runtime.sink.runner import SinkRunner
from sinkql.runtime.spark.settings import CancelledError
from support.patience import PATIENCE_S
from support.running import FixedWorkload, MemoryControl, contexts, counter, job

_LATE = "Python worker failed to connect back."


@dataclass
class _LockedControl(MemoryControl):
    """A catalog that is locked for the first acquisitions of a lease and for all status updates."""

    locked: int = 3
    told: int = 0

    def acquire(self, sink_id: str, *, owner: str, takeover: bool) -> int:
        self.locked -= 1
        if self.locked >= 0:
            raise LateError("SQ4104", "the catalog is locked")
        return super().acquire(sink_id, owner=owner, takeover=takeover)

    def status(self, *_: object, **__: object) -> None:
        self.told += 1
        raise LateError("SQ4104", "the catalog is locked")


def _run(
    folder: Path,
    control: MemoryControl,
    session: Callable[[], Any],
    *,
    once: bool,
    death: Callable[[Any], SinkqlError | None] = lambda _: None,
) -> tuple[SinkOutcome, list[Event]]:
    events: list[Event] = []
    each = job(counter(up_to=5), folder, execution="SPARK")
    workload = FixedWorkload([each])
    host = SinkHost(
        SharedSpark(session, 2, folder, death=death), discover(), control, events.append, workload,
        lambda one: contexts(folder, one), once=once,
    )  # fmt: skip
    (work,) = workload.now()
    return SinkRunner(host, work).run(), events


def _late(times: int) -> Callable[[], NoReturn]:
    """Return a function that fails `times` times with Spark's timeout, and is then cancelled."""
    left = [times]

    def session() -> NoReturn:
        left[0] -= 1
        if left[0] < 0:
            raise CancelledError
        raise RuntimeError(_LATE)

    return session


@pytest.mark.parametrize("once", [True, False])
def test_what_came_too_late_is_tried_again_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    monkeypatch.setattr(life, "_FIRST_WAIT", 1e-5)
    control = MemoryControl()
    outcome, events = _run(tmp_path, control, _late(12), once=once)
    stalls = [event for event in events if isinstance(event, SinkStalled)]
    assert outcome == SinkOutcome("materialize.public.t", "stopped")
    assert [event.error.code for event in stalls] == ["SQ4005"] * 12
    pauses = [event.retry_in for event in stalls if event.retry_in is not None]
    assert len(set(pauses)) > 8
    assert pauses == sorted(pauses)


def test_a_sink_that_waits_for_spark_does_not_run(tmp_path: Path) -> None:
    control = MemoryControl()
    _, events = _run(tmp_path, control, _late(0), once=False)
    assert [status for _, status, _ in control.statuses] == ["starting", "stopped"]
    assert [event.stage for event in events if isinstance(event, SinkStage)] == [
        "opening the table",
        "waiting for Spark",
    ]
    assert not any(isinstance(event, SinkStarted) for event in events)


def test_a_locked_catalog_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_FIRST_WAIT", 1e-5)
    control = _LockedControl()
    outcome, _ = _run(tmp_path, control, _late(5), once=False)
    assert outcome == SinkOutcome("materialize.public.t", "stopped")
    assert control.told > 0


@pytest.mark.parametrize("wish", ["stopped", "dropped"])
def test_a_sink_that_waits_to_try_again_stops_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: Literal["stopped", "dropped"]
) -> None:
    for name in ("_FIRST_WAIT", "_LONGEST_WAIT"):
        monkeypatch.setattr(life, name, 2 * PATIENCE_S)
    control = MemoryControl()

    def session() -> NoReturn:
        control.wanted["id-t"] = wish
        raise RuntimeError(_LATE)

    outcome, events = _run(tmp_path, control, session, once=False)
    assert outcome == SinkOutcome("materialize.public.t", wish)
    assert len([event for event in events if isinstance(event, SinkStalled)]) == 1
    assert control.statuses[-1] == ("id-t", wish, None)


def test_a_spark_that_died_is_told_also_where_another_sink_has_begun_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "_FIRST_WAIT", 1e-5)
    monkeypatch.setattr(BatchScheduler, "add", _fail)
    died = UnforeseenError("SQ4004", "the Java process ended")
    gone, sessions = object(), [object(), object()]
    sessions.append(gone)

    def session() -> Any:
        if not sessions:
            raise CancelledError
        return sessions.pop()

    outcome, events = _run(
        tmp_path, MemoryControl(), session, once=False, death=lambda each: died if each is gone else None
    )
    stalls = [event.error.code for event in events if isinstance(event, SinkStalled)]
    assert (stalls, outcome.ending) == (["SQ4004", "SQ3001", "SQ3001"], "stopped")


def _fail(*_: object) -> NoReturn:
    raise RuntimeError("no answer from Java")
