"""Truncated, changed, replaced or missing files of logs and state: the rows are right or the error names the file."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from operators.pipeline import Listed
from sinkql.errors import SinkqlError
from sinkql.storage.numbered_log import ENTRY_NAMES
from support.damage import damage
from support.running import drain
from view.histories import JOBS, SOURCE, History

_STEPS = 6


def begun(folder: Path) -> History:
    """Run a history without failures."""
    history = History(folder, random.Random(1))
    for _ in range(_STEPS):
        history.change()
        go_on(history)
    return history


def go_on(history: History) -> None:
    """Start all jobs and run each until it is caught up."""
    for name in JOBS:
        drain(history.started(name))


def copied(history: History, folder: Path) -> History:
    """Return a copy of a history in another folder."""
    shutil.copytree(history.folder, folder)
    listed = Listed(SOURCE, list(history.listed.batches))
    return History(folder, random.Random(2), listed, Counter(history.present))


def files(folder: Path) -> list[list[Path]]:
    """Return the entries of logs, their runs, and the files of state, as three lists."""
    sorts: list[list[Path]] = [[], [], []]
    for path in sorted(each.relative_to(folder) for each in folder.rglob("*") if each.is_file()):
        if "log" in path.parts:
            sorts[0].append(path)
        elif "runs" in path.parts:
            sorts[1].append(path)
        elif "state" in path.parts or "manifests" in path.parts:
            sorts[2].append(path)
    assert all(sorts)
    return sorts


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 400), marks=pytest.mark.soak)], ids=["", "more"])
def test_a_damaged_file_is_named_or_makes_no_difference(tmp_path: Path, seeds: range) -> None:
    before = begun(tmp_path / "before")
    sorts = files(before.folder)
    for seed in seeds:
        chance = random.Random(seed)
        history = copied(before, tmp_path / str(seed))
        sort = seed % len(sorts)
        name = chance.choice(sorts[sort])
        path = history.folder / name
        data = path.read_bytes()
        others = [history.folder / each for each in sorts[sort] if each != name]
        how = damage(chance, path, others)
        history.change()
        error = None
        try:
            go_on(history)
        except SinkqlError as caught:
            error = caught
        said = f"{seed}: {name} {how}: {error}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if error is not None:
            assert name.name in f"{error.message} {error.detail}", said
            go_on(history)
        history.check_end()


def test_an_entry_that_was_changed_is_named(tmp_path: Path) -> None:
    history = begun(tmp_path)
    number = history.log("mv").last()
    path = next(path for path in (tmp_path / "views/mv/log").rglob("*") if path.name.endswith(ENTRY_NAMES.name(number)))
    path.write_bytes(path.read_bytes().replace(b'"changed":', b'"changed": ', 1))
    with pytest.raises(SinkqlError) as caught:
        history.log("mv").newest()
    assert caught.value.code == "SQ3452"
    assert path.name in caught.value.message
