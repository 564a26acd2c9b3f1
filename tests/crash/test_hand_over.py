"""Kills while batches change between this process and Spark: each row is in the table once, whatever ran its batch.

A failpoint or an alarm kills the process, and the next process continues. The input is a trace of small and large
parts, between which Spark may rest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from signal import SIGALRM, SIGKILL

import pytest

from crash import placed, verify
from crash.pipeline import Pipeline
from crash.placed import SINKS, Part, Told, trace
from sinkql import physical
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.local.measured_engine import MeasuredEngine
from support.forking import Children, children_of
from support.readers import duckdb_folder

_HALVES = [("append", "view"), ("upsert", "letters")]
_PATTERN = (
    Part(30, "wide"), Part(20, "small"), Part(20, "wide", "rest"), Part(40, "wide", "rest with a batch due"),
    Part(45, "heavy", "rest"),
)  # fmt: skip
_POINTS = (
    "spark-resting", "batch-placed#2", "spark-needed", "handed-over", "worker-opening#2", "resting-due",
    "spark-starting", "worker-opened#2", "spark-rested", "spark-batch", "commit-request#3", "commit-reply#2",
    "committed#3", "resting-due",
)  # fmt: skip
"""In the order of the kills. The first worker is that of this process, the second one Spark's."""
_SECONDS = 1.5
"""A process that is killed at random lives less long."""


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with children_of("crash.placed") as found:
        yield found


def _run(
    children: Children,
    folder: Path,
    parts: Sequence[Part],
    failpoints: str = "",
    *,
    sinks: Sequence[str] = SINKS,
    seconds: float = 0.0,
) -> int | Told:
    """Run the sinks; return what happened, or the signal that killed the process."""
    told, log = folder / "told.json", folder / "log"
    pid = children.order(
        do="start", folder=str(folder), parts=[asdict(each) for each in parts], failpoints=failpoints, seconds=seconds,
        sinks=list(sinks), told=str(told), log=str(log),
    )  # fmt: skip
    code = int(children.order(do="wait", pid=pid))
    if code < 0:
        return -code
    assert code == 0, log.read_text()
    return Told(**json.loads(told.read_text()))


def _check(folder: Path, parts: Sequence[Part], *, sinks: Sequence[str] = SINKS) -> None:
    for kind, pipeline in placed.pipelines(folder, sinks).items():
        if kind == "letters":
            _check_dead(pipeline, parts)
        else:
            verify.check_rows(pipeline)
        verify.check_commits(pipeline)
        verify.check_index(pipeline)
        verify.check_state(pipeline)


def _check_dead(pipeline: Pipeline, parts: Sequence[Part]) -> None:
    """Check that each record is in one of both tables, with the last row of each key."""
    whole = sum(part.rows for part in parts)
    rows = {}
    for number in range(whole):
        if not placed.bad(number):
            rows[json.loads(placed.line("letters", number, "small"))["k"]] = number
    lake = pipeline.folder / "lake" / "n"
    found = duckdb_folder(str(lake / "t"), "k, n")
    assert dict(found) == rows
    assert len(found) == len(rows)
    bad = sorted(placed.line("letters", number, "small") for number in range(whole) if placed.bad(number))
    assert [row[0].decode() for row in duckdb_folder(str(lake / "t__errors"), "raw")] == bad


@pytest.mark.long
@pytest.mark.parametrize(
    ("sinks", "every"), [(_HALVES[0], 2), *(pytest.param(each, 1, marks=pytest.mark.soak) for each in _HALVES)]
)
def test_a_kill_at_any_step_of_the_hand_over_loses_and_doubles_no_row(
    children: Children, tmp_path: Path, sinks: Sequence[str], every: int
) -> None:
    parts = _PATTERN * (4 - every)
    for point in _POINTS[every - 1 :: every]:
        assert _run(children, tmp_path, parts, f"{point}=kill", sinks=sinks) == SIGKILL, point
    told = _run(children, tmp_path, parts, sinks=sinks)
    assert isinstance(told, Told)
    assert told.misused == []
    _check(tmp_path, parts, sinks=sinks)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_a_kill_at_any_time_loses_and_doubles_no_row(children: Children, tmp_path: Path, seed: int) -> None:
    chance, parts = random.Random(seed), trace(seed, 12 if seed else 8)
    sinks = _HALVES[(seed + 1) % 2]
    for _ in range(10 if seed else 4):
        ended = _run(children, tmp_path, parts, sinks=sinks, seconds=chance.uniform(0.1, _SECONDS))
        assert ended == SIGALRM or isinstance(ended, Told)
    assert isinstance(_run(children, tmp_path, parts, sinks=sinks), Told)
    _check(tmp_path, parts, sinks=sinks)


# --- without kills, in this process -----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_each_offset_is_committed_once_whenever_spark_dies_and_rests(tmp_path: Path, seed: int) -> None:
    parts, chance = trace(seed, 5 if seed == 0 else 12), random.Random(seed)
    parts[0] = Part(60, "wide")
    told = placed.run(tmp_path, parts, die_in=frozenset({1, *chance.sample(range(2, 20), 3)}))
    assert (told.misused, told.deaths > 0) == ([], True)
    assert told.starts > 1
    assert told.in_spark > 0 < told.in_process
    _check(tmp_path, parts)


def test_small_batches_start_no_spark(tmp_path: Path) -> None:
    parts = trace(5, 4, large=False)
    told = placed.run(tmp_path, parts, sinks=["view"])
    assert (told.starts, told.in_spark, told.in_process > 0) == (0, 0, True)
    _check(tmp_path, parts, sinks=["view"])


def test_a_batch_is_tried_once_in_process_also_after_one_that_spark_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, execute = 0, MeasuredEngine.execute

    def counted(engine: MeasuredEngine, job: physical.Job, batch: Batch) -> Outcome:
        nonlocal tries
        tries += 1
        return execute(engine, job, batch)

    monkeypatch.setattr(MeasuredEngine, "execute", counted)
    monkeypatch.setattr(placed, "_SPARK_IDLE_S", 1000.0)  # the next batch begins where the last one ran
    parts = [Part(20, "wide"), Part(15, "small"), Part(28, "heavy"), Part(15, "small")]
    told = placed.run(tmp_path, parts, sinks=["upsert"])
    assert (tries, told.in_spark, told.in_process, told.misused) == (4, 2, 2, [])
    _check(tmp_path, parts, sinks=["upsert"])
