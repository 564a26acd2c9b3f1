"""A Spark without Java: a start, workers and an engine in threads of this process. It may die, as a Java process does.

It takes the places of the modules that import pyspark; the application, the hand-over and the rest are SinkQL's own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkql import physical
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.local.engine import LocalEngine
from support.batch_worker import ThreadWorker


@dataclass(eq=False)
class Session:
    """The session of one start: `died` by itself, or `ended` by request; `executing` batches."""

    died: bool = False
    ended: bool = False
    executing: int = 0

    def check(self) -> None:
        """Raise ConnectionResetError if it no longer answers."""
        if self.died or self.ended:
            raise ConnectionResetError("Java has ended")


@dataclass
class ThreadedSpark:
    """All starts of Spark in this process.

    `resting` is called when one is asked to end. `misused` says how it was misused. With `die_in`, the Spark
    dies in the batch of that number.
    """

    resting: Callable[[], object] = bool
    misused: list[str] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    batches: int = 0
    die_in: frozenset[int] = frozenset()

    def living(self) -> Session | None:
        """Return the session that runs."""
        return next((each for each in self.sessions if not each.died and not each.ended), None)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Take the place of Spark for the block."""
        modules: dict[str, Any] = {
            "session": SimpleNamespace(SparkStart=lambda settings: _Start(self)),
            "batch_worker": SimpleNamespace(SparkWorker=_Worker),
            "engine": SimpleNamespace(SparkEngine=lambda session, buckets: _Engine(self, session, buckets)),
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, module in modules.items():
                patch.setitem(sys.modules, f"sinkql.runtime.spark.{name}", module)
            yield


class _Start:
    """What `SparkStart` is, with a session that needs no time."""

    starved = None
    failed = False

    def __init__(self, spark: ThreadedSpark) -> None:
        self._spark = spark
        self._session: Future[Session] = Future()
        self._begun = False

    def begin(self, then: Callable[[], object] = lambda: None) -> bool:
        if self._begun:
            return False
        self._begun = True
        session = Session()
        self._spark.sessions.append(session)

        def run() -> None:
            self._session.set_result(session)
            then()

        threading.Thread(target=run, daemon=True).start()
        return True

    @property
    def is_up(self) -> bool:
        return self._session.done()

    def death(self) -> int | None:
        return -9 if self.is_up and self._session.result().died else None

    def wait(self, seconds: float) -> None:
        pass

    def result(self, timeout: float | None = None) -> Session:
        return self._session.result(timeout)

    def try_executor(self, stops: Callable[[], bool]) -> None:
        pass

    def cancel(self) -> None:
        pass

    def end(self, patience: float = 0.0) -> None:
        session = self._session.result()
        if session.executing and not session.died:
            self._spark.misused.append("Spark was ended during a batch")
        self._spark.resting()
        session.ended = True


class _Worker(ThreadWorker):
    """A worker that runs no rounds once its Spark has ended."""

    def __init__(self, session: Session, folder: Path, run_round: Callable[[], None]) -> None:
        session.check()
        super().__init__(lambda: None if session.died else run_round())
        self._session = session

    def failure(self) -> Exception | None:
        try:
            self._session.check()
        except ConnectionResetError as error:
            return error
        return None


class _Engine:
    """Runs each batch, whatever its size, in the session of that moment."""

    def __init__(self, spark: ThreadedSpark, session: Callable[[], Session], buckets: int) -> None:
        self._spark = spark
        self._session = session
        self._engine = LocalEngine(buckets, policy="strict")
        self.bucketing, self.buckets = self._engine.bucketing, buckets

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        session = self._session()
        session.check()
        if threading.current_thread().name == "batches":
            self._spark.misused.append("a batch of Spark held a worker of this process")
        session.executing += 1
        try:
            self._spark.batches += 1
            outcome = self._engine.execute(job, batch)
            session.died |= self._spark.batches in self._spark.die_in
            session.check()
        finally:
            session.executing -= 1
        return replace(outcome, in_spark=True)
