"""With a short commit interval, snapshots and metadata files are kept by age: their number is only some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sinkql.connectors.iceberg.commit import maintenance
from sinkql.machine import clock
from sinkql.machine.clock import Clock
from support.lake import Lake, Sink

_RETAIN, _AT_ONCE, _YOUNG_S = 5, 3, 4.0
_METADATA = "write.metadata.previous-versions-max"


@dataclass
class _SetClock(Clock):
    """A clock that only moves when a test moves it."""

    at: float = 2_000_000_000.0

    def time_ns(self) -> int:
        return round(self.at * 1_000_000_000)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[_SetClock]:
    monkeypatch.setattr(maintenance, "_RETAIN", _RETAIN)
    monkeypatch.setattr(maintenance, "_AT_ONCE", _AT_ONCE)
    monkeypatch.setattr(maintenance, "_RETAIN_FOR", timedelta(seconds=_YOUNG_S))
    found = _SetClock()
    with clock.use(found):
        yield found


def _commit(sink: Sink, now: _SetClock, batches: range, *, apart: float, interval: timedelta | None) -> None:
    for batch in batches:
        now.at += apart
        sink.put((batch, "a"))
        sink.writer.maintenance.maintain(interval=interval)


def _ages(lake: Lake, name: str, now: _SetClock) -> list[float]:
    """Return the ages of the snapshots in seconds, the oldest first."""
    return sorted((now.at - each.timestamp_ms / 1000 for each in lake.table(name).metadata.snapshots), reverse=True)


@pytest.mark.parametrize(
    ("interval_ms", "apart", "kept"),
    [
        (200, 0.2, 20),
        pytest.param(100, 0.1, 40, marks=pytest.mark.soak),
        (2000, 0.1, _RETAIN),  # a backlog, in which the number of young snapshots is not bounded by the interval
        (200, 2.0, _RETAIN),
        (None, 0.1, _RETAIN),
    ],
)
def test_a_short_interval_keeps_as_many_snapshots_as_are_young(
    lake: Lake, name: str, now: _SetClock, interval_ms: int | None, apart: float, kept: int
) -> None:
    sink = Sink(lake, name)
    sink.start()
    interval = None if interval_ms is None else timedelta(milliseconds=interval_ms)
    _commit(sink, now, range(kept + 12), apart=apart, interval=interval)
    ages = _ages(lake, name, now)
    assert kept <= len(ages) < kept * 1.5 + _AT_ONCE
    assert ages[0] >= min(_YOUNG_S, kept * apart) - 2 * apart


def test_snapshots_expire_when_they_are_no_longer_young(lake: Lake, name: str, now: _SetClock) -> None:
    sink = Sink(lake, name)
    sink.start()
    interval = timedelta(milliseconds=200)
    _commit(sink, now, range(25), apart=0.2, interval=interval)
    assert len(_ages(lake, name, now)) >= 20
    now.at += _YOUNG_S
    _commit(sink, now, range(25, 26), apart=0.2, interval=interval)
    assert len(_ages(lake, name, now)) == _RETAIN


@pytest.mark.parametrize(
    ("options", "properties", "kept"),
    [({"retain_snapshots": 3}, {}, 3), ({}, {"history.expire.min-snapshots-to-keep": "4"}, 4)],
)
def test_a_number_that_users_set_holds_for_young_snapshots_too(
    lake: Lake, name: str, now: _SetClock, options: dict[str, Any], properties: dict[str, str], kept: int
) -> None:
    sink = Sink(lake, name, options=options)
    sink.start()
    with lake.table(name).transaction() as transaction:
        transaction.set_properties(properties)
    _commit(sink, now, range(15), apart=0.1, interval=timedelta(milliseconds=100))
    assert kept <= len(_ages(lake, name, now)) < kept + _AT_ONCE


@pytest.mark.parametrize(
    ("interval_ms", "properties", "most"),
    [(200, {}, "75"), (100, {}, "150"), (1000, {}, "20"), (200, {_METADATA: "7"}, "7"), (200, {_METADATA: "90"}, "90")],
)
def test_a_short_interval_keeps_more_metadata_files(
    lake: Lake, name: str, now: _SetClock, interval_ms: int, properties: dict[str, str], most: str
) -> None:
    sink = Sink(lake, name, options={"retain_snapshots": 3})
    sink.start()
    with lake.table(name).transaction() as transaction:
        transaction.set_properties(properties)
    interval = timedelta(milliseconds=interval_ms)
    _commit(sink, now, range(12), apart=interval.total_seconds(), interval=interval)
    assert most == lake.table(name).properties[_METADATA]


def test_old_metadata_files_are_deleted_after_the_larger_number(lake: Lake, name: str, now: _SetClock) -> None:
    sink = Sink(lake, name, options={"retain_snapshots": 3})
    sink.start()
    _commit(sink, now, range(45), apart=0.6, interval=timedelta(milliseconds=600))
    table = lake.table(name)
    files = list((lake.folder / "warehouse").rglob("*.metadata.json"))
    assert (len(table.metadata.metadata_log), len(files)) == (25, 26)
