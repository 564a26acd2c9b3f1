"""After every batch, a join's table equals the result of the view's SQL, whatever changed on either side.

Each insert that a join emits is a row of the new result, and each delete a row of the old one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from operators.joined import (
    CASES,
    CHAIN,
    FIRST,
    NO_KEY,
    RETRACT,
    SECOND,
    TYPED,
    TYPES,
    WITH_ITSELF,
    Case,
    batch,
    chain,
    changes,
    of_type,
    typed,
    with_itself,
)
from operators.nested import nested, within
from operators.pipeline import Change, Pipeline, Row, output, plain, source
from operators.test_state import digests
from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.lowering.fused_join import fuse_joins
from sinkql.row_hash import Hashes
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.join import ROWS
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory
from sinkql.storage.consolidate import consolidate
from support.arrow_memory import most_of
from support.hashes import KEY, hashes_as

MASKS = (-1, -1, 7 << 60, 1 << 40)
"""Masks for h1 of a key; with the last two, most keys collide."""


@contextmanager
def colliding(mask: int) -> Iterator[None]:
    """Mask the keys' h1 so that keys collide."""

    def masked(domain: int, _: list[Any], upper: Hashes, lower: Hashes) -> tuple[Hashes, Hashes]:
        return upper & np.uint64(mask % 2**64) if domain == KEY else upper, lower

    with hashes_as(masked):
        yield


@contextmanager
def told() -> Iterator[list[pa.Table]]:
    """Collect the changes before consolidation."""
    found: list[pa.Table] = []

    def kept(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        if batches:
            found.append(pa.Table.from_batches(batches))
        return consolidate(batches)

    with patch("sinkql.runtime.local.batch.consolidate", kept):
        yield found


def check(case: Case, folder: Path, seed: str, sizes: tuple[int, ...]) -> None:
    """Run batches of random changes; check the table and the emitted changes after each."""
    rng = random.Random(seed)
    pipeline = Pipeline(folder, case.view)
    with colliding(rng.choice(MASKS)), told() as tables:
        for size in sizes:
            before = pipeline.got()
            tables.clear()
            pipeline.truncate(*(name for name in case.latest if rng.random() < 0.2))
            pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], case, size))
            expected = pipeline.expected(case.sql)
            assert expected == pipeline.got()
            assert transient(tables, before, expected) == []


def check_nested(folder: Path, seed: str, sizes: tuple[int, ...]) -> None:
    """Do the same as `check` for nested joins, which all run in the last join's tasks."""
    rng = random.Random(seed)
    names = "pqtu"[: rng.choice([3, 3, 4])]
    tree, part = nested(rng, names)
    assert within(part.operator) == len(names) - 2
    pipeline = Pipeline(folder, part.operator)
    with colliding(rng.choice(MASKS)), told() as tables:
        for size in sizes:
            before = pipeline.got()
            tables.clear()
            latest = (name for name, change in tree.changes.items() if change == "upsert")
            pipeline.truncate(*(name for name in latest if rng.random() < 0.2))
            pipeline.batch(**tree.batch(pipeline.inputs, size))
            expected = pipeline.expected(part.sql)
            assert expected == pipeline.got(), part.sql
            assert transient(tables, before, expected) == []


def transient(tables: list[pa.Table], before: Counter[Row], after: Counter[Row]) -> list[tuple[Row, int]]:
    """Return changes of rows that belong to neither the old nor the new result."""
    rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    changes = [(plain(row), diff) for *row, diff in rows]
    return [(row, diff) for row, diff in changes if not (after if diff > 0 else before)[row]]


@pytest.mark.share(6)
@pytest.mark.parametrize("name", CASES)
def test_after_every_batch_a_join_is_what_its_sql_gives(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path, name, (4, 12, 0, 20, 1, 8, 15))


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(20))
def test_after_every_batch_joins_in_one_task_are_what_their_sql_gives(seed: int, tmp_path: Path) -> None:
    check_nested(tmp_path, f"nested {seed}", (4, 9, 0, 6, 8))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(400))
def test_over_many_histories_joins_in_one_task_are_what_their_sql_gives(seed: int, tmp_path: Path) -> None:
    check_nested(tmp_path, f"many {seed}", (10, 25, 5, 40, 0, 15))


def test_ten_full_joins_keep_each_row_once_and_give_one_old_row_and_one_new_one_of_a_key(tmp_path: Path) -> None:
    view, sql = _full("abcdefghij")
    pipeline = Pipeline(tmp_path, fuse_joins(physical.Graph(view)).root)
    rows = {name: [((key, key), 1) for key in range(4)] for name in "abcdefghij"}
    with told() as tables:
        for name in "abcdefghij":
            pipeline.batch(**{name: rows[name]})
        tables.clear()
        pipeline.batch(**{name: [((1, 1), -1), ((1, 2), 1)] for name in "bdj"})
        assert pipeline.expected(sql) == pipeline.got()
        assert sorted(row["$diff"] for row in tables[0].to_pylist()) == [-1, 1]
    held = [sum(run["rows"] for runs in each.values() for run in runs) for each in pipeline.entries().values()]
    assert len(held) == 10
    assert all(4 <= rows <= 6 for rows in held)


def _full(names: str) -> tuple[physical.Operator, str]:
    """Return full joins of sources with USING."""
    view: physical.Operator = source(names[0], "retract", **{f"k{names[0]}": "integer", f"x{names[0]}": "integer"})
    key, sql = f"k{names[0]}", names[0]
    for name in names[1:]:
        read = source(name, "retract", **{f"k{name}": "integer", f"x{name}": "integer"})
        shown = tuple(each.name for each in physical.columns_of(view))
        left = physical.Side(view, f"{name}-l", (key,), shown)
        right = physical.Side(read, f"{name}-r", (f"k{name}",), (f"k{name}", f"x{name}"))
        join = physical.Join("full", left, right, name, (False,))
        outputs = [output(join, each, each) for each in (*shown, f"k{name}", f"x{name}")]
        view = physical.Map(join, (*outputs, output(join, f"u{name}", f"coalesce({key}, k{name})")))
        sql = f"(SELECT *, coalesce({key}, k{name}) AS u{name} FROM {sql} FULL JOIN {name} ON {key} = k{name})"
        key = f"u{name}"
    return view, f"SELECT * FROM {sql}"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_over_many_histories_a_join_is_what_its_sql_gives(seed: int, tmp_path: Path) -> None:
    for name, case in CASES.items():
        check(case, tmp_path / name, f"{name} {seed}", (10, 25, 5, 40, 0, 15, 30, 10, 20, 5))


def test_a_join_of_a_join_and_a_group_is_what_its_sql_gives(tmp_path: Path) -> None:
    rng = random.Random("chain")
    pipeline = Pipeline(tmp_path, chain())
    for size in (5, 12, 0, 8, 3):
        pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], Case("full"), size))
        assert pipeline.expected(CHAIN) == pipeline.got()


@pytest.mark.parametrize("change", ["append", "retract", "upsert"])
def test_sides_that_keep_the_same_rows_keep_them_once(change: physical.Change, tmp_path: Path) -> None:
    rng = random.Random(change)
    view = with_itself(change)
    pipeline = Pipeline(tmp_path, view)
    for size in (5, 12, 0, 8, 3, 9):
        pipeline.batch(l=changes(rng, pipeline.inputs["l"], size, change))
        assert pipeline.expected(WITH_ITSELF) == pipeline.got()
    assert isinstance(view, physical.Join)
    assert pipeline.entries().keys() == {view.left.arrangement, view.right.arrangement}


@pytest.mark.parametrize("type_", TYPES)
def test_keys_of_every_type_meet_as_values(type_: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, of_type(type_))
    left, right = typed(type_)
    pipeline.batch(l=left)
    pipeline.batch(r=right)
    assert pipeline.expected(TYPED) == pipeline.got()
    pipeline.batch(l=[(row, -1) for row, _ in left[::2]], r=[(row, -1) for row, _ in right[::2]])
    assert pipeline.expected(TYPED) == pipeline.got()


@pytest.mark.parametrize("kind", ["inner", "left", "full", "semi", "anti"])
def test_a_row_taken_back_that_was_never_there_is_refused(kind: physical.JoinKind, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, Case(kind).view)
    pipeline.batch(l=[((1, 1, "a"), 1)], r=[((1, "b", 2), 1), ((None, "b", 2), 1)])
    wrong: dict[str, list[Change]] = {"l": [((1, 1, "a"), -2)], "r": [((1, "b", 2), -2)]}
    for name, rows in wrong.items():
        for each in "lr":
            pipeline.readers[each].batches.append(rows if each == name else [])
        with pytest.raises(SinkqlError, match=r'join "j", bucket [01]') as caught:
            pipeline.attempt()
        assert caught.value.code == "SQ3401"


def test_beside_a_replicated_side_the_rows_of_one_key_are_in_all_buckets(tmp_path: Path) -> None:
    case = CASES["inner beside a replicated side"]
    pipeline = Pipeline(tmp_path, case.view, buckets=4)
    pipeline.batch(l=[((1, number, "a"), 1) for number in range(80)], r=[((1, "b", 2), 1), ((2, "b", 2), 1)])
    assert pipeline.expected(case.sql) == pipeline.got()
    held = {
        name: [sum(run["rows"] for run in runs) for _, runs in sorted(buckets.items())]
        for name, buckets in pipeline.entries().items()
    }
    assert sum(held["j-l"]) == 80
    assert all(held["j-l"])
    assert held["j-r"] == [2, 2, 2, 2]


def test_fewer_rows_than_none_on_a_replicated_side_are_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, CASES["anti with a replicated side"].view)
    pipeline.batch(l=[((1, 1, "a"), 1)], r=[((1, "b", 2), 1)])
    pipeline.readers["l"].batches.append([])
    pipeline.readers["r"].batches.append([((1, "b", 2), -2)])
    with pytest.raises(SinkqlError) as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"


REFUSED = {
    "cannot be replicated": [
        Case("left", RETRACT, NO_KEY, replicated=FIRST),
        Case("right", RETRACT, NO_KEY, replicated=SECOND),
        Case("full", RETRACT, NO_KEY, replicated=SECOND),
        Case("semi", RETRACT, NO_KEY, replicated=FIRST),
        Case("anti", RETRACT, NO_KEY, replicated=FIRST),
        Case("left", replicated=FIRST),
        Case("full", replicated=SECOND),
        Case("inner", replicated=(True, True)),
        Case("inner", ("retract", "upsert"), replicated=SECOND),
        Case("inner", ("retract", "upsert"), replicated=FIRST),
    ],
    "one arrangement for several": [Case("inner", arrangements=("j-l", "j-l"))],
}


@pytest.mark.parametrize(("why", "case"), [(why, case) for why, cases in REFUSED.items() for case in cases])
def test_a_join_that_would_give_false_rows_is_refused(why: str, case: Case) -> None:
    with pytest.raises(ValueError, match=why):
        stateful(case.view)


def test_the_latest_rows_are_kept_by_their_key_alone_and_without_unchanged_values() -> None:
    view = CASES["inner with the latest"].view
    read = view.right.input
    assert isinstance(read, physical.Read)
    nullable = tuple(physical.Column(each.name, each.type) for each in read.columns)
    others = {
        "not by its key": msgspec.structs.replace(view.right, key=("rs",)),
        "leaves values out": msgspec.structs.replace(view.right, input=msgspec.structs.replace(read, holes=True)),
        "which its input does not allow": msgspec.structs.replace(view.right, keeps="rows"),
        "key with NULL": msgspec.structs.replace(view.right, input=msgspec.structs.replace(read, columns=nullable)),
    }
    for why, side in others.items():
        kind: physical.JoinKind = "right" if "NULL" in why else "inner"
        with pytest.raises(ValueError, match=why):
            stateful(msgspec.structs.replace(view, kind=kind, right=side))


def test_a_key_with_null_goes_to_any_bucket_and_is_not_kept(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, Case("left").view, buckets=4)
    pipeline.batch(l=[((None, number, "a"), 1) for number in range(40)], r=[((None, "b", 1), 1)])
    assert pipeline.expected(Case("left").sql) == pipeline.got()
    assert all(not runs for buckets in pipeline.entries().values() for runs in buckets.values())


def test_changes_that_come_to_nothing_are_told_to_nobody(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, Case("full").view, buckets=1)
    pipeline.batch(l=[((1, 1, "a"), 1)], r=[((1, "b", 2), 1)])
    kept = pipeline.entries()
    with told() as tables:
        pipeline.batch(
            l=[((1, 2, "a"), 1), ((1, 2, "a"), -1), ((None, 2, "a"), 1), ((None, 2, "a"), -1)],
            r=[((2, "b", 2), 1), ((2, "b", 2), -1)],
        )
    assert [len(table) for table in tables if len(table)] == []
    assert kept == pipeline.entries()


@pytest.mark.parametrize(
    "name",
    ["full", "left of the latest with the latest", "inner of rows that only come", "anti with a replicated side"],
)
def test_a_batch_of_a_join_tried_again_in_another_order_gives_the_same(name: str, tmp_path: Path) -> None:
    rng, case = random.Random(name), CASES[name]
    pipeline = Pipeline(tmp_path, case.view, buckets=3)
    for size in (20, 12, 12):
        pipeline.offer(**batch(rng, [pipeline.inputs[each] for each in "lr"], case, size))
        first, other = pipeline.attempt()
        for each, change in zip("lr", case.changes, strict=True):
            if change != "upsert":
                rng.shuffle(pipeline.readers[each].batches[-1])
        again, manifest = pipeline.attempt()
        assert Counter(map(plain, first)) == Counter(map(plain, again))
        assert digests(tmp_path, other) == digests(tmp_path, manifest)
        pipeline.commit(again, manifest)


def test_a_hot_key_takes_memory_of_its_rows_and_not_of_the_pairs(tmp_path: Path) -> None:
    rows, changes = 100_000, 40
    operator = stateful(Case("inner").view)
    held = Arrangements(StateDirectory(tmp_path), state.empty(bucketing="test", buckets=1), 1, "c1")
    words: list[object] = []
    for _ in task_of(operator, held, InputEvents(), InputEvents())(
        0, "t", iter([_hot(operator, 1, rows)]), words.append
    ):
        pass
    manifest = state.next_manifest(held.manifest, collect(words, {"j": 1}).runs)
    task = task_of(operator, Arrangements(StateDirectory(tmp_path), manifest, 1, "c2"), InputEvents(), InputEvents())
    given = 0

    def work() -> None:
        nonlocal given
        for each in task(0, "t", iter([_hot(operator, 0, changes)]), words.append):
            assert len(each) <= ROWS
            given += len(each)

    size = _hot(operator, 1, rows).nbytes
    assert most_of(work) < 3 * size
    assert given == rows * changes


def _hot(operator: StatefulOperator, side: int, rows: int) -> pa.RecordBatch:
    """Return rows of one key as a task receives them."""
    schema = operator.preparation.delivered()
    own = {"$side": np.full(rows, side), "$r": np.arange(rows), "$diff": np.ones(rows, np.int64)}
    number = [str(each) for each in range(rows)]
    columns = {
        each.name: own.get(each.name, number if pa.types.is_string(each.type) else np.full(rows, 7)) for each in schema
    }
    return pa.record_batch([pa.array(columns[each.name], each.type) for each in schema], schema=schema)
