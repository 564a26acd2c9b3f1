"""A sink is killed at each step of adding a column: the column is added once, and no row is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from crash import verify
from crash.conftest import KILLED, Children
from crash.pipeline import ROWS, Pipeline, write_input
from support.readers import duckdb_folder, pyiceberg_rows

pytestmark = [pytest.mark.long, pytest.mark.share(20)]

_STEPS = (
    "read-marker", "claim", "commit-request", "commit-reply", "version-hint", "data-file", "commit-request#2",
    "commit-reply#2",
)  # fmt: skip
CASES = [
    *((kind, step) for kind in ("append", "upsert", "view") for step in _STEPS),
    ("changelog", "commit-reply"),
    ("parts", "commit-reply"),
    ("upsert", "index-manifest"),
    ("view", "state-manifest-saved"),
]
BATCHES = 4


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_a_column_comes_once_whatever_step_is_killed(children: Children, tmp_path: Path, kind: str, step: str) -> None:
    write_input(tmp_path)
    before = Pipeline(tmp_path, kind)
    assert children.run(before).status == 0
    (claimed,) = (each.schema_id for each in verify.load(tmp_path).metadata.schemas)
    write_input(tmp_path, first=ROWS, w="new")
    changed = replace(before, changed=True)
    assert children.run(changed, f"{step}=kill").status == KILLED
    head = verify.load(tmp_path)
    snapshot = head.current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == head.metadata.current_schema_id  # the snapshot and the schema change together
    assert ("w" in head.schema().column_names) == (verify.checkpoint(changed).plan == changed.job().plan)
    assert children.run(changed).status == 0
    table = verify.load(tmp_path)
    assert [each.schema_id for each in table.metadata.schemas] == [claimed, claimed + 1]
    verify.check_rows(changed)
    verify.check_commits(changed, 2 * BATCHES)
    verify.check_index(changed)
    if kind == "append":
        assert Counter(pyiceberg_rows(table, ("w",))) == Counter({("new",): ROWS, (None,): ROWS})
    assert Counter(pyiceberg_rows(table, ("w",))) == Counter(duckdb_folder(table.location(), "w"))
    assert children.run(before).code == "SQ3410"  # a process with the old plan writes nothing
