"""Watch a running sink: what users want of it, which requests are pending, and whether its lease is lost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sinkql import physical
from sinkql.connector_api.stream import Context
from sinkql.errors import SinkqlError
from sinkql.lowering.placement import interval_of, reason_for_spark
from sinkql.machine import clock
from sinkql.runtime.batch.control import Desired
from sinkql.runtime.batch.events import Ending, SinkReached
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import PacingOrders
from sinkql.runtime.schedule.scheduler import ScheduledSink
from sinkql.runtime.sink.host import SinkHost
from sinkql.runtime.sink.requests import WaitReplies, run_optimize_request, run_replay_request
from sinkql.runtime.sink.workload import WorkloadFollower

_LOOK_SECONDS = 1.0


@dataclass(slots=True)
class SinkControl:
    """What others want of one sink. `wake` ends a wait; set it after a change that must not wait.

    `lost` is set if another process has taken the sink's lease.
    """

    host: SinkHost
    follower: WorkloadFollower
    wake: threading.Event
    lost: SinkqlError | None = None
    _ends: bool = field(default=False, init=False)
    _replies: WaitReplies = field(default_factory=WaitReplies, init=False)
    _context: tuple[physical.Job, Context] | None = field(default=None, init=False)

    @property
    def _sink_id(self) -> str:
        return self.follower.work.job.sink_id

    def is_stopping(self) -> bool:
        """Return whether the sink must stop now."""
        return self._ends or self.lost is not None or self.host.stopping.is_set()

    def is_stopping_or_unwanted(self) -> bool:
        """Return whether the sink must stop, or users no longer want it to run."""
        return self.is_stopping() or self.desired() != "running"

    def stop(self) -> None:
        """Stop the sink after the running batch."""
        self._ends = True
        self.wake.set()

    def desired(self, *, now: bool = False) -> Desired:
        """Return what users want, as of this moment if `now`.

        If the catalog cannot be read, return "running": it is read again, and the lease decides.
        """
        states = self.host.desired_states
        try:
            return states.now(self._sink_id) if now else states.desired(self._sink_id)
        except SinkqlError:
            return "running"

    def wait_elsewhere(self) -> Ending | None:
        """Wait a moment for another process that runs this view; return how this one ends, None to try again.

        A run with `--once` ends: the readers of the view read what the other process commits.
        """
        if self.follower.work.job.write.connector != physical.VIEW:
            return None
        if self.host.once:
            self.host.ended.elsewhere.add(self._sink_id)
            return "caught up"
        clock.wait(self.host.stopping, _LOOK_SECONDS)
        return "stopped" if self.is_stopping() else None

    def watch(self, loop: BatchLoop, scheduled: ScheduledSink, batch: threading.Lock) -> Ending | None:
        """Answer requests until the sink ends, and return how; None if its job has changed.

        `batch` is held while no batch may run. Raises the error of a batch that the scheduler gave up.
        """
        while True:
            clock.wait(self.wake, _LOOK_SECONDS)
            self.wake.clear()
            if loop.caught_up():
                return "caught up"
            if self.lost is not None:
                raise self.lost
            if self.is_stopping():
                return "stopped"
            match self.desired():
                case "dropped":
                    return "dropped"
                case "stopped":
                    return "stopped"
                case "running":
                    pass
            if scheduled.error is not None:
                raise scheduled.error
            if not scheduled.stalls:
                self._answer_requests(loop, batch)
            if batch.acquire(blocking=False):
                try:
                    loop.maintenance.refresh_files()
                finally:
                    batch.release()
            change = self.follower.update()
            if change == "moved":
                return "moved"
            if change == "other":
                return None
            self._pace(loop, scheduled)

    def _answer_requests(self, loop: BatchLoop, batch: threading.Lock) -> None:
        host, context = self.host, self._present_context()
        if self._is_optimize_requested():
            run_optimize_request(loop, host.control, batch, self.is_stopping_or_unwanted)
        run_replay_request(loop, context.notes, batch, self.is_stopping_or_unwanted)
        answered = self._replies.reply(host.waits.pending(context), loop, context, batch)
        if answered:
            host.progress(SinkReached(self.follower.work.job.sink, answered))

    def _present_context(self) -> Context:
        """Return the context of the present job, which is asked for every second."""
        job = self.follower.work.job
        if self._context is None or self._context[0] is not job:
            self._context = job, self.host.contexts(job)
        return self._context[1]

    def _is_optimize_requested(self) -> bool:
        try:
            return self.host.desired_states.is_optimize_requested(self._sink_id)
        except SinkqlError:
            return False  # the catalog is read again

    def _pace(self, loop: BatchLoop, scheduled: ScheduledSink) -> None:
        """Use the commit interval, the limit and the place of the present job for the next batches."""
        old, job = loop.job, self.follower.work.job
        self.host.scheduler.limits.spark_idle = job.spark_idle.total_seconds()
        if _pace_of(old) != _pace_of(job):
            loop.job = job
            needs_spark = reason_for_spark(job) is not None
            self.host.scheduler.reschedule(scheduled, pacing_orders(loop), needs_spark=needs_spark)

    def leave(self, scheduled: ScheduledSink) -> None:
        """Wait for the running batch and begin no other."""
        ends, self._ends = self._ends, True
        self.host.scheduler.remove(scheduled)
        self._ends = ends


def _pace_of(job: physical.Job) -> tuple[object, ...]:
    return job.commit_interval, job.max_rows_per_commit, job.execution


def pacing_orders(loop: BatchLoop) -> PacingOrders:
    """Return how the next batches of a job are paced."""
    job = loop.job
    return PacingOrders(loop.checkpoint.end, interval_of(job), job.max_rows_per_commit, loop.targets)
