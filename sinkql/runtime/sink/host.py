"""What the sinks of one Spark application share, and how the run of one of them ends.

Sinks that start together → a few at a time open the tables of one catalog, none behind one that hangs.

What users want of the sinks of an application: asked for all of them at once, however many of them ask.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.control import Control, Desired
from sinkql.runtime.batch.events import Ending, Progress
from sinkql.runtime.batch.scheduler import BatchScheduler
from sinkql.runtime.sink.requests import WaitRequests
from sinkql.runtime.sink.workload import Workload
from sinkql.runtime.spark.batch_worker import SparkWorker
from sinkql.runtime.spark.session import CancelledError

_AT_ONCE = 4
_PATIENCE_SECONDS = 10.0
"""After so long a claim counts no more: a table's files may be where nobody answers for minutes."""
_LOOK_SECONDS = 0.2
_REST_SECONDS = 2.0
"""How often who waits behind others looks whether it is to stop, if nobody tells it."""


class ClaimQueue:
    """Let sinks claim tables of one catalog, the first one alone: not every catalog makes its own tables safely.

    They take their turns in the order in which they came, and nobody is woken whose turn it is not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._begun: dict[object, float] = {}
        self._first = True

    @contextmanager
    def wait_turn(self, stops: Callable[[], bool]) -> Iterator[None]:
        """Wait for a turn, which the block has; raises CancelledError where the sink is to stop before it comes."""
        mine = threading.Event()
        self._await(mine, stops)
        done = False
        try:
            yield
            done = True
        finally:
            with self._lock:
                del self._begun[mine]
                self._first = self._first and not done
                self._call()

    def look(self) -> None:
        """Have all that wait see whether they are to stop."""
        with self._lock:
            for each in self._waiting:
                each.set()

    def _await(self, mine: threading.Event, stops: Callable[[], bool]) -> None:
        with self._lock:
            self._waiting.append(mine)
        while True:
            mine.clear()
            with self._lock:
                stopped, front = stops(), self._waiting[0] is mine
                if stopped or (front and self._going_on() < (1 if self._first else _AT_ONCE)):
                    self._waiting.remove(mine)
                    if not stopped:
                        self._begun[mine] = time.monotonic()
                    self._call()
                    break
            mine.wait(_LOOK_SECONDS if front else _REST_SECONDS)
        if stopped:
            raise CancelledError

    def _call(self) -> None:
        """Wake who is first in line now."""
        if self._waiting:
            self._waiting[0].set()

    def _going_on(self) -> int:
        since = time.monotonic() - _PATIENCE_SECONDS
        return sum(began > since for began in self._begun.values())


@dataclass(slots=True)
class DesiredStates:
    """Ask the control at most once in `every_seconds`, and tell each sink what it said of it; it may be so old."""

    control: Control
    every_seconds: float = 0.5
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ids: set[str] = field(default_factory=set)
    _known: dict[str, tuple[Desired, int | None]] = field(default_factory=dict)
    _error: SinkqlError | None = None
    _looked_at: float = float("-inf")

    def desired(self, sink_id: str) -> Desired:
        """Return what users want of a sink; raises SQ41xx where that cannot be read."""
        return self._wish(sink_id)[0]

    def asked(self, sink_id: str) -> bool:
        """Tell whether there was an OPTIMIZE SINK to do, which may have been done since."""
        return self._wish(sink_id)[1] is not None

    def now(self, sink_id: str) -> Desired:
        """Return what users want of a sink at this moment, which nothing older takes the place of."""
        with self._lock:
            self._ids.add(sink_id)
            self._known |= self.control.wishes_of([sink_id])
            return self._known[sink_id][0]

    def _wish(self, sink_id: str) -> tuple[Desired, int | None]:
        with self._lock:
            self._ids.add(sink_id)
            old = time.monotonic() >= self._looked_at + self.every_seconds
            if old or (self._error is None and sink_id not in self._known):
                self._look()
            if self._error is not None:
                raise self._error
            return self._known[sink_id]

    def _look(self) -> None:
        try:
            self._known, self._error = dict(self.control.wishes_of(self._ids)), None
        except SinkqlError as error:
            self._error = error  # the others that wait do not each ask a catalog that does not answer
        self._looked_at = time.monotonic()


@dataclass(frozen=True, slots=True)
class SinkOutcome:
    """How a sink ended, and the error if it failed, was fenced or lost its lease.

    `early` if the sink had to stop before it ran; `signal` is then the signal that stopped its process.
    """

    sink: str
    ending: Ending
    error: SinkqlError | None = None
    early: bool = False
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ran only this sink."""
        if self.error is not None:
            return self.error.exit_code
        return 128 + self.signal if self.early and self.signal is not None else 0


@dataclass(slots=True)
class SharedSpark:
    """The Spark application that the sinks of a process share.

    `session` waits until it runs, and `prepare` starts it in the background. `death` returns the error of the Spark of
    a session if it died. It runs up to `most_workers` workers, with folders in `folder`.
    """

    session: Callable[[], SparkSession]
    buckets: int
    folder: Path
    most_workers: int = 1
    prepare: Callable[[], None] = lambda: None
    death: Callable[[SparkSession], SinkqlError | None] = lambda _: None

    def open_worker(self, run_round: Callable[[], None]) -> SparkWorker:
        """Return a new worker whose scheduling rounds call the function."""
        return SparkWorker(self.session(), self.folder / uuid.uuid4().hex[:8], run_round)


@dataclass(slots=True)
class EndedSinks:
    """The sinks that do not run in this process any longer, by id."""

    ids: set[str] = field(default_factory=set)
    """Sinks that ran here and have ended."""
    errors: dict[str, str] = field(default_factory=dict)
    """Errors of those that failed."""
    elsewhere: set[str] = field(default_factory=set)
    """Views that another process runs."""


@dataclass(slots=True)
class SinkHost:
    """What all sinks of one Spark application share. `scheduler` runs their batches."""

    spark: SharedSpark
    registry: Registry
    control: Control
    progress: Progress
    roster: Workload
    contexts: Callable[[physical.Job], Context]
    once: bool
    stopping: threading.Event = field(default_factory=threading.Event)
    claiming: dict[str, ClaimQueue] = field(default_factory=lambda: defaultdict(ClaimQueue))
    ended: EndedSinks = field(default_factory=EndedSinks)
    since_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    """When the run began: a run with `once` commits what was available then."""
    scheduler: BatchScheduler = field(init=False)
    watch: DesiredStates = field(init=False)
    waits: WaitRequests = field(default_factory=WaitRequests)

    def __post_init__(self) -> None:
        self.scheduler = BatchScheduler(self.spark.open_worker, self.spark.most_workers)
        self.watch = DesiredStates(self.control)
