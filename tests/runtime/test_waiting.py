"""Sinks with `--once` and the views that they read: a sink waits for a running view, and fails if the view fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.runtime.sink import wait_for_views
from sinkql.runtime.sink.host import EndedSinks, SinkHost
from sinkql.runtime.sink.wait_for_views import wait_for_views as await_views
from support.running import COUNTER, FixedWorkload, MemoryControl, contexts, counter, job


def _jobs(folder: Path) -> tuple[physical.Job, physical.Job]:
    """Return the jobs of a view and of a sink that reads it."""
    view = job(counter(), folder, table="v")
    read = physical.Read("v", physical.VIEW, {"view_id": view.sink_id}, (COUNTER,), "append")
    return view, job(read, folder)


def _host(folder: Path, *jobs: physical.Job, **more: Any) -> SinkHost:
    control = MemoryControl()
    given = {"control": control, "workload": FixedWorkload(jobs), "registry": discover(), "ended": EndedSinks()}
    given |= {"contexts": lambda each: contexts(folder, each), **more}
    return cast("SinkHost", SimpleNamespace(**given))


def test_a_view_that_failed_here_fails_its_sink(tmp_path: Path) -> None:
    view, sink = _jobs(tmp_path)
    host = _host(tmp_path, view, sink, ended=EndedSinks({view.sink_id}, {view.sink_id: "SQ3102: no number"}))
    with pytest.raises(SinkqlError, match=r'SQ3455.*"v"') as caught:
        await_views(sink, host, lambda: False)
    assert (caught.value.detail, caught.value.retryable) == ("SQ3102: no number", False)


def test_a_view_that_has_ended_without_an_error_is_read(tmp_path: Path) -> None:
    view, sink = _jobs(tmp_path)
    await_views(sink, _host(tmp_path, view, sink, ended=EndedSinks({view.sink_id})), lambda: False)


def test_a_view_that_failed_in_another_process_fails_its_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_for_views, "_BEGUN_SECONDS", -1.0)
    view, sink = _jobs(tmp_path)
    writer = SimpleNamespace(load_checkpoint=lambda: None)
    registry = SimpleNamespace(reader=discover().reader, writer=lambda *_: writer)
    host = _host(tmp_path, view, sink, ended=EndedSinks(elsewhere={view.sink_id}), registry=registry)
    host.control.status(view.sink_id, "failed", error="SQ3102: no number")
    with pytest.raises(SinkqlError, match="SQ3455"):
        await_views(sink, host, lambda: False)
