"""Kills in every operation on tables of each shape: no row is lost, duplicated or resurrected, no file is orphaned."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from crash import verify
from crash.conftest import KILLED, Children
from crash.pipeline import KINDS, ROWS, Pipeline, write_input
from support.readers import Rows, duckdb_folder, pyiceberg_rows, spark_rows

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Shape:
    """The kind and layout of a table."""

    kind: str
    version: int = 2
    parted: bool = False
    branch: str | None = None

    def pipeline(self, folder: Path) -> Pipeline:
        """Return a pipeline into a table of this shape that retains two snapshots."""
        shape = {"version": self.version, "parted": self.parted, "branch": self.branch}
        return Pipeline(folder, self.kind, batch_rows=30, hasty=True, **shape)  # type: ignore[arg-type]  # by name

    def __str__(self) -> str:
        words = [self.kind, f"v{self.version}", "parted" if self.parted else "", "branch" if self.branch else ""]
        return "-".join(filter(None, words))


@dataclass(frozen=True)
class Deed:
    """Settings of the pipeline that is killed; `last` are settings of an undisturbed run before it."""

    does: Mapping[str, Any]
    last: Mapping[str, Any] | None = None


DEEDS = {
    "batches": Deed({}),
    "compaction": Deed({"eager": True}),
    "column": Deed({"changed": True}),
    "rebuild": Deed({"anew": True}),
    "optimize": Deed({"then": ("optimize",)}, {}),
    "publish": Deed({"then": ("publish",)}, {}),
    "publish-compacted": Deed({"then": ("publish",)}, {"eager": True, "then": ("optimize",)}),
}
_ALL = Shape("upsert", 3, parted=True, branch="audit")
SHAPES = [
    _ALL,
    Shape("upsert", 2),
    Shape("upsert", 2, parted=True, branch="audit"),
    Shape("upsert", 3, branch="audit"),
    Shape("upsert", 3, parted=True),
    replace(_ALL, kind="append"),
    Shape("append", 2, parted=True),
    replace(_ALL, kind="view"),
    Shape("view", 2, branch="audit"),
]
"""Every pair of properties occurs together in a shape of an upsert sink."""
_SEEN = {"read-marker", "restored", "none"}
"""Failpoints that follow no write."""


@dataclass
class Sink:
    """A sink whose table has rows, also on main, before the operation that is killed."""

    children: Children
    before: Pipeline
    deed: str
    main: tuple[int, Rows] | None = None

    def prepare(self) -> None:
        """Commit batches, publish the branch if there is one, and add more input."""
        write_input(self.before.folder, rows=60)
        published = replace(self.before, then=("publish",)) if self.before.branch else self.before
        assert self.children.run(published).status == 0
        write_input(self.before.folder, first=ROWS, w="new" if self.deed == "column" else None)
        if (last := DEEDS[self.deed].last) is not None:
            assert self.children.run(replace(self.before, **last)).status == 0
        if self.before.branch is not None:
            self.main = self._main()

    @property
    def doing(self) -> Pipeline:
        """Return the pipeline that is killed."""
        return replace(self.before, **DEEDS[self.deed].does)

    def finish(self) -> None:
        """Restart the sink, run its maintenance, and check the table, the state and the files."""
        self._check_main(kept="publish" not in self.deed)
        write_input(self.before.folder, first=1000, rows=20)
        after = self.doing
        ended = self.children.run(replace(after, eager=True, then=("optimize", *after.then)))
        assert ended.status == 0, ended
        verify.check_rows(after)
        verify.check_index(after)
        verify.check_state(after)
        verify.check_files(after.folder)
        self._check_main(kept="publish" not in after.then)
        if "publish" in after.then:
            verify.check_rows(replace(after, branch=None))

    def _check_main(self, *, kept: bool) -> None:
        if self.main is not None and kept:
            assert self._main() == self.main

    def _main(self) -> tuple[int, Rows]:
        """Return main's head and its rows, after checking that two readers agree."""
        table, columns = verify.load(self.before.folder), KINDS[self.before.kind].columns
        head = table.metadata.refs["main"].snapshot_id
        found = pyiceberg_rows(table, columns)
        assert duckdb_folder(table.location(), ", ".join(columns), snapshot=head) == found
        return head, found


def _deeds(shape: Shape) -> list[str]:
    found = [each for each in DEEDS if shape.branch or "publish" not in each]
    return [each for each in found if shape.kind != "append" or each != "rebuild"]


FEW = [
    (_ALL, "batches", "expired-file#5"),
    (_ALL, "compaction", "compaction-run"),
    (_ALL, "compaction", "compacted"),
    (_ALL, "column", "commit-reply"),
    (_ALL, "rebuild", "rebuild-files"),
    (_ALL, "optimize", "expired"),
    (_ALL, "publish", "commit-request#2"),
    (_ALL, "publish-compacted", "commit-reply#2"),
    (replace(_ALL, kind="append"), "optimize", "compacted"),
    (replace(_ALL, kind="view"), "rebuild", "commit-reply#2"),
]


@pytest.mark.share(8)
@pytest.mark.parametrize(("shape", "deed", "point"), FEW, ids=str)
def test_nothing_is_lost_doubled_or_back(
    children: Children, tmp_path: Path, shape: Shape, deed: str, point: str
) -> None:
    sink = Sink(children, shape.pipeline(tmp_path), deed)
    sink.prepare()
    assert children.run(sink.doing, f"{point}=kill").status == KILLED
    sink.finish()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize(("shape", "deed"), [(shape, deed) for shape in SHAPES for deed in _deeds(shape)], ids=str)
def test_nothing_is_lost_wherever_it_is_killed(
    children: Children, tmp_path: Path, spark: SparkSession, shape: Shape, deed: str
) -> None:
    home, aside = tmp_path / "home", tmp_path / "aside"
    home.mkdir()
    sink = Sink(children, shape.pipeline(home), deed)
    sink.prepare()
    shutil.copytree(home, aside)
    passes = Counter(children.run(sink.doing).passes)
    chance = random.Random(f"{shape} {deed}")
    wrong = []
    for point in sorted(passes.keys() - _SEEN):
        number = chance.randint(1, passes[point])
        shutil.rmtree(home)
        shutil.copytree(aside, home)
        try:
            ended = children.run(sink.doing, f"{point}#{number}=kill")
            assert ended.status == KILLED or ended.passes[point] < number  # a refresh has a varying number of parts
            sink.finish()
            _check_spark(sink.doing, spark)
        except AssertionError as error:
            wrong.append(f"{point}#{number}: {error}")
    assert not wrong, "\n".join(wrong)


def _check_spark(pipeline: Pipeline, spark: SparkSession) -> None:
    table = verify.at(pipeline)
    columns = tuple(table.schema().column_names)
    assert spark_rows(spark, verify.load(pipeline.folder), branch=pipeline.branch or "main") == pyiceberg_rows(
        table, columns
    )
