"""Two processes of one sink: the older is stopped at any point and resumed after the takeover; it writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash import verify
from crash.conftest import Children
from crash.pipeline import Pipeline, write_input

pytestmark = [pytest.mark.long, pytest.mark.share(9)]

_BEFORE = ("read-marker#4", "data-file#2", "data-files#2", "attached#2", "commit-request#3")
"""Failpoints of the second batch before its commit."""
_AFTER = ("commit-reply#3", "version-hint#3", "committed#2", "status#2", "maintained#2")
_KEYED = ("index-run#3", "index-manifest#3")
_STATEFUL = ("arrangement-run#8", "state-report#3", "state-manifest#2", "state-manifest-saved#2")
CASES = [
    *(("append", point) for point in (*_BEFORE, *_AFTER)),
    *(("upsert", point) for point in ("commit-request#3", "commit-reply#3", *_KEYED)),
    *(("view", point) for point in ("data-files#2", "commit-request#3", "commit-reply#3", *_KEYED, *_STATEFUL)),
    *(("changelog", point) for point in ("data-file#2", "commit-request#3", "state-manifest#2")),
]


@pytest.mark.parametrize(("kind", "point"), CASES, ids=[" ".join(case) for case in CASES])
def test_the_older_process_ends_fenced(children: Children, tmp_path: Path, kind: str, point: str) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    older = children.stop(pipeline, f"{point}=stop")
    assert children.run(pipeline).status == 0
    head = verify.load(tmp_path).metadata_location
    ended = children.resume(older)
    assert (ended.status, ended.code) == (5, "SQ5101")
    assert head == verify.load(tmp_path).metadata_location
    verify.check_rows(pipeline)
    verify.check_commits(pipeline, 4)
    verify.check_index(pipeline)
    verify.check_state(pipeline)


def test_a_claim_that_was_overtaken_ends_its_run_and_leaves_the_other_alone(children: Children, tmp_path: Path) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, "view")
    first = children.stop(pipeline, "claim=stop")
    second = children.stop(pipeline, "commit-request#3=stop")
    ended = children.resume(first)
    assert (ended.status, ended.code) == (5, "SQ5101")
    assert children.resume(second).status == 0
    verify.check_rows(pipeline)
    verify.check_commits(pipeline, 4)
    verify.check_index(pipeline)


def test_what_the_older_process_leaves_does_not_mislead_later_runs(children: Children, tmp_path: Path) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, "chain")
    older = children.stop(pipeline, "data-files#2=stop")
    newer = children.stop(pipeline, "data-files#3=stop")
    assert children.resume(older).code == "SQ5101"
    assert children.resume(newer).status == 0
    write_input(tmp_path, first=1000, rows=60)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    verify.check_state(pipeline)
