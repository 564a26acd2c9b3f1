"""Where batches run, by their size, by what earlier ones cost, and by the load of the process."""

from __future__ import annotations

import random

import pytest

from sinkql.connector_api.stream import Size
from sinkql.lowering.placement import COLD, WARM
from sinkql.runtime.local.placement import Placement

_IN_PROCESS, _SPARK = "in process", "Spark"
_MB = 1 << 20


def _placement(*, idle_s: float = 300.0) -> Placement:
    return Placement(idle_s=idle_s)


@pytest.mark.parametrize(
    ("size", "spark_up", "engine"),
    [
        (Size(0, 0), False, "in process"),
        (Size(10, 1000), True, "in process"),
        (Size(999_000, 256 * _MB), False, "in process"),
        (Size(1_001_000, _MB), False, "Spark"),
        (Size(10, 256 * _MB + 1), False, "Spark"),
        (Size(66_000, 64 * _MB), True, "in process"),
        (Size(67_000, _MB), True, "Spark"),
        (Size(10, 64 * _MB + 1), True, "Spark"),
    ],
)
def test_the_limits_are_lower_while_spark_runs(size: Size, spark_up: bool, engine: str) -> None:
    assert engine == _placement().place("a", size, at=0.0, spark_up=spark_up)


def test_a_batch_of_unknown_size_is_sparks() -> None:
    assert _placement().place("a", None, at=0.0, spark_up=False) == _SPARK


def test_measured_rates_move_the_limits_of_their_job_alone() -> None:
    placement = _placement()
    for at in range(30):
        placement.ran_in_process("slow", Size(50_000, 1), 1.0, at=100.0 * at)  # 20 µs a row
        placement.ran_in_process("fast", Size(50_000, 1), 0.05, at=100.0 * at)  # 1 µs a row
    placed = {
        job: [placement.place(job, Size(rows, 1), at=3000.0, spark_up=False) for rows in (140_000, 160_000)]
        for job in ("slow", "other")
    }
    assert placed == {"slow": ["in process", "Spark"], "other": ["in process", "in process"]}
    assert placement.place("fast", Size(2_800_000, 1), at=3000.0, spark_up=False) == _IN_PROCESS
    assert placement.estimate("fast", Size(1_000_000, 1)) == pytest.approx(1.0, rel=0.05)
    placement.forget("slow")
    assert placement.place("slow", Size(160_000, 1), at=3000.0, spark_up=False) == _IN_PROCESS


def test_later_batches_outweigh_earlier_ones() -> None:
    placement = _placement()
    for at, seconds in enumerate([1.0] * 20 + [0.1] * 20):
        placement.ran_in_process("a", Size(20_000, 1), seconds, at=100.0 * at)
    assert placement.estimate("a", Size(1_000_000, 1)) == pytest.approx(5.0, rel=0.2)


def test_a_slow_first_batch_of_few_rows_does_not_start_spark() -> None:
    placement = _placement()
    placement.ran_in_process("a", Size(10_000, 1), 0.7, at=0.0)  # it also imported modules
    assert placement.place("a", Size(200_000, 1), at=1.0, spark_up=False) == _IN_PROCESS


def test_small_batches_tell_the_cost_of_a_batch_and_not_of_a_row() -> None:
    placement = _placement()
    for at in range(50):
        placement.ran_in_process("a", Size(10, 100), 0.025, at=float(at))
    assert placement.estimate("a", Size(10, 100)) == pytest.approx(0.025, rel=0.05)
    assert placement.estimate("a", Size(500_000, 1)) == pytest.approx(1.525, rel=0.05)
    for at in range(50):
        placement.ran_in_process("a", Size(20_000, 100), 0.125, at=100.0 + at)  # 5 µs a row above the 25 ms
    assert placement.estimate("a", Size(500_000, 1)) == pytest.approx(2.525, rel=0.05)


def test_batches_that_gave_up_are_sparks_from_their_size_on_for_an_hour() -> None:
    placement = _placement()
    placement.gave_up("a", Size(5000, 1), at=0.0)
    placement.gave_up("a", Size(9000, 1), at=10.0)
    engines = {rows: placement.place("a", Size(rows, 1), at=20.0, spark_up=False) for rows in (4999, 5000, 8000)}
    assert engines == {4999: _IN_PROCESS, 5000: _SPARK, 8000: _SPARK}
    assert placement.place("b", Size(8000, 1), at=20.0, spark_up=False) == _IN_PROCESS
    large = placement.place("a", Size(4_000_000, 1), at=20.0, spark_up=False)
    assert large == _SPARK, "a part of it may give up again"
    assert placement.place("a", Size(8000, 1), at=3609.0, spark_up=False) == _SPARK
    assert placement.place("a", Size(8000, 1), at=3610.0, spark_up=False) == _IN_PROCESS
    placement.gave_up("a", Size(9000, 1), at=3620.0)
    assert placement.place("a", Size(8000, 1), at=3630.0, spark_up=False) == _IN_PROCESS


@pytest.mark.parametrize(("share", "starts"), [(0.39, False), (0.42, True)])
def test_spark_starts_if_batches_take_much_of_a_core_for_a_minute(share: float, starts: bool) -> None:
    placement = _placement()
    for at in range(59):
        placement.ran_in_process("a", Size(10, 1), share, at=float(at))
        assert not placement.wants_spark(float(at)) or at >= 0.4 * 60 / share - 1
    placement.ran_in_process("a", Size(10, 1), share, at=59.0)
    assert placement.wants_spark(59.5) is starts
    assert not placement.wants_spark(90.0)


def test_one_large_batch_is_not_a_load() -> None:
    placement = _placement()
    placement.ran_in_process("a", Size(1_000_000, 1), 3.0, at=0.0)
    assert not placement.wants_spark(0.0)


def test_spark_rests_after_the_idle_time_without_need() -> None:
    placement = _placement(idle_s=300.0)
    placement.ran_in_spark("a", Size(5_000_000, 1), at=100.0)
    assert [placement.may_rest(at) for at in (101.0, 399.0, 402.0)] == [False, False, True]
    placement.ran_in_spark("a", None, at=402.0)
    assert [placement.may_rest(at) for at in (403.0, 701.0, 702.0)] == [False, False, True]
    placement.gave_up("a", Size(5000, 1), at=1002.0)
    assert [placement.may_rest(at) for at in (1301.0, 1302.0)] == [False, True]
    placement.ran_in_spark("a", Size(5000, 1), at=1302.0)
    assert [placement.may_rest(at) for at in (1601.0, 1602.0)] == [False, True]


def test_batches_that_are_sparks_only_while_it_runs_do_not_keep_it() -> None:
    placement = _placement(idle_s=300.0)
    placement.ran_in_spark("a", Size(5_000_000, 1), at=0.0)
    assert not placement.may_rest(0.5)
    for at in range(1, 400, 10):
        size = Size(100_000, 1)
        assert placement.place("a", size, at=float(at), spark_up=True) == "Spark"
        placement.ran_in_spark("a", size, at=float(at))  # 0.3 s of ten in process
    assert placement.may_rest(400.0)


def test_spark_stays_while_its_batches_would_be_a_load_in_process() -> None:
    placement = _placement(idle_s=300.0)
    for at in range(400):
        placement.ran_in_spark("a", Size(200_000, 1), at=float(at))  # 0.6 s a second in process
        assert not placement.may_rest(float(at))
        assert not placement.wants_spark(float(at)), "only batches in this process start it"
    quiet = next(at for at in range(400, 1000) if placement.may_rest(float(at)))
    assert 300 <= quiet - 400 <= 360, "at most a minute until the load is low, then the idle time"


@pytest.mark.parametrize("seed", range(20))
def test_a_random_trace_keeps_spark_as_long_as_it_is_needed(seed: int) -> None:
    """A model follows all events: need and load of every second; the decisions equal it."""
    rng, placement, idle_s = random.Random(seed), _placement(idle_s=120.0), 120.0
    work: list[tuple[int, float]] = []
    in_process: list[tuple[int, float]] = []
    needed, low_since = -1e9, None
    for at in range(1500):
        busy = (at // 300) % 2 == 0
        if rng.random() < (0.5 if busy else 0.05):
            size = Size(rng.choice((10, 1000, 50_000, 300_000)), 1)
            if rng.random() < 0.5:
                seconds = placement.estimate("a", size)
                placement.ran_in_process("a", size, seconds, at=float(at))
                in_process.append((at, seconds))
            else:
                seconds = placement.estimate("a", size)
                placement.ran_in_spark("a", size, at=float(at))
            work.append((at, seconds))
        elif rng.random() < 0.005:
            placement.ran_in_spark("a", None, at=float(at))
            needed = at
        load, own = (sum(s for then, s in done if then > at - 60) / 60 for done in (work, in_process))
        low_since = None if load >= 0.2 else at if low_since is None else low_since
        assert placement.wants_spark(float(at)) is (own > 0.4)
        rests = at - needed >= idle_s and low_since is not None and at - low_since >= idle_s
        assert placement.may_rest(float(at)) is rests


def test_the_limits_are_those_that_explain_shows() -> None:
    assert (COLD.rows(), WARM.rows()) == (1_000_000, 66_666)
    assert COLD.holds(Size(1_000_000, 1))
    assert not COLD.holds(Size(1_000_001, 1))
    assert not COLD.holds(Size(1, 256 * _MB + 1))


def test_a_batch_of_the_most_rows_is_allowed_and_a_larger_one_is_not() -> None:
    placement = _placement()
    rng = random.Random(3)
    for at in range(200):
        rows = placement.most_rows("a", at=float(at))
        assert rows is not None
        assert placement.place("a", Size(rows, 1), at=float(at), spark_up=False) == "in process"
        assert placement.place("a", Size(rows * 2 + 2, 1), at=float(at), spark_up=False) == "Spark"
        ran = rng.choice([rows, max(rows // 1000, 1), 1])
        placement.ran_in_process("a", Size(ran, 1), rng.choice([1e-7, 1e-6, 1e-4]) * ran + rng.random() / 10, at=at)


def test_a_job_whose_small_batches_take_too_long_has_no_most_rows() -> None:
    placement = _placement()
    for at in range(50):
        placement.ran_in_process("a", Size(1, 1), 2 * COLD.seconds, at=float(at))
    assert placement.place("a", Size(1, 1), at=50.0, spark_up=False) == "Spark"
    assert placement.most_rows("a", at=50.0) is None


def test_a_job_that_gave_up_has_no_most_rows_for_an_hour() -> None:
    placement = _placement()
    placement.gave_up("a", Size(100, 1), at=5.0)
    assert placement.most_rows("a", at=3604.0) is None
    assert placement.most_rows("b", at=3604.0) == COLD.rows()
    assert placement.most_rows("a", at=3605.0) == COLD.rows()
