"""A batch's state is committed as a whole or not at all, and only a state named by a manifest is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from operators.crash_child import BATCHES, VIEWS, view
from operators.crash_child import changes as crash_changes
from operators.pipeline import Pipeline, plain
from sinkql.errors import SinkqlError
from sinkql.runtime.state import manifest as state
from sinkql.state_store.directory import StateDirectory
from support.fault import armed
from support.patience import PATIENCE_S

pytestmark = [pytest.mark.long, pytest.mark.share(12)]


def code_of(error: pytest.ExceptionInfo[SinkqlError]) -> str:
    return error.value.code


# a view, a failpoint, and the pass at which it kills: in the third batch, in tasks of all operators
KILLS = [
    ("group", "arrangement-run", 14),
    pytest.param("group", "arrangement-run", 17, marks=pytest.mark.soak),
    pytest.param("group", "state-report", 9, marks=pytest.mark.soak),
    ("group", "state-report", 12),
    ("group", "state-manifest", 4),
    pytest.param("group", "state-manifest-saved", 4, marks=pytest.mark.soak),
    pytest.param("join", "arrangement-run", 9, marks=pytest.mark.soak),
    ("join", "arrangement-run", 12),
    ("join", "state-report", 5),
    pytest.param("join", "state-report", 6, marks=pytest.mark.soak),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = {}
    for name in VIEWS:
        folder = tmp_path_factory.mktemp("undisturbed")
        run_child(folder, name, "")
        final = json.loads((folder / "marker.json").read_text())
        found[name] = {"tables": final["tables"], "digests": digests(folder, final["manifests"][-1])}
    return found


def run_child(folder: Path, name: str, failpoints: str) -> int:
    child = Path(__file__).with_name("crash_child.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(child.parents[1]), *sys.path])} | armed(failpoints)
    return subprocess.run(
        [sys.executable, str(child), str(folder), name], env=environment, timeout=PATIENCE_S, check=False
    ).returncode


@pytest.mark.parametrize(("name", "point", "number"), KILLS)
def test_killed_run_continues_from_the_checkpoint_with_the_same_results(
    name: str, point: str, number: int, tmp_path: Path, undisturbed: Any
) -> None:
    assert run_child(tmp_path, name, f"{point}#{number}=kill") < 0
    survived = json.loads((tmp_path / "marker.json").read_text())
    assert 0 < len(survived["tables"]) < BATCHES
    assert run_child(tmp_path, name, "") == 0
    final = json.loads((tmp_path / "marker.json").read_text())
    assert undisturbed[name]["tables"] == final["tables"]
    assert undisturbed[name]["digests"] == digests(tmp_path, final["manifests"][-1])


def digests(folder: Path, name: str) -> Any:
    arrangements = state.load(folder, name)["arrangements"]
    return {key: {b: [run["digest"] for run in runs] for b, runs in each.items()} for key, each in arrangements.items()}


def test_batch_tried_again_from_the_old_state_gives_the_same(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, view(), buckets=3)
    for batch in range(BATCHES):
        pipeline.offer(e=crash_changes(batch))
        first, other_name = pipeline.attempt()
        again, name = pipeline.attempt()
        assert Counter(map(plain, first)) == Counter(map(plain, again))
        assert digests(tmp_path, other_name) == digests(tmp_path, name)
        pipeline.commit(again, name)


def test_manifest_comes_back_by_its_name_alone(tmp_path: Path) -> None:
    manifest = state.next_manifest(state.empty(bucketing="test", buckets=1), {"a": {"0": []}})
    name = state.save(tmp_path, manifest, epoch=3)
    assert state.save(tmp_path, manifest, epoch=3) == name
    assert manifest == state.load(tmp_path, name)
    path = tmp_path / "manifests" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SinkqlError) as caught:
        state.load(tmp_path, name)
    assert code_of(caught) == "SQ3403"
    assert state.save(tmp_path, manifest, epoch=3) == name
    assert manifest == state.load(tmp_path, name)
    path.unlink()
    with pytest.raises(SinkqlError) as caught:
        state.load(tmp_path, name)
    assert code_of(caught) == "SQ3402"


def test_manifest_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    newer = {**state.empty(bucketing="test", buckets=1), "format": state.FORMAT + 1}
    with pytest.raises(SinkqlError) as caught:
        state.load(tmp_path, state.save(tmp_path, newer, epoch=1))
    assert code_of(caught) == "SQ3403"


def test_state_with_other_buckets_is_refused(tmp_path: Path) -> None:
    manifest = state.empty(bucketing="spark", buckets=2)
    with pytest.raises(SinkqlError) as caught:
        state.check(manifest, bucketing="test")
    assert code_of(caught) == "SQ3408"
    known = state.next_manifest(manifest, {"a": {"0": [], "1": []}})
    with pytest.raises(SinkqlError) as caught:
        state.next_manifest(known, {"a": {"0": []}})
    assert code_of(caught) == "SQ3408"


def test_sweep_leaves_the_last_two_states_and_what_later_epochs_wrote(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, view())
    for batch in range(BATCHES):
        pipeline.offer(e=crash_changes(batch))
        pipeline.attempt()  # leaves files that no committed manifest names
        pipeline.commit(*pipeline.attempt())
    newer = [tmp_path / "manifests" / "2-x.json", tmp_path / "state" / "above" / "b0" / "2-c-t.arrow"]
    for path in newer:
        path.touch()
    stranger = tmp_path / "state" / "above" / "b0" / "notes.txt"
    stranger.touch()
    before = len([path for path in tmp_path.rglob("*") if path.is_file()])
    removed = state.sweep(StateDirectory(tmp_path), set(pipeline.manifests[-2:]), epoch=1)
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert before - removed == len(left)
    assert left >= {*newer, stranger}
    names = {path.name for path in left}
    assert {name for name in names if name.startswith("1-") and name.endswith(".json")} == set(pipeline.manifests[-2:])
    live = {
        run["file"]
        for name in pipeline.manifests[-2:]
        for buckets in state.load(tmp_path, name)["arrangements"].values()
        for runs in buckets.values()
        for run in runs
    }
    assert {name for name in names if name.startswith("1-") and name.endswith(".arrow")} == live
    pipeline.batch(e=crash_changes(BATCHES))
    sql = """
        SELECT c, count(g), sum(h)
        FROM (SELECT g, count(*) AS c, max(x) AS h FROM e GROUP BY g)
        GROUP BY c"""
    assert pipeline.expected(sql) == pipeline.got()
