"""The counter returns the same rows for any range of ticks; the clock decides how many ticks there are."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Size
from sinkql.connectors.generator.reader import GeneratorReader
from sinkql.errors import SinkqlError


def _reader(**changes: Any) -> GeneratorReader:
    settings: dict[str, Any] = {
        "tick_ms": 1000, "up_to": None, "rows_per_second": None, "max_cardinality": None, "first": 0
    }  # fmt: skip
    return GeneratorReader.from_options("s", "LOAD GENERATOR COUNTER", settings | changes)


def _since(seconds: float, count: int = 0) -> Offsets:
    return {"count": count, "since": int((time.time() - seconds) * 1000)}


def _rows(reader: GeneratorReader, start: int, end: int) -> list[dict[str, int]]:
    splits = reader.splits({"count": start, "since": 0}, {"count": end, "since": 0})
    batches = [batch for split in splits for batch in reader.read(split, ReadCounts())]
    rows: list[dict[str, int]] = pa.Table.from_batches(batches).to_pylist()
    return rows


def test_ranges_put_together_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.generator.reader._SPLIT_ROWS", 7)
    reader = _reader(first=100)
    whole = [row["counter"] for row in _rows(reader, 0, 50)]
    assert whole == list(range(101, 151))
    assert whole == [row["counter"] for part in ((0, 13), (13, 50)) for row in _rows(reader, *part)]


@pytest.mark.parametrize(("cardinality", "size"), [(None, Size(50, 400)), (3, Size(100, 800))])
def test_the_size_of_a_batch_is_that_of_its_positions(cardinality: int | None, size: Size) -> None:
    reader = _reader(max_cardinality=cardinality)
    assert size == reader.size(reader.splits({"count": 0, "since": 0}, {"count": 50, "since": 0}))
    assert Size(0, 0) == reader.size([])


def test_with_a_cardinality_old_rows_go_as_new_ones_come() -> None:
    live: dict[int, int] = {}
    reader = _reader(max_cardinality=3)
    for start, end in ((0, 2), (2, 10)):
        for row in _rows(reader, start, end):
            live[row["counter"]] = live.get(row["counter"], 0) + row["$diff"]
    assert {number: count for number, count in live.items() if count} == {8: 1, 9: 1, 10: 1}


@pytest.mark.parametrize(("start", "end"), [(0, 2), (0, 3), (0, 4), (0, 100), (2, 4), (5, 7), (5, 8), (5, 50)])
def test_rows_that_come_and_go_in_one_batch_are_not_in_it(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int
) -> None:
    monkeypatch.setattr("sinkql.connectors.generator.reader._SPLIT_ROWS", 4)
    before, after = set(range(max(0, start - 3), start)), set(range(max(0, end - 3), end))
    expected = [(tick + 1, 1) for tick in after - before] + [(tick + 1, -1) for tick in before - after]
    found = [(row["counter"], row["$diff"]) for row in _rows(_reader(max_cardinality=3), start, end)]
    assert sorted(expected) == sorted(found)


def test_the_clock_says_how_many_ticks_there_are() -> None:
    hour = 3600
    assert _reader().latest(_since(hour), Limit(1 << 40))["count"] >= hour
    assert _reader(rows_per_second=50).latest(_since(hour), Limit(1 << 40))["count"] >= 50 * hour
    assert _reader(up_to=10).latest(_since(hour), Limit(1 << 40))["count"] == 10
    assert _reader().latest(_since(hour), Limit(7))["count"] == 7
    assert _reader(max_cardinality=2).latest(_since(hour), Limit(8))["count"] == 4
    assert _reader().latest(_since(-hour, count=5), Limit(8))["count"] == 5


def test_a_bounded_run_does_not_wait_for_the_clock_and_needs_an_end() -> None:
    start = _since(0)
    reader = _reader(up_to=20)
    target = reader.target(start)
    assert reader.latest(start, Limit(1 << 40), target)["count"] == 20
    with pytest.raises(SinkqlError) as error:
        _reader().target(start)
    assert error.value.code == "SQ2405"


def test_lag_is_the_age_of_the_oldest_tick_that_was_not_read() -> None:
    reader = _reader(up_to=100)
    assert 50 <= reader.lag(_since(100, count=49)) < 60
    assert reader.lag(_since(100, count=100)) == 0
    assert reader.lag(_since(0)) == 0
