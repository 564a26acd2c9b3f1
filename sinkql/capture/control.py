"""The interface between a capture and its host: subscribed sinks, secrets, the lease, and progress reports."""

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
"""A retryable error is reported from this attempt on: a single broken connection is normal."""
Status = Literal["running", "snapshotting", "stalled"]


@dataclass(frozen=True, slots=True)
class SubscribedSink:
    """A sink of one captured table, which commits every `interval` seconds; `sink` is its full name.

    `offsets` are its last ones in the catalog, None before the first commit.
    """

    sink_id: str
    table: CapturedTable
    offsets: Offsets | None = None
    interval: float = math.inf
    sink: str = ""

    @property
    def reader(self) -> str:
        """Return the name of the sink and table in messages."""
        return messages.reader_name(self.sink_id, self.table.id)


@dataclass(frozen=True, slots=True)
class CaptureIntervals:
    """The times and sizes of a capture, in seconds and bytes.

    An entry ends after `entry_seconds`, or after `entry_share` of the shortest commit interval of its sinks, but not
    before `least_entry_seconds`. Published changes are confirmed after `confirm_seconds`, or after `confirm_bytes`,
    since the server keeps them until then. A full log is reported after `full_seconds`. Large: one value sets all of
    them, so that a test can shorten them together.
    """

    entry_seconds: float = 1.0
    entry_share: float = 0.2
    least_entry_seconds: float = 0.05
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

    def entry_after(self, sinks: Sequence[SubscribedSink]) -> float:
        """Return the seconds after which an entry ends, by the commit intervals of the sinks."""
        shares = (max(self.least_entry_seconds, self.entry_share * sink.interval) for sink in sinks)
        return min([self.entry_seconds, *shares])

    def wait(self, failures: int) -> float:
        """Return the seconds to wait after a number of failures in a row."""
        return min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 10))


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """The progress of a capture, for the catalog; `last` before the session ends."""

    status: Status
    error: SinkqlError | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False


class CaptureHost(Protocol):
    """The process that runs a capture. Methods raise SinkqlError if the catalog cannot be read or written."""

    def subscribed_sinks(self) -> Sequence[SubscribedSink]:
        """Return all sinks of the catalog that read the source, running or not."""

    def secret(self, name: str) -> str:
        """Return the value of a secret."""

    def acquire(self) -> int | None:
        """Acquire the source's lease; return its epoch, or None while another live process holds it."""

    def renew(self) -> bool:
        """Renew the lease; return whether this process still holds it."""

    def release(self) -> None:
        """Release the lease."""

    def report(self, progress: CaptureProgress) -> None:
        """Store the progress in the catalog."""
