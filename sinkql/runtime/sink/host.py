"""What the sinks of one Spark application share, and how the run of one of them ends."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from sinkql import physical
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.events import Ending, Progress
from sinkql.runtime.batch.scheduler import BatchScheduler
from sinkql.runtime.sink.claiming import ClaimQueue
from sinkql.runtime.sink.waits import WaitRequests
from sinkql.runtime.sink.watch import DesiredStates
from sinkql.runtime.sink.workload import Workload
from sinkql.runtime.spark.batch_worker import SparkWorker


@dataclass(frozen=True, slots=True)
class SinkOutcome:
    """How a sink ended: why, and with which error where it failed, was fenced, or lost its lease.

    `early` tells of one that was to stop before it ran; `signal` is then the one by which its process was stopped.
    """

    sink: str
    ending: Ending
    error: SinkqlError | None = None
    early: bool = False
    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ran this sink alone."""
        if self.error is not None:
            return self.error.exit_code
        return 128 + self.signal if self.early and self.signal is not None else 0


@dataclass(slots=True)
class SinkHost:
    """What all sinks of one Spark application share.

    `conductor` runs their batches, in at most so many `lanes`, whose folders are in `folder`. `prepare` lets Spark
    begin to start, so that it is up by the time that the session is asked for; `death` is the error of the Spark of a
    session, if it died.
    """

    session: Callable[[], SparkSession]
    buckets: int
    registry: Registry
    control: Control
    progress: Progress
    roster: Workload
    contexts: Callable[[physical.Job], Context]
    folder: Path
    once: bool
    lanes: int = 1
    prepare: Callable[[], None] = lambda: None
    death: Callable[[SparkSession], SinkqlError | None] = lambda _: None
    stopping: threading.Event = field(default_factory=threading.Event)
    claiming: dict[str, ClaimQueue] = field(default_factory=lambda: defaultdict(ClaimQueue))
    ended: set[str] = field(default_factory=set)
    """The ids of what has run here, and has ended."""
    failed: dict[str, str] = field(default_factory=dict)
    """The errors of those among them that have failed."""
    elsewhere: set[str] = field(default_factory=set)
    """The ids of views that another process runs."""
    since_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    """When it began: what was there then is all that a run with `once` is to commit."""
    conductor: BatchScheduler = field(init=False)
    watch: DesiredStates = field(init=False)
    waits: WaitRequests = field(default_factory=WaitRequests)

    def __post_init__(self) -> None:
        self.conductor = BatchScheduler(self._open_lane, self.lanes)
        self.watch = DesiredStates(self.control)

    def _open_lane(self, round_: Callable[[], None]) -> SparkWorker:
        return SparkWorker(self.session(), self.folder / uuid.uuid4().hex[:8], round_)
