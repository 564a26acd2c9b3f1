"""OPTIMIZE SINK compacts a table in the session, or in the process that runs the sink."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from sinkql.catalog.coordination.control import Control
from sinkql.connector_api.stream import Compacted
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.write.writer import IcebergWriter
from sinkql.errors import LateError, SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.sink.requests import run_optimize_request
from sinkql.session.session import Session
from sinkql.session.sink import maintenance
from support.patience import PATIENCE_S, Deadline, joined
from support.running import drain, loop_of, rows

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (k bigint NOT NULL, v bigint) FROM FILES (PATH = '{folder}/in', GLOB = '*.json') FORMAT JSON;
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  {mode} WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = 10, RETAIN SNAPSHOTS = 2, MAINTENANCE = false);
"""
_MODES = {"append": "ENVELOPE NONE", "upsert": "KEY (k) NOT ENFORCED MODE UPSERT"}


@pytest.fixture(params=_MODES)
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session(tmp_path / "catalog.db") as found:
        found.execute(_SCRIPT.format(folder=tmp_path, mode=_MODES[request.param]))
        yield found


def put(folder: Path, name: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = (json.dumps({"k": number % 20, "v": number}) for number in range(60))
    (folder / "in" / f"{name}.json").write_text("\n".join(lines))


def run(session: Session) -> BatchLoop:
    """Commit all available data with a sink, and return its loop."""
    (job,) = session.jobs()
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    loop.start(epoch=1, once=True)
    drain(loop)
    return loop


def files(folder: Path) -> tuple[int, int, int]:
    """Return the numbers of the table's data files, delete files and snapshots."""
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
    table = catalog.load_table("n.t")
    live = live_files(table)
    return len(live.data), len(live.deletes), len(table.metadata.snapshots)


def test_a_sink_that_nobody_runs_is_compacted_here(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a")
    loop = run(session)
    before, expected = files(tmp_path), rows(tmp_path)
    assert before[0] > 3
    (done,) = session.execute("OPTIMIZE SINK s")
    found = dict(zip(done.columns, done.rows[0], strict=True))
    upsert = loop.job.write.mode == "upsert"
    assert found["files_after"] == (2 if upsert else 1)
    assert found["files_before"] == before[0] + before[1]
    assert found["bytes_after"] < found["bytes_before"]
    assert files(tmp_path) == (found["files_after"], 0, 2)
    assert expected == rows(tmp_path)
    (again,) = session.execute("OPTIMIZE SINK s")
    assert again.rows == ((0, 0, 0, 0),)
    columns, (status,) = session.status()
    at = dict(zip(columns, status, strict=True))["last_compaction"]
    (recorded,) = session.execute("SELECT compacted_at::text FROM mz_internal.mz_sink_maintenance")
    assert datetime.fromisoformat(at) == datetime.fromisoformat(recorded.rows[0][0])
    (told,) = session.execute(
        "SELECT compactions > 0, files_before, problem, optimizing FROM mz_internal.mz_sink_maintenance"
    )
    assert told.rows == ((True, found["files_before"], None, False),)
    put(tmp_path, "b")
    run(session)
    assert len(rows(tmp_path)) == (20 if upsert else 120)


@contextmanager
def asking(session: Session, folder: Path) -> Iterator[list[tuple[Any, ...]]]:
    """Request OPTIMIZE in another session, for a sink that runs in this one; yield a list that receives the result."""
    control = Control(session.catalog.database, lease_seconds=2 * PATIENCE_S)  # nothing renews the lease
    (job,) = session.jobs()
    control.acquire(job.sink_id, owner="runner", takeover=False)
    results: list[tuple[Any, ...]] = []

    def ask() -> None:
        with Session(folder / "catalog.db") as other:
            results.append(other.execute("OPTIMIZE SINK s")[0].rows[0])

    thread, deadline = threading.Thread(target=ask, daemon=True), Deadline()
    thread.start()
    while control.optimize_request(job.sink_id) is None:
        deadline.check("the OPTIMIZE")
        thread.join(0.01)
    yield results
    joined(thread)


def in_thread(deed: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=deed, daemon=True)
    thread.start()
    return thread


def test_a_running_sink_compacts_its_table_itself(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a")
    loop = run(session)
    before, control = files(tmp_path), session.catalog.control
    with asking(session, tmp_path) as results:
        run_optimize_request(loop, control, threading.Lock(), lambda: True)
        assert control.optimize_request(loop.job.sink_id) is not None  # still requested after a stop
        run_optimize_request(loop, control, threading.Lock(), lambda: False)
    assert results[0][:2] == (before[0] + before[1], files(tmp_path)[0])
    assert files(tmp_path)[0] < before[0]
    put(tmp_path, "b")
    loop.targets = {name: reader.target(loop.checkpoint.end[name]) for name, reader in loop.readers.items()}
    assert drain(loop) == 6  # the loop still has its table


def _one_step(*_: object) -> Callable[[], bool]:
    steps = iter([True])
    return lambda: next(steps, False)


def test_it_tells_how_far_it_is(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a")
    run(session)
    there = sum(files(tmp_path)[:2])
    told: list[str] = []
    session.progress_listener = told.append
    monkeypatch.setattr(maintenance, "_may_continue", _one_step)
    session.execute("OPTIMIZE SINK s")
    assert told[-1] == f"compacted {there} of at most {there} files"
    assert told[-2].startswith("compacted 0 of at most")


def test_a_running_sink_tells_how_far_it_is(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a")
    loop = run(session)
    control, sink_id, there = session.catalog.control, loop.job.sink_id, sum(files(tmp_path)[:2])
    first = control.ask(sink_id)
    seen: list[str | None] = []

    def step(*_: object) -> Callable[[], bool]:
        columns, (status,) = session.status()
        seen.append(dict(zip(columns, status, strict=True))["files_optimized"])
        return _one_step()

    monkeypatch.setattr("sinkql.runtime.sink.requests._until", step)
    run_optimize_request(loop, control, threading.Lock(), lambda: False)
    assert seen[0] == "0 of 0"
    assert seen[-1] == f"{there} of {there}"
    assert dict(zip(*(session.status()[0], session.status()[1][0]), strict=True))["files_optimized"] is None
    done = control.outcome(sink_id, first)
    control.optimizing(sink_id, control.ask(sink_id), files=1, of=2)
    assert (control.outcome(sink_id, first), control.so_far(sink_id)) == (done, (1, 2))


def test_a_batch_that_stalls_keeps_no_sink_from_its_stop(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a")
    loop = run(session)
    control, sink_id = session.catalog.control, loop.job.sink_id
    number = control.ask(sink_id)
    stalled, stopping = threading.Lock(), threading.Event()
    looked = threading.Semaphore(0)

    def stops() -> bool:
        looked.release()
        return stopping.is_set()

    with stalled:
        answering = in_thread(lambda: run_optimize_request(loop, control, stalled, stops))
        for _ in range(3):
            assert looked.acquire(timeout=PATIENCE_S)
        assert control.outcome(sink_id, number) == (False, None)  # the waiting session gets SQ5213
        stopping.set()
        joined(answering)
    assert control.optimize_request(sink_id) == number
    run_optimize_request(loop, control, stalled, lambda: False)
    assert control.outcome(sink_id, number)[1] is not None
    assert not stalled.locked()


class Locked(Control):
    """A catalog that is locked once in each method."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.catalog.database)
        self._locked = dict.fromkeys(("asked", "optimizing", "optimized", "compacted"), True)

    def _now(self, name: str) -> None:
        if self._locked.pop(name, False):
            raise LateError("SQ4104", "the catalog is locked")

    def optimize_request(self, sink_id: str) -> int | None:
        self._now("asked")
        return super().optimize_request(sink_id)

    def optimizing(self, sink_id: str, number: int, *, files: int, of: int) -> None:
        self._now("optimizing")
        super().optimizing(sink_id, number, files=files, of=of)

    def optimized(self, sink_id: str, number: int, done: Compacted) -> None:
        self._now("optimized")
        super().optimized(sink_id, number, done)

    def compacted(self, sink_id: str, done: Compacted) -> None:
        self._now("compacted")
        super().compacted(sink_id, done)


def test_a_catalog_that_is_locked_ends_no_sink(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "a")
    loop = run(session)
    before = files(tmp_path)
    number = session.catalog.control.ask(loop.job.sink_id)
    loop.report.control = control = Locked(session)
    for _ in range(2):
        run_optimize_request(loop, control, threading.Lock(), lambda: False)
    done = control.outcome(loop.job.sink_id, number)[1]
    assert done is not None
    assert (done.files_before, done.files_after) == (before[0] + before[1], files(tmp_path)[0])


@pytest.mark.parametrize("desired_state", ["running", "dropped"])
def test_the_lease_is_held_however_long_a_step_takes(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desired_state: Any
) -> None:
    put(tmp_path, "a")
    sink_id, control = run(session).job.sink_id, session.catalog.control
    before, renewed, seen = files(tmp_path), threading.Event(), threading.Semaphore(0)
    renew, desired, refresh = Control.renew, Control.desired, IcebergWriter.refresh

    def renewing(self: Control, sink_id: str, *, owner: str) -> None:
        renew(self, sink_id, owner=owner)
        renewed.set()

    def looking(self: Control, sink_id: str) -> Any:
        found = desired(self, sink_id)
        if found == "dropped" and threading.current_thread() is not threading.main_thread():
            seen.release()
        return found

    def long_step(self: IcebergWriter) -> Any:
        control.set_desired(sink_id, desired_state)
        assert renewed.wait(PATIENCE_S)
        for _ in range(2 if desired_state == "dropped" else 0):  # two looks: the first one has been handled
            assert seen.acquire(timeout=PATIENCE_S)
        return refresh(self)

    monkeypatch.setattr(Control, "lease_seconds", 0.03)
    monkeypatch.setattr(Control, "renew", renewing)
    monkeypatch.setattr(Control, "desired", looking)
    monkeypatch.setattr(IcebergWriter, "refresh", long_step)
    if desired_state == "running":
        session.execute("OPTIMIZE SINK s")
        assert files(tmp_path)[0] < before[0]
    else:
        with pytest.raises(SinkqlError) as caught:
            session.execute("OPTIMIZE SINK s")
        assert caught.value.code == "SQ5208"
        assert files(tmp_path)[0] == before[0]
    assert not control.is_held(sink_id)


def test_errors(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nothing,) = session.execute("OPTIMIZE SINK s")
    assert [each.code for each in nothing.notices] == ["SQ2339"]
    put(tmp_path, "a")
    loop = run(session)
    control = session.catalog.control
    monkeypatch.setattr(maintenance, "WAIT_SECONDS", 0.0)
    control.acquire(loop.job.sink_id, owner="runner", takeover=False)
    with pytest.raises(SinkqlError) as caught:
        session.execute("OPTIMIZE SINK s")
    assert caught.value.code == "SQ5213"
    control.release(loop.job.sink_id, owner="runner")
    for path in (tmp_path / "lake" / "n" / "t" / "data").iterdir():
        path.write_bytes(b"no Parquet")
    with pytest.raises(SinkqlError, match="could not be compacted") as caught:
        session.execute("OPTIMIZE SINK s")
    assert caught.value.code == "SQ3553"
    assert ".parquet: " in str(caught.value.detail)
    assert control.optimize_request(loop.job.sink_id) is None
    assert control.outcome(loop.job.sink_id, 1)[1] != Compacted()
