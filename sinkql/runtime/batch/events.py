"""What a running sink tells its user: events, for a terminal's live lines or a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sinkql.connector_api.stream import Compacted, FirstSnapshot, JobOffsets
from sinkql.errors import SinkqlError

Ending = Literal["caught up", "stopped", "moved", "renamed", "dropped", "fenced", "failed"]
"""Why a sink no longer runs: `caught up` is the end of a run that commits what there is and stops, `moved` the end in
a cluster that it is in no more, `renamed` that under a name that it has no more."""


@dataclass(frozen=True, slots=True)
class SparkStarting:
    """Spark of a cluster is being started, which takes seconds."""

    cluster: str


@dataclass(frozen=True, slots=True)
class SparkStarted:
    """Spark of a cluster is up after `seconds`."""

    cluster: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SinkStarting:
    """A sink, or a `view` with a log, is leased, and begins in a cluster."""

    sink: str
    cluster: str
    view: bool = False


@dataclass(frozen=True, slots=True)
class SinkElsewhere:
    """A sink, or a `view` with a log, is run by another process; it is taken once that one ends."""

    sink: str
    view: bool = False


Stage = Literal["opening the table", "waiting for Spark", "starting the query", "first batch"]
"""What a sink does before it runs, and before its first commit."""


@dataclass(frozen=True, slots=True)
class SinkStage:
    """A sink that starts has come to a stage."""

    sink: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class SinkStarted:
    """A sink runs: it holds its table, and its query looks for input from `offsets` on."""

    sink: str
    epoch: int
    offsets: JobOffsets


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """A sink committed a batch: `rows` written, `read` from its sources, `failed` of these skipped by ON ERROR.

    `rows_per_second` is what was read since the previous commit over that time; `lag` is the age of the oldest input
    that is still to be read, zero where there is none; `more` tells that the batch was cut by
    a limit, so that the next one follows at once and not `next_commit` later; `in_spark` that Spark computed it, and
    not this process, which computes small ones.
    """

    sink: str
    rows: int
    read: int
    failed: int
    bytes: int
    snapshot: int
    rows_per_second: float
    lag: timedelta
    next_commit: timedelta
    more: bool = False
    in_spark: bool = False


@dataclass(frozen=True, slots=True)
class SinkCompacted:
    """A sink put files of its table together between two batches, or could not and tries again later."""

    sink: str
    compacted: Compacted


@dataclass(frozen=True, slots=True)
class SinkRebuilding:
    """A sink lost its state, as `lost` says, and rebuilds it from the beginning of its sources."""

    sink: str
    lost: SinkqlError


Rereading = Literal["reading", "comparing"]
"""What a rebuild does: read the sources again, and then compare rows with the table."""


@dataclass(frozen=True, slots=True)
class SinkRereading:
    """A sink computes all rows of its table again: so many rows it has read, and then compared with the table."""

    sink: str
    step: Rereading
    rows: int


@dataclass(frozen=True, slots=True)
class SinkSnapshotting:
    """The first snapshot of what a sink reads is being read, or is `done`: committed to its table."""

    sink: str
    snapshot: FirstSnapshot


@dataclass(frozen=True, slots=True)
class SinkReached:
    """A sink has all that its sources had when programs asked for it (`sinkql.connector_api.requests`)."""

    sink: str
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SinkStalled:
    """A sink met an error; it tries again in `retry_in`, or waits for somebody to act where that is None."""

    sink: str
    error: SinkqlError
    retry_in: timedelta | None


@dataclass(frozen=True, slots=True)
class SinkStopped:
    """A sink no longer runs."""

    sink: str
    ending: Ending
    error: SinkqlError | None = None


Event = (
    SparkStarting
    | SparkStarted
    | SinkElsewhere
    | SinkStarting
    | SinkStage
    | SinkStarted
    | SinkCommitted
    | SinkCompacted
    | SinkRebuilding
    | SinkRereading
    | SinkSnapshotting
    | SinkReached
    | SinkStalled
    | SinkStopped
)

Progress = Callable[[Event], None]
"""Called from several threads, one event at a time for each sink."""


def silent(event: Event) -> None:
    """Ignore the event."""
