"""Run one sink of a cluster from its lease to its outcome: carry out the steps of its `life`."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field

from sinkql import physical
from sinkql.errors import LateError, LeaseHeldError, SinkqlError
from sinkql.lowering.placement import reason_for_spark
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.sink.control import SinkControl
from sinkql.runtime.sink.host import SinkHost, SinkOutcome
from sinkql.runtime.sink.incarnation import BatchTracker, Incarnation, ReassignedError, StoppedError
from sinkql.runtime.sink.life import (
    Acquire,
    AwaitRelease,
    AwaitViews,
    Claim,
    CommitPending,
    Done,
    Elsewhere,
    End,
    Event,
    Failed,
    HeldElsewhere,
    Look,
    OpenSpark,
    Outdated,
    Reassigned,
    Renew,
    Retries,
    RunBatches,
    SinkLife,
    Step,
    Stopped,
    Wait,
    Waited,
)
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
    owner: str = field(default_factory=new_id)
    leased: bool = field(default=False, init=False)
    wake: threading.Event = field(default_factory=threading.Event, init=False)
    batches: BatchTracker = field(default_factory=BatchTracker, init=False)
    follower: WorkloadFollower = field(init=False)
    control: SinkControl = field(init=False)
    status: StatusReporter = field(init=False)
    life: SinkLife = field(init=False)
    present: Incarnation = field(init=False)
    _epoch: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.follower = WorkloadFollower(self.host.workload, self.first, self.first.job.cluster, self.host.once)
        self.control = SinkControl(self.host, self.follower, self.wake)
        self.status = StatusReporter(self.host, self.follower, self.owner)
        view = self.first.job.write.connector == physical.VIEW
        self.life = SinkLife(view, Retries(self.host.once))
        self.present = self.incarnation()

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
        step: Step = self.life.step
        try:
            while not isinstance(step, End):
                event = self._carry_out(step)
                step = self.life.next(event, stopping=self.control.is_stopping(), lost=self.control.lost)
            outcome = self._outcome(step)
            if self.leased:
                if outcome.ending == "caught up":
                    with suppress(Exception):  # a missing figure ends no sink
                        self.status.report_progress(last=True)
                self.status.record_outcome(outcome)
        except SinkqlError as error:
            outcome = SinkOutcome(self.job.sink, "failed", error)
        finally:
            self._release()
        return self._end(outcome)

    def _outcome(self, end: End) -> SinkOutcome:
        error = None if end.error is None else failure.name_source(end.error, self.job.reads())
        return SinkOutcome(self.job.sink, end.ending, error)

    def _release(self) -> None:
        if not self.leased:
            return
        self.leased = False
        with suppress(LateError):  # the lease expires, and others see that this process has ended
            self.host.control.release(self.sink_id, owner=self.owner)

    def _carry_out(self, step: Step) -> Event:
        """Carry out a step; return how it ended."""
        try:
            return self._try(step)
        except LeaseHeldError as error:
            return HeldElsewhere(error) if isinstance(step, Acquire) else Failed(error)
        except (CancelledError, StoppedError):
            return Stopped()
        except ReassignedError:
            return Reassigned()
        except OutdatedStartError as error:
            return Outdated(failure.unforeseen(error))
        except SinkqlError as error:
            return Failed(error)
        except Exception as error:
            return Failed(self.present.spark_death() or failure.with_code(error))

    def _try(self, step: Step) -> Event:
        match step:
            case Acquire():
                self._acquire()
            case AwaitRelease():
                return Elsewhere(self.control.wait_elsewhere())
            case Look():
                self.present = self.incarnation()
                return self.present.look()
            case Renew():
                self.present.renew()
            case AwaitViews():
                self.present.await_views()
            case Claim():
                self.present.claim_table(self._epoch)
            case CommitPending():
                return self.present.commit_pending()
            case OpenSpark():
                self.present.open_spark()
            case RunBatches():
                return self.present.run_batches()
            case Wait(seconds, error, between):
                self.status.report_stall(error, seconds)
                self._wait(seconds, between=between)
                return Waited()
            case End():
                raise AssertionError(step)
        return Done()

    def _acquire(self) -> None:
        self._epoch = self.host.control.acquire(self.sink_id, owner=self.owner, takeover=self.takeover)
        self.leased = True
        if reason_for_spark(self.job) is not None:
            self.host.spark.prepare()
        self.status.record("starting")

    def _wait(self, seconds: float, *, between: bool) -> None:
        """Wait until the sink must stop, or `between` two incarnations until it changes."""
        until = clock.monotonic() + seconds
        while (left := until - clock.monotonic()) > 0 and not self.control.is_stopping():
            clock.wait(self.host.stopping, min(left, 0.2))
            if between and (self.follower.differs() or self.control.desired() != "running"):
                break

    def incarnation(self) -> Incarnation:
        """Return a new incarnation of the sink, not started."""
        return Incarnation(self.host, self.follower, self.control, self.life.retries, self.status, self.batches)

    def _end(self, outcome: SinkOutcome) -> SinkOutcome:
        if outcome.ending == "failed" and outcome.error is not None:
            self.host.ended.errors[self.sink_id] = f"{outcome.error.code}: {outcome.error.message}"
        self.host.spark.placement.forget(self.sink_id)
        if self.sink_id not in self.host.ended.elsewhere:
            self.host.ended.ids.add(self.sink_id)
        if not self.batches.abandoned:
            self.status.report_end(outcome)
        return outcome
