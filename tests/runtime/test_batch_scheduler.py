"""Many sinks on a few workers: due batches run, and no sink waits for a slow, failing or idle sink."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from sinkql.connector_api.stream import JobOffsets, Limit, Offsets
from sinkql.runtime.batch import scheduler
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.batch.scheduler import BatchScheduler, ScheduledSink
from support.batch_worker import ThreadLane
from support.patience import PATIENCE_S, Deadline, joined, source_of

_LOOK_S = 0.01


@dataclass
class _Sink:
    """A sink of numbers up to `size`; `batches` are its committed batches."""

    size: int = 1_000_000
    looks: int = 0
    batches: list[tuple[int, int]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    gate: threading.Event | None = None
    looked: threading.Event = field(default_factory=threading.Event)
    slow: threading.Event | None = None
    error: Exception | None = None
    fails: bool = False
    further: int = 0
    tried: list[tuple[int, int]] = field(default_factory=list)

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        self.looks += 1
        self.looked.set()
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        return {"at": min(self.size, start["at"] + 1)}

    def process(self, start: JobOffsets, end: JobOffsets, more: bool) -> float | JobOffsets:
        batch = start["s"]["at"], end["s"]["at"]
        with self.changed:
            self.tried.append(batch)
            self.changed.notify_all()
        if self.slow is not None:
            assert self.slow.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        if self.fails:
            return 0.02
        with self.changed:
            self.batches.append((batch[0], batch[1] + self.further))
            self.changed.notify_all()
        return {"s": {"at": batch[1] + self.further}}

    def seat(self, *, interval_ms: int = 5) -> ScheduledSink:
        orders = PacingOrders({"s": {"at": 0}}, timedelta(milliseconds=interval_ms), 100)
        return ScheduledSink(Pacer({"s": self}), orders, self.process, threading.Event())

    def has(self, count: int) -> None:
        self._wait(lambda: len(self.batches) >= count)

    def tries(self, count: int) -> None:
        self._wait(lambda: len(self.tried) >= count)

    def _wait(self, enough: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(enough, PATIENCE_S)


@contextmanager
def _conductor(
    lanes: list[ThreadLane],
    *,
    most: int = 1,
    round_seconds: float = PATIENCE_S,
    tend_seconds: float = PATIENCE_S,
    slow_seconds: float = PATIENCE_S,
) -> Iterator[BatchScheduler]:
    def open_lane(round_: Callable[[], None]) -> ThreadLane:
        lanes.append(ThreadLane(round_))
        return lanes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "_CHECK_SECONDS", tend_seconds)
        patch.setattr(scheduler, "_SLOW_SECONDS", slow_seconds)
        found = BatchScheduler(open_lane, most, round_seconds=round_seconds)
        try:
            yield found
        finally:
            found.close()


def test_each_batch_begins_where_the_one_before_ended_and_one_call_is_for_many() -> None:
    lanes: list[ThreadLane] = []
    sinks = [_Sink() for _ in range(20)]
    with _conductor(lanes) as found:
        for sink in sinks:
            found.add(sink.seat())
        for sink in sinks:
            sink.has(5)
    for sink in sinks:
        assert [(at, at + 1) for at in range(len(sink.batches))] == sink.batches
    (lane,) = lanes
    assert lane.calls == 1


def test_no_thread_but_the_conductors_asks_how_lanes_are() -> None:
    lanes: list[ThreadLane] = []
    with _conductor(lanes) as found:
        found.add(_Sink().seat())
        (lane,) = lanes
        for _ in range(20):
            thread = threading.Thread(target=found.add, args=(_Sink().seat(),), daemon=True)
            thread.start()
            joined(thread)
        assert {thread.name for thread in lane.asked} == {"scheduler"}
        lane.broken = OSError("Java has ended")
        late = _Sink()
        found.add(late.seat())  # the worker that ended does not count
        late.has(1)
    assert len(lanes) == 2


def test_a_batch_that_went_on_further_is_followed_by_what_comes_after_it() -> None:
    sink = _Sink(further=3)
    with _conductor([]) as found:
        found.add(sink.seat())
        sink.has(3)
    assert sink.batches[:3] == [(0, 4), (4, 8), (8, 12)]


def test_a_round_that_is_over_is_followed_by_another() -> None:
    lanes: list[ThreadLane] = []
    sink = _Sink()
    with _conductor(lanes, round_seconds=0.02) as found:
        found.add(sink.seat())
        sink.has(10)
    assert lanes[0].calls > 1


def test_a_lane_is_left_until_its_sink_is_due_or_others_wait_for_one() -> None:
    sink, other = _Sink(slow=threading.Event()), _Sink()
    seat = sink.seat(interval_ms=1_800_000)
    seat.pacer.cut = True  # it is due immediately
    with _conductor([]) as found:
        found.add(seat)
        sink.tries(1)
        assert 0 < found.idle_seconds(seat) <= 1_800
        seat.pacer.cut = True
        assert found.idle_seconds(seat) == 0
        seat.pacer.cut = False
        assert found.idle_seconds(seat) > 0
        waiting = other.seat()
        found.add(waiting)
        assert other.looked.wait(PATIENCE_S)
        _until(found, lambda: waiting._state == "ready")
        assert found.idle_seconds(seat) == 0
        assert sink.slow is not None
        sink.slow.set()
        other.has(1)


def _until(found: BatchScheduler, holds: Callable[[], bool]) -> None:
    """Poll until a condition of the workers holds; the scheduler may not notify about it."""
    deadline = Deadline()
    while True:
        with found._changed:
            if holds():
                return
            assert deadline.left(), f"no {source_of(holds)}: {[each.state for each in found._pool.workers]}"
            found._changed.wait(_LOOK_S)


@dataclass
class _BacklogSink(_Sink):
    """A sink whose first three batches are cut by a limit; nothing else is due for half an hour.

    The third batch waits until `may` is set.
    """

    may: threading.Event = field(default_factory=threading.Event)

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        cut = until is None and len(self.batches) < 3
        return {"at": start["at"] + (2 if cut else 1)}

    def process(self, start: JobOffsets, end: JobOffsets, more: bool) -> float | JobOffsets:
        assert len(self.batches) != 2 or self.may.wait(PATIENCE_S)
        return super().process(start, end, more)

    def backlog(self) -> ScheduledSink:
        seat = self.seat(interval_ms=1_800_000)
        seat.pacer.cut = True  # it is due immediately
        return seat


@pytest.mark.parametrize(("ahead_seconds", "calls"), [(3600.0, 2), (60.0, 1)])
def test_a_lane_is_called_before_more_is_due_after_a_round_of_several_batches(
    ahead_seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_AHEAD_SECONDS", ahead_seconds)
    lanes: list[ThreadLane] = []
    sink = _BacklogSink()
    sink.may.set()
    with _conductor(lanes, round_seconds=61) as found:
        found.add(sink.backlog())
        sink.has(4)
        lanes[0].played(calls)
    assert [lane.calls for lane in lanes] == [calls]


def test_another_lane_is_there_before_a_round_of_several_batches_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_AHEAD_SECONDS", 3600.0)
    lanes: list[ThreadLane] = []
    sink = _BacklogSink()
    with _conductor(lanes, most=2) as found:
        found.add(sink.backlog())
        _until(
            found,
            lambda: (
                sorted(each.state for each in found._pool.workers) in (["running", "starting"], ["running", "waiting"])
            ),
        )
        sink.may.set()
        sink.has(4)
    assert len(lanes) == 2


def test_no_lane_is_called_where_nothing_is_new() -> None:
    lanes: list[ThreadLane] = []
    sink, other = _Sink(size=0), _Sink(size=1)
    with _conductor(lanes, round_seconds=0.01) as found:
        found.add(sink.seat())
        found.add(other.seat())
        other.has(1)
        for each in (sink, other):
            each.looked.clear()
            assert each.looked.wait(PATIENCE_S)
    assert (sink.batches, other.batches) == ([], [(0, 1)])
    assert lanes[0].calls == 1


def test_a_source_that_does_not_answer_delays_no_other_sink_and_is_left() -> None:
    lanes: list[ThreadLane] = []
    hung, fine = _Sink(gate=threading.Event()), _Sink()
    assert hung.gate is not None
    with _conductor(lanes) as found:
        seat = hung.seat()
        found.add(seat)
        assert hung.looked.wait(PATIENCE_S)
        found.add(fine.seat())
        fine.has(5)
        assert seat.error is None
        found.remove(seat)
        hung.gate.set()
        fine.has(len(fine.batches) + 5)
    assert hung.batches == []


def test_a_sink_that_fails_for_ever_holds_no_lane_and_tries_the_same_batch_again() -> None:
    failing, fine = _Sink(fails=True), _Sink()
    with _conductor([]) as found:
        seat = failing.seat()
        found.add(seat)
        failing.tries(3)
        found.add(fine.seat())
        fine.has(5)
        failing.fails = False
        failing.has(2)
        assert seat.error is None
    assert failing.batches[:2] == [(0, 1), (1, 2)]
    assert set(failing.tried) == set(failing.batches)
    assert failing.looks <= 2 * (len(failing.batches) + 2), "a retry looked for new data"


def test_a_slow_sink_holds_one_lane_and_no_more_are_opened_than_may_be() -> None:
    lanes: list[ThreadLane] = []
    opened = threading.Event()
    slow, others = _Sink(slow=opened), [_Sink() for _ in range(4)]
    with _conductor(lanes, most=2) as found:
        found.add(slow.seat())
        slow.tries(1)
        for sink in others:
            found.add(sink.seat())
        for sink in others:
            sink.has(3)
        assert slow.batches == []
        opened.set()
        slow.has(2)
    assert len(lanes) == 2


def test_batches_that_take_long_leave_the_others_as_many_lanes() -> None:
    lanes: list[ThreadLane] = []
    opened = threading.Event()
    slow, fine = [_Sink(slow=opened) for _ in range(3)], _Sink()
    with _conductor(lanes, most=1, tend_seconds=0.01, slow_seconds=0.01) as found:
        for sink in slow:
            found.add(sink.seat())
        for sink in slow:
            sink.tries(1)
        found.add(fine.seat())
        fine.has(3)
        assert [sink.batches for sink in slow] == [[], [], []]
        assert len(lanes) == 4
        opened.set()


def test_leaving_waits_for_the_batch_that_runs_and_none_begins_after_it() -> None:
    opened = threading.Event()
    sink, other = _Sink(slow=opened), _Sink()
    with _conductor([]) as found:
        seat = sink.seat()
        found.add(seat)
        sink.tries(1)
        leaving = threading.Thread(target=found.remove, args=(seat,), daemon=True)
        leaving.start()
        leaving.join(0.05)
        assert leaving.is_alive()
        opened.set()
        joined(leaving)
        assert sink.batches == [(0, 1)]
        found.add(other.seat())
        other.has(5)
    assert sink.tried == [(0, 1)]


def test_what_a_batch_raises_ends_its_seat_alone() -> None:
    error = ValueError("not a number")
    broken, fine = _Sink(error=error), _Sink()
    with _conductor([]) as found:
        seat = broken.seat()
        found.add(fine.seat())
        found.add(seat)
        assert seat.wake.wait(PATIENCE_S)
        assert seat.error is error
        found.remove(seat)
        fine.has(len(fine.batches) + 5)
    assert len(broken.tried) == 1


def test_another_interval_holds_at_once() -> None:
    sink = _Sink()
    with _conductor([]) as found:
        seat = sink.seat(interval_ms=round(PATIENCE_S * 1000))
        found.add(seat)
        assert sink.looks == 0
        found.reschedule(seat, PacingOrders({"s": {"at": 0}}, timedelta(milliseconds=1), 100))
        sink.has(3)


def test_sinks_hear_of_a_lane_that_failed_and_may_come_back() -> None:
    lanes: list[ThreadLane] = []
    sink = _Sink(size=1)
    with _conductor(lanes, tend_seconds=0.01, round_seconds=0.01) as found:
        seat = sink.seat()
        found.add(seat)
        sink.has(1)
        lanes[0].broken = error = RuntimeError("Java ended")
        assert seat.wake.wait(PATIENCE_S)
        assert seat.error is error
        again = sink.seat()
        found.add(again)
        sink.has(2)
        assert again.error is None
    assert len(lanes) == 2


def test_a_lane_without_room_for_a_call_has_failed_and_is_stopped() -> None:
    lanes: list[ThreadLane] = []
    sink = _Sink(gate=threading.Event())
    assert sink.gate is not None
    with _conductor(lanes) as found:
        seat = sink.seat()
        found.add(seat)
        lanes[0].broken = RuntimeError("unasked")
        sink.gate.set()
        assert seat.wake.wait(PATIENCE_S)
        assert str(seat.error) == "no room for a tick"
        assert lanes[0].ended.wait(PATIENCE_S)


class _ToldLock:
    """A lock that sets an event when a thread has to wait for it."""

    def __init__(self) -> None:
        self.waited_for = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited_for.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_lane_that_a_sink_opens_meanwhile_is_not_opened_twice() -> None:
    lanes: list[ThreadLane] = []
    released, opening = threading.Event(), _ToldLock()
    runs, comes = _Sink(slow=released), _Sink()
    with _conductor(lanes) as found, pytest.MonkeyPatch.context() as patch:
        found.add(runs.seat())
        runs.tries(1)
        lanes[0].broken = RuntimeError("Java ended")
        open_worker = found._pool._open_worker

        def opened_late(round_: Callable[[], None]) -> scheduler.Worker:
            released.set()  # the sink then needs a worker again
            assert opening.waited_for.wait(PATIENCE_S)
            return open_worker(round_)

        patch.setattr(found, "_opening", opening)
        patch.setattr(found._pool, "_open_worker", opened_late)
        found.add(comes.seat())
        runs.has(3)
        comes.has(3)
    assert len(lanes) == 2


def test_what_nobody_foresaw_is_told_and_others_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = _Sink(), _Sink()
    error = RuntimeError("can't start new thread")

    def look(found: BatchScheduler, seat: ScheduledSink) -> None:
        raise error

    with _conductor([]) as found, monkeypatch.context() as patch:
        patch.setattr(BatchScheduler, "_look", look)
        seat = sink.seat()
        found.add(seat)
        assert seat.wake.wait(PATIENCE_S)
        assert seat.error is error
        patch.undo()
        found.add(other.seat())
        other.has(3)
    assert sink.tried == []


def test_a_worn_lane_makes_place_for_another_where_there_is_always_something_to_run() -> None:
    lanes: list[ThreadLane] = []
    sinks = [_Sink() for _ in range(5)]
    with _conductor(lanes, round_seconds=0.02) as found:
        for sink in sinks:
            found.add(sink.seat(interval_ms=0))
        sinks[0].has(3)
        lanes[0].is_worn = True
        assert lanes[0].ended.wait(PATIENCE_S)
        for sink in sinks:
            sink.has(len(sink.batches) + 3)
    assert len(lanes) == 2
    for sink in sinks:
        assert sink.batches == [(at, at + 1) for at in range(len(sink.batches))]


def test_a_worn_lane_makes_place_for_another() -> None:
    lanes: list[ThreadLane] = []
    sink = _Sink(size=1)
    with _conductor(lanes, tend_seconds=0.01, round_seconds=0.01) as found:
        found.add(sink.seat())
        sink.has(1)
        lanes[0].is_worn = True
        sink.size = 3
        sink.has(3)
        while not lanes[0].stopped:
            sink.size += 1
            sink.has(sink.size)
        sink.size += 1
        sink.has(sink.size)
    assert len(lanes) == 2
    assert sink.batches == [(at, at + 1) for at in range(sink.size)]
