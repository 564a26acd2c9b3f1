"""A task refuses impossible input, counts once even if it runs twice, and its reports are complete or ignored."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.pipeline import Pipeline, call, columns, source
from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulTask, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory


def totals(change: physical.Change = "retract", type_: str = "bigint") -> physical.Aggregate:
    calls = (call("s", "sum", "x", type_), call("d", "count", "x", "bigint", distinct=True))
    return physical.Aggregate(source("e", change, g="text", x="bigint"), "totals", columns(g="text"), calls, change)


def code_of(error: pytest.ExceptionInfo[SinkqlError]) -> str:
    return error.value.code


def arrangements(folder: Path, manifest: state.Manifest | None = None) -> Arrangements:
    return Arrangements(StateDirectory(folder), manifest or state.empty(bucketing="test", buckets=1), 1, "c")


def aggregate_task(aggregate: physical.Aggregate, held: Arrangements) -> StatefulTask:
    return task_of(stateful(aggregate), held, InputEvents())


def delivered(task: StatefulTask, rows: list[tuple[str, int, int]], **extra: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of (group, value, diff) as an engine delivers them."""
    schema = task.operator.preparation.delivered()
    data = {
        "$h1": [hash(group) for group, _, _ in rows],
        "$h2": [1 for _ in rows],
        "$k0": [group for group, _, _ in rows],
        "$count": [diff for _, _, diff in rows],
        "$n0": [diff for _, _, diff in rows],
        "$s0": [value * diff for _, value, diff in rows],
        "$v0": [value for _, value, _ in rows],
        "$r0": [hash((value, "row")) for _, value, _ in rows],
    }
    arrays = [pa.array(data[name]).cast(schema.field(name).type) for name in schema.names]
    batch = pa.record_batch(arrays, schema=schema)
    for name, value in extra.items():
        batch = batch.append_column(f"${name}", pa.array([value] * len(rows)))
    yield batch


def run(
    task: StatefulTask, rows: list[tuple[str, int, int]], words: list[object], *, bucket: int = 0, **extra: int
) -> list[tuple[Any, ...]]:
    batches = task(bucket, uuid.uuid4().hex, delivered(task, rows, **extra), words.append)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_task_run_twice_counts_once(tmp_path: Path) -> None:
    held = arrangements(tmp_path)
    words: list[object] = []
    task = aggregate_task(totals(), held)
    first = run(task, [("a", 5, 1), ("b", 7, 2)], words)
    second = run(task, [("b", 7, 2), ("a", 5, 1)], words)
    assert sorted(first) == sorted(second) == [("a", 5, 1, 1), ("b", 14, 1, 1)]
    runs = collect(words, {"totals": 1}).runs
    manifest = state.next_manifest(held.manifest, runs)
    assert [entry["rows"] for entry in manifest["arrangements"]["totals"]["0"]] == [2]
    later = aggregate_task(totals(), Arrangements(StateDirectory(tmp_path), manifest, 1, "d"))
    assert run(later, [("b", 7, -2)], words) == [("b", 14, 1, -1)]


def test_attempts_that_differ_are_refused(tmp_path: Path) -> None:
    held = arrangements(tmp_path)
    words: list[object] = []
    task = aggregate_task(totals(), held)
    run(task, [("a", 5, 1)], words)
    run(task, [("a", 6, 1)], words)
    with pytest.raises(SinkqlError) as caught:
        collect(words, {"totals": 1})
    assert code_of(caught) == "SQ3406"


def test_bucket_that_never_ran_is_noticed(tmp_path: Path) -> None:
    held = arrangements(tmp_path)
    words: list[object] = []
    run(aggregate_task(totals(), held), [("a", 5, 1)], words)
    with pytest.raises(SinkqlError) as caught:
        collect(words, {"totals": 2})
    assert code_of(caught) == "SQ3405"


def test_row_of_another_bucket_is_refused(tmp_path: Path) -> None:
    task = aggregate_task(totals(), arrangements(tmp_path))
    with pytest.raises(SinkqlError, match=r"received rows of buckets \[1\] in bucket 0") as caught:
        run(task, [("a", 5, 1)], [], b=1)
    assert code_of(caught) == "SQ3407"


@pytest.mark.parametrize(
    ("before", "rows"),
    [
        ([], [("a", 5, -1)]),
        ([("a", 5, 1)], [("a", 5, -2)]),
        ([("a", 5, 1)], [("a", 6, -1)]),
        ([("a", 5, 1), ("a", 6, 1)], [("a", 5, -2)]),
        ([("a", 5, 1), ("a", 6, 3)], [("a", 5, -2), ("a", 6, 1)]),
    ],
)
def test_row_taken_back_that_was_never_there_is_refused(before: Any, rows: Any, tmp_path: Path) -> None:
    held = arrangements(tmp_path)
    words: list[object] = []
    run(aggregate_task(totals(), held), before, words)
    manifest = state.next_manifest(held.manifest, collect(words, {"totals": 1}).runs)
    with pytest.raises(SinkqlError, match='aggregate "totals", bucket 0') as caught:
        run(aggregate_task(totals(), Arrangements(StateDirectory(tmp_path), manifest, 1, "d")), rows, words)
    assert code_of(caught) == "SQ3401"


def test_row_of_a_distinct_view_taken_back_that_was_never_there_is_refused(tmp_path: Path) -> None:
    below = source("e", "retract", g="text")
    pipeline = Pipeline(tmp_path, physical.Aggregate(below, "d", below.columns, (), "retract"))
    pipeline.batch(e=[(("a",), 2)])
    pipeline.readers["e"].batches.append([(("a",), -3)])
    with pytest.raises(SinkqlError, match='aggregate "d"') as caught:
        pipeline.attempt()
    assert code_of(caught) == "SQ3401"


@pytest.mark.parametrize("change", ["append", "retract"])
def test_zeros_come_out_positive(change: physical.Change, tmp_path: Path) -> None:
    below = source("e", change, d="double_precision", r="real")
    calls = (call("l", "min", "d", "double precision"), call("h", "max", "r", "real"))
    pipeline = Pipeline(tmp_path, physical.Aggregate(below, "z", below.columns, calls, change))
    pipeline.offer(e=[((-0.0, -0.0), 1), ((0.0, -0.0), 1)])
    rows, _ = pipeline.attempt()
    assert [[math.copysign(1, value) for value in row[:4]] for row in rows] == [[1.0] * 4]


@pytest.mark.parametrize("type_", ["bigint", "numeric(38,19)"])
def test_sum_that_does_not_fit_is_refused(type_: str, tmp_path: Path) -> None:
    held = arrangements(tmp_path)
    task = aggregate_task(totals(type_=type_), held)
    with pytest.raises(SinkqlError, match='sum out of range in aggregate "totals"') as caught:
        run(task, [("a", 2**62 + more, 1) for more in range(3)], [])
    assert code_of(caught) == "SQ3211"
    assert list((tmp_path / "state").rglob("*.arrow")) == []


def test_sum_that_overflows_only_on_the_way_is_exact(tmp_path: Path) -> None:
    task = aggregate_task(totals(), arrangements(tmp_path))
    rows = [("a", 2**62, 1), ("a", 2**62 + 1, 1), ("a", -(2**62), 1)]
    assert run(task, rows, []) == [("a", 2**62 + 1, 3, 1)]


def test_sum_of_38_digits_is_exact_and_39_are_refused(tmp_path: Path) -> None:
    below = source("e", "append", x="numeric(38,0)")
    view_ = physical.Aggregate(below, "sums", (), (call("s", "sum", "x", "numeric(38,0)"),), "append")
    pipeline = Pipeline(tmp_path, view_)
    nearly = Decimal("9" * 37 + "8")
    pipeline.batch(e=[((nearly,), 1)])
    pipeline.batch(e=[((Decimal(1),), 1)])
    assert {(Decimal("9" * 38),): 1} == pipeline.got()
    with pytest.raises(SinkqlError) as caught:
        pipeline.batch(e=[((Decimal(1),), 1)])
    assert code_of(caught) == "SQ3211"


def test_float_sum_over_retractions_is_refused() -> None:
    below = source("e", "retract", x="double_precision")
    with pytest.raises(ValueError, match="over an input with retractions"):
        stateful(physical.Aggregate(below, "s", (), (call("s", "sum", "x", "double precision"),), "retract"))


def test_float_sum_over_appends_keeps_the_specials(tmp_path: Path) -> None:
    below = source("e", "append", g="integer", x="double_precision")
    calls = (call("s", "sum", "x", "double precision"), call("d", "count", "x", "bigint", distinct=True))
    pipeline = Pipeline(tmp_path, physical.Aggregate(below, "s", columns(g="integer"), calls, "append"))
    for value in (0.5, 0.25, float("inf"), 1.0, float("-inf")):
        pipeline.batch(e=[((1, value), 1), ((2, None), 1), ((3, 1.5), 1)])
        assert pipeline.expected("SELECT g, sum(x), count(DISTINCT x) FROM e GROUP BY g") == pipeline.got()
