"""What a running job asks of a connector: read splits of a source, write and commit batches. No Spark in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sinkql import physical
from sinkql.connector.store import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = Mapping[str, Any]
"""How far one source was read; JSON-able, its content is the connector's."""

JobOffsets = Mapping[str, Offsets]
"""Source name to offsets: how far a job was read."""

Split = Mapping[str, Any]
"""A replayable part of a source; JSON-able: reading it again gives the same rows."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Bound a batch by rows and by bytes of input."""

    rows: int
    bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class RowError:
    """Hold a record that did not decode: where it came from, its raw bytes (cut), and why."""

    position: str
    code: str
    message: str
    raw: bytes


@dataclass(slots=True)
class Tally:
    """Count what one read task saw; `errors` keeps the first few rows in full, `failed` counts all of them."""

    rows: int = 0
    bytes: int = 0
    failed: int = 0
    errors: list[RowError] = field(default_factory=list)


class Reader(Protocol):
    """Read one source: all but `read` runs in the driver or the source's process, `read` in a task.

    A reader is picklable. A batch's splits are numbered by their place in the list; the task adds `$seq` itself (split
    number, then row), so `read` yields just the declared columns, in the declared Arrow types; a RETRACT source's end
    with `$diff` (int64).
    """

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where a new sink starts: at the source's beginning, or at its present end."""

    def target(self, start: Offsets) -> Offsets:
        """Return where a run that does all there is now and stops will end; SQ2405 for a source without an end."""

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return how far a batch from `start` may go now: never past limit, except for one indivisible record.

        With `until`, a `target`, never past that, and with no waiting for the clock.
        """

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return what to read to get from `start` to `end`; the same list each time."""

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield a split's rows and count them in `tally`; raises SinkqlError with ON ERROR = FAIL."""

    def committed(self, end: Offsets) -> None:
        """Release what is upstream of `end`; called after the sink's commit."""

    def attachments(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the names of files in the reader's state folder without which `offsets` cannot be read."""

    def lag(self, offsets: Offsets) -> float:
        """Return for how many seconds the oldest input beyond `offsets` has been there; 0 where there is none."""

    def finished(self, offsets: Offsets) -> bool:
        """Tell whether nothing can ever come after `offsets` (a generator with UP TO)."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Hold what the table says of a sink: how far it is, and who wrote last. Whole in every snapshot of the sink.

    `plan` is "none" until the first batch; `claim` identifies the claim, `commit` the attempt; `index` and `state`
    name manifests, None where there is none.
    """

    sink: str
    epoch: int
    claim: str
    commit: str
    start: JobOffsets
    end: JobOffsets
    plan: str
    index: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Hold what one write task did: its bucket, rows taken and written, and the connector's own data (picklable)."""

    bucket: int
    rows: int
    data: Any


class WriteTask(Protocol):
    """Write the rows of one bucket of one batch; picklable, runs in a Spark task or in plain Python.

    `buckets` None: rows may come in any distribution (append). Otherwise the caller puts all rows of a key (`key`
    columns) into one bucket, always the same for the same `bucketing` name. Rows have the write's columns, then
    `$seq` or `$diff` as the job's change kind says.
    """

    @property
    def commit(self) -> str:
        """Return the id of the attempt at a commit that this task is of."""

    @property
    def buckets(self) -> int | None:
        """Return how many buckets there are, None where any distribution will do."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns that decide a row's bucket."""

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write one bucket's rows; `attempt` is unique to the task attempt and goes into file names."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Hold what a commit did, for status and progress."""

    marker: Marker
    snapshot: int
    rows: int
    bytes: int
    files: int


class RedoBatchError(Exception):
    """Say that the batch's attempt is discarded and must be written again (files that it points at are gone)."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Say that a sink goes on as `plan` in a table that one of the plans `follows` wrote."""

    plan: str
    follows: tuple[str, ...]


class Writer(Protocol):
    """Own one sink's table while a job runs. Every method may raise SinkqlError; fenced is SQ5101."""

    def open(self) -> None:
        """Create namespace and table if absent, check that an existing one fits, refuse foreign rows."""

    def marker(self) -> Marker | None:
        """Reload the table and return the marker that holds now; None where this sink never committed."""

    def claim(self, initial: JobOffsets, *, epoch: int, switch: Switch | None = None) -> Marker:
        """Take the table: commit an empty snapshot with an epoch above the table's and above `epoch` - 1.

        A marker of a plan that `switch` follows becomes one of its plan in the same commit: with the sources that are
        in `initial`, at the marker's offsets where it has any, and without state.
        """

    def refresh(self) -> Marker:
        """Reload the table, bring the index up to date, check for fencing, rollback and changed schema."""

    def begin(self, *, bucketing: str, buckets: int) -> WriteTask:
        """Return the task of a new attempt on the refreshed table."""

    def commit(
        self,
        task: WriteTask,
        results: Sequence[WriteResult],
        *,
        start: JobOffsets,
        end: JobOffsets,
        state: str | None,
        plan: str,
    ) -> Committed:
        """Commit one snapshot with these results and the new marker. Raises RedoBatchError; never commits twice."""

    def attach(self, name: str, data: bytes) -> None:
        """Keep a reader's file in the table's folder, unless it is there."""

    def attached(self, name: str) -> bytes | None:
        """Return a file kept by `attach`."""

    def maintain(self) -> None:
        """Expire snapshots, remove files that nothing reaches; called between batches, cheap when nothing is due."""


def _no_store(connection: physical.Connection) -> ObjectStore:
    raise LookupError(f"no object store is given for {connection.name}")


@dataclass(frozen=True, slots=True)
class Context:
    """Hold what a job's parts may use: a private folder, secrets' values, object stores.

    `folder` is the sink's own state folder (seen by all executors); `secret` returns a secret item's value; `store`
    opens the object store of a connection (AWS).
    """

    sink: str
    sink_id: str
    folder: Path
    secret: Callable[[str], str]
    store: Callable[[physical.Connection], ObjectStore] = _no_store


class OpenReader(Protocol):
    def __call__(self, read: physical.Read, context: Context) -> Reader:
        """Return the reader of one source of a job."""


class OpenWriter(Protocol):
    def __call__(self, write: physical.Write, context: Context) -> Writer:
        """Return the writer of a job."""
