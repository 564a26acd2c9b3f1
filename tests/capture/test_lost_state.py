"""The state of a sink is lost: it is recovered from a complete log, or all rows are read again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from capture.pipeline import QUICK, Running, Sinks, drain, once, registry
from capture.server import Server
from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from support.running import job, loop_of, use_engine


@dataclass(frozen=True)
class _Normalized(Sinks):
    """Sinks with a normalized input, which keep each row to retract it."""

    def loop(self, name: str) -> BatchLoop:
        plain = super().job(name)
        body = physical.Normalize(plain.write.input, "a1", ("id",))
        made = job(body, self.folder, table=name, key=("id",))
        folder = self.folder / "sinks" / made.sink_id
        folder.mkdir(parents=True, exist_ok=True)
        return loop_of(made, Context(made.sink, made.sink_id, folder, lambda _: ""), registry())


def _lose(folder: Path) -> None:
    for each in (folder / "sinks").rglob("state*"):
        shutil.rmtree(each) if each.is_dir() else each.unlink()


class _Engine(LocalEngine):
    """An engine that records the batches during a running snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshotting: list[frozenset[str]] = []

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        self.snapshotting.append(batch.snapshotting)
        return super().execute(job, batch)


def test_state_is_recovered_from_a_complete_log(tmp_path: Path) -> None:
    Server.make(tmp_path / "server.db")
    sinks = _Normalized(tmp_path)
    sinks.server.commit([("t", key, f"old {key}") for key in range(5)])
    with Running(sinks, replace(QUICK, kept_seconds=3600.0)):
        once(sinks)
        _lose(tmp_path)
        sinks.server.commit([("t", 1, "new"), ("t", 2, None)])
        loop = sinks.loop("a")
        engine = _Engine()
        use_engine(loop, engine)
        drain(loop)
    assert sinks.rows() == sinks.server.rows()
    # during the snapshot, a missing value of a row that a later chunk contains is no error
    assert engine.snapshotting[:2] == [frozenset(), frozenset({"t"})]


def test_lost_state_needs_a_full_refresh_if_its_log_entries_are_deleted(tmp_path: Path) -> None:
    Server.make(tmp_path / "server.db")
    sinks = _Normalized(tmp_path)
    sinks.server.commit([("t", key, f"old {key}") for key in range(5)])
    with Running(sinks) as running:
        once(sinks)
        for turn in range(3):
            sinks.server.commit([("t", 1, f"turn {turn}")])
            once(sinks)
        running.until(lambda: sinks.directory.numbers()[0] > 3)
        _lose(tmp_path)
        sinks.server.commit([("t", 1, "new"), ("t", 2, None)])
        with pytest.raises(SinkqlError, match="its state is lost") as stopped:
            once(sinks)
        assert (stopped.value.code, stopped.value.retryable) == ("SQ3438", True)
        loop = sinks.loop("a")
        loop.start(epoch=1, once=True)
        assert loop.needs_full_refresh()
        (found,) = tmp_path.rglob("forgotten")
        before = found.read_bytes()
        loop.full_refresh()
        assert sinks.rows() == sinks.server.rows()
        assert not found.exists()
        found.write_bytes(before)  # as if another host had done the full refresh
        loop = sinks.loop("a")
        loop.start(epoch=1, once=True)
        assert not loop.needs_full_refresh()
        sinks.server.commit([("t", 3, None), ("t", 4, "newer")])
        once(sinks)
    assert sinks.rows() == sinks.server.rows()
