"""What a running sink tells and asks of whoever keeps the catalog: leases, desired state, status, progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, Protocol

from sinkql.connector_api.stream import Compacted, JobOffsets
from sinkql.errors import SinkqlError

Desired = Literal["running", "stopped", "dropped"]
"""What users want of a sink; a runner that polls anything but running finishes its batch and stops."""

Status = Literal["starting", "running", "paused", "stalled", "fenced", "stopped", "failed", "dropped"]


class CommitLog(Protocol):
    """Take note of what a running sink commits."""

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
    ) -> None:
        """Add a commit to the sink's statistics and record how far it is; `size` is in bytes written.

        `lag` is the age of the oldest input still to be read, in seconds; `counts` says what became of the records
        that were read, as `conservation.Account` does.
        """

    def compacted(self, sink_id: str, done: Compacted) -> None:
        """Add a compaction of the sink's table, or a failed one, to its statistics."""


class Control(CommitLog, Protocol):
    """Coordinate the processes that may run a sink. Every method is safe to call from several processes at once.

    `sink_id` is the job's `sink_id`; `owner` is a token of the runner's choice, unique to it. All methods raise
    SinkqlError SQ41xx where the catalog cannot be written.
    """

    def acquire(self, sink_id: str, *, owner: str, takeover: bool) -> int:
        """Lease the sink to `owner` and return the lease's epoch, above all earlier ones of this sink.

        Raises SQ5201 while another live owner holds it, unless `takeover`; SQ5208 if the sink is being dropped.
        """

    def renew(self, sink_id: str, *, owner: str) -> None:
        """Prolong the lease by `lease_seconds`; raises SQ5202 if somebody else took it."""

    def renew_all(self, owners: Mapping[str, str]) -> Mapping[str, SinkqlError]:
        """Prolong many leases at once, each by its sink's id with its owner; return SQ5202 for those that others took.

        What it takes of the catalog does not depend on how many they are.
        """

    def release(self, sink_id: str, *, owner: str) -> None:
        """Give the lease back; does nothing if it is no longer the owner's."""

    def held(self, sink_id: str) -> bool:
        """Tell whether somebody holds the sink's lease now."""

    def failure(self, sink_id: str) -> str | None:
        """Return the error that the sink's last run failed with; None where it did not fail."""

    @property
    def lease_seconds(self) -> float:
        """Return how long a lease lasts without being renewed; renew at a third of it."""

    def desired(self, sink_id: str) -> Desired:
        """Return what users want now; `dropped` for a sink that is gone."""

    def wishes_of(self, sink_ids: Collection[str]) -> Mapping[str, tuple[Desired, int | None]]:
        """Return what `desired` and `asked` do of many sinks at once."""

    def asked(self, sink_id: str) -> int | None:
        """Return the number of the OPTIMIZE SINK that is still to be done; None where there is none."""

    def optimizing(self, sink_id: str, number: int, *, files: int, of: int) -> None:
        """Record that the OPTIMIZE SINK of this number, and all before it, have begun, and went through `files`."""

    def optimized(self, sink_id: str, number: int, done: Compacted) -> None:
        """Record that the OPTIMIZE SINK of this number, and all before it, are done, and what they did."""

    def measured(self, id_: str, figures: Mapping[str, Mapping[str, Any]]) -> None:
        """Record how far a sink is in its sources, by their names, in place of what was there before."""

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
        """Record a change of status; repeating the present one records nothing.

        With an `owner` who lost the lease to another, it goes into the history only.
        """
