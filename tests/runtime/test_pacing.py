"""When a batch is due, and its end offsets."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pytest

from runtime.test_batch import open_loop
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Reader, Split
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.sink.control import pacing_orders
from support.running import counter, job


class Queue(Reader):
    """A reader of `rows` rows; like a busy source, it grows each time the end is read."""

    def __init__(self, rows: int, *, grows: int = 0) -> None:
        self.rows, self.grows = rows, grows

    def initial(self, *, at_end: bool) -> Offsets:
        return {"at": self.rows if at_end else 0}

    def target(self, start: Offsets) -> Offsets:
        return {"at": self.rows}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        self.rows += self.grows
        return {"at": min(self.rows if until is None else until["at"], start["at"] + limit.rows)}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        return []

    def read(self, split: Split, read_counts: ReadCounts) -> pa.RecordBatchReader:
        raise NotImplementedError


def _orders(*, interval_ms: int = 1000, max_rows: int = 100, target: int | None = None) -> PacingOrders:
    targets = {"q": {"at": target}} if target is not None else None
    return PacingOrders({"q": {"at": 0}}, timedelta(milliseconds=interval_ms), max_rows, targets)


def _at(number: int) -> dict[str, Offsets]:
    return {"q": {"at": number}}


def test_the_first_batch_is_due_one_interval_after_the_first_look() -> None:
    pacer = Pacer({"q": Queue(7)})
    assert [pacer.due(_orders(), now) for now in (5000, 5999, 6000)] == [False, False, True]


def test_a_window_in_which_nothing_came_is_followed_by_a_whole_one() -> None:
    pacer = Pacer({"q": Queue(7)})
    pacer.due(_orders(), 0)
    assert _at(7) == pacer.next_end(_at(7), _orders(), 1300)
    assert [pacer.due(_orders(), now) for now in (2299, 2300)] == [False, True]


def test_a_batch_cut_by_the_limit_is_followed_at_once() -> None:
    pacer = Pacer({"q": Queue(250)})
    pacer.due(_orders(), 0)
    assert _at(100) == pacer.next_end(_at(0), _orders(), 1000)
    assert pacer.due(_orders(), 1000)
    assert _at(200) == pacer.next_end(_at(100), _orders(), 1000)
    assert _at(250) == pacer.next_end(_at(200), _orders(), 1001)
    assert not pacer.due(_orders(), 1002)


@pytest.mark.parametrize("target", [None, 250])
def test_a_batch_reads_no_more_than_there_is_room_for(target: int | None) -> None:
    rooms = iter([Limit(30), Limit(0), None, Limit(1_000)])
    pacer = Pacer({"q": Queue(250)}, room=lambda: next(rooms))
    orders = _orders(target=target)
    assert pacer.due(orders, 0) is (target is not None)
    assert pacer.next_end(_at(0), orders, 1000) == _at(30)
    assert pacer.due(orders, 1000)
    assert pacer.next_end(_at(30), orders, 1001) == _at(31)
    assert pacer.next_end(_at(31), orders, 1002) == _at(131)
    assert pacer.next_end(_at(131), orders, 1003) == _at(231)


def test_two_sources_share_the_room() -> None:
    pacer = Pacer({"p": Queue(250), "q": Queue(250)}, room=lambda: Limit(31))
    orders = PacingOrders({"p": {"at": 0}, "q": {"at": 0}}, timedelta(seconds=1), 100)
    assert pacer.next_end(orders.start, orders, 1000) == {"p": {"at": 15}, "q": {"at": 15}}


def test_a_source_that_grows_while_it_is_looked_at_is_not_cut() -> None:
    pacer = Pacer({"q": Queue(50, grows=3)})
    pacer.next_end(_at(0), _orders(), 1000)
    assert not pacer.cut


def test_a_clock_set_back_delays_a_batch_by_one_interval_at_most() -> None:
    pacer = Pacer({"q": Queue(7)})
    pacer.due(_orders(), 1_000_000)
    assert not pacer.due(_orders(), 5000)
    assert pacer.due(_orders(), 6000)


def test_a_run_with_targets_waits_for_no_interval_and_stops_there() -> None:
    pacer = Pacer({"q": Queue(1000)})
    orders = _orders(target=150)
    assert pacer.due(orders, 0)
    assert [_at(100), _at(150), _at(150)] == [pacer.next_end(_at(at), orders, 0) for at in (0, 100, 150)]


def test_the_limit_of_a_batch_is_shared_by_its_sources() -> None:
    pacer = Pacer({"q": Queue(1000), "r": Queue(1000)})
    start = {"q": {"at": 0}, "r": {"at": 0}}
    assert pacer.next_end(start, _orders(), 0) == {"q": {"at": 50}, "r": {"at": 50}}


@pytest.mark.parametrize(
    ("execution", "interval_ms", "paced_ms"),
    [("AUTO", 200, 200), ("AUTO", 5000, 5000), ("SPARK", 200, 1000), ("SPARK", 5000, 5000)],
)
def test_a_job_that_is_sparks_commits_once_a_second_at_most(
    tmp_path: Path, execution: Literal["AUTO", "SPARK"], interval_ms: int, paced_ms: int
) -> None:
    made = job(counter(), tmp_path, interval_ms=interval_ms, execution=execution)
    loop = open_loop(made, tmp_path)
    loop.start(epoch=1)
    assert timedelta(milliseconds=paced_ms) == pacing_orders(loop).commit_interval == loop.maintenance.interval()
    later = timedelta(milliseconds=300)
    loop.job = msgspec.structs.replace(loop.job, commit_interval=later, execution="AUTO")
    assert later == pacing_orders(loop).commit_interval == loop.maintenance.interval()
