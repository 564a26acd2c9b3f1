"""The protocols between a running sink and the catalog: leases, desired state, status, commits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, Protocol

from sinkql.connector_api.stream import Compacted, JobOffsets
from sinkql.errors import SinkqlError

Desired = Literal["running", "stopped", "dropped"]
"""What users want of a sink. A runner that reads anything but "running" finishes its batch and stops."""

Status = Literal["starting", "running", "paused", "stalled", "fenced", "stopped", "failed", "dropped"]


class CommitLog(Protocol):
    """Records the commits of running sinks."""

    def committed(
        self,
        sink_id: str,
        *,
        rows: int,
        size: int,
        offsets: JobOffsets,
        epoch: int,
        snapshot: int | None = None,
        lag: float | None = None,
        counts: Mapping[str, int] | None = None,
        in_spark: bool = False,
    ) -> None:
        """Add a commit to the sink's statistics and record its offsets; `size` is the number of bytes written.

        `lag` is the age of the oldest unread input, in seconds; `counts` is `RecordAccount.counts`. `in_spark`: Spark
        computed the batch, rather than this process.
        """

    def compacted(self, sink_id: str, done: Compacted) -> None:
        """Add a compaction of the sink's table, or a failed attempt at one, to its statistics."""


class Control(CommitLog, Protocol):
    """Coordinates the processes that may run a sink. Several processes may call every method concurrently.

    `sink_id` is the job's `sink_id`; `owner` is a token that is unique to the runner. All methods raise SinkqlError
    SQ41xx if the catalog cannot be written.
    """

    def acquire(self, sink_id: str, *, owner: str, takeover: bool) -> int:
        """Lease the sink to `owner` and return the lease's epoch, above all earlier ones of this sink.

        Raises SQ5201 if another live owner holds the lease, unless `takeover`; SQ5208 if the sink is being dropped.
        """

    def renew(self, sink_id: str, *, owner: str) -> None:
        """Extend the lease by `lease_seconds`; raises SQ5202 if another owner has taken it."""

    def renew_all(self, owners: Mapping[str, str]) -> Mapping[str, SinkqlError]:
        """Extend the leases of many sinks, given each sink's owner; return SQ5202 for leases that others have taken.

        The number of catalog statements does not depend on the number of sinks.
        """

    def release(self, sink_id: str, *, owner: str) -> None:
        """Release the lease; do nothing if the owner no longer has it."""

    def is_held(self, sink_id: str) -> bool:
        """Return whether any owner holds the sink's lease now."""

    def failure(self, sink_id: str) -> str | None:
        """Return the error of the sink's last run; None if it did not fail."""

    @property
    def lease_seconds(self) -> float:
        """Return how long a lease lasts; renew it after a third of that."""

    def desired(self, sink_id: str) -> Desired:
        """Return the desired state; "dropped" for a sink that no longer exists."""

    def desired_states(self, sink_ids: Collection[str]) -> Mapping[str, tuple[Desired, int | None]]:
        """Return the results of `desired` and `optimize_request` for many sinks."""

    def optimize_request(self, sink_id: str) -> int | None:
        """Return the number of the pending OPTIMIZE SINK; None if there is none."""

    def optimizing(self, sink_id: str, number: int, *, files: int, of: int) -> None:
        """Record that the OPTIMIZE SINK of this number, and all before it, have processed `files` of the files."""

    def optimized(self, sink_id: str, number: int, done: Compacted) -> None:
        """Record the result of the OPTIMIZE SINK of this number, and of all before it."""

    def measured(self, id_: str, figures: Mapping[str, Mapping[str, Any]]) -> None:
        """Record a sink's progress in each source, by name, in place of the earlier record."""

    def status(
        self,
        sink_id: str,
        status: Status,
        *,
        owner: str | None = None,
        error: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a change of status; the present status again records nothing.

        If `owner` has lost the lease, the change is recorded in the history only.
        """
