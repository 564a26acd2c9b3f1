"""A process is killed at each step of a full refresh: readers see either all old rows or all new ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from crash import verify
from crash.conftest import KILLED, Children
from crash.pipeline import KINDS, Pipeline, expected, write_input
from support.readers import duckdb_folder, pyiceberg_rows

pytestmark = pytest.mark.long

_STEPS = (
    "read-marker", "claim", "commit-request", "commit-reply", "rebuild", "rebuild-part", "rebuild-part#5",
    "rebuild-read", "rebuild-read#3", "attached", "rebuild-files", "index-manifest", "commit-request#2",
    "commit-reply#2", "version-hint#2", "committed", "maintained",
)  # fmt: skip
_DONE = ("commit-reply#2", "version-hint#2", "committed", "maintained")
_HINTED = ("committed", "maintained")
"""Steps after which DuckDB, which opens the table by its folder, sees the commit."""
_IN_EACH_RUN = (("view", "commit-reply#2"), ("parts", "rebuild-files"))
_CASES = [
    *(("upsert", step) for step in _STEPS),
    *(("view", step) for step in ("arrangement-run#3", "state-manifest-saved", "rebuild-files", *_DONE)),
    *(("parts", step) for step in ("rebuild-files", "commit-reply#2", "committed")),
]
CASES = [pytest.param(*each, marks=() if each in _IN_EACH_RUN else pytest.mark.soak) for each in _CASES]
BATCHES = 4


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_rows_are_the_old_ones_or_all_new_whatever_step_is_killed(
    children: Children, tmp_path: Path, kind: str, step: str
) -> None:
    write_input(tmp_path)
    before = Pipeline(tmp_path, kind)
    assert children.run(before).status == 0
    anew = replace(before, anew=True)
    assert children.run(anew, f"{step}=kill").status == KILLED
    done = verify.checkpoint(anew).plan == anew.job().plan
    assert done == (step in _DONE)
    table, columns = verify.load(tmp_path), KINDS[kind].columns
    assert Counter(pyiceberg_rows(table, columns)) == expected(tmp_path, kind, anew=done)
    assert Counter(duckdb_folder(table.location(), ", ".join(columns))) == expected(
        tmp_path, kind, anew=step in _HINTED
    )
    assert children.run(anew).status == 0
    verify.check_rows(anew)
    verify.check_commits(anew, BATCHES + 1)
    verify.check_index(anew)
    write_input(tmp_path, first=500)
    assert children.run(anew).status == 0  # the next batches run
    assert not (anew.state / "rebuild").exists()
    verify.check_rows(anew)
    verify.check_index(anew)
    assert children.run(before).code == "SQ3410"  # a process with the old plan writes nothing
