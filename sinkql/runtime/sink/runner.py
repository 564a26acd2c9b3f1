"""Run one sink of a cluster from its lease to its outcome, as a series of incarnations with retries in between."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

from sinkql import physical
from sinkql.errors import LateError, LeaseHeldError, SinkqlError
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.batch.events import Ending
from sinkql.runtime.sink.control import SinkControl
from sinkql.runtime.sink.host import SinkHost, SinkOutcome
from sinkql.runtime.sink.incarnation import BatchTracker, Incarnation, ReassignedError, StoppedError
from sinkql.runtime.sink.place import reason_for_spark
from sinkql.runtime.sink.retry import RetryPolicy
from sinkql.runtime.sink.status import StatusReporter
from sinkql.runtime.sink.workload import SinkAssignment, WorkloadFollower
from sinkql.runtime.spark.settings import CancelledError


@dataclass(slots=True)
class SinkRunner:
    """Runs one sink in the calling thread and follows its assignment in the workload.

    With `takeover` it takes the lease of another process. `leased` while it has the lease: the thread that renews it
    calls `lose_lease` if another process has taken it.
    """

    host: SinkHost
    first: SinkAssignment
    takeover: bool = False
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    leased: bool = field(default=False, init=False)
    wake: threading.Event = field(default_factory=threading.Event, init=False)
    batches: BatchTracker = field(default_factory=BatchTracker, init=False)
    follower: WorkloadFollower = field(init=False)
    control: SinkControl = field(init=False)
    status: StatusReporter = field(init=False)
    retry: RetryPolicy = field(init=False)

    def __post_init__(self) -> None:
        self.follower = WorkloadFollower(self.host.workload, self.first, self.first.job.cluster, self.host.once)
        self.control = SinkControl(self.host, self.follower, self.wake)
        self.status = StatusReporter(self.host, self.follower, self.owner)
        self.retry = RetryPolicy(self.host, self.follower, self.control, self.status)

    @property
    def assignment(self) -> SinkAssignment:
        """Return the present assignment."""
        return self.follower.work

    @property
    def job(self) -> physical.Job:
        """Return the job of the present assignment."""
        return self.assignment.job

    @property
    def sink_id(self) -> str:
        """Return the sink's id, which no change of its job changes."""
        return self.first.job.sink_id

    def lose_lease(self, error: SinkqlError) -> None:
        """Stop the sink, as another process has its lease."""
        self.control.lost = error
        self.wake.set()

    def end_unstarted(self) -> None:
        """End the sink of a view that has no reader left, after the running batch."""
        self.control.stop()

    def release_for_move(self) -> SinkOutcome | None:
        """Release the lease of a sink that does not answer while its process ends; it commits nothing from then on.

        Return None if a batch runs that is worth waiting for.
        """
        if not self.batches.abandon():
            return None
        outcome = SinkOutcome(self.job.sink, "stopped")
        with suppress(SinkqlError):
            self.status.record_outcome(outcome)
            self.host.control.release(self.sink_id, owner=self.owner)
        self.status.report_end(outcome)
        return outcome

    def run(self) -> SinkOutcome:
        """Run the sink until it must stop, has caught up (`once`), or fails; never raises a SinkqlError."""
        control = self.host.control
        while True:
            try:
                epoch = control.acquire(self.sink_id, owner=self.owner, takeover=self.takeover)
                break
            except LeaseHeldError as error:
                ending = self.control.wait_elsewhere()
                if ending is not None:
                    return self._end(SinkOutcome(self.job.sink, ending))
                if self.job.write.connector != physical.VIEW:
                    return self._end(self.retry.outcome_of(error))
            except SinkqlError as error:
                if not isinstance(error, LateError) or not self.retry.wait(error):
                    return self._end(self.retry.outcome_of(error))
        self.leased = True
        if reason_for_spark(self.job) is not None:
            self.host.spark.prepare()
        try:
            outcome = self._hold_lease(epoch)
            if outcome.ending == "caught up":
                with suppress(Exception):  # a missing figure ends no sink
                    self.status.report_progress(last=True)
            self.status.record_outcome(outcome)
        except SinkqlError as error:
            outcome = SinkOutcome(self.job.sink, "failed", error)
        finally:
            self.leased = False
            with suppress(LateError):  # the lease expires, and others see that this process has ended
                control.release(self.sink_id, owner=self.owner)
        return self._end(outcome)

    def _hold_lease(self, epoch: int) -> SinkOutcome:
        """Run incarnations under the lease until the sink ends; return its outcome."""
        self.status.record("starting")
        while True:
            incarnation = self.incarnation()
            try:
                ending: Ending | None = incarnation.start(epoch)
            except (CancelledError, StoppedError):
                ending = "stopped"
            except ReassignedError:
                continue
            except OutdatedStartError as error:
                if not self.retry.restart():
                    return self.retry.outcome_of(failure.unforeseen(error))
                continue
            except SinkqlError as error:
                if not self.retry.wait(error, between=True):
                    return self.retry.outcome_of(error)
                continue
            except Exception as error:
                coded = incarnation.spark_death() or failure.with_code(error)
                if not self.retry.wait(coded, between=True):
                    return self.retry.outcome_of(coded)
                continue
            if ending == "stopped" and self.control.lost is not None:
                return self.retry.outcome_of(self.control.lost)
            if ending is not None:
                return SinkOutcome(self.job.sink, ending)

    def incarnation(self) -> Incarnation:
        """Return a new incarnation of the sink, not started."""
        return Incarnation(self.host, self.follower, self.control, self.retry, self.status, self.batches)

    def _end(self, outcome: SinkOutcome) -> SinkOutcome:
        if outcome.ending == "failed" and outcome.error is not None:
            self.host.ended.errors[self.sink_id] = f"{outcome.error.code}: {outcome.error.message}"
        if self.sink_id not in self.host.ended.elsewhere:
            self.host.ended.ids.add(self.sink_id)
        if not self.batches.abandoned:
            self.status.report_end(outcome)
        return outcome
