"""Decide whether a sink retries after an error, and when."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from sinkql.errors import FencedError, LateError, LeaseLostError, SinkqlError, UnforeseenError
from sinkql.runtime.batch import failure
from sinkql.runtime.batch.events import SinkStalled
from sinkql.runtime.sink.control import SinkControl
from sinkql.runtime.sink.host import SinkHost, SinkOutcome
from sinkql.runtime.sink.status import StatusReporter
from sinkql.runtime.sink.workload import WorkloadFollower

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 20.0
_TRIES_BEFORE_CLAIM = 2
_TRIES_UNFORESEEN = 3
_NO_LIMIT = 1 << 30


@dataclass(slots=True)
class RetryPolicy:
    """The retries of one sink. `claimed` once the sink has claimed its table: from then on it retries without end."""

    host: SinkHost
    follower: WorkloadFollower
    control: SinkControl
    status: StatusReporter
    claimed: bool = False
    failures: int = field(default=0, init=False)
    """Errors since the last commit."""

    def stall(self, error: SinkqlError) -> float | None:
        """Report an error and return the seconds until the retry; None if the sink must not retry."""
        if self.control.is_stopping() or self.failures >= self._tries(error):
            return None
        failure.name_source(error, self.follower.work.job.reads())
        wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.failures, 10))
        self.failures += 1
        with suppress(
            SinkqlError
        ):  # with a full disk the catalog takes no status either: the sink retries all the same
            self.status.record("stalled", error)
        self.host.progress(SinkStalled(self.follower.work.job.sink, error, timedelta(seconds=wait)))
        return wait

    def wait(self, error: SinkqlError, *, between: bool = False) -> bool:
        """Wait for the retry; return False if the sink must not retry.

        `between` two incarnations, a change of the sink ends the wait.
        """
        seconds = self.stall(error)
        if seconds is None:
            return False
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.control.is_stopping():
            self.host.stopping.wait(min(left, 0.2))
            if between and (self.follower.differs() or self.control.desired() != "running"):
                break
        return not self.control.is_stopping()

    def restart(self) -> bool:
        """Count a restart from the table's checkpoint; return False after too many."""
        self.failures += 1
        return self.failures <= _TRIES_UNFORESEEN

    def outcome_of(self, error: SinkqlError) -> SinkOutcome:
        """Return the outcome of a sink that does not retry after an error."""
        sink = self.follower.work.job.sink
        if isinstance(error, LateError) and self.host.stopping.is_set():
            return SinkOutcome(sink, "stopped")
        fenced = isinstance(error, FencedError | LeaseLostError)
        named = failure.name_source(error, self.follower.work.job.reads())
        return SinkOutcome(sink, "fenced" if fenced else "failed", named)

    def _tries(self, error: SinkqlError) -> int:
        if isinstance(error, LateError):
            return _NO_LIMIT
        if isinstance(error, UnforeseenError):
            return _TRIES_UNFORESEEN
        if not error.retryable:
            return 0
        # Before the first claim the user is likely to see the error; later a sink retries without end.
        return _TRIES_BEFORE_CLAIM if not self.claimed or self.host.once else _NO_LIMIT
