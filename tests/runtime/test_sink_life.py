"""The life of a sink as a state machine: the step that follows each step and event, and what holds in any life."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from sinkql.errors import FencedError, LateError, LeaseHeldError, LeaseLostError, SinkqlError, UnforeseenError
from sinkql.runtime.sink.life import (
    Acquire,
    AwaitRelease,
    AwaitViews,
    BatchesEnded,
    Claim,
    CommitPending,
    Done,
    Elsewhere,
    End,
    Event,
    Failed,
    HeldElsewhere,
    Look,
    OpenSpark,
    Outdated,
    Ready,
    Reassigned,
    Renew,
    Retries,
    RunBatches,
    Seen,
    SinkLife,
    Step,
    Stopped,
    Wait,
    Waited,
)

_RUNS = Seen(moved=False, desired="running")
_READY = Ready(caught_up=False, needs_spark=False)
_LATE = LateError("SQ4104", "the catalog is locked")
_PASSING = SinkqlError("SQ3304", "the source does not answer")
_FINAL = SinkqlError("SQ3201", "value out of range")
_UNFORESEEN = UnforeseenError("SQ4004", "the Java process ended")
_FENCED = FencedError("SQ5101", "another run claimed the table")
_LOST = LeaseLostError("SQ5202", "sink was taken over")
_HELD = LeaseHeldError("SQ5201", "another process runs the sink")
_TO_PENDING = (Done(), _RUNS, Done())
_TO_BATCHES = (*_TO_PENDING, _READY)


def _life(*events: Event, view: bool = False, once: bool = False) -> SinkLife:
    """Return the life of a sink after these events."""
    life = SinkLife(view, Retries(once))
    for event in events:
        life.next(event)
    return life


def test_codes_of_the_errors_are_what_the_tests_take_them_for() -> None:
    assert (_PASSING.retryable, _FINAL.retryable) == (True, False)


@pytest.mark.parametrize(
    ("before", "event", "step"),
    [
        ((), Done(), Look()),
        ((Done(),), _RUNS, Claim()),
        ((Done(),), Seen(moved=True, desired="running"), End("moved")),
        ((Done(),), Seen(moved=False, desired="stopped"), End("stopped")),
        ((Done(),), Seen(moved=False, desired="dropped"), End("dropped")),
        ((Done(), _RUNS), Done(), CommitPending()),
        (_TO_PENDING, _READY, RunBatches()),
        (_TO_PENDING, Ready(caught_up=True, needs_spark=True), End("caught up")),
        (_TO_PENDING, Ready(caught_up=False, needs_spark=True), OpenSpark()),
        ((*_TO_PENDING, Ready(caught_up=False, needs_spark=True)), Done(), RunBatches()),
        (_TO_PENDING, Reassigned(), Look()),
        (_TO_BATCHES, BatchesEnded("stopped"), End("stopped")),
        (_TO_BATCHES, BatchesEnded("caught up"), End("caught up")),
        (_TO_BATCHES, BatchesEnded(None), Look()),
        ((*_TO_BATCHES, BatchesEnded(None)), _RUNS, Renew()),
        ((*_TO_BATCHES, BatchesEnded(None), _RUNS), Done(), Claim()),
        (_TO_BATCHES, Stopped(), End("stopped")),
        (_TO_BATCHES, Outdated(_UNFORESEEN), Look()),
        (_TO_BATCHES, Failed(_FENCED), End("fenced", _FENCED)),
        (_TO_BATCHES, Failed(_FINAL), End("failed", _FINAL)),
        (_TO_BATCHES, Failed(_PASSING), Wait(1.0, _PASSING, between=True)),
        ((*_TO_BATCHES, Failed(_PASSING)), Waited(), Look()),
    ],
)
def test_each_step_is_followed_by_the_next(before: Sequence[Event], event: Event, step: Step) -> None:
    assert step == _life(*before).next(event)


@pytest.mark.parametrize(
    ("before", "event", "step"),
    [
        ((Done(),), _RUNS, AwaitViews()),
        ((Done(), _RUNS), Done(), Claim()),
        ((Done(), _RUNS, Done(), Done(), Reassigned()), _RUNS, Renew()),
        ((Done(), _RUNS, Done(), Done(), Reassigned(), _RUNS), Done(), AwaitViews()),
    ],
)
def test_a_run_that_ends_waits_for_the_views_before_each_claim(
    before: Sequence[Event], event: Event, step: Step
) -> None:
    assert step == _life(*before, once=True).next(event)


@pytest.mark.parametrize(
    ("view", "step"), [(False, End("failed", _HELD)), (True, AwaitRelease())], ids=["sink", "view"]
)
def test_a_view_waits_for_the_process_that_runs_it(view: bool, step: Step) -> None:
    assert step == _life(view=view).next(HeldElsewhere(_HELD))


def test_a_view_that_another_process_runs_ends_or_tries_again() -> None:
    assert _life(HeldElsewhere(_HELD), view=True).next(Elsewhere("caught up")) == End("caught up")
    assert _life(HeldElsewhere(_HELD), view=True).next(Elsewhere(None)) == Acquire()


# --- the lease -------------------------------------------------------------------------------------------------------


def test_only_a_catalog_that_is_late_is_asked_again_for_the_lease() -> None:
    life = _life()
    assert life.next(Failed(_LATE)) == Wait(1.0, _LATE, between=False)
    assert life.next(Waited()) == Acquire()
    assert life.next(Failed(_PASSING)) == End("failed", _PASSING)


@pytest.mark.parametrize("events", [(Stopped(),), (BatchesEnded("stopped"),)])
def test_a_sink_that_stops_because_it_was_taken_over_says_so(events: Sequence[Event]) -> None:
    assert _life(*_TO_BATCHES).next(events[0], lost=_LOST) == End("fenced", _LOST)


def test_a_sink_that_has_caught_up_does_not_fail_because_its_lease_is_lost() -> None:
    assert _life(*_TO_BATCHES).next(BatchesEnded("caught up"), lost=_LOST) == End("caught up")


# --- stopping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [(Done(),), (Done(), _RUNS, Done(), Reassigned())])
def test_a_sink_that_must_stop_begins_no_incarnation(before: Sequence[Event]) -> None:
    assert _life(*before).next(_RUNS, stopping=True) == End("stopped")


def test_a_sink_that_must_stop_claims_nothing_after_it_waited() -> None:
    assert _life(Done(), _RUNS, once=True).next(Done(), stopping=True) == End("stopped")
    assert _life(*_TO_PENDING, Reassigned(), _RUNS).next(Done(), stopping=True) == End("stopped")


@pytest.mark.parametrize(
    ("error", "end"),
    [(_LATE, End("stopped")), (_PASSING, End("failed", _PASSING)), (_FENCED, End("fenced", _FENCED))],
)
def test_a_sink_that_must_stop_does_not_retry(error: SinkqlError, end: Step) -> None:
    assert end == _life(*_TO_BATCHES).next(Failed(error), stopping=True)
    waiting = _life(*_TO_BATCHES)
    waiting.step = Wait(1.0, error, between=True)
    assert end == waiting.next(Waited(), stopping=True)


# --- retries ---------------------------------------------------------------------------------------------------------


def _waits(life: SinkLife, error: SinkqlError, most: int) -> list[float]:
    """Fail the same step up to `most` times; return the waits in between."""
    waits: list[float] = []
    while len(waits) < most:
        failed_step, after = life.step, life.next(Failed(error))
        if isinstance(after, End):
            break
        assert isinstance(after, Wait)
        waits.append(after.seconds)
        life.step = failed_step
    return waits


@pytest.mark.parametrize(
    ("error", "once", "claimed", "tries"),
    [
        (_FINAL, False, True, 0),
        (_PASSING, False, False, 2),
        (_PASSING, True, True, 2),
        (_PASSING, False, True, 20),
        (_UNFORESEEN, False, True, 3),
        (_LATE, True, False, 20),
    ],
)
def test_how_often_a_sink_retries_depends_on_the_error(
    error: SinkqlError, once: bool, claimed: bool, tries: int
) -> None:
    before: list[Event] = [Done(), _RUNS, *([Done()] if once else []), *([Done()] if claimed else [])]
    life = _life(*before, once=once)
    assert isinstance(life.step, CommitPending if claimed else Claim)
    assert len(_waits(life, error, 20)) == tries


def test_waits_double_up_to_a_limit_and_begin_again_after_a_commit() -> None:
    life = _life(*_TO_BATCHES)
    assert _waits(life, _PASSING, 7) == [1, 2, 4, 8, 16, 20, 20]
    life.retries.failures = 0
    assert _waits(life, _PASSING, 1) == [1]


def test_a_sink_starts_again_from_the_checkpoint_three_times() -> None:
    life = _life(*_TO_BATCHES)
    steps = []
    for _ in range(4):
        steps.append(life.next(Outdated(_UNFORESEEN)))
        life.step = RunBatches()
    assert steps == [Look(), Look(), Look(), End("failed", _UNFORESEEN)]


# --- any life --------------------------------------------------------------------------------------------------------

_ERRORS = (_LATE, _PASSING, _FINAL, _UNFORESEEN, _FENCED)


def _event(step: Step, chance: random.Random) -> Event:
    """Return an event by which a step may end."""
    failed = Failed(chance.choice(_ERRORS))
    choices: dict[type[Any], Sequence[Event]] = {
        Acquire: (Done(), HeldElsewhere(_HELD), failed),
        AwaitRelease: (Elsewhere(None), Elsewhere("stopped")),
        Look: (_RUNS, _RUNS, Seen(moved=True, desired="running"), Seen(moved=False, desired="stopped"), failed),
        Renew: (Done(), failed),
        AwaitViews: (Done(), Stopped(), failed),
        Claim: (Done(), Stopped(), failed),
        CommitPending: (_READY, Ready(caught_up=False, needs_spark=True), Reassigned(), Outdated(_UNFORESEEN), failed),
        OpenSpark: (Done(), Stopped(), failed),
        RunBatches: (BatchesEnded(None), BatchesEnded("stopped"), Outdated(_UNFORESEEN), failed),
        Wait: (Waited(),),
    }
    return chance.choice(choices[type(step)])


@pytest.mark.parametrize("seed", range(20))
def test_in_any_life_a_table_is_claimed_under_a_lease_and_batches_run_under_a_claim(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        life = SinkLife(chance.random() < 0.5, Retries(chance.random() < 0.5))
        leased = renewed = claimed = False
        stopped_after = None
        for turn in range(300):
            step = life.step
            if isinstance(step, End):
                break
            if isinstance(step, Look):
                claimed, renewed = False, not life.retries.claimed
            assert leased or isinstance(step, Acquire | AwaitRelease | Wait)
            if isinstance(step, Claim):
                assert renewed, "a second claim needs a lease that was renewed"
            if isinstance(step, CommitPending | OpenSpark | RunBatches):
                assert claimed
            stopping = stopped_after is not None or (turn > 200 and chance.random() < 0.1)
            if stopping and stopped_after is None:
                stopped_after = turn
            event = _event(step, chance)
            life.next(event, stopping=stopping)
            leased = leased or (isinstance(step, Acquire) and event == Done())
            renewed = renewed or (isinstance(step, Renew) and event == Done())
            claimed = claimed or (isinstance(step, Claim) and event == Done())
            if stopped_after is not None and not isinstance(life.step, End):
                assert not isinstance(life.step, Claim), "a sink that must stop claims its table"
