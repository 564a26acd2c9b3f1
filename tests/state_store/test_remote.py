"""Tasks on machines without access to the driver's folders fetch and upload their files, wherever they run."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar
from unittest import mock

import pytest

from sinkql.connectors.iceberg.key_index import index
from sinkql.connectors.iceberg.key_index.index import files
from sinkql.connectors.iceberg.key_index.run import open_run
from sinkql.errors import GoneError
from sinkql.runtime.batch import maintenance
from sinkql.runtime.batch.events import SinkRecovering
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.state import manifest
from sinkql.state_store import cleanup
from sinkql.state_store.directory import EXECUTOR
from state_store.other_host import SINKS, Pipeline, pipeline

Task = TypeVar("Task")


class Elsewhere(LocalEngine):
    """Runs each task on one of two machines, at random. A machine keeps fetched files until it is lost."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.folder = folder
        self.numbers = itertools.count(2)
        self.machines = [folder / "m0", folder / "m1"]

    def sent(self, task: Task) -> Task:
        machine = self.chance.choice(self.machines)
        machine.mkdir(parents=True, exist_ok=True)
        with mock.patch.dict(os.environ, {EXECUTOR: "1", "SPARK_LOCAL_DIRS": f"{machine},/nowhere"}):
            return super().sent(task)

    def lose(self) -> None:
        """Replace one of the machines with a new one."""
        place = self.chance.randrange(2)
        shutil.rmtree(self.machines[place], ignore_errors=True)
        self.machines[place] = self.folder / f"m{next(self.numbers)}"


@pytest.fixture(params=[0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 6))])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Pipeline, Elsewhere]]:
    engine = Elsewhere(tmp_path / "executors", request.param)
    with pipeline(tmp_path, str(tmp_path / "elsewhere")) as found:
        found.engine, found.remote = engine, True
        yield found, engine


def _runs(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.suffix in (".arrow", ".run")}


@pytest.mark.parametrize("sink", SINKS)
def test_machines_come_and_go_and_rows_stay_right(
    remote: tuple[Pipeline, Elsewhere], sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_SWEEP_EVERY", 2)
    moving, engine = remote
    for number in range(5):
        moving.put(40)
        moving.run(sink)
        moving.check(sink)
        assert not any(isinstance(each, SinkRecovering) for each in moving.events)
        if number % 3 == 1:
            engine.lose()
        if number == 3:
            moving.move()


@pytest.mark.parametrize("sink", SINKS)
def test_the_driver_has_no_runs_of_tasks(remote: tuple[Pipeline, Elsewhere], sink: str) -> None:
    moving, engine = remote
    for _ in range(3):
        moving.put(40)
        loop = moving.run(sink)
    here = _runs(loop.folder)
    assert {name for name in here if not name.startswith("base-")} == set()  # the driver indexes an empty table
    assert _runs(engine.folder)
    kept = moving.kept(sink)
    if loop.checkpoint.state is not None:
        assert manifest.files(manifest.load(loop.folder, loop.checkpoint.state)).keys() <= kept
    assert loop.checkpoint.index is not None
    assert {f"index/{name}" for name in files(loop.folder / "index", loop.checkpoint.index)} <= kept


def test_what_tasks_fetched_is_told(remote: tuple[Pipeline, Elsewhere]) -> None:
    moving, engine = remote
    moving.put(40)
    loop = moving.run("sums")
    assert loop.checkpoint.state is not None
    needed = manifest.files(manifest.load(loop.folder, loop.checkpoint.state))
    for machine in engine.machines:
        shutil.rmtree(machine, ignore_errors=True)
    moving.put(40)
    loop = moving.run("sums")
    fetched = sum(each["fetched"] for each in loop.report.metrics.now["arrangements"].values())
    assert fetched == sum(needed.values())


@pytest.mark.share(4)
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("suffix", [".run", ".index", ".arrow"])
def test_what_the_store_lost_is_made_again(tmp_path: Path, suffix: str, *, damaged: bool, moved: bool) -> None:
    """No task machine has a copy and, after a move, neither has the driver."""
    engine = Elsewhere(tmp_path / "executors", 1)
    with pipeline(tmp_path, str(tmp_path / "elsewhere")) as moving:
        moving.engine, moving.remote = engine, True
        for _ in range(2):
            moving.put(40)
            moving.run("sums")
        lost = [path for path in (tmp_path / "elsewhere").rglob(f"*{suffix}") if path.is_file()]
        assert lost
        for path in lost:
            path.unlink()
            if damaged:
                path.write_bytes(b"nothing that anybody wrote")
        for machine in engine.machines:
            shutil.rmtree(machine, ignore_errors=True)
        if moved:
            moving.move()
        if moved and not damaged and suffix == ".arrow":  # the driver notices before a task does
            assert moving.run("sums", batches=False).next_temporal_change == 0
        for _ in range(2):
            moving.put(40)
            moving.run("sums")
            moving.check("sums")


@pytest.mark.parametrize("suffix", [".run", ".index", ".arrow"])
def test_what_machines_have_of_it_is_cut_off(remote: tuple[Pipeline, Elsewhere], suffix: str) -> None:
    """The store has the whole file, so no state is recovered."""
    moving, engine = remote
    engine.machines = engine.machines[:1] * 2
    for _ in range(3):
        moving.put(40)
        moving.run("sums")
        for path in engine.machines[0].rglob(f"*{suffix}"):
            data, mode = path.read_bytes(), path.stat().st_mode
            path.unlink()
            path.write_bytes(data[: len(data) // 2])
            path.chmod(mode)
        for opened in (index.open_index, index._cached_layer, open_run):  # their processes have ended since then
            opened.cache_clear()
    moving.check("sums")
    assert not any(isinstance(each, SinkRecovering) for each in moving.events)


@pytest.mark.parametrize("crowded", [False, True])
def test_a_machine_forgets_what_no_task_uses(
    remote: tuple[Pipeline, Elsewhere], monkeypatch: pytest.MonkeyPatch, *, crowded: bool
) -> None:
    moving, engine = remote
    engine.machines = engine.machines[:1] * 2
    for sink in ("joined", "sums"):
        moving.put(40)
        moving.run(sink)
    root = engine.machines[0] / "sinkql"
    paths = [path for path in root.rglob("*") if path.is_file()]
    used = [path for path in paths if path.suffix == ".arrow"][:2]
    assert 0 < len(used) < len(paths)
    for path in paths:  # a day ago, or some minutes ago
        os.utime(path, (time.time() - (1000 if crowded else 86400),) * 2)
    for path in used:
        os.utime(path)
    monkeypatch.setattr(cleanup, "_is_nearly_full", lambda folder: crowded)
    cleanup.evict_old_files(root)
    assert {path for path in root.rglob("*") if path.is_file()} == {*used, root / "tidied"}
    moving.put(40)
    for sink in SINKS:
        moving.run(sink)
        moving.check(sink)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(2))
def test_a_view_that_is_a_job_runs_there_too(tmp_path: Path, seed: int) -> None:
    engine = Elsewhere(tmp_path / "executors", seed)
    with pipeline(tmp_path, str(tmp_path / "elsewhere"), own=True) as moving:
        moving.engine, moving.remote = engine, True
        for number in range(6):
            moving.put(40)
            moving.run("summed")
            moving.run("sums")
            moving.check("sums")
            if number % 3 == 1:
                engine.lose()
        assert any(path.parts[-3] == "runs" for path in engine.folder.rglob("*.arrow"))
        kept = tmp_path / "elsewhere"
        assert [path for path in kept.rglob("*") if path.is_file()]
        moving.session.execute("DROP SINK sums; DROP MATERIALIZED VIEW summed;")
        assert [path for path in kept.rglob("*") if path.is_file()] == []


class Losing(Elsewhere):
    """Loses or damages the runs of a view in the store, just before a task starts on a machine without copies."""

    damages = False
    loses = False

    def sent(self, task: Task) -> Task:
        if self.loses:
            self.loses = False
            for path in (self.folder.parent / "elsewhere").rglob("runs/*/*.arrow"):
                path.unlink()
                if self.damages:
                    path.write_bytes(b"nothing that anybody wrote")
            for machine in self.machines:
                shutil.rmtree(machine, ignore_errors=True)
        return super().sent(task)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_view_of_which_the_store_lost_runs_is_computed_again(tmp_path: Path, *, damaged: bool) -> None:
    engine = Losing(tmp_path / "executors", 1)
    engine.damages = damaged
    with pipeline(tmp_path, str(tmp_path / "elsewhere"), own=True) as moving:
        moving.engine, moving.remote = engine, True
        lost = set()
        for _ in range(4):
            moving.put(40)
            try:
                moving.run("summed")
            except GoneError as error:
                lost.add(error.code)
                moving.run("summed")
            moving.run("sums")
            moving.check("sums")
            engine.loses = True
        assert lost == {"SQ3451"}


@pytest.mark.share(3)
@pytest.mark.parametrize("sink", SINKS[::-1])
def test_state_of_this_machine_alone_goes_there_with_its_sink(tmp_path: Path, sink: str) -> None:
    with pipeline(tmp_path, None) as moving:
        moving.engine = LocalEngine()
        moving.put(40)
        moving.run(sink)
        moving.session.execute(f"ALTER CLUSTER c SET (STATE = '{tmp_path / 'elsewhere'}');")
        moving.engine, moving.remote = Elsewhere(tmp_path / "executors", 1), True
        for _ in range(3):
            moving.put(40)
            moving.run(sink)
            moving.check(sink)
            assert not any(isinstance(each, SinkRecovering) for each in moving.events)
