"""Many sinks on a few workers: due batches run, and no sink waits for a slow, failing or idle sink."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from sinkql.connector_api.stream import JobOffsets, Limit, Offsets
from sinkql.runtime.batch.engine import Place, SparkNeededError
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.schedule import scheduler
from sinkql.runtime.schedule.schedule import Schedule, ScheduleLimits
from sinkql.runtime.schedule.scheduler import BatchDone, BatchScheduler, ScheduledSink
from support.batch_worker import ThreadWorker
from support.patience import PATIENCE_S, Deadline, joined, source_of

_LOOK_S = 0.01


@dataclass
class _Sink:
    """A sink of numbers up to `size`; `batches` are its committed batches."""

    size: int = 1_000_000
    place: Place = "Spark"
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

    def process(self, start: JobOffsets, end: JobOffsets, more: bool, place: Place) -> float | BatchDone:
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
        return BatchDone({"s": {"at": batch[1] + self.further}}, place)

    def scheduled(self, *, interval_ms: int = 5) -> ScheduledSink:
        orders = PacingOrders({"s": {"at": 0}}, timedelta(milliseconds=interval_ms), 100)
        return ScheduledSink(
            Pacer({"s": self}), orders, self.process, threading.Event(), needs_spark=self.place == "Spark"
        )

    def has(self, count: int) -> None:
        self._wait(lambda: len(self.batches) >= count)

    def tries(self, count: int) -> None:
        self._wait(lambda: len(self.tried) >= count)

    def _wait(self, enough: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(enough, PATIENCE_S)


@contextmanager
def _scheduler(
    workers: list[ThreadWorker],
    *,
    most: int = 1,
    round_seconds: float = PATIENCE_S,
    tend_seconds: float = PATIENCE_S,
    slow_seconds: float = PATIENCE_S,
    ahead_seconds: float = 1.0,
) -> Iterator[BatchScheduler]:
    def open_worker(round_: Callable[[], None]) -> ThreadWorker:
        workers.append(ThreadWorker(round_))
        return workers[-1]

    limits = ScheduleLimits(most, round=round_seconds, slow=slow_seconds, ahead=ahead_seconds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "_CHECK_SECONDS", tend_seconds)
        found = BatchScheduler({"in process": open_worker, "Spark": open_worker}, limits)
        try:
            yield found
        finally:
            found.close()


def test_each_batch_begins_where_the_one_before_ended_and_one_call_is_for_many() -> None:
    workers: list[ThreadWorker] = []
    sinks = [_Sink() for _ in range(20)]
    with _scheduler(workers) as found:
        for sink in sinks:
            found.add(sink.scheduled())
        for sink in sinks:
            sink.has(5)
    for sink in sinks:
        assert [(at, at + 1) for at in range(len(sink.batches))] == sink.batches
    (worker,) = workers
    assert worker.calls == 1


def test_a_worker_that_waits_and_the_scheduler_do_not_wake_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    next_ = Schedule.next

    def counted(self: Any, event: Any, now: float) -> Any:
        events.append(event)
        return next_(self, event, now)

    monkeypatch.setattr(Schedule, "next", counted)
    workers: list[ThreadWorker] = []
    with _scheduler(workers) as found:
        sink = _Sink()
        found.add(sink.scheduled(interval_ms=200))
        sink.has(4)
    assert len(workers) == 1  # it waited in its round
    assert len(events) < 200  # otherwise as many as the processor can


def test_no_thread_but_the_schedulers_asks_how_workers_are() -> None:
    workers: list[ThreadWorker] = []
    with _scheduler(workers) as found:
        first = _Sink()
        found.add(first.scheduled())
        first.has(1)
        (worker,) = workers
        for _ in range(20):
            thread = threading.Thread(target=found.add, args=(_Sink().scheduled(),), daemon=True)
            thread.start()
            joined(thread)
        assert {thread.name for thread in worker.asked} == {"scheduler"}
        worker.broken = OSError("Java has ended")
        late = _Sink()
        found.add(late.scheduled())  # the worker that ended does not count
        late.has(1)
    assert len(workers) == 2


@dataclass
class _HandedSink(_Sink):
    """A sink whose batches are Spark's; another attempt at one in process, or the third one in Spark, is an error."""

    place: Place = "in process"
    spark_too: bool = False
    attempts: list[tuple[Place, int]] = field(default_factory=list)

    def process(self, start: JobOffsets, end: JobOffsets, more: bool, place: Place) -> float | BatchDone:
        attempt = place, start["s"]["at"]
        if self.attempts.count(attempt) > (place == "Spark"):
            raise ValueError("it was tried before")
        self.attempts.append(attempt)
        if place == "in process" or self.spark_too:
            raise SparkNeededError("it is large")
        super().process(start, end, more, place)
        return BatchDone(end, "in process")


def test_a_batch_that_needs_spark_runs_there_between_the_same_offsets() -> None:
    sink = _HandedSink()
    with _scheduler([]) as found:
        scheduled = sink.scheduled()
        found.add(scheduled)
        _until(found, lambda: scheduled.error is not None or len(sink.batches) >= 5)
        assert scheduled.error is None
        looks = sink.looks
        assert looks <= 2 * (len(sink.batches) + 1), "it was looked at again"
    assert sink.attempts[:4] == [("in process", 0), ("Spark", 0), ("in process", 1), ("Spark", 1)]
    assert sink.batches[:2] == [(0, 1), (1, 2)]


def test_a_batch_that_spark_does_not_run_either_ends_its_sink() -> None:
    sink = _HandedSink(spark_too=True)
    with _scheduler([]) as found:
        scheduled = sink.scheduled()
        found.add(scheduled)
        assert scheduled.wake.wait(PATIENCE_S)
    assert isinstance(scheduled.error, SparkNeededError)
    assert sink.attempts == [("in process", 0), ("Spark", 0)]


def test_a_batch_that_went_on_further_is_followed_by_what_comes_after_it() -> None:
    sink = _Sink(further=3)
    with _scheduler([]) as found:
        found.add(sink.scheduled())
        sink.has(3)
    assert sink.batches[:3] == [(0, 4), (4, 8), (8, 12)]


def test_a_round_that_is_over_is_followed_by_another() -> None:
    workers: list[ThreadWorker] = []
    sink = _Sink()
    with _scheduler(workers, round_seconds=0.02) as found:
        found.add(sink.scheduled())
        sink.has(10)
    assert workers[0].calls > 1


def test_a_worker_is_left_until_its_sink_is_due_or_others_wait_for_one() -> None:
    sink, other = _Sink(slow=threading.Event()), _Sink()
    scheduled = sink.scheduled(interval_ms=1_800_000)
    scheduled.pacer.cut = True  # it is due immediately
    with _scheduler([]) as found:
        found.add(scheduled)
        sink.tries(1)
        assert 0 < found.idle_seconds(scheduled) <= 1_800
        scheduled.pacer.cut = True
        assert found.idle_seconds(scheduled) == 0
        scheduled.pacer.cut = False
        assert found.idle_seconds(scheduled) > 0
        waiting = other.scheduled()
        found.add(waiting)
        assert other.looked.wait(PATIENCE_S)
        _until(found, lambda: waiting.state == "ready")
        assert found.idle_seconds(scheduled) == 0
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
            assert deadline.left(), f"no {source_of(holds)}: {[each.state for each in found._schedule.workers()]}"
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

    def process(self, start: JobOffsets, end: JobOffsets, more: bool, place: Place) -> float | BatchDone:
        assert len(self.batches) != 2 or self.may.wait(PATIENCE_S)
        return super().process(start, end, more, place)

    def backlog(self) -> ScheduledSink:
        scheduled = self.scheduled(interval_ms=1_800_000)
        scheduled.pacer.cut = True  # it is due immediately
        return scheduled


@pytest.mark.parametrize(("ahead_seconds", "calls"), [(3600.0, 2), (60.0, 1)])
def test_a_worker_is_called_before_more_is_due_after_a_round_of_several_batches(
    ahead_seconds: float, calls: int
) -> None:
    workers: list[ThreadWorker] = []
    sink = _BacklogSink()
    sink.may.set()
    with _scheduler(workers, round_seconds=61, ahead_seconds=ahead_seconds) as found:
        found.add(sink.backlog())
        sink.has(4)
        workers[0].played(calls)
    assert [worker.calls for worker in workers] == [calls]


def test_another_worker_is_there_before_a_round_of_several_batches_is_over() -> None:
    workers: list[ThreadWorker] = []
    sink = _BacklogSink()
    with _scheduler(workers, most=2, ahead_seconds=3600) as found:
        found.add(sink.backlog())
        _until(
            found,
            lambda: (
                sorted(each.state for each in found._schedule.workers())
                in (["running", "starting"], ["running", "waiting"])
            ),
        )
        sink.may.set()
        sink.has(4)
    assert len(workers) == 2


def test_no_worker_is_called_where_nothing_is_new() -> None:
    workers: list[ThreadWorker] = []
    sink, other = _Sink(size=0), _Sink(size=1)
    with _scheduler(workers, round_seconds=0.01) as found:
        found.add(sink.scheduled())
        found.add(other.scheduled())
        other.has(1)
        for each in (sink, other):
            each.looked.clear()
            assert each.looked.wait(PATIENCE_S)
    assert (sink.batches, other.batches) == ([], [(0, 1)])
    assert workers[0].calls == 1


def test_a_source_that_does_not_answer_delays_no_other_sink_and_is_left() -> None:
    workers: list[ThreadWorker] = []
    hung, fine = _Sink(gate=threading.Event()), _Sink()
    assert hung.gate is not None
    with _scheduler(workers) as found:
        scheduled = hung.scheduled()
        found.add(scheduled)
        assert hung.looked.wait(PATIENCE_S)
        found.add(fine.scheduled())
        fine.has(5)
        assert scheduled.error is None
        found.remove(scheduled)
        hung.gate.set()
        fine.has(len(fine.batches) + 5)
    assert hung.batches == []


def test_a_sink_that_fails_for_ever_holds_no_worker_and_tries_the_same_batch_again() -> None:
    failing, fine = _Sink(fails=True), _Sink()
    with _scheduler([]) as found:
        scheduled = failing.scheduled()
        found.add(scheduled)
        failing.tries(3)
        found.add(fine.scheduled())
        fine.has(5)
        failing.fails = False
        failing.has(2)
        assert scheduled.error is None
    assert failing.batches[:2] == [(0, 1), (1, 2)]
    assert set(failing.tried) == set(failing.batches)
    assert failing.looks <= 2 * (len(failing.batches) + 2), "a retry looked for new data"


def test_a_slow_sink_holds_one_worker_and_no_more_are_opened_than_may_be() -> None:
    workers: list[ThreadWorker] = []
    opened = threading.Event()
    slow, others = _Sink(slow=opened), [_Sink() for _ in range(4)]
    with _scheduler(workers, most=2) as found:
        found.add(slow.scheduled())
        slow.tries(1)
        for sink in others:
            found.add(sink.scheduled())
        for sink in others:
            sink.has(3)
        assert slow.batches == []
        opened.set()
        slow.has(2)
    assert len(workers) == 2


def test_batches_that_take_long_leave_the_others_as_many_workers() -> None:
    workers: list[ThreadWorker] = []
    opened = threading.Event()
    slow, fine = [_Sink(slow=opened) for _ in range(3)], _Sink()
    with _scheduler(workers, most=1, tend_seconds=0.01, slow_seconds=0.01) as found:
        for sink in slow:
            found.add(sink.scheduled())
        for sink in slow:
            sink.tries(1)
        found.add(fine.scheduled())
        fine.has(3)
        assert [sink.batches for sink in slow] == [[], [], []]
        assert len(workers) == 4
        opened.set()


def test_leaving_waits_for_the_batch_that_runs_and_none_begins_after_it() -> None:
    opened = threading.Event()
    sink, other = _Sink(slow=opened), _Sink()
    with _scheduler([]) as found:
        scheduled = sink.scheduled()
        found.add(scheduled)
        sink.tries(1)
        leaving = threading.Thread(target=found.remove, args=(scheduled,), daemon=True)
        leaving.start()
        leaving.join(0.05)
        assert leaving.is_alive()
        opened.set()
        joined(leaving)
        assert sink.batches == [(0, 1)]
        found.add(other.scheduled())
        other.has(5)
    assert sink.tried == [(0, 1)]


def test_what_a_batch_raises_ends_its_sink_alone() -> None:
    error = ValueError("not a number")
    broken, fine = _Sink(error=error), _Sink()
    with _scheduler([]) as found:
        scheduled = broken.scheduled()
        found.add(fine.scheduled())
        found.add(scheduled)
        assert scheduled.wake.wait(PATIENCE_S)
        assert scheduled.error is error
        found.remove(scheduled)
        fine.has(len(fine.batches) + 5)
    assert len(broken.tried) == 1


def test_another_interval_holds_at_once() -> None:
    sink = _Sink()
    with _scheduler([]) as found:
        scheduled = sink.scheduled(interval_ms=round(PATIENCE_S * 1000))
        found.add(scheduled)
        assert sink.looks == 0
        found.reschedule(scheduled, PacingOrders({"s": {"at": 0}}, timedelta(milliseconds=1), 100))
        sink.has(3)


def test_sinks_hear_of_a_worker_that_failed_and_may_come_back() -> None:
    workers: list[ThreadWorker] = []
    sink = _Sink(size=1)
    with _scheduler(workers, tend_seconds=0.01, round_seconds=0.01) as found:
        scheduled = sink.scheduled()
        found.add(scheduled)
        sink.has(1)
        workers[0].broken = error = RuntimeError("Java ended")
        assert scheduled.wake.wait(PATIENCE_S)
        assert scheduled.error is error
        again = sink.scheduled()
        found.add(again)
        sink.has(2)
        assert again.error is None
    assert len(workers) == 2


def test_a_worker_without_room_for_a_call_has_failed_and_is_stopped() -> None:
    workers: list[ThreadWorker] = []
    first, sink = _Sink(size=1), _Sink(gate=threading.Event())
    assert sink.gate is not None
    with _scheduler(workers, round_seconds=0.01) as found:
        first_scheduled = first.scheduled()
        found.add(first_scheduled)
        first.has(1)
        found.remove(first_scheduled)
        workers[0].played(1)
        scheduled = sink.scheduled()
        found.add(scheduled)
        assert sink.looked.wait(PATIENCE_S)
        workers[0].broken = RuntimeError("unasked")
        sink.gate.set()
        assert scheduled.wake.wait(PATIENCE_S)
        assert str(scheduled.error) == "no room for a tick"
        assert workers[0].ended.wait(PATIENCE_S)


def test_a_worker_that_is_opened_slowly_is_not_opened_twice() -> None:
    workers: list[ThreadWorker] = []
    sinks = [_Sink() for _ in range(3)]
    opening, released = threading.Event(), threading.Event()

    with _scheduler(workers, most=1) as found:
        open_worker = found._open_worker["Spark"]

        def opened_late(round_: Callable[[], None]) -> scheduler.Worker:
            opening.set()
            assert released.wait(PATIENCE_S)
            return open_worker(round_)

        found._open_worker = {"Spark": opened_late}
        found.add(sinks[0].scheduled())
        assert opening.wait(PATIENCE_S)
        for sink in sinks[1:]:
            scheduled = sink.scheduled()
            found.add(scheduled)
            _until(found, lambda scheduled=scheduled: scheduled.state == "ready")  # type: ignore[misc]
        released.set()
        for sink in sinks:
            sink.has(3)
    assert len(workers) == 1


def test_what_nobody_foresaw_is_told_and_others_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = _Sink(), _Sink()
    error = RuntimeError("can't start new thread")

    def look(found: BatchScheduler, scheduled: ScheduledSink, turn: int) -> None:
        raise error

    with _scheduler([]) as found, monkeypatch.context() as patch:
        patch.setattr(BatchScheduler, "_begin_look", look)
        scheduled = sink.scheduled()
        found.add(scheduled)
        assert scheduled.wake.wait(PATIENCE_S)
        assert scheduled.error is error
        patch.undo()
        found.add(other.scheduled())
        other.has(3)
    assert sink.tried == []


def test_a_worn_worker_makes_place_for_another_where_there_is_always_something_to_run() -> None:
    workers: list[ThreadWorker] = []
    sinks = [_Sink() for _ in range(5)]
    with _scheduler(workers, round_seconds=0.02) as found:
        for sink in sinks:
            found.add(sink.scheduled(interval_ms=0))
        sinks[0].has(3)
        workers[0].is_worn = True
        assert workers[0].ended.wait(PATIENCE_S)
        for sink in sinks:
            sink.has(len(sink.batches) + 3)
    assert len(workers) == 2
    for sink in sinks:
        assert sink.batches == [(at, at + 1) for at in range(len(sink.batches))]


def test_a_worn_worker_makes_place_for_another() -> None:
    workers: list[ThreadWorker] = []
    sink = _Sink(size=1)
    with _scheduler(workers, tend_seconds=0.01, round_seconds=0.01) as found:
        found.add(sink.scheduled())
        sink.has(1)
        workers[0].is_worn = True
        sink.size = 3
        sink.has(3)
        while not workers[0].stopped:
            sink.size += 1
            sink.has(sink.size)
        sink.size += 1
        sink.has(sink.size)
    assert len(workers) == 2
    assert sink.batches == [(at, at + 1) for at in range(sink.size)]
