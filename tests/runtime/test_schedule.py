"""The schedule as a state machine: what follows from each event, and what holds after any history of events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from sinkql.runtime.batch.engine import Place
from sinkql.runtime.schedule.event import (
    BatchCommitted,
    BatchDelayed,
    BatchFailed,
    BatchHandedOver,
    BatchWanted,
    Closed,
    EndRound,
    Fail,
    InputFound,
    Look,
    LookFailed,
    NoInput,
    Open,
    OpenFailed,
    RestSpark,
    Retire,
    RoundBegan,
    Run,
    SinkAdded,
    SinkPaced,
    SinkRemoved,
    SinkTurn,
    StartRound,
    TimePassed,
    WorkerFailed,
    WorkerOpened,
    WorkerTurn,
)
from sinkql.runtime.schedule.schedule import PLACES, Schedule, ScheduleLimits

_ERROR = RuntimeError("it failed")


class _Story:
    """A schedule with a clock of its own; `tell` returns the actions as texts."""

    def __init__(self, **limits: Any) -> None:
        self.now = 0.0
        self.schedule: Schedule[SinkTurn, WorkerTurn] = Schedule(ScheduleLimits(**limits))
        self.sinks: dict[str, SinkTurn] = {}
        self.workers: dict[str, WorkerTurn] = {}

    def sink(self, name: str, *, needs_spark: bool = False, due_in: float = 0.0) -> SinkTurn:
        sink = self.sinks[name] = SinkTurn(needs_spark=needs_spark)
        assert self.tell(SinkAdded(sink, due_in)) == []
        return sink

    def worker(self, name: str, place: Place) -> WorkerTurn:
        worker = self.workers[name] = WorkerTurn(place)
        return worker

    def opened(self, name: str, place: Place) -> list[str]:
        return self.tell(WorkerOpened(self.worker(name, place)))

    def pass_time(self, seconds: float) -> list[str]:
        self.now += seconds
        return self.tell(TimePassed())

    def found(self, name: str) -> list[str]:
        """Make the sink due, look at it, and find input."""
        sink = self.sinks[name]
        assert f"look {name}" in self.pass_time(0.0)
        return self.tell(InputFound(sink, sink.turn))

    def running(self, name: str, place: Place) -> WorkerTurn:
        """Run the sink's batch in a new worker."""
        assert self.found(name) == [f"open {place}"]
        assert self.opened("w", place) == ["start w"]
        worker = self.workers["w"]
        assert self.tell(RoundBegan(worker)) == []
        assert self.tell(BatchWanted(worker)) == [f"run {name} in w"]
        return worker

    def tell(self, event: Any) -> list[str]:
        return [self._text(action) for action in self.schedule.next(event, self.now)]

    def _text(self, action: Any) -> str:
        match action:
            case Look(sink, _):
                return f"look {_name(self.sinks, sink)}"
            case Open(place):
                return f"open {place}"
            case StartRound(worker):
                return f"start {_name(self.workers, worker)}"
            case Run(worker, sink):
                return f"run {_name(self.sinks, sink)} in {_name(self.workers, worker)}"
            case EndRound(worker):
                return f"end {_name(self.workers, worker)}"
            case Retire(worker):
                return f"retire {_name(self.workers, worker)}"
            case Fail(sink, error):
                return f"fail {_name(self.sinks, sink)}: {error}"
            case RestSpark():
                return "rest"
        raise AssertionError(action)


def _state(each: SinkTurn | WorkerTurn) -> str:
    return each.state


def _place(sink: SinkTurn) -> str:
    return sink.place


def _name(named: dict[str, Any], wanted: object) -> str:
    return next(name for name, each in named.items() if each is wanted)


# --- sinks -----------------------------------------------------------------------------------------------------------


def test_a_sink_is_looked_at_when_it_is_due() -> None:
    story = _Story()
    sink = story.sink("a", due_in=5)
    assert (_state(sink), story.schedule.due_at()) == ("waiting", 5)
    assert story.pass_time(4) == []
    assert story.pass_time(1) == ["look a"]
    assert (_state(sink), story.schedule.due_at()) == ("looking", None)


def test_a_sink_without_input_is_looked_at_again_later() -> None:
    story = _Story()
    sink = story.sink("a")
    story.pass_time(0)
    assert story.tell(NoInput(sink, sink.turn, 3)) == []
    assert (story.pass_time(2), story.pass_time(1)) == ([], ["look a"])


def test_a_look_that_failed_ends_the_sink() -> None:
    story = _Story()
    sink = story.sink("a")
    story.pass_time(0)
    assert story.tell(LookFailed(sink, sink.turn, _ERROR)) == ["fail a: it failed"]
    assert _state(sink) == "removed"


@pytest.mark.parametrize(
    "event",
    [InputFound, lambda sink, turn: NoInput(sink, turn, 0.0), lambda sink, turn: LookFailed(sink, turn, _ERROR)],
)
def test_the_answer_to_an_old_look_counts_for_nothing(event: Any) -> None:
    story = _Story()
    sink = story.sink("a")
    story.pass_time(0)
    old = sink.turn
    story.tell(SinkRemoved(sink))
    story.tell(SinkAdded(sink, 0.0))
    story.pass_time(0)
    assert story.tell(event(sink, old)) == []
    assert _state(sink) == "looking"


def test_another_pace_moves_a_waiting_sink_only() -> None:
    story = _Story()
    waits, looks = story.sink("a", due_in=100), story.sink("b")
    story.pass_time(0)
    assert story.tell(SinkPaced(waits, 1)) + story.tell(SinkPaced(looks, 1)) == []
    assert (_state(looks), story.pass_time(1)) == ("looking", ["look a"])


def test_another_pace_does_not_move_a_retry() -> None:
    story = _Story()
    story.sink("a")
    worker = story.running("a", "in process")
    story.tell(BatchDelayed(story.sinks["a"], 50))
    story.tell(SinkPaced(story.sinks["a"], 0))
    assert story.tell(BatchWanted(worker)) == ["end w"]
    assert story.pass_time(49) == []
    assert story.pass_time(1) == ["start w"]  # without another look


@pytest.mark.parametrize("state", ["waiting", "looking", "ready"])
def test_a_sink_that_leaves_runs_no_batch(state: str) -> None:
    story = _Story()
    sink = story.sink("a")
    if state != "waiting":
        story.pass_time(0)
    if state == "ready":
        story.tell(InputFound(sink, sink.turn))
    assert _state(sink) == state
    assert story.tell(SinkRemoved(sink)) == []
    assert _state(sink) == "removed"
    assert story.pass_time(0) == []
    story.opened("w", "in process")
    story.tell(RoundBegan(story.workers["w"]))
    assert story.tell(BatchWanted(story.workers["w"])) == ["end w"]


@pytest.mark.parametrize("end", ["committed", "delayed", "handed over", "failed"])
def test_a_sink_that_leaves_during_its_batch_is_gone_after_it(end: str) -> None:
    story = _Story()
    sink = story.sink("a")
    story.running("a", "in process")
    story.tell(SinkRemoved(sink))
    assert _state(sink) == "running"
    events = {
        "committed": BatchCommitted(sink, "in process", 0), "delayed": BatchDelayed(sink, 0),
        "handed over": BatchHandedOver(sink), "failed": BatchFailed(sink, _ERROR),
    }  # fmt: skip
    story.tell(events[end])
    assert _state(sink) == "removed"
    assert story.pass_time(100) == []


def test_a_failed_batch_ends_its_sink_alone() -> None:
    story = _Story()
    sink = story.sink("a")
    other = story.sink("b", due_in=100)
    story.running("a", "in process")
    assert story.tell(BatchFailed(sink, _ERROR)) == ["fail a: it failed"]
    assert (_state(sink), _state(other)) == ("removed", "waiting")


# --- the hand-over ---------------------------------------------------------------------------------------------------


def test_a_batch_that_needs_spark_is_ready_there_at_once_and_nothing_looks_again() -> None:
    story = _Story()
    sink = story.sink("a")
    worker = story.running("a", "in process")
    assert story.tell(BatchHandedOver(sink)) == ["open Spark"]
    assert (_state(sink), _place(sink)) == ("ready", "Spark")
    assert story.tell(BatchWanted(worker)) == ["end w"]
    assert story.opened("s", "Spark") == ["start s"]
    story.tell(RoundBegan(story.workers["s"]))
    assert story.tell(BatchWanted(story.workers["s"])) == ["run a in s"]


def test_small_batches_of_others_go_on_while_spark_starts() -> None:
    story = _Story()
    big, small = story.sink("a"), story.sink("b", due_in=1)
    worker = story.running("a", "in process")
    story.tell(BatchHandedOver(big))
    assert story.pass_time(1) == ["look b"]
    assert story.tell(InputFound(small, small.turn)) == []  # the worker is in its round
    assert story.tell(BatchWanted(worker)) == ["run b in w"]
    story.tell(BatchCommitted(small, "in process", 1))
    assert _state(big) == "ready"


@pytest.mark.parametrize("place", PLACES)
def test_the_next_batch_is_tried_where_the_last_one_ran(place: Place) -> None:
    story = _Story()
    sink = story.sink("a")
    story.running("a", "in process")
    story.tell(BatchHandedOver(sink))
    story.opened("s", "Spark")
    story.tell(RoundBegan(story.workers["s"]))
    story.tell(BatchWanted(story.workers["s"]))
    story.tell(BatchCommitted(sink, place, 1))
    assert _place(sink) == place


def test_a_sink_that_needs_spark_stays_there() -> None:
    story = _Story()
    sink = story.sink("a", needs_spark=True)
    story.running("a", "Spark")
    story.tell(BatchCommitted(sink, "in process", 1))  # an empty batch
    assert _place(sink) == "Spark"


def test_a_retry_stays_where_it_was() -> None:
    story = _Story()
    sink = story.sink("a")
    worker = story.running("a", "in process")
    story.tell(BatchDelayed(sink, 5))
    assert (_state(sink), _place(sink), sink.has_batch) == ("waiting", "in process", True)
    assert story.tell(BatchWanted(worker)) == []
    assert _state(worker) == "waiting"
    story.pass_time(5)
    assert story.tell(BatchWanted(worker)) == ["run a in w"]


# --- workers ---------------------------------------------------------------------------------------------------------


def test_no_more_workers_are_opened_than_may_be() -> None:
    story = _Story(most=2)
    for name in "abc":
        story.sink(name)
    assert story.pass_time(0) == ["look a", "look b", "look c"]
    sinks = [story.sinks[name] for name in "abc"]
    answers = [story.tell(InputFound(sink, sink.turn)) for sink in sinks]
    assert answers == [["open in process"], ["open in process"], []]
    assert story.opened("v", "in process") + story.opened("w", "in process") == ["start v", "start w"]


def test_a_slow_batch_leaves_the_others_as_many_workers() -> None:
    story = _Story(most=1, slow=10)
    story.sink("a")
    story.sink("b")
    assert story.pass_time(0) == ["look a", "look b"]
    for sink in story.sinks.values():
        story.tell(InputFound(sink, sink.turn))
    story.opened("w", "in process")
    story.tell(RoundBegan(story.workers["w"]))
    assert story.tell(BatchWanted(story.workers["w"])) == ["run a in w"]
    assert (story.pass_time(9), story.pass_time(1)) == ([], ["open in process"])


def test_the_ready_sinks_of_a_place_hear_that_no_worker_opens() -> None:
    story = _Story()
    big, small = story.sink("a", needs_spark=True), story.sink("b")
    assert story.found("a") == ["open Spark"]
    story.tell(InputFound(small, small.turn))
    assert story.tell(OpenFailed("Spark", _ERROR)) == ["fail a: it failed"]
    assert (_state(big), _state(small)) == ("removed", "ready")
    again = story.sink("c", needs_spark=True)
    assert (story.found("c"), _state(again)) == (["open Spark"], "ready")


def test_sinks_that_need_a_failed_worker_hear_of_it_and_others_go_on() -> None:
    story = _Story()
    always, handed = story.sink("a", needs_spark=True, due_in=50), story.sink("b")
    sticky, small = story.sink("c", due_in=50), story.sink("d", due_in=50)
    story.running("b", "in process")
    story.tell(BatchHandedOver(handed))
    story.opened("s", "Spark")
    sticky.place = "Spark"
    told = story.tell(WorkerFailed(story.workers["s"], _ERROR))
    assert told == ["retire s", "fail a: it failed", "fail b: it failed"]
    assert [_state(each) for each in (always, handed, sticky, small)] == ["removed", "removed", "waiting", "waiting"]
    assert _place(sticky) == "in process"
    assert story.tell(WorkerFailed(story.workers["s"], _ERROR)) == []


def test_a_running_batch_hears_nothing_of_its_failed_worker() -> None:
    story = _Story()
    sink = story.sink("a", needs_spark=True)
    worker = story.running("a", "Spark")
    assert story.tell(WorkerFailed(worker, _ERROR)) == ["retire w"]
    assert _state(sink) == "running"
    story.tell(BatchCommitted(sink, "Spark", 0))
    assert (_state(sink), story.tell(BatchWanted(worker))) == ("waiting", ["end w"])


def test_a_worn_worker_is_replaced_after_its_round() -> None:
    story = _Story()
    sink = story.sink("a", needs_spark=True)
    worker = story.running("a", "Spark")
    story.tell(BatchCommitted(sink, "Spark", 1000))
    assert story.tell(BatchWanted(worker, worn=True)) == ["retire w", "end w"]
    assert story.schedule.workers() == []


def test_a_round_lasts_while_more_is_due_within_it() -> None:
    story = _Story(round=10)
    first, later = story.sink("a"), story.sink("b", due_in=8)
    worker = story.running("a", "in process")
    story.tell(BatchCommitted(first, "in process", 100))
    assert (story.tell(BatchWanted(worker)), _state(worker)) == ([], "waiting")
    story.tell(SinkRemoved(later))
    assert (story.tell(BatchWanted(worker)), _state(worker)) == (["end w"], "idle")


def test_a_round_of_spark_does_not_wait_for_sinks_that_run_elsewhere() -> None:
    story = _Story(round=10)
    sink = story.sink("a", needs_spark=True)
    story.sink("b", due_in=1)
    worker = story.running("a", "Spark")
    story.tell(BatchCommitted(sink, "Spark", 100))
    assert story.tell(BatchWanted(worker)) == ["end w"]


def test_a_round_that_is_over_is_followed_by_another_for_what_is_ready() -> None:
    story = _Story(round=10)
    sink = story.sink("a")
    worker = story.running("a", "in process")
    story.now += 10
    story.tell(BatchDelayed(sink, 0))
    story.pass_time(0)
    assert story.tell(BatchWanted(worker)) == ["start w", "end w"]


@pytest.mark.parametrize(("ahead", "answer"), [(100, ["open in process", "run a in w"]), (0, ["run a in w"])])
def test_another_worker_is_started_before_a_round_of_several_batches_is_over(ahead: float, answer: list[str]) -> None:
    story = _Story(most=2, round=10, ahead=ahead)
    sink = story.sink("a")
    worker = story.running("a", "in process")
    story.tell(BatchDelayed(sink, 1))
    assert story.tell(BatchWanted(worker)) == story.pass_time(1) == []
    assert story.tell(BatchWanted(worker)) == answer


@pytest.mark.parametrize("place", PLACES)
def test_a_spare_worker_is_retired_and_the_last_one_kept(place: Place) -> None:
    story = _Story(most=2, spare=60, spark_idle=1000)
    story.opened("v", place)
    story.opened("w", place)
    assert story.pass_time(60) == []
    assert story.pass_time(1) == ["retire v"]
    assert story.pass_time(100) == []


# --- rest and end ----------------------------------------------------------------------------------------------------


def _idle_after_a_batch() -> _Story:
    """Return a story in which a large batch was handed over and committed, 300 seconds before Spark may rest."""
    story = _Story(spark_idle=300, round=1)
    sink = story.sink("a")
    story.running("a", "in process")
    story.tell(BatchHandedOver(sink))
    story.opened("s", "Spark")
    story.tell(RoundBegan(story.workers["s"]))
    story.tell(BatchWanted(story.workers["s"]))
    story.tell(BatchCommitted(sink, "Spark", 5000))
    assert story.tell(BatchWanted(story.workers["s"])) == ["end s"]
    story.tell(BatchWanted(story.workers["w"]))
    return story


def test_spark_rests_when_no_sink_has_needed_it_for_long() -> None:
    story = _idle_after_a_batch()
    assert (story.pass_time(0), story.pass_time(299)) == ([], [])
    assert _place(story.sinks["a"]) == "Spark"
    assert story.pass_time(1) == ["retire s", "rest"]
    assert _place(story.sinks["a"]) == "in process"


def test_spark_does_not_rest_while_a_sink_needs_it() -> None:
    story = _idle_after_a_batch()
    story.sink("b", needs_spark=True, due_in=10_000)
    assert [story.pass_time(200) for _ in range(3)] == [[], [], []]
    story.tell(SinkRemoved(story.sinks["b"]))
    assert (story.pass_time(0), story.pass_time(300)) == ([], ["retire s", "rest"])


def test_spark_does_not_rest_while_a_handed_over_batch_waits() -> None:
    story = _idle_after_a_batch()
    sink = story.sinks["a"]
    story.pass_time(0)
    story.tell(SinkPaced(sink, 0))
    story.pass_time(0)
    assert story.tell(InputFound(sink, sink.turn)) == ["start s"]
    assert story.pass_time(400) == []


def test_spark_does_not_rest_while_its_batch_waits_for_a_retry() -> None:
    story = _Story(spark_idle=300, round=1)
    sink = story.sink("a")
    story.running("a", "in process")
    story.tell(BatchHandedOver(sink))
    story.opened("s", "Spark")
    spark = story.workers["s"]
    story.tell(RoundBegan(spark))
    story.tell(BatchWanted(spark))
    story.tell(BatchDelayed(sink, 1000))
    assert story.tell(BatchWanted(spark)) == ["end s"]
    assert [story.pass_time(200) for _ in range(4)] == [[], [], [], []]


def test_spark_does_not_rest_while_it_starts_or_runs_a_batch_of_a_sink_that_has_left() -> None:
    story = _Story(spark_idle=300)
    first = story.sink("a", needs_spark=True)
    assert story.found("a") == ["open Spark"]
    story.tell(SinkRemoved(first))
    assert [story.pass_time(200) for _ in range(3)] == [[], [], []]
    assert story.opened("s", "Spark") == []
    second = story.sink("b", needs_spark=True)
    assert story.found("b") == ["start s"]
    spark = story.workers["s"]
    story.tell(RoundBegan(spark))
    assert story.tell(BatchWanted(spark)) == ["run b in s"]
    story.tell(SinkRemoved(second))
    assert [story.pass_time(200) for _ in range(3)] == [[], [], []]


def test_after_the_end_no_batch_begins() -> None:
    story = _Story()
    sink = story.sink("a")
    story.sink("b")
    worker = story.running("a", "in process")
    assert story.tell(Closed()) == []
    assert (_state(sink), _state(worker)) == ("running", "running")
    story.tell(BatchCommitted(sink, "in process", 0))
    assert story.tell(BatchWanted(worker)) == ["end w"]
    assert story.pass_time(100) == []
    assert story.opened("late", "Spark") == ["retire late"]


# --- any history -----------------------------------------------------------------------------------------------------


class _World:
    """Threads and sinks that answer a schedule at random, one event at a time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.most = self.random.randint(1, 3)
        self.schedule: Schedule[SinkTurn, WorkerTurn] = Schedule(
            ScheduleLimits(self.most, round=5, slow=20, most_slow=2, spare=30, spark_idle=40)
        )
        self.looks: list[tuple[SinkTurn, int]] = []
        self.opens: list[Place] = []
        self.rounds: list[WorkerTurn] = []
        self.batches: list[tuple[WorkerTurn, SinkTurn]] = []
        self.ran: dict[SinkTurn, int] = {}
        self.rests = 0

    def tell(self, event: Any) -> list[Any]:
        actions = self.schedule.next(event, self.now)
        for action in actions:
            match action:
                case Look(sink, turn):
                    self.looks.append((sink, turn))
                case Open(place):
                    self.opens.append(place)
                case StartRound(worker):
                    assert worker.state != "retired"
                    self.rounds.append(worker)
                case RestSpark():
                    assert not self.schedule.workers("Spark")
                    assert all(worker.place != "Spark" for worker, _ in self.batches)
                    self.rests += 1
                case _:
                    pass
        return actions

    def check(self) -> None:
        """Check what holds between any two steps."""
        running = [sink for sink in self.schedule.sinks if sink.state == "running"]
        assert len(running) <= len(self.batches)
        assert len({id(sink) for _, sink in self.batches}) == len(self.batches), "a sink runs twice"
        for place in PLACES:
            workers = len(self.schedule.workers(place)) + self.opens.count(place)
            assert workers <= self.most + 2

    def asks(self, worker: WorkerTurn) -> bool:
        """Ask for a batch for a worker in its round; return whether its round continues."""
        for action in self.tell(BatchWanted(worker, worn=self.random.random() < 0.02)):
            if isinstance(action, Run):
                assert action.sink.place == worker.place
                self.batches.append((worker, action.sink))
                return False
            if isinstance(action, EndRound):
                return False
        return True

    def end_batch(self, worker: WorkerTurn, sink: SinkTurn, kind: float) -> None:
        if kind < 0.15:
            self.tell(BatchDelayed(sink, self.random.random() * 5))
        elif kind < 0.3 and worker.place == "in process":
            self.tell(BatchHandedOver(sink))
        elif kind < 0.33:
            self.tell(BatchFailed(sink, _ERROR))
        else:
            self.ran[sink] = self.ran.get(sink, 0) + 1
            self.tell(BatchCommitted(sink, worker.place, self.random.random() * 3))

    def settle(self, chance: float) -> None:
        """Answer each pending action with this chance."""
        waiting: list[WorkerTurn] = []
        for worker in self._taken(self.rounds, chance):
            self.tell(RoundBegan(worker))
            if self.asks(worker):
                waiting.append(worker)
        self.waiting = [worker for worker in [*getattr(self, "waiting", []), *waiting] if self.asks(worker)]
        for sink, turn in self._taken(self.looks, chance):
            self.tell(InputFound(sink, turn) if self.random.random() < 0.7 else NoInput(sink, turn, 0.5))
        for place in self._taken(self.opens, chance):
            failed = self.random.random() < 0.1
            self.tell(OpenFailed(place, _ERROR) if failed else WorkerOpened(WorkerTurn(place)))
        for worker, sink in self._taken(self.batches, chance):
            self.end_batch(worker, sink, self.random.random())
            if self.asks(worker):
                self.waiting.append(worker)

    def _taken(self, pending: list[Any], chance: float) -> Sequence[Any]:
        chosen = [self.random.random() < chance for _ in pending]
        taken = [each for each, now in zip(pending, chosen, strict=True) if now]
        pending[:] = [each for each, now in zip(pending, chosen, strict=True) if not now]
        return taken


@pytest.mark.parametrize("seed", range(60))
def test_after_any_history_every_sink_that_is_left_runs_again(seed: int) -> None:
    world = _World(seed)
    for _ in range(150):
        world.now += world.random.random() * 2
        kind = world.random.random()
        sinks = list(world.schedule.sinks)
        if kind < 0.1 or not sinks:
            world.tell(SinkAdded(SinkTurn(needs_spark=world.random.random() < 0.3), world.random.random()))
        elif kind < 0.15:
            world.tell(SinkRemoved(world.random.choice(sinks)))
        elif kind < 0.2:
            world.tell(SinkPaced(world.random.choice(sinks), world.random.random()))
        elif kind < 0.23 and world.schedule.workers("Spark"):
            world.tell(WorkerFailed(world.random.choice(world.schedule.workers("Spark")), _ERROR))
        world.tell(TimePassed())
        world.settle(0.5)
        world.check()
    left, before = list(world.schedule.sinks), dict(world.ran)
    for _ in range(400):
        world.now += 0.5
        world.tell(TimePassed())
        world.settle(1.0)
    for sink in left:
        again = world.ran.get(sink, 0) > before.get(sink, 0)
        assert again or sink not in world.schedule.sinks, f"{sink} waits for ever"
    for sink in list(world.schedule.sinks):
        world.tell(SinkRemoved(sink))
    rests = world.rests
    for _ in range(200):
        world.now += 1
        world.tell(TimePassed())
        world.settle(1.0)
    assert not world.batches
    assert not world.schedule.workers("Spark")
    assert world.rests > rests
