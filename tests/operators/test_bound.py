"""Temporal filters: at every tick the visible rows equal the SQL's, and state of expired rows is removed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import pipeline as pipeline_module
from operators.pipeline import Change, Pipeline, Row, call, columns, plain, source
from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.operator.protocol import Bucket
from sinkql.runtime.state.operator.temporal_filter import BoundState
from sinkql.runtime.state.ordered_run import DUE

ROW = {"b": "bigint", "e": "bigint", "x": "integer"}
SIDES = [("b", "e"), ("b", None), (None, "e")]
HOUR = 3_600_000


def bound(
    begin: str | None = "b",
    end: str | None = "e",
    *,
    change: physical.Change = "retract",
    kept: tuple[str, ...] = ("b", "e", "x"),
) -> physical.Bound:
    return physical.Bound(source("r", change, **ROW), "shown", begin, end, kept)


def shown(pipeline: Pipeline, begin: str | None, end: str | None, select: str = "b, e, x") -> Counter[Row]:
    """Return the SQL's result at the pipeline's time."""
    tests = [f"({begin} IS NULL OR {begin} <= {pipeline.now})"] if begin else []
    tests += [f"({end} IS NULL OR {pipeline.now} < {end})"] if end else []
    return pipeline.expected(f"SELECT {select} FROM r WHERE {' AND '.join(tests)}")


def due(pipeline: Pipeline) -> int | None:
    return state.min_note(state.load(pipeline.folder, pipeline.manifests[-1]), DUE)


def kept(pipeline: Pipeline, arrangement: str) -> int:
    """Return the number of rows in an arrangement's runs."""
    return sum(run["rows"] for runs in pipeline.entries()[arrangement].values() for run in runs)


def row_at(rng: random.Random, now: int) -> Row:
    begin = now + rng.choice([-30, -3, 0, 1, 3, 30]) + rng.randint(-1, 1)
    end = begin + rng.choice([-2, 0, 1, 5, 20, 300])
    return (rng.choice([begin, begin, begin, None]), rng.choice([end, end, end, None]), rng.randint(0, 3))


def changes(rng: random.Random, live: Counter[Row], now: int, size: int, *, retract: bool) -> list[Change]:
    found: list[Change] = [(row_at(rng, now), rng.choice([1, 1, 2]) if retract else 1) for _ in range(size)]
    if retract:
        found += [(row, -rng.randint(1, count)) for row, count in live.items() if count and rng.random() < 0.3]
    rng.shuffle(found)
    return found


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """Return a list that collects the output of each call of the operator."""
    found: list[pa.Table] = []
    apply = BoundState.apply

    def recorded(self: BoundState, rows: pa.Table, bucket: Bucket) -> pa.Table:
        found.append(apply(self, rows, bucket))
        return found[-1]

    monkeypatch.setattr(BoundState, "apply", recorded)
    return found


def check_rule(given: list[pa.Table], before: Counter[Row], after: Counter[Row]) -> None:
    """Check that each insert is a row of the new result, and each delete a row of the old one."""
    for table in given:
        for *row, diff in zip(*(column.to_pylist() for column in table.columns), strict=True):
            assert 0 < abs(diff) <= (after if diff > 0 else before)[plain(row)], (row, diff)


@pytest.mark.share(8)
@pytest.mark.parametrize(("begin", "end"), SIDES)
@pytest.mark.parametrize("change", ["append", "retract"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_what_shows_is_what_sql_says_at_each_time(
    begin: str | None, end: str | None, change: Any, buckets: int, tmp_path: Path, outputs: list[pa.Table]
) -> None:
    rng = random.Random(f"{begin}{end}{change}{buckets}")
    pipeline = Pipeline(tmp_path, bound(begin, end, change=change), buckets=buckets)
    pipeline.now = 1000
    gone = 0
    for number in range(24):
        before = pipeline.got()
        size = rng.choice([0, 0, 5, 20, 60])
        live = pipeline.inputs["r"]
        outputs.clear()
        pipeline.batch(r=changes(rng, live, pipeline.now, size, retract=change == "retract" and size > 0))
        expected = shown(pipeline, begin, end)
        assert pipeline.got() == expected, number
        check_rule(outputs, before, expected)
        gone += (before - expected).total()
        pipeline.now += rng.choice([0, 1, 2, 5, 40])
    assert pipeline.merged > 0
    assert pipeline.pieces > 0
    assert gone > 0 or (end is None and change == "append")


def test_a_row_shows_at_its_begin_and_no_more_at_its_end(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, bound())
    pipeline.now = 9
    pipeline.batch(r=[((10, 12, 1), 1), ((10, 10, 2), 1), ((9, 10, 3), 1), ((8, 9, 4), 1)])
    seen = []
    for now in range(9, 14):
        pipeline.now = now
        pipeline.batch()
        seen.append([row[2] for row in pipeline.got()])
    assert seen == [[3], [1], [1], [], []]


def test_the_least_time_to_come_is_noted(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, bound())
    assert due(pipeline) is None
    pipeline.now = 5
    pipeline.batch(r=[((10, 30, 1), 1), ((20, None, 2), 1), ((1, 4, 3), 1), ((25, 25, 4), 1), ((None, None, 5), 1)])
    times = []
    while (coming := due(pipeline)) is not None:
        assert coming > pipeline.now
        times.append(coming)
        pipeline.now = coming
        pipeline.batch()
    assert times == [10, 20, 30]
    assert kept(pipeline, "shown.later") == kept(pipeline, "shown.here") == 0


def test_what_is_taken_back_is_not_waited_for(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, bound(), buckets=1)
    pipeline.now = 5
    coming = [(10 + number, None, number) for number in range(400)]
    pipeline.batch(r=[(row, 1) for row in coming])
    assert due(pipeline) == 10
    pipeline.batch(r=[(row, -1) for row in coming[:70]])
    assert due(pipeline) == 80
    pipeline.batch(r=[(row, -1) for row in coming[70:]])
    assert due(pipeline) is None


def test_the_same_step_again_gives_the_same(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, bound())
    pipeline.now = 5
    pipeline.batch(r=[((10, 20, 1), 1), ((1, 7, 2), 1)])
    pipeline.now = 12
    pipeline.offer(r=[((11, 30, 3), 1)])
    (first, _), (second, name) = pipeline.attempt(), pipeline.attempt()
    assert sorted(first) == sorted(second) == [(1, 7, 2, -1), (10, 20, 1, 1), (11, 30, 3, 1)]
    pipeline.commit(second, name)
    assert pipeline.got() == shown(pipeline, "b", "e")


def test_rows_alike_in_what_is_kept_go_each_in_its_time(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, bound(kept=("x",)))
    pipeline.batch(r=[((None, 10, 1), 1), ((None, 20, 1), 2), ((5, 20, 1), 1), ((5, 30, 1), 1)])
    for now in (4, 5, 9, 10, 19, 20, 30):
        pipeline.now = now
        pipeline.batch()
        assert pipeline.got() == shown(pipeline, "b", "e", "x"), now


def test_a_row_that_goes_before_it_came_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, bound())
    pipeline.now = 5
    pipeline.batch(r=[((10, 20, 1), 1)])
    pipeline.readers["r"].batches.append([((10, 20, 1), -2)])
    pipeline.commit(*pipeline.attempt())
    pipeline.now = 10
    with pytest.raises(SinkqlError, match='rows by time "shown"') as caught:
        pipeline.batch()
    assert caught.value.code == "SQ3401"
    assert caught.value.detail == "row (10, 20, 1)"


def test_a_sliding_hour_keeps_the_hours_rows(tmp_path: Path) -> None:
    """Rows are late by up to five minutes; the aggregate keeps only the current hour's groups."""
    rng = random.Random("hour")
    count = (call("n", "count", None, "bigint"),)
    view = physical.Aggregate(bound(None, "e", kept=("x",)), "sums", columns(x="integer"), count, "retract")
    pipeline = Pipeline(tmp_path, view)
    most = 0.0
    for minute in range(0, 24 * 60, 15):
        pipeline.now = minute * 60_000
        ends = [pipeline.now - rng.randint(0, 300_000) + HOUR for _ in range(150)]
        pipeline.offer(r=[((None, end, minute), 1) for end in ends])
        pipeline.commit(*pipeline.attempt())
        if minute % 180 == 0:
            sql = f"SELECT x, count(*) FROM r WHERE {pipeline.now} < e GROUP BY x"
            assert pipeline.got() == pipeline.expected(sql)
        if minute > 60:
            most = max(most, kept(pipeline, "shown.here") / sum(row[1] for row in pipeline.got()))
    assert most <= 1.2
    assert kept(pipeline, "sums") < 30


@pytest.mark.spark
def test_in_spark_too(tmp_path: Path, spark: Any) -> None:
    from pyspark.cloudpickle import register_pickle_by_value

    from sinkql.runtime.spark.engine import SparkEngine

    register_pickle_by_value(pipeline_module)
    rng = random.Random("spark")
    pipeline = Pipeline(tmp_path, bound(), engine=SparkEngine(lambda: spark, buckets=2))
    pipeline.now = 1000
    for _ in range(4):
        pipeline.batch(r=changes(rng, pipeline.inputs["r"], pipeline.now, 30, retract=True))
        assert pipeline.got() == shown(pipeline, "b", "e")
        pipeline.now += 5
