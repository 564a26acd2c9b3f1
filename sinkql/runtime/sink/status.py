"""Report how a sink is: its status to the catalog, its events to the user, its progress to both."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sinkql.errors import LateError, SinkqlError
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.control import Status
from sinkql.runtime.batch.events import SinkStage, SinkStalled, SinkStarting, SinkStopped, Stage
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.metrics import ProgressMeter
from sinkql.runtime.schedule.scheduler import ScheduledSink
from sinkql.runtime.sink.host import SinkHost, SinkOutcome
from sinkql.runtime.sink.workload import WorkloadFollower


@dataclass(slots=True)
class StatusReporter:
    """Reports how one sink is, under the name that it has now.

    `conflicts` is the number of keys that break the promised KEY. `loop` and `scheduled` belong to the latest
    incarnation; its progress is measured.
    """

    host: SinkHost
    follower: WorkloadFollower
    owner: str
    conflicts: int = 0
    loop: BatchLoop | None = None
    scheduled: ScheduledSink | None = None
    _name: str | None = field(default=None, init=False)
    _meter: ProgressMeter = field(init=False)

    def __post_init__(self) -> None:
        self._meter = ProgressMeter(self._sink_id, self.host.control, self.host.progress)

    @property
    def _sink_id(self) -> str:
        return self.follower.work.job.sink_id

    def record(
        self, status: Status, error: SinkqlError | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        """Record a status in the catalog. A locked catalog misses it: no sink ends for that reason."""
        if self.conflicts and error is None and details is None:
            details = {"conflicting_keys": self.conflicts}
        with suppress(LateError):
            self.host.control.status(
                self._sink_id,
                status,
                owner=self.owner,
                error=f"{error.code}: {error.message}" if error is not None else None,
                hint=error.hint if error is not None else None,
                details=details,
            )

    def record_outcome(self, outcome: SinkOutcome) -> None:
        """Record the status of a sink that has ended."""
        match outcome.ending:
            case "caught up" | "stopped" | "moved" | "renamed":
                self.record("stopped")
            case "dropped":
                self.record("dropped")
            case "fenced":
                self.record("fenced", outcome.error)
            case "failed":
                self.record("failed", outcome.error)

    def report_end(self, outcome: SinkOutcome) -> None:
        """Report that the sink has ended."""
        self.host.progress(SinkStopped(outcome.sink, outcome.ending, outcome.error))

    def report_stall(self, error: SinkqlError, seconds: float) -> None:
        """Report an error after which the sink retries in this many seconds."""
        failure.name_source(error, self.follower.work.job.reads())
        with suppress(
            SinkqlError
        ):  # with a full disk the catalog takes no status either: the sink retries all the same
            self.record("stalled", error)
        self.host.progress(SinkStalled(self.follower.work.job.sink, error, timedelta(seconds=seconds)))

    def report_name(self) -> None:
        """Report the sink's name when it starts and after it was renamed."""
        job, name = self.follower.work.job, self._name
        if name == job.sink:
            return
        self._name = job.sink
        if name is not None:
            self.host.progress(SinkStopped(name, "renamed"))
        self.host.progress(SinkStarting(job.sink, job.cluster, view=job.view))

    def report_stage(self, stage: Stage) -> None:
        """Report what the sink does before its first commit."""
        self.host.progress(SinkStage(self.follower.work.job.sink, stage))

    def report_progress(self, *, last: bool = False) -> None:
        """Measure the sink's offsets in its sources. One thread calls it each second for all sinks, and at the end."""
        loop, scheduled = self.loop, self.scheduled
        if loop is not None:
            stalls = scheduled is not None and scheduled.stalls
            checkpoint, state = loop.checkpoint, loop.report.metrics.now
            self._meter.sample(
                loop.job.sink,
                loop.readers,
                checkpoint.end,
                waits=stalls,
                last=last,
                state=state,
                tick=checkpoint.tick,
            )
