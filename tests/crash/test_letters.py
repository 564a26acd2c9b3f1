"""Killed or failed before, between and after the two commits of a batch: each record is a row or a letter, once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from crash.conftest import KILLED, Children
from crash.pipeline import Pipeline
from support.readers import duckdb_folder

POINTS = ("claim", "data-file", "data-files", "attached", "commit-request", "commit-reply", "letters-committed",
          "committed", "status", "maintained")  # fmt: skip
ROWS = 110
_KEYS = 12


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Make files of rows, of which some fail."""
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
    """Assert that both tables have what they must, each once; the last row of a key is there."""
    lake = pipeline.folder / "lake" / "n"
    rows = {number % _KEYS: number for number in range(ROWS) if not _bad(number)}
    assert duckdb_folder(str(lake / "t"), "k, n") == sorted(rows.items())
    bad = sorted(_line(number).encode() for number in range(ROWS) if _bad(number))
    assert [row[0] for row in duckdb_folder(str(lake / "t__errors"), "raw")] == bad


def test_each_record_is_a_row_or_a_letter_once(children: Children, pipeline: Pipeline) -> None:
    assert children.run(pipeline).status == 0
    _check(pipeline)


CASES = [
    pytest.param(point, pace, marks=pytest.mark.soak if pace == 30 and point != "letters-committed" else ())
    for point in POINTS
    for pace in (30, 17)
]


@pytest.mark.long
@pytest.mark.parametrize(("point", "pace"), CASES)
def test_no_record_is_lost_or_doubled(children: Children, pipeline: Pipeline, point: str, pace: int) -> None:
    killed = 0
    for number in (1, 2):  # each start comes further
        killed += children.run(pipeline, f"{point}#{number}=kill").status == KILLED
    assert killed
    other = Pipeline(pipeline.folder, "letters", batch_rows=pace)  # a batch that was begun ends where it did
    assert children.run(other, "commit-reply#2=fail", again="claim").status == 0
    assert children.run(other).status == 0
    _check(other)


def test_small_files_of_letters_are_put_together(children: Children, pipeline: Pipeline) -> None:
    eager = Pipeline(pipeline.folder, "letters", batch_rows=10, eager=True)
    assert children.run(eager).status == 0
    _check(eager)
    lake = f"file://{pipeline.folder}/lake"
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{pipeline.folder}/lake.db", warehouse=lake)
    table = catalog.load_table("n.t__errors")
    kinds = Counter(str(each.summary.operation.value) for each in table.metadata.snapshots if each.summary)
    assert kinds["replace"] > 1
    assert len(list(table.scan().plan_files())) < kinds["append"] / 2
