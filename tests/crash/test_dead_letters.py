"""Kills and failures around both commits of a batch: each record becomes a row or a dead letter, exactly once."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from crash.conftest import KILLED, Children
from crash.pipeline import Pipeline
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.storage import failpoint
from support.fault import armed
from support.readers import duckdb_folder
from support.running import drain, loop_of

POINTS = ("claim", "data-file", "data-files", "attached", "commit-request", "commit-reply", "letters-committed",
          "committed", "status", "maintained")  # fmt: skip
ROWS = 110
_KEYS = 12


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Write files with valid and undecodable records."""
    (tmp_path / "in").mkdir()
    for part in range(2):
        lines = [_line(number) for number in range(part * ROWS // 2, (part + 1) * ROWS // 2)]
        (tmp_path / "in" / f"{part}.json").write_text("".join(f"{each}\n" for each in lines))
    return Pipeline(tmp_path, "letters")


def _line(number: int) -> str:
    return json.dumps({"n": f"bad {number}"} if _bad(number) else {"n": number, "k": number % _KEYS})


def _bad(number: int) -> bool:
    return number % 7 == 3


def _check(pipeline: Pipeline) -> None:
    """Check that both tables are complete without duplicates, with the last row of each key."""
    lake = pipeline.folder / "lake" / "n"
    rows = {number % _KEYS: number for number in range(ROWS) if not _bad(number)}
    assert duckdb_folder(str(lake / "t"), "k, n") == sorted(rows.items())
    bad = sorted(_line(number).encode() for number in range(ROWS) if _bad(number))
    assert [row[0] for row in duckdb_folder(str(lake / "t__errors"), "raw")] == bad


def test_each_record_is_a_row_or_a_dead_letter_once(children: Children, pipeline: Pipeline) -> None:
    assert children.run(pipeline).status == 0
    _check(pipeline)


CASES = [(point, pace) for point in POINTS for pace in (30, 17)]


@pytest.mark.share(18)
@pytest.mark.long
@pytest.mark.parametrize(("point", "pace"), CASES)
def test_no_record_is_lost_or_doubled(children: Children, pipeline: Pipeline, point: str, pace: int) -> None:
    killed = 0
    for number in (1, 2):  # each run gets further than the one before
        killed += children.run(pipeline, f"{point}#{number}=kill").status == KILLED
    assert killed
    other = Pipeline(pipeline.folder, "letters", batch_rows=pace)  # a batch that was begun keeps its end
    assert children.run(other, "commit-reply#2=fail", again="claim").status == 0
    assert children.run(other).status == 0
    _check(other)


def _loop(pipeline: Pipeline, *, state: physical.StatePath | None = None, remote: bool = False) -> BatchLoop:
    job = pipeline.job()
    pipeline.state.mkdir(parents=True, exist_ok=True)
    context = Context(job.sink, job.sink_id, pipeline.state, lambda _: "", state=state, remote=remote)
    loop = loop_of(job, context, discover(), engine=LocalEngine(1))
    loop.start(epoch=1, once=True)
    return loop


@pytest.mark.share(3)
@pytest.mark.parametrize("what", ["late", "elsewhere", "lost"])
def test_a_batch_that_was_begun_ends_where_its_dead_letters_say(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The batch's list of files is stored; if it is lost, dead letters of the batch are not duplicated."""
    failpoint._passes.clear()
    one = Pipeline(pipeline.folder, "letters", batch_rows=30)
    with monkeypatch.context() as patched:
        for name, value in armed("letters-committed#2=fail").items():
            patched.setenv(name, value)
        loop = _loop(one)
        with pytest.raises(failpoint.FaultError):
            drain(loop)
    needed = {
        Path(name).name
        for source, reader in loop.readers.items()
        if reader.files is not None
        for name in reader.files.required_files(loop.checkpoint.end[source])
    }
    if what == "late":
        for path in (one.state / "files").rglob("files-*.json"):
            os.utime(path, (1, 1))
    else:
        shutil.rmtree(one.state)
    if what == "lost":
        for path in (pipeline.folder / "lake").rglob("*-files-*.json.stats"):
            if not any(name in path.name for name in needed):
                path.unlink()
    drain(_loop(one))
    _check(one)


def test_a_table_of_dead_letters_that_was_recreated_is_continued_on_another_host(pipeline: Pipeline) -> None:
    """Without a shared folder, tasks write dead letters to the store, where the driver reads them."""
    state = physical.StatePath(str(pipeline.folder / "elsewhere"))
    for turn in range(3):
        drain(_loop(pipeline, state=state, remote=True))
        lake = f"file://{pipeline.folder}/lake"
        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{pipeline.folder}/lake.db", warehouse=lake)
        assert catalog.load_table("n.t__errors").scan().to_arrow().num_rows > 0
        if turn == 0:
            catalog.drop_table("n.t__errors")
        else:
            shutil.rmtree(pipeline.state)
        (pipeline.folder / "in" / f"more{turn}.json").write_text(_line(ROWS + 3 + 7 * turn - ROWS % 7) + "\n")


def test_small_files_of_dead_letters_are_put_together(children: Children, pipeline: Pipeline) -> None:
    eager = Pipeline(pipeline.folder, "letters", batch_rows=10, eager=True)
    assert children.run(eager).status == 0
    _check(eager)
    lake = f"file://{pipeline.folder}/lake"
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{pipeline.folder}/lake.db", warehouse=lake)
    table = catalog.load_table("n.t__errors")
    kinds = Counter(str(each.summary.operation.value) for each in table.metadata.snapshots if each.summary)
    assert kinds["replace"] > 1
    assert len(list(table.scan().plan_files())) < kinds["append"] / 2
