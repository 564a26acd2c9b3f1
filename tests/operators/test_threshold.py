"""Comparisons with one moving value: the rows equal the SQL's, and only rows between the old and new value are read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from operators.pipeline import Change, Pipeline, Row, source
from operators.test_bound import check_rule
from operators.test_join import told
from sinkql import logical, physical
from sinkql.errors import SinkqlError
from sinkql.lowering.join_input import prepare
from sinkql.runtime.state.ordered_run import OrderedRuns

VALUES: dict[str, list[Any]] = {
    "integer": [-(2**31), -1, 0, 1, 7, 2**31 - 1],
    "bigint": [-(2**63), 0, 1, 2**63 - 1],
    "double precision": [float("-inf"), -0.0, 0.0, 1.5, float("inf"), float("nan")],
    "numeric(10,2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99")],
    "numeric(38,6)": [Decimal(f"{n}e-6") for n in (-(10**37), -1, 0, 1, 2**64, 10**37, 10**37 + 1, 10**37 + 2)],
    "text": ["", "a", "abcdefgh", "abcdefgh1", "abcdefgh2", "abcdefg\x00", "ä", "z"],
    "timestamp": [datetime(2020, 1, 1) + timedelta(microseconds=n) for n in (-1, 0, 1, 10**12)],
    "boolean": [False, True],
}
COMPARISONS: tuple[logical.Comparison, ...] = ("<", "<=", ">", ">=")


def beyond(type_: str, comparison: logical.Comparison, change: physical.Change = "retract") -> physical.Join:
    left, right = source("l", change, x=type_, n="integer"), source("r", "retract", m=type_)
    sides = (
        physical.Side(left, "b-l", (), ("x", "n")),
        physical.Side(right, "b-r", (), ("m",), replicated=True),
    )
    return physical.Join("semi", *sides, "b", (), physical.Compared("x", comparison, "m"))


def expected(pipeline: Pipeline, comparison: str) -> Counter[Row]:
    # CASE keeps the comparison out of Arrow's scan, which does not order NaN
    test = f"x {comparison} (SELECT max(m) FROM r)"
    return pipeline.expected(f"SELECT x, n FROM l WHERE CASE WHEN {test} THEN true END")


def changes(rng: random.Random, pipeline: Pipeline, values: list[Any], size: int) -> dict[str, list[Change]]:
    """Return changes of the rows and of the value, which may also change within a batch."""
    live = pipeline.inputs["l"]
    left: list[Change] = [
        ((rng.choice([*values, None]), rng.randint(0, 3)), rng.choice([1, 1, 2])) for _ in range(size)
    ]
    if pipeline.reads["l"].change == "retract":
        left += [(row, -rng.randint(1, count)) for row, count in live.items() if count and rng.random() < 0.3]
    else:
        left = [(row, 1) for row, _ in left]
    rng.shuffle(left)
    right: list[Change] = []
    if rng.random() < 0.7:
        right = [(row, -count) for row, count in pipeline.inputs["r"].items() if count]
        right += [((rng.choice([*values, None]),), 1)] if rng.random() < 0.85 else []
        if rng.random() < 0.2:
            right += [((values[0],), 1), ((values[0],), -1)]
    return {"l": left, "r": right}


@pytest.mark.share(16)
@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize("change", ["retract", "append"])
def test_what_shows_is_what_sql_says_wherever_the_value_goes(type_: str, change: Any, tmp_path: Path) -> None:
    rng = random.Random(f"{type_}{change}")
    shown = pieces = 0
    for comparison in COMPARISONS:
        pipeline = Pipeline(tmp_path / str(COMPARISONS.index(comparison)), beyond(type_, comparison, change))
        for number in range(7):
            before = pipeline.got()
            with told() as given:
                pipeline.batch(**changes(rng, pipeline, VALUES[type_], rng.choice([0, 5, 30])))
            after = expected(pipeline, comparison)
            assert pipeline.got() == after, (comparison, number)
            check_rule(given, before, after)
            shown += after.total()
        pieces += pipeline.pieces
    assert shown > 0
    assert pieces > 0 or type_ == "boolean"  # a boolean has only two keys


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that collects the number of stored rows read by each slice."""
    found: list[int] = []
    slices = OrderedRuns.slices

    def counted(self: OrderedRuns, low: int, high: int) -> Iterator[tuple[list[pa.Table], int, int]]:
        for tables, first, last in slices(self, low, high):
            found.append(sum(each.num_rows for each in tables))
            yield tables, first, last

    monkeypatch.setattr(OrderedRuns, "slices", counted)
    return found


@pytest.mark.parametrize(("comparison", "rows"), [(">", 10), (">=", 10), ("<", 10), ("<=", 10)])
def test_only_what_the_value_passes_is_read(
    comparison: logical.Comparison, rows: int, tmp_path: Path, read: list[int]
) -> None:
    pipeline = Pipeline(tmp_path, beyond("integer", comparison), buckets=1)
    pipeline.offer(l=[((number, number), 1) for number in range(1000)], r=[((500,), 1)])
    pipeline.commit(*pipeline.attempt())
    assert sum(read) == 0
    pipeline.offer(r=[((500,), -1), ((510,), 1)])
    given, state = pipeline.attempt()
    pipeline.commit(given, state)
    assert len(given) == sum(read) == rows
    assert pipeline.got() == expected(pipeline, comparison)
    pipeline.offer(l=[((number, number), 1) for number in range(1000, 1100)])
    pipeline.commit(*pipeline.attempt())
    assert sum(read) == rows
    assert pipeline.got() == expected(pipeline, comparison)


def test_what_the_value_passes_comes_in_parts(tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.runtime.state.ordered_run._AT_ONCE", 100)
    monkeypatch.setattr("sinkql.runtime.state.ordered_run._SAMPLED", 1)
    pipeline = Pipeline(tmp_path, beyond("integer", "<"), buckets=1)
    pipeline.offer(l=[((number, 0), 1) for number in range(1000)])
    pipeline.commit(*pipeline.attempt())
    pipeline.offer(l=[((7, 0), -1)], r=[((2000,), 1)])
    pipeline.commit(*pipeline.attempt())
    assert max(read) <= 200
    assert pipeline.got() == expected(pipeline, "<")
    assert pipeline.got().total() == 999


def test_a_row_that_goes_before_it_came_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, beyond("integer", ">"))
    pipeline.batch(l=[((5, 1), 1)])
    pipeline.readers["l"].batches.append([((5, 1), -2)])
    pipeline.readers["r"].batches.append([((1,), 1)])
    with pytest.raises(SinkqlError) as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"
    assert caught.value.detail == "row (5, 1)"


def test_a_second_value_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, beyond("integer", ">"))
    pipeline.offer(r=[((5,), 1), ((6,), 1)])
    with pytest.raises(SinkqlError, match='bound "b"') as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"


def test_what_cannot_be_compared_is_no_join() -> None:
    join = beyond("integer", ">")
    wrong = (
        msgspec.structs.replace(join, kind="anti"),
        msgspec.structs.replace(join, right=msgspec.structs.replace(join.right, replicated=False)),
        msgspec.structs.replace(join, compared=physical.Compared("y", ">", "m")),
    )
    for each in wrong:
        with pytest.raises(ValueError, match='"b"'):
            prepare(each)
