"""The events that running sinks report, for the live lines of a terminal or for a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sinkql.connector_api.stream import Compacted, FirstSnapshot, JobOffsets
from sinkql.errors import SinkqlError

Ending = Literal["caught up", "stopped", "moved", "renamed", "dropped", "fenced", "failed"]
"""Why a sink no longer runs.

"caught up" is the end of a run with `--once`, "moved" the end in the sink's former cluster, and "renamed" the end under
its former name.
"""


@dataclass(frozen=True, slots=True)
class JavaMissing:
    """This machine seems to have no Java, so batches that need Spark will wait."""


@dataclass(frozen=True, slots=True)
class SparkStarting:
    """A cluster's Spark is starting, which takes seconds."""

    cluster: str


@dataclass(frozen=True, slots=True)
class SparkStarted:
    """A cluster's Spark runs after `seconds`."""

    cluster: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SparkRested:
    """A cluster's Spark has stopped, because no batch has needed it for long."""

    cluster: str


@dataclass(frozen=True, slots=True)
class SinkStarting:
    """A sink, or the job of a materialized `view`, has its lease and starts in a cluster."""

    sink: str
    cluster: str
    view: bool = False


@dataclass(frozen=True, slots=True)
class SinkElsewhere:
    """Another process runs a sink, or the job of a materialized `view`; this one runs it when the other ends."""

    sink: str
    view: bool = False


Stage = Literal["opening the table", "waiting for Spark", "starting the query", "first batch"]
"""What a sink does before its first commit."""


@dataclass(frozen=True, slots=True)
class SinkStage:
    """A starting sink has reached a stage."""

    sink: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class SinkStarted:
    """A sink runs: it has claimed its table and looks for input after `offsets`."""

    sink: str
    epoch: int
    offsets: JobOffsets


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """A sink committed a batch.

    * `rows`: rows written; `read`: records read; `failed`: records that did not decode; `dead_letters`: those of them
      that were stored.
    * `rows_per_second`: the rate of reading since the previous commit.
    * `lag`: the age of the oldest unread input; zero if there is none.
    * `more`: a limit cut the batch, so the next one follows immediately instead of `next_commit` later.
    * `in_spark`: Spark computed the batch, rather than this process.
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
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class SinkCompacted:
    """A sink compacted files of its table between two batches, or failed and will retry."""

    sink: str
    compacted: Compacted


@dataclass(frozen=True, slots=True)
class SinkRecovering:
    """A sink lost its state, for the reason `lost`, and recovers it from the beginning of its sources."""

    sink: str
    lost: SinkqlError


Rereading = Literal["reading", "comparing"]
"""The steps of a full refresh: read the sources again, then compare the rows with the table."""


@dataclass(frozen=True, slots=True)
class SinkRereading:
    """A sink runs a full refresh; `rows` have been read or compared in this step."""

    sink: str
    step: Rereading
    rows: int


@dataclass(frozen=True, slots=True)
class SinkSnapshotting:
    """A sink reads the initial snapshot of its sources, or has committed it."""

    sink: str
    snapshot: FirstSnapshot


@dataclass(frozen=True, slots=True)
class SinkReached:
    """A sink has committed what its sources had when programs requested a wait (`sinkql.connector_api.requests`)."""

    sink: str
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SinkStalled:
    """A sink failed and retries in `retry_in`; if that is None, it waits for the user."""

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
    JavaMissing
    | SparkStarting
    | SparkStarted
    | SparkRested
    | SinkElsewhere
    | SinkStarting
    | SinkStage
    | SinkStarted
    | SinkCommitted
    | SinkCompacted
    | SinkRecovering
    | SinkRereading
    | SinkSnapshotting
    | SinkReached
    | SinkStalled
    | SinkStopped
)

Progress = Callable[[Event], None]
"""Called from several threads, but with one event at a time for each sink."""


def silent(event: Event) -> None:
    """Ignore the event."""
