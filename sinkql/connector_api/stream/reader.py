"""Define a source's part of a job: a reader plans batches as offsets and splits, and reads the rows of a split.

What only some sources have is a separate part of their reader: an initial snapshot, a full refresh that differs from
reading again from the beginning, files in the state folder, a view log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sinkql.connector_api.stream.checkpoint import JobOffsets, Limit, Offsets, Split
from sinkql.connector_api.stream.decoding import DecodedMessages
from sinkql.connector_api.stream.row_error import ReadCounts, RowError, not_replayable_error
from sinkql.errors import SinkqlError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FirstSnapshot:
    """The progress of an initial snapshot: `rows` of about `of_rows`, in `chunks` of about `of_chunks`.

    `done` if all its rows are committed; otherwise it is read in about `seconds_left`. None for an unknown number.
    """

    rows: int = 0
    of_rows: int | None = None
    chunks: int = 0
    of_chunks: int | None = None
    done: bool = False
    seconds_left: float | None = None

    @property
    def share(self) -> float | None:
        """Return the share of the rows that was read, at most 1; None if it is unknown."""
        if self.of_rows is None:
            return 1.0 if self.done else None
        return min(1.0, self.rows / self.of_rows) if self.of_rows else 1.0


@dataclass(frozen=True, slots=True)
class Measure:
    """The progress of a sink in a source: `committed` of the `known` input. Both grow; `unit` is for example messages.

    `known` is the source's input when it was last looked up. None if it is no number or only another process knows it.
    """

    known: int | None = None
    committed: int | None = None
    unit: str | None = None
    snapshot: FirstSnapshot | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """An estimate of input: its rows, and its bytes as the source stores them, decompressed."""

    rows: int
    bytes: int

    @staticmethod
    def total(sizes: Iterable[Size | None]) -> Size | None:
        """Return the sum of sizes; None if one of them is unknown."""
        rows = bytes_ = 0
        for size in sizes:
            if size is None:
                return None
            rows, bytes_ = rows + size.rows, bytes_ + size.bytes
        return Size(rows, bytes_)


class Reader(Protocol):
    """The reader of one source. `read` runs in tasks, all other methods run in the driver. Readers are picklable.

    A running sink calls `latest` in a separate thread and on a separate reader, so that it may take long.

    The splits of a batch are numbered by their place in the list. A task adds `$seq`, the number of the split and of
    the row. `read` yields only the declared columns, in the declared Arrow types, and for some sources more:

    * An UPSERT source adds `$diff` (int64): 1 for the row that its key has now, and -1 for a deleted key. With -1, all
      columns but the key's (`physical.Read.key`) are NULL. The last change of a key counts.
    * A RETRACT source adds `$diff` (int64). Rows that are both added and retracted in a batch are left out, so that no
      expression sees them.
    * With `physical.Read.holes`, an UPSERT source also adds `$hole` and `$from`. `$hole` (binary) has a bit for each
      column, from the lowest bit of the first byte on, set if the value is unchanged; NULL for none. `$from` (a struct
      of the key's columns) is the row's previous key, from which the unchanged values come; NULL if the key is the
      same. A row with both is in the first log entry of a batch: the state before the batch then has its values.

    Offsets contain numbers, and also the identity of the source. If a source was recreated or restored from a copy, the
    same numbers mean other rows, and `verify` raises an error.

    Methods with a default suit a source that only appends rows, and whose offsets mean nothing to other jobs.
    """

    @property
    def snapshot(self) -> SnapshotReader | None:
        """Return the part that knows of the initial snapshot and truncations; None if the source has neither."""
        return None

    @property
    def full_refresh(self) -> RefreshableReader | None:
        """Return the part for reading again; None if the beginning always exists and no change is ever lost."""
        return None

    @property
    def files(self) -> FileBackedReader | None:
        """Return the part that names the reader's files; None if the offsets alone are the position."""
        return None

    @property
    def view_log(self) -> ViewLogReader | None:
        """Return the part for the log of a materialized view; None for all other sources."""
        return None

    # --- offsets and splits ------------------------------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the offsets at which a new sink starts: the source's beginning, or its present end."""

    def target(self, start: Offsets) -> Offsets:
        """Return the target of a run with `--once`, which reads all present input; SQ2405 for an endless source."""

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether a `target` is reached. Its format may differ from that of a batch's offsets."""
        return json.dumps(offsets, sort_keys=True) == json.dumps(target, sort_keys=True)

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return where a batch from `start` may end now: within the limit, unless a single record exceeds it.

        With `until`, a `target`, never after that, and without a wait for the clock.
        """

    def step(self, start: Offsets, end: Offsets) -> Offsets:
        """Return the latest end of one batch on the way from `start` to `end`, without regard to limits.

        State recovery reads in these steps. The rows after a step may depend on the state after it.
        """
        return end

    def extend(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return where a batch that ended at `end` and had a row error may end instead: a later change may retract it.

        With `until`, a `target`, never after that. No limit applies. Return `end` if the source retracts nothing.
        """
        return end

    def translate_end(self, start: Offsets, end: Offsets) -> Offsets | None:
        """Return where the batch from `start` to `end` ends today, with the same records.

        None if the source now groups its records differently, so that no batch can end there.
        """
        return end

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the splits between two offsets; the same list on each call."""

    def verify(self, offsets: Offsets) -> None:
        """Raise a SinkqlError with a hint if the source is not the one that was read up to `offsets`.

        Called before the sink claims its table, at the beginning of each batch for both its ends, and before the commit
        for its end.
        """
        return

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return a position that all readers of the source agree on, as JSON; None if the readers share none.

        Equal positions mean equal rows. Each reader accepts a position as a `target`, and `target_reached` orders them.
        """
        return None

    def is_all_null(self, offsets: Offsets, column: str) -> bool:
        """Return whether a column is NULL in all rows up to the offsets."""
        return False

    # --- rows --------------------------------------------------------------------------------------------------------

    def using(self, names: frozenset[str]) -> Reader:
        """Return the reader of a job that uses only these columns; it may yield NULL in all others."""
        return self

    def with_columns(self, names: tuple[str, ...]) -> Reader | None:
        """Return a reader whose `read` yields only these columns; None if reading all columns costs the same.

        The names include the keys by which rows overwrite each other.
        """
        return None

    def local_only(self) -> bool:
        """Return whether only the machine that runs the sink can read the source, for example a local folder."""
        return False

    def size(self, splits: Sequence[Split]) -> Size | None:
        """Return about how large the splits are, without reading them; None if that is unknown.

        The driver may read small splits itself, different ones in several threads. If the size is unknown, Spark reads
        them.
        """
        return None

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split. Count its records in `read_counts`; failed ones follow the source's ON ERROR."""

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode dead letters again; yield for each record, in order, its rows or its new failure.

        Only for a source that appends rows. Raises SQ3394 if a record was not stored completely.
        """
        raise not_replayable_error()

    # --- events in the life of a sink --------------------------------------------------------------------------------

    def on_resume(self, offsets: Offsets) -> None:
        """Learn the offsets of the sink's table; called when a run begins, before `verify`.

        The previous run may have ended after its commit and before `after_commit`.
        """
        return

    def on_task_failure(self, error: SinkqlError) -> None:
        """Learn that a task of a batch failed; called in the driver."""
        return

    def before_commit(self, end: Offsets) -> None:
        """Learn that the sink's table may be at `end` from now on; called just before the sink's commit."""
        return

    def after_commit(self, end: Offsets) -> None:
        """Release the input before `end`; called after the sink's commit."""
        return

    # --- metrics -----------------------------------------------------------------------------------------------------

    def lag(self, offsets: Offsets) -> float:
        """Return the age in seconds of the oldest input after the offsets; 0 without one, or if its age is unknown."""
        return 0.0

    def measure(self, offsets: Offsets) -> Measure:
        """Return the progress at the offsets; called each second in a separate thread. It may raise a SinkqlError."""
        return Measure()


class SnapshotReader(Protocol):
    """The part of a reader whose source begins with an initial snapshot, or truncates all rows.

    The defaults suit a source that does neither.
    """

    def snapshot_running(self, start: Offsets) -> bool:
        """Return whether rows after `start` may be changes of rows that the initial snapshot has yet to read.

        If nothing fills the unchanged values of the row, it is skipped: the snapshot or a later change has them.
        """
        return False

    def is_consistent(self, offsets: Offsets) -> bool | None:
        """Return whether the rows up to the offsets are of one point in time; None if the source cannot tell.

        During an initial snapshot they are not: its chunks are of different points in time.
        """
        return None

    def truncated_between(self, start: Offsets, end: Offsets) -> bool:
        """Return whether a truncation is between two offsets; `splits` then only has the rows after it."""
        return False


class RefreshableReader(Protocol):
    """The part of a reader that can lose changes, or whose beginning can move: how a sink reads its rows again.

    The defaults suit a source that has no lost changes to replace.
    """

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return where reading up to `offsets` began; raises GoneError if the input from there no longer exists."""

    def target_at(self, offsets: Offsets) -> Offsets:
        """Return the target of a full refresh that covers everything read up to `offsets`."""
        return offsets

    def can_full_refresh(self) -> bool:
        """Return whether a full refresh would read all current rows, even if old changes are no longer available."""
        return False

    def wants_full_refresh(self, offsets: Offsets) -> bool:
        """Return whether the sink must compute all rows again: the next changes are lost, and ALTER SOURCE … SKIP
        accepted that, or a table without a key was truncated and its rows are unknown.

        The rows of an upsert sink are then computed again from `full_refresh_start`. For other sinks, `latest` and
        `splits` continue with the present input.
        """
        return False

    def full_refresh_start(self, offsets: Offsets) -> Offsets:
        """Return where a full refresh begins that `wants_full_refresh` demands at `offsets`."""
        return self.restart_of(offsets)

    def refresh_outdated(self, offsets: Offsets) -> bool:
        """Return whether a loss was accepted since the start of a full refresh that has read up to `offsets`."""
        return False


class FileBackedReader(Protocol):
    """The part of a reader whose offsets name files in the sink's state folder."""

    def required_files(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the files, relative to the state folder, that the offsets need.

        A missing file may name more files: restore it and call this again.
        """

    def removable_files(self, needed: Sequence[Offsets], *, before: float) -> tuple[str, ...]:
        """Return the reader's files in the state folder that none of the `needed` offsets uses.

        Only files written before a time: later ones may belong to a newer run of the sink.
        """


class ViewLogReader(Protocol):
    """The part of a reader of a view log: its offsets have positions of the sources below the view."""

    def positions_below(self, offsets: Offsets) -> JobOffsets | None:
        """Return the sources' positions at the offsets, by `Reader.comparable_position`; None if the log lost them."""

    def list_positions(self, start: Offsets) -> Iterator[tuple[Offsets, JobOffsets]]:
        """Yield the offsets from `start` on and the positions below them, the last ones first.

        If the log no longer has the entries after `start`, yield all. The log then retains them for this reader.
        """

    def last_change(self, offsets: Offsets) -> Offsets:
        """Return the last offsets up to these at which a row changed, as a `target`."""

    def state_at(self, offsets: Offsets) -> str | None:
        """Return the name of a state of the view's job with the indexes at the offsets; None if they are not complete.

        The state is of these offsets, or of later ones without a change in between. Raises GoneError if the log lost
        the offsets.
        """
        return None
