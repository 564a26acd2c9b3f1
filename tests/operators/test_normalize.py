"""Normalization: a view over rows that overwrite each other by key equals its SQL over the current rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from operators.overwritten import VIEWS, changes, view
from operators.pipeline import Pipeline, Row, output, overwriting, source
from sinkql import physical
from sinkql.physical.identity import meaning_of
from sinkql.runtime.state.operator import stateful


@pytest.mark.share(4)
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
    kept = any(isinstance(each, physical.Stateful) for each in physical.walk(view(VIEWS[name])))
    assert (pipeline.pieces > 0) == (kept and name != "one row of all")


def test_only_what_is_another_now_is_told_of_and_kept(tmp_path: Path) -> None:
    read = overwriting("e", "k", k="integer", v="text", a="text[]")
    pipeline = Pipeline(tmp_path, physical.Normalize(read, "rows", ("k",)), buckets=1)
    pipeline.batch(e=[((1, "a", ("x",)), 1), ((2, "b", None), 1), ((4, "d", ("x", "y")), 1), ((5, None, (None,)), 1)])
    pipeline.batch(e=[((6, None, None), 1), ((7, "g", None), 1)])
    pipeline.offer(
        e=[
            *[((1, "c", ()), 1), ((1, "a", ("x",)), 1), ((2, "b", ()), 1), ((3, None, None), -1)],
            *[((4, "d", ("x", "z")), 1), ((5, None, (None,)), 1), ((6, "f", None), 1), ((7, None, None), 1)],
        ]
    )
    told, name = pipeline.attempt()
    expected: list[Row] = [(2, "b", None, -1), (2, "b", [], 1), (4, "d", ["x", "y"], -1), (4, "d", ["x", "z"], 1)]
    expected += [(6, None, None, -1), (6, "f", None, 1), (7, "g", None, -1), (7, None, None, 1)]
    assert expected == sorted(told, key=lambda row: (row[0], row[-1]))
    pipeline.commit(told, name)
    kept = pipeline.entries()
    pipeline.batch(e=[((4, "d", ("x", "z")), 1), ((3, None, None), -1)])
    assert kept == pipeline.entries()


def test_a_row_that_comes_again_is_no_change_whatever_is_in_it(tmp_path: Path) -> None:
    read = overwriting("e", "k", k="integer", d="double_precision", r="real", a="double_precision[]")
    pipeline = Pipeline(tmp_path, physical.Normalize(read, "rows", ("k",)), buckets=1)
    nan = float("nan")
    rows: list[Row] = [(1, nan, nan, (nan, None)), (2, None, -0.0, (1.0,)), (3, 1.0, nan, None)]
    pipeline.batch(e=[(row, 1) for row in rows])
    kept = pipeline.entries()
    pipeline.offer(e=[(row, 1) for row in rows])
    told, name = pipeline.attempt()
    assert told == []
    pipeline.commit(told, name)
    assert kept == pipeline.entries()
    pipeline.batch(e=[((1, 1.0, nan, (nan, None)), 1), ((3, nan, nan, None), 1)])
    assert pipeline.expected("SELECT * FROM e") == pipeline.got()


def test_rows_of_a_source_that_is_emptied_go(tmp_path: Path) -> None:
    rng = random.Random("emptied")
    pipeline = Pipeline(tmp_path, view(VIEWS["without key"]))
    for size in (20, 0, 6, 9, 4):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size))
        assert pipeline.expected(VIEWS["without key"]) == pipeline.got()
        pipeline.truncate("e")


def test_a_column_that_a_source_gets_and_nobody_asks_for_changes_no_meaning() -> None:
    def meaning(used: str, **more: str) -> str:
        read = overwriting("e", "k", k="integer", x="bigint", **more)
        normalize = physical.Normalize(read, "rows", ("k",))
        body = physical.Map(normalize, tuple(output(normalize, name, name) for name in used))
        return meaning_of(physical.narrowed(physical.Graph(body), used), ["x"])

    assert meaning("x") == meaning("x", t="text") == meaning("x", t="text", u="text")
    assert meaning("xt", t="text") == meaning("xt", t="text", u="text")
    assert len({meaning("x", t="text"), meaning("xt", t="text"), meaning("xtu", t="text", u="text")}) == 3
    assert meaning("xu", t="text", u="text") != meaning("xtu", t="text", u="text")


def test_it_stands_on_rows_that_overwrite_each_other_alone() -> None:
    with pytest.raises(ValueError, match="upsert"):
        stateful(physical.Normalize(source("e", "retract", k="integer"), "rows", ("k",)))


@pytest.mark.parametrize(
    ("name", "read", "kept"),
    [
        ("by key or not", "kxt", None),
        ("without key", "kxta", "kxta"),
        ("filtered without key", "kxt", "kt"),
        ("one row", "kx", "kx"),
        ("whole", "kxtda", None),
    ],
)
def test_only_columns_that_are_used_are_read_and_kept(name: str, read: str, kept: str | None) -> None:
    body = view(VIEWS[name])
    used = physical.columns_read(physical.Graph(body), [column.name for column in physical.columns_of(body)])
    assert used == {"e": frozenset(read)}
    found = [each for each in physical.walk(body) if isinstance(each, physical.Normalize)]
    assert [each.kept for each in found] == ([] if kept is None else [tuple(kept)])
