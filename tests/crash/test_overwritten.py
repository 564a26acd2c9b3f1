"""Kills and failures at each step while rows overwrite each other, are deleted singly, and are truncated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crash import verify
from crash.conftest import KILLED, Again, Children
from crash.pipeline import STREAMED, Pipeline, write_stream

pytestmark = pytest.mark.long

_POINTS = {
    "overwritten": (
        "commit-reply", "index-run", "claim", "restored", "read-marker", "data-file", "data-files", "attached",
        "commit-request", "committed", "released", "maintained", "index-manifest",
    ),
    "normalized": (
        "state-manifest-saved", "commit-request", "arrangement-run", "state-report", "state-manifest", "data-files",
        "commit-reply", "index-run", "committed", "maintained",
    ),
}  # fmt: skip
_HOW = ("killed", "killed at once", "killed twice", "failed, then tried again", "failed, then claimed anew")
CASES = [
    pytest.param(kind, point, how, marks=() if (point, how) == (_POINTS[kind][0], "killed") else pytest.mark.soak)
    for kind in STREAMED
    for point in _POINTS[kind]
    for how in _HOW
]


@pytest.mark.parametrize(("kind", "point", "how"), CASES)
def test_the_table_is_what_the_sql_gives_of_the_rows_that_are_there(
    children: Children, undisturbed: Any, kind: str, point: str, how: str, tmp_path: Path
) -> None:
    write_stream(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    passes, _ = undisturbed(kind)
    number = max(1, passes[point] * 2 // 3)
    if how.startswith("killed"):
        place = f"{point}=kill" if how == "killed at once" else f"{point}#{number}=kill"
        assert children.run(pipeline, place).status == KILLED
        if how == "killed twice":
            assert children.run(pipeline, f"{point}=kill").status == KILLED
    else:
        again: Again = "claim" if "claimed" in how else "batch"
        assert children.run(pipeline, f"{point}#{number}=fail", again=again).status == 0
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    write_stream(tmp_path, first=1000, rows=40)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    verify.check_state(pipeline)
