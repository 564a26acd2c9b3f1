"""What a capture is told, and tells: the sinks that read its source, secrets, its lease, its status."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sinkql.capture import messages
from sinkql.connector_api.cdc import CapturedTable
from sinkql.connector_api.stream import Offsets
from sinkql.errors import SinkqlError

PATIENT_TRIES = 2
"""Connections that break now and then are nobody's concern before the second try failed."""


@dataclass(frozen=True, slots=True)
class SubscribedSink:
    """A sink that reads a table of the source, every so many seconds; `sink` is its full name.

    `offsets` are the last that the catalog knows of, None before any.
    """

    sink_id: str
    table: CapturedTable
    offsets: Offsets | None = None
    every: float = math.inf
    sink: str = ""

    @property
    def reader(self) -> str:
        """Return the name by which it and the capture tell each other of the table."""
        return messages.reader_name(self.sink_id, self.table.id)


@dataclass(frozen=True, slots=True)
class CaptureIntervals:
    """How often a capture does what it does, in seconds and bytes.

    An entry ends after `entry_seconds`, or sooner where a sink commits often: after `entry_share` of its interval.
    What was published is confirmed after `confirm_seconds`, or at `confirm_bytes`: a server holds it until then. A log
    that is full is told of after `full_seconds`.
    """

    entry_seconds: float = 1.0
    entry_share: float = 0.2
    entry_bytes: int = 8 << 20
    spill_bytes: int = 32 << 20
    memory_bytes: int = 64 << 20
    quiet_seconds: float = 60.0
    look_seconds: float = 0.5
    receive_seconds: float = 0.1
    confirm_seconds: float = 1.0
    confirm_bytes: int = 16 << 20
    kept_seconds: float = 3600.0
    chunk_bytes: int = 8 << 20
    hold_seconds: float = 1.0
    parallel: int = 4
    full_seconds: float = 60.0
    first_wait: float = 1.0
    longest_wait: float = 20.0

    def entry_after(self, clients: Sequence[SubscribedSink]) -> float:
        """Return after how many seconds an entry ends, by how often sinks commit."""
        shares = (max(self.receive_seconds, self.entry_share * each.every) for each in clients)
        return min([self.entry_seconds, *shares])

    def wait(self, failures: int) -> float:
        """Return for how long to wait after so many failures in a row."""
        return min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 10))


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """What a capture is doing, for the catalog; with `last` it ends."""

    status: Literal["running", "snapshotting", "stalled"]
    error: SinkqlError | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False


class CaptureHost(Protocol):
    """Whoever runs a capture. Methods raise SinkqlError where the catalog cannot be read or written."""

    def clients(self) -> Sequence[SubscribedSink]:
        """Return all sinks of the catalog that read the source, running or not."""

    def secret(self, name: str) -> str:
        """Return a secret's value."""

    def acquire(self) -> int | None:
        """Lease the source; return the lease's epoch, None while another process that lives has it."""

    def renew(self) -> bool:
        """Prolong the lease; tell whether it still is this process's."""

    def release(self) -> None:
        """Give the lease back."""

    def report(self, doing: CaptureProgress) -> None:
        """Take note of what the capture is doing."""
