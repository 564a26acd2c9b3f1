"""Starts and batches of a sink after foreign changes: lost folders, expired and rolled back tables, other writers."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crash import verify
from crash.child import open_loop
from crash.conftest import KILLED, Children
from crash.pipeline import KINDS, Pipeline, expected, write_input
from sinkql.connector_api.stream import Committed, Writer
from sinkql.connectors.iceberg.commit.checkpoint import ancestry
from support import strangers
from support.readers import duckdb_folder
from support.running import drain

pytestmark = [pytest.mark.long, pytest.mark.share(3)]

STATEFUL = ("changelog", "view", "chain", "pick")
every_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.soak if kind == "chain" else ())  # "view" also covers state
        for kind in KINDS
        if kind not in ("parts", "vectors", "pick")
    ],
)


@pytest.fixture
def pipeline(children: Children, tmp_path: Path, kind: str) -> Pipeline:
    """Return a pipeline that was killed after its second batch."""
    write_input(tmp_path)
    made = Pipeline(tmp_path, kind)
    assert children.run(made, "committed#2=kill").status == KILLED
    return made


def goes_on(children: Children, pipeline: Pipeline) -> None:
    assert children.run(pipeline).status == 0
    write_input(pipeline.folder, first=1000, rows=40)
    assert children.run(pipeline).status == 0
    verify.check_rows(pipeline)
    verify.check_index(pipeline)
    verify.check_state(pipeline)


def rows(pipeline: Pipeline) -> Counter[tuple[Any, ...]]:
    return Counter(duckdb_folder(pipeline.folder / "lake" / "n" / "t", ", ".join(KINDS[pipeline.kind].columns)))


# --- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_without_its_state_folder_a_sink_without_state_continues(
    children: Children, pipeline: Pipeline, kind: str
) -> None:
    shutil.rmtree(pipeline.state)
    goes_on(children, pipeline)


@pytest.mark.parametrize("kind", ["upsert", "view"])
def test_without_its_index_an_upsert_sink_makes_it_again(children: Children, pipeline: Pipeline, kind: str) -> None:
    shutil.rmtree(pipeline.state / "index")
    goes_on(children, pipeline)


@pytest.mark.share(5)
@pytest.mark.parametrize("kind", ["view", "chain", "pick"])
@pytest.mark.parametrize("lost", [".", "manifests", "state"], ids=["all", "manifests", "runs"])
def test_without_its_state_an_upsert_sink_makes_it_again(
    children: Children, pipeline: Pipeline, kind: str, lost: str
) -> None:
    shutil.rmtree(pipeline.state / lost)
    goes_on(children, pipeline)


@pytest.mark.parametrize("kind", ["view"])
def test_state_is_not_recreated_from_a_source_that_is_not_whole(
    children: Children, pipeline: Pipeline, kind: str
) -> None:
    before = rows(pipeline)
    shutil.rmtree(pipeline.state)
    min((pipeline.folder / "in").iterdir()).unlink()
    ended = children.run(pipeline)
    assert (ended.status, ended.code, rows(pipeline)) == (3, "SQ3402", before)


@pytest.mark.parametrize("kind", ["view"])
def test_state_is_recreated_once_a_source_can_be_read_again(children: Children, pipeline: Pipeline, kind: str) -> None:
    shutil.rmtree(pipeline.state)
    closed = min((pipeline.folder / "in").iterdir())
    kept = pipeline.folder / "kept"
    closed.rename(kept)
    closed.mkdir()  # even root cannot read a folder as a file
    assert children.run(pipeline).code == "SQ3305"
    closed.rmdir()
    kept.rename(closed)
    goes_on(children, pipeline)


@pytest.mark.parametrize("kind", ["changelog"])
@pytest.mark.parametrize(
    ("lost", "code"), [(".", "SQ3402"), ("manifests", "SQ3402"), ("state", "SQ3404")], ids=["all", "manifests", "runs"]
)
def test_without_its_state_a_changelog_stalls_until_it_is_restored(
    children: Children, pipeline: Pipeline, kind: str, lost: str, code: str
) -> None:
    before = rows(pipeline)
    kept = pipeline.folder / "kept"
    (pipeline.state / lost).rename(kept)
    ended = children.run(pipeline)
    assert (code, before) == (ended.code, rows(pipeline))
    assert ended.status == 3
    shutil.rmtree(pipeline.state / lost, ignore_errors=True)
    kept.rename(pipeline.state / lost)
    goes_on(children, pipeline)


@pytest.mark.parametrize("kind", STATEFUL)
def test_a_changed_state_manifest_is_not_used(children: Children, pipeline: Pipeline, kind: str) -> None:
    before = rows(pipeline)
    name = verify.checkpoint(pipeline).state
    assert name is not None
    manifest = pipeline.state / "manifests" / name
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows":', b'"rows": ', 1))
    if kind == "changelog":
        assert (children.run(pipeline).code, rows(pipeline)) == ("SQ3403", before)
    else:
        goes_on(children, pipeline)


@every_kind
def test_offsets_that_moved_over_no_rows_are_committed(children: Children, pipeline: Pipeline, kind: str) -> None:
    assert children.run(pipeline).status == 0
    before = verify.checkpoint(pipeline)
    (pipeline.folder / "in" / "000500.json").write_text("")
    assert children.run(pipeline).status == 0
    after = verify.checkpoint(pipeline)
    assert before.end == after.start != after.end
    verify.check_commits(pipeline, 5)
    goes_on(children, pipeline)


# --- the table's history ----------------------------------------------------------------------------------------------


@every_kind
def test_with_only_the_head_of_the_table_left_the_sink_continues(
    children: Children, pipeline: Pipeline, kind: str
) -> None:
    strangers.expire_all_but_head(verify.load(pipeline.folder))
    goes_on(children, pipeline)


@every_kind
def test_on_a_table_that_was_rolled_back_it_stops(children: Children, pipeline: Pipeline, kind: str) -> None:
    head, *older = [snapshot.snapshot_id for snapshot in ancestry(verify.load(pipeline.folder))]
    strangers.set_main(verify.load(pipeline.folder), older[0])
    before = verify.load(pipeline.folder).metadata_location
    ended = children.run(pipeline)
    assert (ended.status, ended.code) == (3, "SQ3501")
    assert before == verify.load(pipeline.folder).metadata_location
    strangers.set_main(verify.load(pipeline.folder), head)
    goes_on(children, pipeline)


# --- other writers during a batch ---------------------------------------------------------------------------------


@dataclass
class Crowded:
    """A writer that calls `deed`, a foreign change, just before its second commit."""

    writer: Writer
    deed: Callable[[], None]
    commits: int = 0

    def commit(self, *arguments: Any, **named: Any) -> Committed:
        self.commits += 1
        if self.commits == 2:
            self.deed()
        return self.writer.commit(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.writer, name)


def run_crowded(pipeline: Pipeline, deed: Callable[[], None]) -> int:
    """Run a pipeline in this process; return the number of commits that its batches attempted."""
    loop = open_loop(pipeline)
    crowded = Crowded(loop.writer, deed)
    loop.table.writer = crowded
    loop.start(epoch=1, once=True)
    drain(loop)
    return crowded.commits


@every_kind
def test_a_foreign_append_below_a_batch_stays(tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    theirs: list[tuple[Any, ...]] = []

    def append() -> None:
        table = verify.load(tmp_path)
        row = table.scan().to_arrow().slice(0, 1)
        at = row.schema.get_field_index(KINDS[kind].columns[0])
        row = row.set_column(at, row.schema.field(at), pa.array([7777], row.schema.field(at).type))
        theirs.append(tuple(row.to_pylist()[0][name] for name in KINDS[kind].columns))
        table.append(row)

    commits = run_crowded(pipeline, append)
    assert commits == (5 if "UPSERT" in KINDS[kind].clauses else 4)
    if kind != "changelog":
        assert expected(tmp_path, kind) + Counter(theirs) == rows(pipeline)
    else:
        assert rows(pipeline)[theirs[0]] == 1
    verify.check_commits(pipeline, 4)
    verify.check_index(pipeline)


@pytest.mark.parametrize("kind", ["append", "upsert", "view"])
def test_a_foreign_delete_below_a_batch_brings_nothing_back(tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    commits = run_crowded(pipeline, lambda: verify.load(tmp_path).delete("n < 7" if kind == "append" else "k = 3"))
    keep = [row for row in expected(tmp_path, kind) if kind != "append" or row[0] not in range(7)]
    assert Counter(keep) == rows(pipeline)  # later batches write key 3 again
    assert commits == (4 if kind == "append" else 5)
    verify.check_index(pipeline)


@every_kind
def test_a_foreign_compaction_below_a_batch_changes_no_row(tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind)
    by = KINDS[kind].columns[0]
    commits = run_crowded(pipeline, lambda: strangers.compact(verify.load(tmp_path), by=by))
    assert commits == (5 if "UPSERT" in KINDS[kind].clauses else 4)
    verify.check_rows(pipeline)
    verify.check_commits(pipeline, 4)
    verify.check_index(pipeline)
    verify.check_state(pipeline)


# --- a new sink on the old table --------------------------------------------------------------------------------------


@every_kind
def test_a_sink_recreated_on_its_old_table_asks_what_to_do_with_the_rows(
    children: Children, pipeline: Pipeline, kind: str
) -> None:
    assert children.run(pipeline).status == 0
    before = rows(pipeline)
    anew = replace(pipeline, sink_id="5f6e1c1e-0002")
    ended = children.run(anew)
    assert ("SQ3507", before) == (ended.code, rows(anew))
    keeping = replace(anew, options="EXISTING ROWS = KEEP")
    assert children.run(keeping, "committed#2=kill").status == KILLED
    assert children.run(keeping).status == 0
    if kind in ("append", "changelog"):
        assert Counter({row: 2 * count for row, count in before.items()}) == rows(keeping)
    else:
        verify.check_rows(keeping)
    verify.check_index(keeping)
    verify.check_state(keeping)


# --- expiry and sweeps ------------------------------------------------------------------------------------------------

_CUT_SHORT_TOO = (
    ("append", "expired"), ("append", "expired-file"), ("upsert", "expired-file#30"), ("chain", "sweep"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("append", "expire"), ("upsert", "expired"), ("chain", "sweep#9"), ("chain", "expired-file#30"),
        *(pytest.param(kind, point, marks=pytest.mark.soak) for kind, point in _CUT_SHORT_TOO),
    ],
)  # fmt: skip
def test_cleaning_that_was_cut_short_leaves_the_table_whole(
    children: Children, tmp_path: Path, kind: str, point: str
) -> None:
    write_input(tmp_path)
    pipeline = Pipeline(tmp_path, kind, batch_rows=4, options="RETAIN SNAPSHOTS = 2")
    assert children.run(pipeline, f"{point}=kill").status == KILLED
    assert children.run(pipeline).status == 0
    if kind != "changelog":
        assert expected(tmp_path, kind) == rows(pipeline)
    goes_on(children, pipeline)
