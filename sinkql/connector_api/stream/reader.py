"""A source's part of a job: places, splits, and their rows.

What writes the log of a materialized view: others look up in indexes of what it has written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sinkql.connector_api.stream.checkpoint import JobOffsets, Limit, Offsets, Split
from sinkql.connector_api.stream.decoding import DecodedMessages
from sinkql.connector_api.stream.row_error import RowError, Tally, not_kept
from sinkql.connector_api.stream.writer import Writer, WriteResult
from sinkql.errors import SinkqlError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FirstSnapshot:
    """How much of a source's first snapshot is read: `rows` of about `of_rows`, in `chunks` of about `of_chunks`.

    `done` once all that was read is committed; about `seconds_left` until it is read. None for what nobody knows.
    """

    rows: int = 0
    of_rows: int | None = None
    chunks: int = 0
    of_chunks: int | None = None
    done: bool = False
    seconds_left: float | None = None

    @property
    def share(self) -> float | None:
        """Return how much of it is read, at most 1; None where nobody knows."""
        if self.of_rows is None:
            return 1.0 if self.done else None
        return min(1.0, self.rows / self.of_rows) if self.of_rows else 1.0


@dataclass(frozen=True, slots=True)
class Measure:
    """How far a sink is in a source, as numbers that grow: `committed` of the `known`, in a `unit` such as messages.

    `known` is what the source had when it was last asked. None where that is no number, or another process knows it.
    """

    known: int | None = None
    committed: int | None = None
    unit: str | None = None
    snapshot: FirstSnapshot | None = None


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

    A class that inherits from it has `target_reached`, `restart_of`, `can_full_refresh`, `target_at` and the last
    seventeen methods as they are for a source whose rows only come, that cannot go back, that keeps nothing for its
    readers, whose offsets say all but mean nothing to others, and that cannot tell how old its input is, nor how much
    there is.

    A source that can begin again, or be put back from a copy, puts into its offsets what tells: numbers alone would
    name other rows then. `verify` compares it.
    """

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where a new sink starts: at the source's beginning, or at its present end."""

    def target(self, start: Offsets) -> Offsets:
        """Return where a run that does all there is now and stops will end; SQ2405 for a source without an end."""

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a `target` is reached; it may be another kind of offsets than those of batches."""
        return json.dumps(offsets, sort_keys=True) == json.dumps(target, sort_keys=True)

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return where who reads anew what was read up to `offsets` begins; raises GoneError where that is gone."""
        return self.initial(at_end=False)

    def can_full_refresh(self) -> bool:
        """Tell whether who reads anew gets all rows as they are now, though what was read before may be gone."""
        return False

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
        """Yield a split's rows, and count its records in `tally`, those that fail by `on_error.BadRecords`."""

    def using(self, names: frozenset[str]) -> Reader:
        """Return the reader of a job that uses these of its columns alone; it may give NULL in all others."""
        return self

    def with_columns(self, names: tuple[str, ...]) -> Reader | None:
        """Return a reader whose `read` gives these of its columns alone; None where it is no cheaper than all of them.

        Keys by which rows overwrite each other are among them.
        """
        return None

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell whether the splits are read sooner than handed to a task: a few thousand rows, less than a megabyte.

        They may be read in the driver then, in several threads at once, each other splits.
        """
        return False

    def local_only(self) -> bool:
        """Tell whether only the machine that runs the sink can read it, as what lies in its folders."""
        return False

    def step(self, start: Offsets, end: Offsets) -> Offsets:
        """Return how far one batch from `start` may go on the way to `end`, whatever the limits of batches are.

        So far whoever reads anew what was read before goes at once. What follows may need what the rows before leave.
        """
        return end

    def extended(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return how far a batch up to `end`, of which a row failed, may go on: later changes may take the row back.

        With `until`, a `target`, not past that; without a limit, and `end` where nothing is ever taken back.
        """
        return end

    def wants_full_refresh(self, offsets: Offsets) -> bool:
        """Tell whether rows are to be computed again: what follows is lost, and ALTER SOURCE … SKIP accepts that.

        Or all rows that have no key go at once, and nobody knows which they were.

        An upsert sink's rows are then computed again from the source's beginning; where they cannot be, `latest` and
        `splits` go on with what there is.
        """
        return False

    def full_refresh_start(self, offsets: Offsets) -> Offsets:
        """Return where rows begin that are computed again, as `wants_full_refresh` says of `offsets`."""
        return self.initial(at_end=False)

    def refresh_outdated(self, offsets: Offsets) -> bool:
        """Tell whether a loss was accepted after all rows began to be read again, up to `offsets` by now."""
        return False

    def translate_end(self, start: Offsets, end: Offsets) -> Offsets | None:
        """Return where a batch ends now that was to go from `start` to `end`, with the same records.

        None where the source puts its records together otherwise by now, so that no batch ends there any more.
        """
        return end

    def truncated_between(self, start: Offsets, end: Offsets) -> bool:
        """Tell whether all rows from before were removed at once between the two; `splits` gives what came after."""
        return False

    def snapshot_running(self, start: Offsets) -> bool:
        """Tell whether beyond `start` there may be changes of rows that a first snapshot brings later.

        A row whose holes nothing fills is passed over then: the snapshot brings it whole, or a later change does.
        """
        return False

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode records that did not decode when they were read; yield the rows of each, and where it failed again.

        Each of the results is of one record, the next one; of a source whose rows only come. Raises SQ3394 where what
        is kept of a record is not all that it was.
        """
        raise not_kept()

    def on_task_failure(self, error: SinkqlError) -> None:
        """Take note of what tasks of a batch have met; called in the driver."""
        return

    def on_resume(self, offsets: Offsets) -> None:
        """Take note that the sink's table is at `offsets`; called as a run begins, before `verify`.

        The run before may have ended after its commit and before `after_commit`.
        """
        return

    def verify(self, offsets: Offsets) -> None:
        """Raise a SinkqlError with a way out where the source is not the one that was read up to `offsets`.

        Called before the sink's table is claimed, at the beginning of each batch for both of its ends, and before its
        commit for its end.
        """
        return

    def before_commit(self, end: Offsets) -> None:
        """Take note that the sink's table may be at `end` from now on; called just before the sink's commit."""
        return

    def after_commit(self, end: Offsets) -> None:
        """Release what is upstream of `end`; called after the sink's commit."""
        return

    def required_files(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the names of files in the sink's state folder without which `offsets` cannot be read.

        One that is missing may name others: restore it, and ask again.
        """
        return ()

    def removable_files(self, kept: Sequence[Offsets], *, before: float) -> tuple[str, ...]:
        """Return the names of the reader's files in the state folder without which all of `kept` can be read.

        Only those that were written before that time: later ones may be of a newer owner of the sink.
        """
        return ()

    def is_all_null(self, offsets: Offsets, column: str) -> bool:
        """Tell whether all rows up to there have NULL in a column."""
        return False

    def lag(self, offsets: Offsets) -> float:
        """Return for how many seconds the oldest input beyond `offsets` has been there; 0 where there is none."""
        return 0.0

    def is_consistent(self, offsets: Offsets) -> bool | None:
        """Tell whether the rows up to there are those of one moment of the source; None where nobody would ask.

        They are not while a first snapshot is read: its parts are of several moments.
        """
        return None

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return what all have in common who have read the source up to there, JSON; None where nobody can tell.

        Equal ones mean equal rows. To any of its readers they are a `target`, which `target_reached` takes, in an
        order.
        """
        return None

    def measure(self, offsets: Offsets) -> Measure:
        """Return how far that is; called every second, in a thread of its own. It may raise a SinkqlError."""
        return Measure()


@runtime_checkable
class ViewLogReader(Reader, Protocol):
    """Read what a job has made of sources: a log, whose places say how far these were read."""

    def below(self, offsets: Offsets) -> JobOffsets | None:
        """Return how far the sources below were read at a place, by `Reader.comparable_position`; None where that is
        gone."""

    def places(self, start: Offsets) -> Iterator[tuple[Offsets, JobOffsets]]:
        """Yield the places from `start` on, and how far the sources below were read there; the last ones first.

        All that are there, where what follows `start` is gone; they are kept for this reader from then on.
        """

    def changed(self, offsets: Offsets) -> Offsets:
        """Return the last place up to there at which a row changed, as a `target`."""

    def state(self, offsets: Offsets) -> str | None:
        """Return the name of the state of the job that has the indexes of a place; None where they are not made yet.

        That is one as of this place or a later one without a change in between. Raises GoneError where it is gone.
        """
        return None


@runtime_checkable
class ViewLogWriter(Writer, Protocol):
    """Write the log of a view. Its state has indexes, which are made of what is written."""

    def present(self) -> tuple[Reader, Sequence[Split]] | None:
        """Return what reads the rows that are there; None where none has ever been. Called after `refresh`."""

    def changes(self, results: Sequence[WriteResult]) -> tuple[Reader, Sequence[Split]] | None:
        """Return what reads the changes that these results make; None where they make none."""

    def states(self) -> Mapping[str, Collection[str]]:
        """Return the names of the states in which others may look up, and the indexes that each has."""
