"""The machine is replaced → waits, ids and what was read are those of the simulation, without real time."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from sinkql.connectors.iceberg.table.target import Patience
from sinkql.machine import clock, memory, randomness
from sinkql.machine.clock import Clock, Waitable
from sinkql.runtime.batch.clock import ClockReader
from sinkql.storage import files

_YEAR_S = 365 * 86_400


class _Simulated(Clock):
    """A clock that only sleeps and waits move."""

    def __init__(self) -> None:
        self.now_ns = 0

    def time_ns(self) -> int:
        return self.now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)

    def wait(self, event: Waitable, seconds: float) -> bool:
        self.sleep(seconds)
        return event.wait(0)


def test_a_simulated_clock_moves_by_sleeps_and_waits_alone() -> None:
    with clock.use(_Simulated()):
        assert (clock.time(), clock.monotonic(), clock.time_ms()) == (0, 0, 0)
        clock.sleep(_YEAR_S)
        assert not clock.wait(threading.Event(), _YEAR_S)
        assert (clock.time(), clock.monotonic_ns()) == (2 * _YEAR_S, 2 * _YEAR_S * 10**9)
        assert clock.now().isoformat() == "1972-01-01T00:00:00+00:00"
    assert clock.time() > 40 * _YEAR_S


def test_a_function_that_was_stored_before_asks_the_new_clock() -> None:
    reader = ClockReader()
    with clock.use(_Simulated()):
        clock.sleep(1.5)
        assert reader.target({"at": 0}) == {"at": 1500}


def test_the_clock_is_that_of_the_machine() -> None:
    before = time.time_ns(), time.monotonic_ns()
    told = clock.time_ns(), clock.monotonic_ns()
    after = time.time_ns(), time.monotonic_ns()
    assert before[0] <= told[0] <= after[0]
    assert before[1] <= told[1] <= after[1]


def test_a_commit_waits_in_simulated_time_and_as_long_each_time() -> None:
    def waited() -> float:
        with clock.use(_Simulated()), randomness.use(random.Random(7).randbytes):
            for failures in range(1, 20):
                Patience(first=100, longest=10_000).wait(failures)
            return clock.monotonic()

    assert waited() == waited()
    assert 19 * 50 < waited() < 19 * 10_000


@pytest.mark.parametrize("make", [randomness.new_id, randomness.new_uuid])
def test_ids_are_random_uuids(make: Callable[[], str]) -> None:
    ids = [uuid.UUID(make()) for _ in range(100)]
    assert {(id_.version, id_.variant) for id_ in ids} == {(4, uuid.RFC_4122)}
    assert len(set(ids)) == 100
    assert len(make()) == (32 if make is randomness.new_id else 36)


def test_numbers_lie_in_their_range() -> None:
    assert all(0 <= randomness.new_number() < 2**63 for _ in range(1000))
    assert all(0.5 <= randomness.jitter(0.5, 1.0) <= 1.0 for _ in range(1000))


def test_the_same_seed_makes_the_same_names(tmp_path: Path) -> None:
    def made() -> list[str]:
        with randomness.use(random.Random(3).randbytes):
            return [randomness.new_id(), randomness.new_uuid(), files._temporary_path(tmp_path).name]

    assert made() == made()
    assert randomness.new_id() not in made()


def test_hosts_of_a_simulation_do_not_share_what_they_have_read() -> None:
    read: list[int] = []

    @memory.remembered(2)
    def page(number: int) -> list[int]:
        read.append(number)
        return [number]

    assert page(1) is page(1)
    with memory.use(memory.Memory()):
        assert page(1) is page(1)
    assert page(1) is page(1)
    assert read == [1, 1]
    page.cache_clear()
    assert page(1) == [1]
    assert read == [1, 1, 1]
