"""One row per key is picked; the choice depends only on the current rows, not on their history."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import time
from itertools import permutations
from pathlib import Path

import pytest

from operators.pipeline import Change, Pipeline, Row, columns, source
from operators.test_aggregate import EVENT, changes
from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.operator.pick import CONFLICTS

PAIR = {"k": "integer", "v": "text"}
ARRAYS = {"k": "integer", "a": "text[]", "b": "text[]", "n": "integer_list_list", "t": "time[]"}
FLOATS = {"k": "integer", "v": "double_precision[]", "n": "real_list_list"}
TEXTS = [None, (), (None,), (None, None), ("",), ("a",), ("a", None), (None, "a"), ("a", "a")]
LISTS = [None, (), ((),), (None,), ((1, 2),), ((1,), (2,)), ((1, 2), ()), ((), (1, 2)), ((1, None), (2,))]
TIMES = [None, (time(12),), (time(12), None)]
UPDATES: list[tuple[Row, Row]] = [
    *(((old, ("b",), None, None), (new, ("b",), None, None)) for old, new in permutations(TEXTS, 2)),
    *(((None, None, old, None), (None, None, new, None)) for old, new in permutations(LISTS, 2)),
    *(((None, None, None, old), (None, None, None, new)) for old, new in permutations(TIMES, 2)),
    ((("a",), (), None, None), ((), ("a",), None, None)),
]
"""Pairs of an old and a new row with arrays; all rows are distinct."""


def pick(key: tuple[str, ...] = ("k",), **types: str) -> physical.Pick:
    return physical.Pick(source("e", "retract", **(types or PAIR)), "picked", key)


def live(pipeline: Pipeline, *key: int) -> dict[Row, set[Row]]:
    """Return the current rows by key."""
    found: dict[Row, set[Row]] = defaultdict(set)
    for row, count in pipeline.inputs["e"].items():
        if count:
            found[tuple(row[place] for place in key)].add(row)
    return found


def conflicting(pipeline: Pipeline) -> int:
    return state.sum_notes(state.load(pipeline.folder, pipeline.manifests[-1]), CONFLICTS)


def check_updates(pipeline: Pipeline) -> None:
    """Insert the old rows of `UPDATES`, update them, and check that each key shows its new row."""
    pipeline.batch(e=[((k, *old), 1) for k, (old, _) in enumerate(UPDATES)])
    pipeline.batch(e=[change for k, (old, new) in enumerate(UPDATES) for change in (((k, *old), -1), ((k, *new), 1))])
    assert pipeline.got() == +pipeline.inputs["e"]


def check_floats(pipeline: Pipeline) -> None:
    """Delete a row by an equal row whose arrays contain the zero of the opposite sign."""
    pipeline.batch(e=[((1, (0.0, None), ((0.0,), None)), 1)])
    pipeline.batch(e=[((1, (-0.0, None), ((-0.0,), None)), -1)])
    assert pipeline.got() == Counter()


def check(pipeline: Pipeline, *key: int) -> None:
    """Check that each key shows one of its rows, and that keys with several rows are counted."""
    expected, got = live(pipeline, *key), pipeline.got()
    assert Counter(expected.keys()) == Counter(tuple(row[place] for place in key) for row in got.elements())
    assert [row for row in got if row not in expected[tuple(row[place] for place in key)]] == []
    assert sum(len(rows) > 1 for rows in expected.values()) == conflicting(pipeline)


@pytest.mark.share(6)
@pytest.mark.parametrize("buckets", [1, 2, 3])
@pytest.mark.parametrize("key", [("k",), ("g", "k"), ("x", "m", "t", "n")])
def test_each_key_shows_one_of_its_rows_after_every_batch(key: tuple[str, ...], buckets: int, tmp_path: Path) -> None:
    rng = random.Random(f"{key}{buckets}")
    pipeline = Pipeline(tmp_path / "s", pick(key, **EVENT), buckets=buckets)
    places = [list(EVENT).index(name) for name in key]
    most = 0
    for size in (0, 3, 0, 12, 1, 20, 30, 5, 8, 2, 40, 1):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=True))
        check(pipeline, *places)
        most = max(most, conflicting(pipeline))
    assert pipeline.merged > 0
    assert most > 0
    # the pick depends only on the current rows, not on their history or the buckets
    again = Pipeline(tmp_path / "again", pick(key, **EVENT), buckets=2)
    again.batch(e=[(row, count) for row, count in pipeline.inputs["e"].items() if count])
    assert again.got() == pipeline.got()
    pipeline.batch(e=[(row, -count) for row, count in pipeline.inputs["e"].items() if count])
    assert pipeline.got() == Counter()
    pipeline.batch(e=changes(rng, pipeline.inputs["e"], 9, retract=True))
    check(pipeline, *places)


def test_same_batch_again_picks_the_same(tmp_path: Path) -> None:
    rng = random.Random("again")
    pipeline = Pipeline(tmp_path, pick())
    for _ in range(5):
        rows: list[Change] = [((rng.randint(0, 3), rng.choice("abcdef")), 1) for _ in range(10)]
        pipeline.offer(e=rows)
        first, _ = pipeline.attempt()
        rng.shuffle(rows)
        pipeline.readers["e"].batches[-1] = rows
        second, name = pipeline.attempt()
        assert sorted(first) == sorted(second)
        pipeline.commit(second, name)
        check(pipeline, 0)


def test_only_what_shows_is_told_of(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, pick())
    pipeline.batch(e=[((1, "a"), 2), ((1, "b"), 1), ((None, "n"), 1)])
    (shown,) = (row for row in pipeline.got() if row[0] == 1)
    other = (1, "b") if shown == (1, "a") else (1, "a")
    hidden = [(other, -pipeline.inputs["e"][other])]
    for batch in (hidden, [(other, 1)], [(shown, 1)], [((2, "c"), 1), ((2, "c"), -1)]):
        pipeline.offer(e=batch)
        found, name = pipeline.attempt()
        assert found == []
        pipeline.commit(found, name)
    pipeline.offer(e=[(shown, -pipeline.inputs["e"][shown])])
    found, name = pipeline.attempt()
    assert sorted(found) == sorted([(*shown, -1), (*other, 1)])


def test_row_taken_back_that_was_never_there_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, pick())
    pipeline.batch(e=[((1, "a"), 1), ((1, "b"), 1)])
    pipeline.readers["e"].batches.append([((1, "a"), -2), ((1, "b"), 1)])
    with pytest.raises(SinkqlError, match='rows by key "picked"') as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"
    assert caught.value.detail == "row (1, 'a')"


def test_update_within_an_array_shows(tmp_path: Path) -> None:
    check_updates(Pipeline(tmp_path, pick(("k",), **ARRAYS)))


def test_zeros_in_arrays_are_one_value(tmp_path: Path) -> None:
    check_floats(Pipeline(tmp_path, pick(("k",), **FLOATS)))


def test_pick_of_nothing_is_nothing(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, pick())
    pipeline.batch(e=[])
    pipeline.batch(e=[])
    assert pipeline.got() == Counter()
    assert conflicting(pipeline) == 0


def test_columns_and_change_of_a_pick() -> None:
    operator = pick()
    assert physical.columns_of(operator) == columns(**PAIR)
    assert physical.change_of(operator) == "retract"
    assert [type(each).__name__ for each in physical.walk(operator)] == ["Read", "Pick"]
