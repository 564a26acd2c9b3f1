"""What a running job asks of a connector: read splits of a source, write and commit batches. No Spark in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.extension.store import ObjectStore

if TYPE_CHECKING:
    import numpy as np
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
    """A record that did not decode: where it came from, its raw bytes (cut), and why."""

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


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that does not decode: the line of the stream in which it begins, from 1, why, and its bytes."""

    line: int
    message: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows of a part of a stream, and the records that failed, in order.

    `records` counts both; `batch` has the columns that were asked for, in their Arrow types.
    """

    batch: pa.RecordBatch
    records: int
    failures: Sequence[Failure]


class UndecodableError(ValueError):
    """A stream that has no records of the format at all; the text says why."""


_CORRECT = "Correct the file, or create the source WITH (ON ERROR = SKIP); the sink then continues."


def invalid_row(source: str, position: str, message: str, raw: bytes, *, hint: str = _CORRECT) -> SinkqlError:
    """Return the error for a record that does not decode, where such are not skipped."""
    return SinkqlError(
        "SQ3101",
        f'invalid row of source "{source}" at {position}: {message}',
        detail=f"The row is {raw[:200].decode(errors='replace')}",
        hint=hint,
    )


class Decoder(Protocol):
    """Decode streams of one format."""

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a stream in parts; raises UndecodableError."""


class QuotedDecoder(Decoder, Protocol):
    """Decode streams whose records may have line ends in quotes, also from a record on that is not the first."""

    def decode_after(self, head: bytes, stream: BinaryIO, line: int) -> Iterator[Decoded]:
        """Yield the rows of a stream that begins with a record, in that line, of what begins with `head`."""


class StoredDecoder(Decoder, Protocol):
    """Decode files of a format that says itself what columns they have, and where; streams can be sought."""

    def columns(self, stream: BinaryIO) -> Sequence[tuple[str, str]]:
        """Return the names and types, as SQL, of a file's columns; raises UndecodableError."""

    def rows(self, stream: BinaryIO) -> int:
        """Return how many rows a file says that it has; raises UndecodableError."""

    def decode_range(self, stream: BinaryIO, begin: int, end: int) -> Iterator[Decoded]:
        """Yield the rows that begin from a byte on and before another one; raises UndecodableError."""


def _never(options: Mapping[str, Any]) -> bool:  # as `Decoding.lines` is called
    return False


def _unquoted(options: Mapping[str, Any]) -> bytes:  # as `Decoding.quote` is called
    return b""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a format is decoded: `open` takes the planned options and the columns.

    `lines` tells by the options whether each record is a line: long input is then cut at line ends, and a decoder gets
    whole lines. `quote` gives by the options the character of which each record has an even number, or nothing: long
    input is cut at line ends after which that is so, and a decoder is a `QuotedDecoder`. `stored` opens the decoder,
    too, of a format whose files are sought.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column]], Decoder]
    lines: Callable[[Mapping[str, Any]], bool] = _never
    stored: Callable[[Mapping[str, Any], Sequence[physical.Column]], StoredDecoder] | None = None
    quote: Callable[[Mapping[str, Any]], bytes] = _unquoted


@dataclass(frozen=True, slots=True)
class DecodedMessages:
    """Rows of messages, and why some messages failed, by their places in the list that was decoded.

    Without `places` there is a row for each message, and that of one that failed means nothing. Otherwise `places` has
    the place of the message of each row, and one that failed has no row. `batch` has the columns that were asked for,
    in their Arrow types.
    """

    batch: pa.RecordBatch
    failures: Mapping[int, str]
    places: np.ndarray | None = None


class WideError(Exception):
    """The values take much more room than their texts: they are to be decoded in parts. Never for a single one."""


class MessageDecoder(Protocol):
    """Decode the keys or the values of messages; picklable: it is opened in the driver, and used in tasks."""

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return the rows of messages, one for each; raises WideError."""


class ChangeDecoder(Protocol):
    """Decode values of messages that tell how rows change, as ENVELOPE DEBEZIUM does; picklable."""

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return rows with `$diff` behind their columns: 1 for what a key has now, -1 for a key that is gone.

        `keys` has the key columns of each message, if these are read; a value of None is no change. The result has
        `places`. Raises WideError.
        """


@dataclass(frozen=True, slots=True)
class MessageDecoding:
    """How a format of messages is decoded: `open` takes the planned options, the columns and the job's context.

    `changes` opens what decodes ENVELOPE DEBEZIUM, and takes all columns of the rows, and the names of those that are
    the key; None where the format has no such envelope.
    """

    open: Callable[[Mapping[str, Any], Sequence[physical.Column], Context], MessageDecoder]
    changes: Callable[[Mapping[str, Any], Sequence[physical.Column], Sequence[str], Context], ChangeDecoder] | None = (
        None
    )


class Reader(Protocol):
    """Read one source: all but `read` runs in the driver, `read` in a task.

    `latest` of a sink that runs is asked in a thread, and a reader, of its own: it may take its time. A reader is
    picklable. A batch's splits are numbered by their place in the list; the task adds `$seq` itself (split number, then
    row), so `read` yields just the declared columns, in the declared Arrow types. An UPSERT source's end with `$diff`
    (int64): 1 for a row that its key has now, -1 for a key that is gone, all columns NULL but the key's
    (`physical.Read.key`, the first key of the source's shape); the last change of a key counts. A RETRACT source's end
    with `$diff` (int64), and rows that come and go between the two offsets of `splits` are in none of them: no
    expression sees a row that is not there any more.


    Where `physical.Read.holes` asks for it, an UPSERT source's rows go on after `$diff` with what a server did not
    send: `$hole` (binary: a bit a column, from the lowest of the first byte on; NULL for none) and `$from` (a struct of
    the key's columns: the key that the row had before, whose values its holes have; NULL where the key is the same). A
    row with both stands in the first entry of a batch, so that the state from before the batch has what it lacks.

    A class that inherits from it has `reached`, `target_at` and the last nine methods as they are for a source whose
    rows only come, that cannot go back, that keeps nothing for its readers, whose offsets say all, and that cannot tell
    how old its input is.

    A source that can begin again, or be put back from a copy, puts into its offsets what tells: numbers alone would
    name other rows then. `verify` compares it.
    """

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where a new sink starts: at the source's beginning, or at its present end."""

    def target(self, start: Offsets) -> Offsets:
        """Return where a run that does all there is now and stops will end; SQ2405 for a source without an end."""

    def reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a `target` is reached; it may be another kind of offsets than those of batches."""
        return json.dumps(offsets, sort_keys=True) == json.dumps(target, sort_keys=True)

    def target_at(self, offsets: Offsets) -> Offsets:
        """Return the target of who reads anew, from the beginning, what was read up to `offsets`."""
        return offsets

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return how far a batch from `start` may go now: never past limit, except for one indivisible record.

        With `until`, a `target`, never past that, and with no waiting for the clock.
        """

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return what to read to get from `start` to `end`; the same list each time."""

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield a split's rows and count them in `tally`; raises SinkqlError with ON ERROR = FAIL."""

    def extended(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return how far a batch up to `end`, of which a row failed, may go on: later changes may take the row back.

        With `until`, a `target`, not past that; without a limit, and `end` where nothing is ever taken back.
        """
        return end

    def cleared(self, start: Offsets, end: Offsets) -> bool:
        """Tell whether all rows from before were removed at once between the two; `splits` gives what came after."""
        return False

    def snapshotting(self, start: Offsets) -> bool:
        """Tell whether beyond `start` there may be changes of rows that a first snapshot brings later.

        A row whose holes nothing fills is passed over then: the snapshot brings it whole, or a later change does.
        """
        return False

    def verify(self, offsets: Offsets) -> None:
        """Raise a SinkqlError with a way out where the source is not the one that was read up to `offsets`.

        Called before the sink's table is claimed, at the beginning of each batch for both of its ends, and before its
        commit for its end.
        """
        return

    def committed(self, end: Offsets) -> None:
        """Release what is upstream of `end`; called after the sink's commit."""
        return

    def attachments(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the names of files in the sink's state folder without which `offsets` cannot be read.

        One that is missing may name others: restore it, and ask again.
        """
        return ()

    def unneeded(self, kept: Sequence[Offsets], *, before: float) -> tuple[str, ...]:
        """Return the names of the reader's files in the state folder without which all of `kept` can be read.

        Only those that were written before that time: later ones may be of a newer owner of the sink.
        """
        return ()

    def unread(self, offsets: Offsets, column: str) -> bool:
        """Tell whether all rows up to there have NULL in a column."""
        return False

    def lag(self, offsets: Offsets) -> float:
        """Return for how many seconds the oldest input beyond `offsets` has been there; 0 where there is none."""
        return 0.0


NO_PLAN = "none"
"""The plan of a marker before the first batch."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What the table says of a sink: how far it is, and who wrote last. Whole in every snapshot of the sink.

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
    """What one write task did: its bucket, rows taken and written, and the connector's own data (picklable)."""

    bucket: int
    rows: int
    data: Any


class WriteTask(Protocol):
    """Write the rows of one bucket of one batch; picklable, runs in a Spark task or in plain Python.

    `buckets` None: rows may come in any distribution (append). Otherwise the caller puts all rows of a key (`key`
    columns) into one bucket, always the same for the same `bucketing` name. Rows have the write's columns, then
    `$seq` (append), `$diff` (retract), or `$diff` and `$seq` (upsert), as the job's change kind says.
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
    """What a commit did: its marker and snapshot id, and how many rows, bytes and files it wrote."""

    marker: Marker
    snapshot: int
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """Files of a table that became fewer, in bytes as well; or the `problem` for which they did not."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """What everybody reads of `table` is `snapshot` now; without `moved` it was before."""

    table: str
    snapshot: int
    moved: bool


class RedoBatchError(Exception):
    """The batch's attempt is discarded and must be written again: files that it points at are gone."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A sink that goes on as `plan` in a table that one of the plans `follows` wrote, with its state if it has any.

    Of each of these plans: the names that columns have now, by those that they had, None for those that are gone.
    `check` raises a SinkqlError for a
    marker of one of them from which the plan cannot go on. Where one of `again` wrote the table, its rows come anew
    first, by `Writer.rebuild`, which alone makes its marker one of `plan`. With `empties` the first batch takes rows of
    others out of the table, and alone makes a marker without a plan one of `plan`.
    """

    plan: str
    follows: Mapping[str, Mapping[str, str | None]]
    stateful: bool = False
    check: Callable[[Marker], None] = lambda marker: None
    again: frozenset[str] = frozenset()
    empties: bool = False


def switch_of(job: physical.Job) -> Switch | None:
    """Return how a job goes on in a table that its earlier plans wrote, or claimed before a first batch."""
    earlier = {each.plan: each.renamed for each in job.follows if each.plan != job.plan}
    if not earlier:
        return None
    unwritten = {old: new for renamed in earlier.values() for old, new in renamed.items()}
    again = frozenset(each.plan for each in job.follows if each.again) & earlier.keys()
    return Switch(job.plan, {NO_PLAN: unwritten, **earlier}, stateful=job.stateful(), again=again)


def claimed(
    kept: Marker | None, *, sink: str, claim: str, initial: JobOffsets, epoch: int, switch: Switch | None
) -> Marker:
    """Return the marker of the claim `claim` on a table whose marker is `kept`, by the rules of `Writer.claim`.

    Raises what `Switch.check` does: others may have written since whoever claims has read the marker.
    """
    if kept is None:
        return Marker(sink, max(epoch, 1), claim, claim, initial, initial, NO_PLAN, None, None)
    marker = replace(kept, epoch=max(epoch, kept.epoch + 1), claim=claim)
    if switch is None or kept.plan not in switch.follows or kept.plan in switch.again:
        return marker
    switch.check(kept)
    end = {source: kept.end.get(source, begin) for source, begin in initial.items()}
    plan = NO_PLAN if kept.plan == NO_PLAN and switch.empties else switch.plan
    return replace(marker, start=end, end=end, plan=plan, state=kept.state if switch.stateful else None)


class Writer(Protocol):
    """Own one sink's table while a job runs. Every method may raise SinkqlError; fenced is SQ5101.

    A class that inherits from it has the last methods, from `attach` on, as they are for a table that needs no care,
    keeps no files of readers (a source that has some is lost with its state folder then, SQ3412), and whose rows cannot
    be replaced.
    """

    def open(self) -> None:
        """Create namespace and table if absent, check that an existing one fits, refuse foreign rows."""

    def marker(self) -> Marker | None:
        """Reload the table and return the marker that holds now; None where this sink never committed."""

    def claim(self, initial: JobOffsets, *, epoch: int, switch: Switch | None = None) -> Marker:
        """Take the table: commit an empty snapshot with an epoch above the table's and above `epoch` - 1.

        A marker of a plan that `switch` follows becomes one of its plan in the same commit: with the sources that are
        in `initial`, at the marker's offsets where it has any. `claimed` makes the marker, of the one that the commit
        follows. Where the job has other columns than that plan, the table gets them in the same commit; rows that are
        there have NULL in new ones.
        """

    def refresh(self) -> Marker:
        """Reload the table, bring the index up to date, check for fencing, rollback and changed schema."""

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt on the refreshed table.

        With `cleared`, the sink's commit takes out all rows that it has written before. Only sinks of rows that
        overwrite each other get that.
        """

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Marker) -> Committed:
        """Commit one snapshot with these results and the new marker. Raises RedoBatchError; never commits twice.

        `marker` is the one that `refresh` returned, with the attempt's commit, offsets, plan and state; the writer may
        give it an index.
        """

    def attach(self, name: str, data: bytes) -> None:
        """Keep a reader's file in the table's folder, unless it is there."""
        return

    def attached(self, name: str) -> bytes | None:
        """Return a file kept by `attach`."""
        return None

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Write files kept by `attach` again where they are old, so that nobody takes them for forgotten."""
        return

    def detach(self, name: str) -> bool:
        """Delete a file kept by `attach`, if there is one; tell whether it is gone."""
        return True

    def share(self) -> float:
        """Return which part of the time may go into `maintain`, from 0 to 1."""
        return 0.15

    def maintain(self, go_on: Callable[[bool], bool] = lambda begun: True) -> Sequence[Compacted]:
        """Compact files, expire snapshots, remove files that nothing reaches; called between batches.

        Cheap when nothing is due. `go_on` is asked before each step of what takes long, with whether something was
        begun; what is not done by then goes on the next time. Return which compactions came to an end.
        """
        return ()

    def optimize(self, go_on: Callable[[], bool] = lambda: True) -> tuple[Sequence[Compacted], bool]:
        """Do all at once that makes the table, as it is at the first call, cheaper to read; called after `refresh`.

        `go_on` is asked before each step. Return which compactions came to an end, or failed, and whether all is done:
        else the next call goes on.
        """
        return (), True

    def to_optimize(self) -> int:
        """Return how many files there were when `optimize` began, none of which may be left; 0 before."""
        return 0

    def replaces(self) -> bool:
        """Tell whether the table has rows of others, which are to go once this sink writes; called after `open`."""
        return False

    def collect(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that puts by the rows of part `number` of a rebuild, for `rebuild`; called after `refresh`.

        In parts that follow each other, rows change as they do in batches. Number 0 forgets all that was put by.
        """
        raise _irreplaceable()

    def rebuild(
        self, results: Sequence[WriteResult], marker: Marker, between: Callable[[int], None] = lambda rows: None
    ) -> Committed:
        """Commit one snapshot that makes the table have just the rows put by; called after `refresh`.

        Rows that are there already stay where they are. `marker` as in `commit`, with the sink's present plan; a commit
        id of its own comes from here. `between` is called now and then with the number of rows compared so far, and
        may raise. Raises what `commit` does; after RedoBatchError it may be called again, with the same results.
        """
        raise _irreplaceable()


def _irreplaceable() -> SinkqlError:
    return SinkqlError(
        "SQ3415",
        "sinks of this kind cannot compute their rows again",
        hint="Drop the sink and create it again, into a new place.",
    )


def _no_store(connection: physical.Connection) -> ObjectStore:
    raise LookupError(f"no object store is given for {connection.name}")


@dataclass(frozen=True, slots=True)
class Context:
    """What a job's parts may use: a private folder, secrets' values, object stores.

    `folder` is the sink's own state folder (seen by all executors); `secret` returns a secret item's value; `store`
    opens the object store of a connection. `formats` are those that the installed connectors decode, by name, and
    `messages` those of messages.
    """

    sink: str
    sink_id: str
    folder: Path
    secret: Callable[[str], str]
    store: Callable[[physical.Connection], ObjectStore] = _no_store
    formats: Mapping[str, Decoding] = field(default_factory=dict)
    messages: Mapping[str, MessageDecoding] = field(default_factory=dict)


class OpenReader(Protocol):
    def __call__(self, read: physical.Read, context: Context) -> Reader:
        """Return the reader of one source of a job."""


class OpenWriter(Protocol):
    def __call__(self, write: physical.Write, context: Context) -> Writer:
        """Return the writer of a job."""
