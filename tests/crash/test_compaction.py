"""A sink killed at each step of a compaction and restarted: rows, index and state are as without the kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crash import verify
from crash.conftest import KILLED, Children
from crash.pipeline import Pipeline, write_input
from sinkql.connectors.iceberg.commit.checkpoint import ancestry
from support import strangers

pytestmark = [pytest.mark.long, pytest.mark.share(12)]

BATCHES = 8
_POINTS = ("compaction-read", "compaction-file", "compaction", "compacted")
CASES = [
    *(("append", point) for point in _POINTS),
    *(("upsert", point) for point in (*_POINTS, "compaction-run")),
    *(("view", point) for point in (*_POINTS, "compaction-run")),
    ("vectors", "compaction-run"),
    ("parts", "compaction"),
    ("parts", "compacted"),
]


@pytest.fixture
def pipeline(tmp_path: Path, kind: str) -> Pipeline:
    write_input(tmp_path)
    return Pipeline(tmp_path, kind, batch_rows=15, eager=True)


def compactions(pipeline: Pipeline) -> int:
    summaries = [each.summary for each in ancestry(verify.load(pipeline.folder)) if each.summary]
    return sum(each.operation.value == "replace" for each in summaries)


@pytest.mark.parametrize(("kind", "point"), CASES)
def test_no_row_is_lost_doubled_or_back(children: Children, pipeline: Pipeline, kind: str, point: str) -> None:
    assert children.run(pipeline, f"{point}=kill").status == KILLED
    write_input(pipeline.folder, first=1000, rows=30)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_commits(pipeline, BATCHES + 2)
    verify.check_index(pipeline)
    verify.check_state(pipeline)
    verify.check_files(pipeline.folder)
    assert compactions(pipeline) >= 1


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_cleaning_that_is_killed_is_done_again(children: Children, pipeline: Pipeline, kind: str) -> None:
    for point in ("data-files", "commit-request#3", "leftover", "leftover#2"):
        assert children.run(pipeline, f"{point}=kill").status == KILLED
    write_input(pipeline.folder, first=1000, rows=30)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    verify.check_files(pipeline.folder)


@pytest.mark.parametrize("kind", ["upsert", "parts", "view"])
def test_index_that_is_lost_after_a_compaction_is_recreated(children: Children, pipeline: Pipeline, kind: str) -> None:
    assert children.run(pipeline, "compacted=kill").status == KILLED
    (pipeline.state / "index").rename(pipeline.folder / "lost")
    write_input(pipeline.folder, first=1000, rows=110)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    assert compactions(pipeline) >= 2


@pytest.mark.parametrize("kind", ["append", "upsert", "view"])
def test_old_process_that_wakes_up_in_a_compaction_is_fenced(children: Children, pipeline: Pipeline, kind: str) -> None:
    asleep = children.stop(pipeline, "compaction=stop")
    assert children.run(pipeline).status == 0
    before = compactions(pipeline)
    assert children.resume(asleep).code == "SQ5101"
    assert before == compactions(pipeline)
    verify.check_rows(pipeline)
    verify.check_index(pipeline)


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_foreign_compaction_below_one_of_the_sink(children: Children, pipeline: Pipeline, kind: str) -> None:
    asleep = children.stop(pipeline, "compaction=stop")
    strangers.compact(verify.load(pipeline.folder), by=replace(pipeline).job().write.columns[0].name)
    assert children.resume(asleep).status == 0
    verify.check_rows(pipeline)
    verify.check_commits(pipeline, BATCHES)
    verify.check_index(pipeline)
