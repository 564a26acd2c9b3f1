"""A sink's maintenance stays within its share of the time and does not delay batches for long."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sinkql.runtime.batch.pacing import MaintenanceBudget


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def keep_house(allowance: MaintenanceBudget, clock: Clock, *, step: float, begun: bool = True) -> float:
    """Run maintenance steps while the budget allows them; return their duration."""
    before = clock.now
    with allowance.record() as go_on:
        while go_on(begun):
            clock.now += step
    return clock.now - before


@pytest.mark.parametrize("share", [0.15, 0.5])
@pytest.mark.parametrize("interval", [0.2, 1.0, 10.0, 60.0])
@pytest.mark.parametrize("step", [0.01, 0.3, 1.5])
def test_share_of_the_time_is_kept(interval: float, step: float, share: float) -> None:
    clock = Clock()
    allowance = MaintenanceBudget(share, clock=clock)
    spent = []
    for _ in range(500):
        clock.now += interval
        spent.append(keep_house(allowance, clock, step=step))
    assert sum(spent) <= share * (500 * interval + sum(spent)) + 1 + step
    assert max(spent) <= 2 + step
    if interval * share < 1.5:  # otherwise saved time is not spent in full, because it would delay a batch
        assert sum(spent) >= 0.86 * share * 500 * interval


def test_no_share_is_no_work() -> None:
    assert keep_house(MaintenanceBudget(0.0, clock=Clock()), Clock(), step=0.25) == 0.0


def test_first_run_is_short() -> None:
    clock = Clock()
    assert keep_house(MaintenanceBudget(clock=clock), clock, step=0.25) == 1.0


def test_other_work_does_not_use_it_up() -> None:
    clock = Clock()
    allowance = MaintenanceBudget(clock=clock)
    with allowance.record() as go_on:
        assert go_on(False)
        clock.now += 0.5
        assert go_on(True)
        clock.now += 100  # like an expiry of old snapshots
    assert keep_house(allowance, clock, step=0.25) == 2.0


def test_last_call_ends_what_was_begun_and_begins_nothing() -> None:
    clock = Clock()
    steps = iter([False] * 40 + [True])
    allowance = MaintenanceBudget(clock=clock, last=lambda: not next(steps))
    assert keep_house(allowance, clock, step=0.25) == 11.0
    assert keep_house(allowance, clock, step=0.25, begun=False) == 0.0


def test_stop_ends_the_work_at_its_next_step() -> None:
    clock = Clock()
    allowance = MaintenanceBudget(clock=clock, last=lambda: True, stops=lambda: clock.now > 100.4)
    assert keep_house(allowance, clock, step=0.25) == 0.5


@pytest.mark.parametrize("step", [0.01, 0.1])
def test_a_batch_that_is_due_waits_for_its_share_of_the_interval_and_the_end_of_a_step(step: float) -> None:
    clock, due_at = Clock(), 0.0
    allowance = MaintenanceBudget(clock=clock, left=lambda: due_at - clock.now)
    spent, late = [], []
    for number in range(100):
        due_at = clock.now + 1
        clock.now += 0.3 if number % 10 == 9 else 1.2  # most batches take longer than the interval
        before = clock.now
        spent.append(keep_house(allowance, clock, step=step))
        late.append(clock.now - max(before, due_at))
    assert max(late) <= 0.15 * (1.2 + max(spent)) + step + 1e-9
    assert sum(spent) >= 0.86 * 0.15 * sum([*[1.2] * 9, 0.3] * 10)


def test_time_that_is_left_until_a_batch_is_due_goes_into_what_was_saved_up() -> None:
    clock, due_at = Clock(), 0.0
    allowance = MaintenanceBudget(clock=clock, left=lambda: due_at - clock.now)
    assert keep_house(allowance, clock, step=0.25) == 0.0
    due_at = clock.now + 0.75
    assert keep_house(allowance, clock, step=0.25) == 0.75
