"""A sink's part of a job: it writes batches, commits them, and keeps its table in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sinkql.connector_api.stream.checkpoint import Checkpoint, JobOffsets, PlanChange
from sinkql.errors import SinkqlError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What one write task did: its bucket, rows taken and written, and the connector's own data (picklable).

    Of the `rows`, `removed` only take a row away. It took `superseded` more, whose keys have a later one among them;
    None where that is not counted.
    """

    bucket: int
    rows: int
    data: Any
    removed: int = 0
    superseded: int | None = None


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

    marker: Checkpoint
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


class StaleFilesError(Exception):
    """The batch's attempt is discarded and must be written again: files that it points at are gone."""


class Writer(Protocol):
    """Own one sink's table while a job runs. Every method may raise SinkqlError; fenced is SQ5101.

    A class that inherits from it has the last methods, from `store_file` on, as they are for a table that needs no
    care, keeps no files of readers (a source that has some is lost with its state folder then, SQ3412), and whose rows
    cannot be replaced.
    """

    def open(self) -> None:
        """Create namespace and table if absent, check that an existing one fits, refuse foreign rows."""

    def load_checkpoint(self) -> Checkpoint | None:
        """Reload the table and return the marker that holds now; None where this sink never committed."""

    def claim(
        self,
        initial: JobOffsets,
        *,
        epoch: int,
        switch: PlanChange | None = None,
        renew: Callable[[], None] | None = None,
    ) -> Checkpoint:
        """Take the table: commit an empty snapshot with an epoch above the table's and above `epoch` - 1.

        A marker of a plan that `switch` follows becomes one of its plan in the same commit: with the sources that are
        in `initial`, at the marker's offsets where it has any. `claimed` makes the marker, of the one that the commit
        follows. Where the job has other columns than that plan, the table gets them in the same commit; rows that are
        there have NULL in new ones.

        `renew` renews the sink's lease, and raises where another run has it. It is called before each try, once it is
        known on what that is made, so that no claim ends the run that has the lease. Without it, a claim that another
        one has overtaken is not tried again: SQ5101.
        """

    def refresh(self) -> Checkpoint:
        """Reload the table, bring the index up to date, check for fencing, rollback and changed schema."""

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt on the refreshed table.

        With `cleared`, the sink's commit takes out all rows that it has written before. Only sinks of rows that
        overwrite each other get that.
        """

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint) -> Committed:
        """Commit one snapshot with these results and the new marker. Raises RedoBatchError; never commits twice.

        `marker` is the one that `refresh` returned, with the attempt's commit, offsets, plan and state; the writer may
        give it an index.
        """

    def rows_by_file(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows that the table has, and the name of the file they are in; called after `refresh`."""
        raise _irreplaceable()

    def replace_files(
        self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint, gone: frozenset[str]
    ) -> None:
        """Commit one snapshot with these results in the place of files that `rows_by_file` named; raises what `commit`
        does."""
        raise _irreplaceable()

    def store_file(self, name: str, data: bytes) -> None:
        """Keep a reader's file in the table's folder, unless it is there."""
        return

    def load_file(self, name: str) -> bytes | None:
        """Return a file kept by `store_file`."""
        return None

    def refresh_files(self, files: Mapping[str, bytes]) -> None:
        """Write files kept by `store_file` again where they are old, so that nobody takes them for forgotten."""
        return

    def delete_file(self, name: str) -> bool:
        """Delete a file kept by `store_file`, if there is one; tell whether it is gone."""
        return True

    def invalidate_index(self) -> None:
        """Make anew, by the next `begin`, what is kept of the table: a task said LostIndexError."""
        return

    def maintenance_share(self) -> float:
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

    def files_to_optimize(self) -> int:
        """Return how many files there were when `optimize` began, none of which may be left; 0 before."""
        return 0

    def replaces_foreign_rows(self) -> bool:
        """Tell whether the table has rows of others, which are to go once this sink writes; called after `open`."""
        return False

    def begin_refresh(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that puts by the rows of part `number` of a rebuild, for `commit_refresh`; called after
        `refresh`.

        In parts that follow each other, rows change as they do in batches. Number 0 forgets all that was put by.
        """
        raise _irreplaceable()

    def commit_refresh(
        self, results: Sequence[WriteResult], marker: Checkpoint, between: Callable[[int], None] = lambda rows: None
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
