"""Rows that overwrite each other by key: a view over them is what its SQL gives of the rows that are there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from operators.overwritten import VIEWS, changes, view
from operators.pipeline import Pipeline, overwriting, source
from sinkql import physical
from sinkql.runtime.state.operator import stateful


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("name", VIEWS)
def test_after_every_batch_a_view_is_what_its_sql_gives(name: str, buckets: int, tmp_path: Path) -> None:
    rng = random.Random(name)
    pipeline = Pipeline(tmp_path, view(VIEWS[name]), buckets=buckets)
    for size in (0, 5, 12, 1, 0, 30, 4, 8, 20, 3):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size))
        assert pipeline.expected(VIEWS[name]) == pipeline.got()
    pipeline.batch(e=[((key, None, None, None, None), -1) for key in range(12)])
    assert pipeline.expected(VIEWS[name]) == pipeline.got()
    pipeline.batch(e=changes(rng, pipeline.inputs["e"], 9))
    assert pipeline.expected(VIEWS[name]) == pipeline.got()


def test_only_what_is_another_now_is_told_of_and_kept(tmp_path: Path) -> None:
    read = overwriting("e", "k", k="integer", v="text", a="text[]")
    pipeline = Pipeline(tmp_path, physical.Normalize(read, "rows", ("k",)), buckets=1)
    pipeline.batch(e=[((1, "a", ("x",)), 1), ((2, "b", None), 1), ((4, "d", ("x", "y")), 1), ((5, None, (None,)), 1)])
    pipeline.offer(
        e=[
            *[((1, "c", ()), 1), ((1, "a", ("x",)), 1), ((2, "b", ()), 1), ((3, None, None), -1)],
            *[((4, "d", ("x", "z")), 1), ((5, None, (None,)), 1)],
        ]
    )
    told, name = pipeline.attempt()
    expected = [(2, "b", None, -1), (2, "b", [], 1), (4, "d", ["x", "y"], -1), (4, "d", ["x", "z"], 1)]
    assert expected == sorted(told, key=lambda row: (row[0], row[-1]))
    pipeline.commit(told, name)
    kept = pipeline.entries()
    pipeline.batch(e=[((4, "d", ("x", "z")), 1), ((3, None, None), -1)])
    assert kept == pipeline.entries()


def test_it_stands_on_rows_that_overwrite_each_other_alone() -> None:
    with pytest.raises(ValueError, match="upsert"):
        stateful(physical.Normalize(source("e", "retract", k="integer"), "rows", ("k",)))
