"""Decide what a sink does next, from its lease to its end: a state machine without threads, clocks and Spark.

`SinkLife.next` takes the event by which a step ended, and returns the next step. `runner` carries the steps out. A sink
lives in *incarnations*, one for each claim of its table: after an error that may pass, or after a change of its job, it
looks at its assignment and claims the table again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql.errors import FencedError, LateError, LeaseLostError, SinkqlError, UnforeseenError
from sinkql.runtime.batch.control import Desired
from sinkql.runtime.batch.events import Ending

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 20.0
_TRIES_BEFORE_CLAIM = 2
_TRIES_UNFORESEEN = 3

# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire:
    """Acquire the sink's lease: `Done`, `HeldElsewhere` or `Failed`."""


@dataclass(frozen=True, slots=True)
class AwaitRelease:
    """Wait a moment for the process that runs this view: `Elsewhere`."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look at the assignment and at what users want: `Seen` or `Failed`."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Renew the lease, before the table is claimed again: `Done` or `Failed`."""


@dataclass(frozen=True, slots=True)
class AwaitViews:
    """Wait until the views that the sink reads have all present input: `Done`, `Stopped` or `Failed`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim the table: `Done`, `Stopped` or `Failed`."""


@dataclass(frozen=True, slots=True)
class CommitPending:
    """Commit what precedes the first scheduled batch, as a full refresh: `Ready`, or how a batch ends."""


@dataclass(frozen=True, slots=True)
class OpenSpark:
    """Wait until Spark runs: `Done`, `Stopped` or `Failed`."""


@dataclass(frozen=True, slots=True)
class RunBatches:
    """Run batches under the scheduler: `BatchesEnded`, or how a batch ends."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Report an error and wait for the retry: `Waited`. `between` incarnations, a change of the sink ends the wait."""

    seconds: float
    error: SinkqlError
    between: bool


@dataclass(frozen=True, slots=True)
class End:
    """End the sink, because of an error if there is one."""

    ending: Ending
    error: SinkqlError | None = None


Step = Acquire | AwaitRelease | Look | Renew | AwaitViews | Claim | CommitPending | OpenSpark | RunBatches | Wait | End

# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """The step is done."""


@dataclass(frozen=True, slots=True)
class HeldElsewhere:
    """Another process holds the lease; the error says so."""

    error: SinkqlError


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """How the sink ends because another process runs it; None if it tries again."""

    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether the sink has moved to another cluster, and what users want of it."""

    moved: bool
    desired: Desired


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing precedes the next batch. `caught_up` if none is left; `needs_spark` if all batches are Spark's."""

    caught_up: bool
    needs_spark: bool


@dataclass(frozen=True, slots=True)
class BatchesEnded:
    """Batches ended; None if the sink's job has changed."""

    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The step was given up because the sink must stop."""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A full refresh was given up because the sink's job or desired state has changed."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """The table is at neither end of a batch; the error says so."""

    error: SinkqlError


@dataclass(frozen=True, slots=True)
class Failed:
    """The step raised an error."""

    error: SinkqlError


@dataclass(frozen=True, slots=True)
class Waited:
    """The wait for a retry is over."""


Event = (
    Done | HeldElsewhere | Elsewhere | Seen | Ready | BatchesEnded | Stopped | Reassigned | Outdated | Failed | Waited
)

# --- the machine ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Retries:
    """The retries of one sink. `claimed` once it has claimed its table: from then on it retries without end."""

    once: bool
    claimed: bool = False
    failures: int = 0
    """Errors since the last commit."""

    def seconds_until(self, error: SinkqlError) -> float | None:
        """Count an error and return the seconds until the retry; None if the sink must not retry."""
        tries = self._tries(error)
        if tries is not None and self.failures >= tries:
            return None
        wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.failures, 10))
        self.failures += 1
        return wait

    def _tries(self, error: SinkqlError) -> int | None:
        """Return how often the sink tries again; None without a limit."""
        if isinstance(error, LateError):
            return None
        if isinstance(error, UnforeseenError):
            return _TRIES_UNFORESEEN
        if not error.retryable:
            return 0
        # Before the first claim the user is likely to see the error; later a sink retries without end.
        return _TRIES_BEFORE_CLAIM if not self.claimed or self.once else None

    def may_restart(self) -> bool:
        """Count a restart from the table's checkpoint; return False after too many."""
        self.failures += 1
        return self.failures <= _TRIES_UNFORESEEN


@dataclass(slots=True)
class SinkLife:
    """The life of one sink; `view` if it is the job of a materialized view."""

    view: bool
    retries: Retries
    step: Step = field(default_factory=Acquire, init=False)

    def next(self, event: Event, *, stopping: bool = False, lost: SinkqlError | None = None) -> Step:
        """Return the step after the present one ended with an event.

        `stopping` if the sink must stop now, and `lost` if another process has taken its lease.
        """
        self.step = self._next(event, stopping=stopping)
        if lost is not None and self.step == End("stopped"):
            self.step = _end_with(lost)
        return self.step

    def _next(self, event: Event, *, stopping: bool) -> Step:
        match event:
            case Stopped():
                return End("stopped")
            case Reassigned():
                return Look()
            case Outdated(error):
                return Look() if self.retries.may_restart() else _end_with(error)
            case Failed(error):
                return self._retry(error, stopping=stopping)
            case HeldElsewhere(error):
                return AwaitRelease() if self.view else _end_with(error)
            case Elsewhere(ending):
                return Acquire() if ending is None else End(ending)
            case Seen(moved, desired):
                return self._begin(moved=moved, desired=desired, stopping=stopping)
            case Ready(caught_up, needs_spark):
                return End("caught up") if caught_up else OpenSpark() if needs_spark else RunBatches()
            case BatchesEnded(ending):
                return Look() if ending is None else End(ending)
            case Waited():
                return self._after_wait(stopping=stopping)
            case Done():
                return self._after_step(stopping=stopping)

    def _begin(self, *, moved: bool, desired: Desired, stopping: bool) -> Step:
        """Return the first step of an incarnation."""
        if moved:
            return End("moved")
        if desired != "running":  # also while the sink only waits for a retry
            return End(desired)
        if stopping:
            return End("stopped")
        if self.retries.claimed:
            # A process that took over the sink has the table too: without a lease, claims would alternate for ever.
            return Renew()
        return AwaitViews() if self.retries.once else Claim()

    def _after_step(self, *, stopping: bool) -> Step:
        match self.step:
            case Acquire():
                return Look()
            case Renew() if self.retries.once:
                return AwaitViews()
            case Renew() | AwaitViews():
                return End("stopped") if stopping else Claim()
            case Claim():
                self.retries.claimed = True
                return CommitPending()
            case OpenSpark():
                return RunBatches()
            case _:
                raise AssertionError(self.step)

    def _after_wait(self, *, stopping: bool) -> Step:
        assert isinstance(self.step, Wait)
        if stopping:
            return _end_with(self.step.error, stopping=True)
        return Look() if self.step.between else Acquire()

    def _retry(self, error: SinkqlError, *, stopping: bool) -> Step:
        acquiring = isinstance(self.step, Acquire)
        if stopping or (acquiring and not isinstance(error, LateError)):
            return _end_with(error, stopping=stopping)
        seconds = self.retries.seconds_until(error)
        return _end_with(error) if seconds is None else Wait(seconds, error, between=not acquiring)


def _end_with(error: SinkqlError, *, stopping: bool = False) -> End:
    """Return the end of a sink that does not retry after an error."""
    if isinstance(error, LateError) and stopping:
        return End("stopped")
    return End("fenced" if isinstance(error, FencedError | LeaseLostError) else "failed", error)
