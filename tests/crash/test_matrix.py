"""Kills and failures at each step of a batch, then a restart: DuckDB and PyIceberg read each row exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crash import verify
from crash.conftest import KILLED, Again, Children
from crash.pipeline import KINDS, Pipeline, write_input

pytestmark = [pytest.mark.long, pytest.mark.share(28)]

_EVERY_KIND = (
    "claim", "restored", "read-marker", "data-file", "data-files", "attached", "commit-request", "commit-reply",
    "version-hint", "committed", "released", "status", "maintained",
)  # fmt: skip
_INDEX = ("index-run", "index-manifest")
_STATE = ("arrangement-run", "state-report", "state-manifest", "state-manifest-saved")
POINTS = {
    "append": _EVERY_KIND,
    "changelog": (*_EVERY_KIND, *_STATE),
    "upsert": (*_EVERY_KIND, *_INDEX),
    "parts": ("data-file", "data-files", "commit-request", "commit-reply", *_INDEX),
    "view": (*_EVERY_KIND, *_INDEX, *_STATE),
    "chain": (*_EVERY_KIND, *_INDEX, *_STATE),
    "pick": ("commit-request", "commit-reply", "status", *_INDEX, *_STATE),
    "vectors": (*_EVERY_KIND, *_INDEX),
}
_ONCE_A_START = ("claim", "restored")
_PASSED_OVER = ("commit-reply", "version-hint")
"""A failure at these points has no effect, because the table shows that the commit succeeded."""

_MORE = ("killed at once", "killed twice", "failed, then claimed anew", "failed, then tried again")
CASES = [
    (kind, point, how)
    for number, kind in enumerate(KINDS)
    for place, point in enumerate(POINTS[kind])
    for how in ("killed", _MORE[(number + place) // 2 % len(_MORE)])
]
BATCHES = 4


@pytest.fixture
def pipeline(tmp_path: Path, kind: str) -> Pipeline:
    write_input(tmp_path)
    return Pipeline(tmp_path, kind)


@pytest.mark.parametrize(("kind", "point", "how"), CASES, ids=[" ".join(case).replace(",", "") for case in CASES])
def test_no_row_is_lost_or_doubled(
    children: Children, undisturbed: Any, pipeline: Pipeline, kind: str, point: str, how: str
) -> None:
    passes, digests = undisturbed(kind)
    number = max(1, passes[point] * 2 // 3)
    if point in _ONCE_A_START and how != "killed at once":
        assert children.run(pipeline, "commit-reply#3=kill").status == KILLED  # the next kill then hits a later start
    match how:
        case "killed at once":
            assert children.run(pipeline, f"{point}=kill").status == KILLED
        case "killed":
            assert children.run(pipeline, f"{point}#{number}=kill").status == KILLED
        case "killed twice":
            assert children.run(pipeline, f"{point}#{number}=kill").status == KILLED
            assert children.run(pipeline, f"{point}=kill").status == KILLED
        case _:
            again: Again = "claim" if "claimed" in how else "batch"
            ended = children.run(pipeline, f"{point}#{number}=fail", again=again)
            assert ended.passes[point] >= number
            assert (0, 0 if point in _PASSED_OVER else 1) == (ended.status, ended.failures)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_commits(pipeline, BATCHES)
    verify.check_index(pipeline)
    assert digests == verify.check_state(pipeline)
