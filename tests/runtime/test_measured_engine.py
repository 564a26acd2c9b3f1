"""The in-process engine of sinks: which batches it takes, and what it learns from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from sinkql import physical
from sinkql.connector_api.stream import Limit, Size
from sinkql.lowering.placement import COLD, WARM
from sinkql.runtime.batch.engine import Batch, Outcome, SparkNeededError
from sinkql.runtime.local import measured_engine
from sinkql.runtime.local.measured_engine import MeasuredEngine, SharedPlacement
from support.running import counter, job

_SMALL = Size(10, 100)
_MIDDLE = Size(10, WARM.bytes + 1)
_LARGE = Size(10, COLD.bytes + 1)


@dataclass
class _Engine:
    """An engine that counts its batches, each of which takes `seconds` of a clock; it may decline them."""

    bucketing = "none"
    buckets = 2
    declines: bool = False
    seconds: float = 0.0
    clock: float = 0.0
    batches: int = 0

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        self.batches += 1
        self.clock += self.seconds
        if self.declines:
            raise SparkNeededError("a row fails")
        return Outcome((), {})


@dataclass
class _Case:
    """An engine under measurement, with a job, and batches of a given size."""

    folder: Path
    patch: pytest.MonkeyPatch
    engine: _Engine = field(default_factory=_Engine)
    spark_up: bool = False
    starts: int = 0

    def __post_init__(self) -> None:
        self.job = job(counter(), self.folder)
        self.measured = MeasuredEngine(
            self.engine, SharedPlacement(), spark_up=lambda: self.spark_up, start_spark=self._start
        )
        clock = SimpleNamespace(thread_time=lambda: self.engine.clock)
        self.patch.setattr(measured_engine, "time", clock)

    def _start(self) -> None:
        self.starts += 1

    def runs(self, size: Size | None) -> bool:
        """Return whether the batch runs in process."""
        self.patch.setattr(measured_engine, "size_of", lambda batch: size)
        batch: Any = None
        try:
            self.measured.execute(self.job, batch)
        except SparkNeededError:
            return False
        return True


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Case:
    return _Case(tmp_path, monkeypatch)


def test_a_batch_that_is_large_or_of_unknown_size_is_not_begun(case: _Case) -> None:
    assert [case.runs(size) for size in (_SMALL, _MIDDLE, _LARGE, None)] == [True, True, False, False]
    assert case.engine.batches == 2


def test_with_spark_up_less_is_small(case: _Case) -> None:
    case.spark_up = True
    assert [case.runs(size) for size in (_SMALL, _MIDDLE)] == [True, False]


def test_a_batch_that_gave_up_once_is_not_begun_again(case: _Case) -> None:
    case.engine.declines = True
    assert [case.runs(_SMALL) for _ in range(3)] == [False, False, False]
    assert case.engine.batches == 1
    case.engine.declines = False
    assert case.runs(Size(_SMALL.rows - 1, _SMALL.bytes))


def test_spark_starts_when_batches_in_process_take_much_of_the_time(case: _Case) -> None:
    case.engine.seconds = 10.0
    for _ in range(3):
        with case.measured._placement.locked() as placement:
            placement.forget(case.job.sink_id)  # otherwise the next batch would be estimated as slow
        assert case.runs(_SMALL)
    assert case.starts == 1


def test_a_batch_is_limited_as_long_as_spark_does_not_run(case: _Case) -> None:
    assert case.measured.room(case.job) == Limit(COLD.rows(), COLD.bytes)
    case.spark_up = True
    assert case.measured.room(case.job) is None


@pytest.mark.parametrize("change", [{"execution": "SPARK"}, {"master": "spark://a:1"}, {"master": "local[3]"}])
def test_a_job_whose_large_batches_are_sparks_has_no_limit(case: _Case, change: dict[str, str]) -> None:
    assert case.measured.room(msgspec.structs.replace(case.job, **change)) is None


def test_a_job_with_state_has_no_limit(case: _Case) -> None:
    kept = job(physical.Normalize(counter(), "rows", ("counter",)), case.folder)
    assert case.measured.room(kept) is None


def test_a_job_that_gave_up_has_no_limit(case: _Case) -> None:
    case.engine.declines = True
    case.runs(_SMALL)
    assert case.measured.room(case.job) is None
