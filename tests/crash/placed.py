"""Run sinks whose batches change between this process and Spark, as an application does, while input comes.

As a program, it forks a process for each order. There Spark is `ThreadedSpark`, the limits between both places are a
few kilobytes, and Spark rests after a few milliseconds. Failpoints kill the process, or an alarm after some seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import pytest

from crash import child, pipeline
from crash.pipeline import Pipeline
from sinkql.connector_api.registry import discover
from sinkql.lowering.placement import Allowance
from sinkql.runtime.batch.events import Event, SinkCommitted, SinkStage, SparkRested, SparkStarting
from sinkql.runtime.local import batch, placement
from sinkql.runtime.process import application
from sinkql.runtime.process.application import RunSpec
from sinkql.runtime.schedule.schedule import ScheduleLimits
from sinkql.runtime.sink import control, host, life
from sinkql.runtime.sink.runner import SinkRunner
from sinkql.runtime.spark.application import SparkApplication
from sinkql.runtime.spark.settings import SparkSettings
from sinkql.storage import failpoint
from support.fault import armed
from support.forking import needed_threads, serve
from support.patience import Deadline
from support.running import FixedWorkload, MemoryControl, contexts
from support.threaded_spark import ThreadedSpark

SINKS = ("append", "upsert", "view", "letters")
Width = Literal["small", "wide", "heavy"]
Before = Literal["", "rest", "rest with a batch due"]
_PAD = {"small": 0, "wide": 1_500, "heavy": 0}
_LONG = {"small": 0, "wide": 0, "heavy": 300}
_ALLOWED_BYTES = 16_000
"""A batch of wide rows has more: it is Spark's at once."""
_ROWS_BYTES = 6_000
"""A batch of heavy rows has more once it is read: it begins in process."""
_IDLE_S = _SPARK_IDLE_S = 0.03
_LOOK_S = 0.01
_INTERVAL = timedelta(milliseconds=40)
_OLD = (1_700_000_000, 1_700_000_000)
"""The time of a file that no process writes to."""


@dataclass(frozen=True)
class Part:
    """Some input, and what comes before it: Spark may rest until then, and may begin to as the input comes."""

    rows: int
    width: Width
    before: Before = ""


@dataclass
class Told:
    """What happened in a process: starts and rests of Spark, batches in each place, and misuse of Spark."""

    starts: int = 0
    rests: int = 0
    deaths: int = 0
    in_spark: int = 0
    in_process: int = 0
    misused: list[str] = field(default_factory=list)


def trace(seed: int, parts: int, *, large: bool = True) -> list[Part]:
    """Return a random trace of input, of which some is large."""
    chance = random.Random(seed)
    widths: Sequence[Width] = ("small", "wide", "heavy") if large else ("small",)
    befores: Sequence[Before] = ("", "", "rest", "rest with a batch due")
    return [Part(chance.randint(15, 60), chance.choice(widths), chance.choice(befores)) for _ in range(parts)]


def pipelines(folder: Path, sinks: Sequence[str] = SINKS) -> dict[str, Pipeline]:
    """Return the pipelines of sinks, in folders of their own."""
    return {kind: Pipeline(folder / kind, kind, sink_id=f"5f6e1c1e-{kind}") for kind in sinks}


def bad(number: int) -> bool:
    """Return whether the record is one that the sink with dead letters cannot decode."""
    return number % 7 == 3


def line(kind: str, number: int, width: Width) -> str:
    """Return a record of a sink's input."""
    if kind == "letters" and bad(number):
        return json.dumps({"n": f"bad {number}"})
    row = pipeline._row(number, random.Random(number))
    row["u"] = f"{row['u']}{'u' * _LONG[width]}" if row["u"] is not None else None
    return json.dumps(row | {"pad": "p" * _PAD[width]})


class _Feeder:
    """Writes one part after the other, when all sinks have those before it; then stops the application."""

    def __init__(
        self,
        pipelines: Mapping[str, Pipeline],
        parts: Sequence[Part],
        spark: ThreadedSpark,
        stopping: threading.Event,
    ) -> None:
        self.pipelines = pipelines
        self.parts = parts
        self.spark = spark
        self.stopping = stopping
        self.told = Told()
        self.error: BaseException | None = None
        self.application: application._Application | None = None
        self._changed = threading.Condition()
        self._waits_for_spark = 0
        self._due = False

    def tell(self, event: Event) -> None:
        with self._changed:
            match event:
                case SparkStarting():
                    self.told.starts += 1
                case SparkRested():
                    self.told.rests += 1
                case SinkStage(stage="waiting for Spark"):
                    self._waits_for_spark += 1
                case SinkCommitted(in_spark=True):
                    self.told.in_spark += 1
                case SinkCommitted():
                    self.told.in_process += 1
                case _:
                    pass
            self._changed.notify_all()

    def resting(self) -> None:
        """Write a large part while Spark rests, and wait until a batch of it is handed over."""
        with self._changed:
            due, self._due, before = self._due, False, self._waits_for_spark
        if due and not self.stopping.is_set():
            self._write()
            with self._changed:
                assert self._changed.wait_for(lambda: self._waits_for_spark > before, Deadline().left())
            failpoint.point("resting-due")

    def run(self) -> None:
        try:
            self._wait_for_all()
            while (number := self._next()) < len(self.parts):
                before = self.parts[number].before
                if before and self.spark.living() is not None:
                    self._let_rest(due=before == "rest with a batch due" and self.parts[number].width == "wide")
                if self._next() == number:
                    self._write()
                self._wait_for_all()
        except BaseException as error:
            self.error = error
        finally:
            self.stopping.set()

    def _let_rest(self, *, due: bool) -> None:
        with self._changed:
            rests, self._due = self.told.rests, due
            assert self._changed.wait_for(lambda: self.told.rests > rests, Deadline().left())

    def _next(self) -> int:
        """Return the number of the first part that is not written for all sinks."""
        return min(len(list((each.folder / "in").glob("*.json"))) for each in self.pipelines.values())

    def _write(self) -> None:
        number = self._next()
        first, part = sum(each.rows for each in self.parts[:number]), self.parts[number]
        for kind, each in self.pipelines.items():
            path = each.folder / "in" / f"{number:04}.json"
            text = "".join(f"{line(kind, row, part.width)}\n" for row in range(first, first + part.rows))
            new = path.with_suffix(".new")
            new.write_text(text)
            os.utime(new, _OLD)
            new.replace(path)

    def _wait_for_all(self) -> None:
        """Wait until all sinks have committed the present input."""
        deadline = Deadline()
        while not self._has_all():
            assert deadline.left(), "a sink does not get on"
            assert self.application is None or not self.application.ended, self.application.ended
            with self._changed:
                self._changed.wait(_LOOK_S)

    def _has_all(self) -> bool:
        if self.application is None:
            return False
        runners = [runner for runner, _ in list(self.application.running.values())]
        return len(runners) == len(self.pipelines) and all(map(_has_all, runners))


def _has_all(runner: SinkRunner) -> bool:
    loop = runner.status.loop
    if loop is None:
        return False
    with runner.batches.lock:
        return loop.has(loop.present_end())


@contextmanager
def low_limits() -> Iterator[None]:
    """Lower the limits between the places, and all waits."""
    allowance = Allowance(1e9, _ALLOWED_BYTES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "COLD", allowance)
        patch.setattr(placement, "WARM", allowance)
        patch.setattr(placement, "_REMEMBERED_S", 0.0)
        patch.setattr(batch, "_BYTES", _ROWS_BYTES)
        patch.setattr(
            host, "ScheduleLimits", lambda most: ScheduleLimits(most, round=_IDLE_S, spark_idle=_SPARK_IDLE_S)
        )
        patch.setattr(control, "_LOOK_SECONDS", _LOOK_S)
        patch.setattr(application, "_LOOK_SECONDS", _LOOK_S)
        patch.setattr(life, "_FIRST_WAIT", 0.001)
        patch.setattr(SparkSettings, "killable", False)  # so that all threads end
        yield


def run(
    folder: Path, parts: Sequence[Part], *, sinks: Sequence[str] = SINKS, die_in: frozenset[int] = frozenset()
) -> Told:
    """Run the sinks until they have all parts. Spark dies in some of its batches."""
    stopping = threading.Event()
    spark = ThreadedSpark(die_in=die_in)
    feeder = _Feeder(pipelines(folder, sinks), parts, spark, stopping)
    spark.resting = feeder.resting
    for each in feeder.pipelines.values():
        (each.folder / "in").mkdir(parents=True, exist_ok=True)
    jobs = [
        msgspec.structs.replace(
            each.job(), sink=f"materialize.public.{kind}", commit_interval=_INTERVAL,
            spark_idle=timedelta(seconds=_SPARK_IDLE_S),
        )
        for kind, each in feeder.pipelines.items()
    ]  # fmt: skip
    of = {each.sink_id: each for each in feeder.pipelines.values()}
    spec = RunSpec(
        FixedWorkload(jobs),
        lambda job: contexts(of[job.sink_id].folder, job),
        discover(),
        MemoryControl(),
        feeder.tell,
        once=False,
        takeover=False,
    )
    with low_limits(), spark.installed():
        shared = SparkApplication(jobs, spec.contexts(jobs[0]), feeder.tell, stopping, submitted=False)
        feeder.application = application._Application(
            spec, stopping, shared, application._assignments_of(jobs[0].cluster, spec.workload)
        )
        threading.Thread(target=feeder.run, name="feeder", daemon=True).start()
        feeder.application.serve()
    if feeder.error is not None:
        raise feeder.error
    endings = Counter(outcome.ending for _, outcome in feeder.application.ended.values())
    assert endings == {"stopped": len(sinks)}, feeder.application.ended
    feeder.told.misused = spark.misused
    feeder.told.deaths = sum(session.died for session in spark.sessions)
    return feeder.told


def _run_order(order: dict[str, Any]) -> int:
    if order["failpoints"]:
        os.environ.update(armed(order["failpoints"]))
    if order["seconds"]:
        signal.setitimer(signal.ITIMER_REAL, order["seconds"])  # whatever it does then
    parts = [Part(**each) for each in order["parts"]]
    told = run(Path(order["folder"]), parts, sinks=order["sinks"])
    Path(order["told"]).write_text(json.dumps(asdict(told)))
    return 0


def main() -> None:
    """Run once, so that all forks have the imports and caches of a run; then serve."""
    with TemporaryDirectory() as folder:
        pipeline.write_input(Path(folder))
        child.run(Pipeline(Path(folder), "chain"))
        run(Path(folder) / "placed", [Part(5, "small"), Part(40, "wide"), Part(5, "small", "rest")])
    deadline = Deadline()
    while threads := needed_threads():
        assert deadline.left(), threads
        time.sleep(_LOOK_S)  # for threads that are about to end
    serve(_run_order)


if __name__ == "__main__":
    main()
