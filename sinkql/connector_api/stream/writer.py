"""A sink's part of a job: it writes batches, commits them, and does what else its kind of sink can do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from sinkql.connector_api.stream.checkpoint import Checkpoint, ClaimRequest, Split
from sinkql.connector_api.stream.reader import Reader
from sinkql.connector_api.stream.write_task import WriteResult, WriteTask

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit: its checkpoint and snapshot id, and the rows, bytes and files that it wrote."""

    checkpoint: Checkpoint
    snapshot: int
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """The files and bytes of a compaction, before and after; or the `problem` that prevented it."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot that readers of `table` see after a publish; `moved` is false if they saw it before."""

    table: str
    snapshot: int
    moved: bool


class StaleFilesError(Exception):
    """The attempt is discarded and must be written again: files that it refers to no longer exist."""


class RefreshableWriter(Protocol):
    """Replaces all rows of a table by the rows of a full refresh, in one commit."""

    def begin_refresh(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that stages the rows of part `number` of a refresh, for `commit_refresh`.

        Call it after `Writer.refresh`. Parts follow each other, and their rows change like the rows of batches. Number
        0 discards all staged rows.
        """

    def commit_refresh(
        self, results: Sequence[WriteResult], checkpoint: Checkpoint, between: Callable[[int], None] = lambda rows: None
    ) -> Committed:
        """Commit one snapshot after which the table has exactly the staged rows; call it after `Writer.refresh`.

        Equal rows stay in their files. `checkpoint` is as in `Writer.commit`, with the sink's present plan; this method
        sets its commit id. `between` is called repeatedly with the number of rows compared so far, and may raise.
        Raises what `Writer.commit` does. After StaleFilesError it may be called again with the same results.
        """


class ReplaceableFiles(Protocol):
    """The data files of a table whose rows can be read back and replaced, such as a dead-letter table."""

    def rows_by_file(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of the table, with the name of their file; call it after `Writer.refresh`."""

    def replace_files(
        self, task: WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint, replaced: frozenset[str]
    ) -> None:
        """Commit one snapshot with these results in place of files that `rows_by_file` named.

        Raises what `Writer.commit` does.
        """


class FileKeeper(Protocol):
    """Keeps copies of the files in which sources store their positions, beside the table.

    Without one, a source with such files is lost together with the state folder (SQ3412).
    """

    def store_file(self, name: str, data: bytes) -> None:
        """Store a file unless it exists."""

    def load_file(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it does not exist."""

    def refresh_files(self, files: Mapping[str, bytes]) -> None:
        """Write old copies of these files again, so that no cleaner takes them for orphan files."""

    def delete_file(self, name: str) -> bool:
        """Delete a file if it exists; return whether it is deleted now."""


class Maintainable(Protocol):
    """Maintains a table between the batches of its sink."""

    def maintenance_share(self) -> float:
        """Return the share of time that `maintain` may take, from 0 to 1."""

    def maintain(
        self, go_on: Callable[[bool], bool] = lambda begun: True, *, interval: timedelta | None = None
    ) -> Sequence[Compacted]:
        """Compact files, expire snapshots and delete orphan files; return the compactions that ended.

        It takes little time if nothing is due. `go_on` is called before each step of a long operation, with whether an
        operation has begun; the next call continues unfinished work. `interval` is the time between two commits: if it
        is short, many snapshots may still be young. None if it is unknown.
        """

    def optimize(
        self, go_on: Callable[[], bool] = lambda: True, *, interval: timedelta | None = None
    ) -> tuple[Sequence[Compacted], bool]:
        """Compact all files that the table had at the first call; call it after `Writer.refresh`.

        `go_on` is called before each step. Return the compactions that ended or failed, and whether all are done;
        otherwise the next call continues.
        """

    def files_to_optimize(self) -> int:
        """Return the number of files when `optimize` began, an upper bound of its work; 0 before that."""


class ViewLogWriter(Protocol):
    """Offers the rows of a view log for the indexes that are part of its state."""

    def present(self) -> tuple[Reader, Sequence[Split]] | None:
        """Return a reader and splits of the view's present rows; None if it never had a row.

        Call it after `Writer.refresh`.
        """

    def changes(self, results: Sequence[WriteResult]) -> tuple[Reader, Sequence[Split]] | None:
        """Return a reader and splits of the changes in these results; None without a change."""

    def states(self) -> Mapping[str, Collection[str]]:
        """Return the states that other jobs may read, by name, with the indexes of each."""


class Writer(Protocol):
    """Writes the table of one sink while its job runs. Every method may raise SinkqlError; SQ5101 if it is fenced.

    The properties are what a kind of sink can do besides; they are None if it cannot.
    """

    @property
    def full_refresh(self) -> RefreshableWriter | None:
        """Return the part that replaces all rows."""
        return None

    @property
    def data_files(self) -> ReplaceableFiles | None:
        """Return the part that reads the table's rows back and replaces files."""
        return None

    @property
    def files(self) -> FileKeeper | None:
        """Return the part that keeps copies of source files."""
        return None

    @property
    def maintenance(self) -> Maintainable | None:
        """Return the part that maintains the table."""
        return None

    @property
    def view_log(self) -> ViewLogWriter | None:
        """Return the part for the log of a materialized view."""
        return None

    def open(self) -> None:
        """Create the namespace and the table if they do not exist; refuse a table that does not fit or has rows."""

    def load_checkpoint(self) -> Checkpoint | None:
        """Reload the table and return its checkpoint; None if this sink never committed."""

    def claim(self, request: ClaimRequest) -> Checkpoint:
        """Claim the table: commit an empty snapshot with an epoch above the table's and not below the request's."""

    def replaces_foreign_rows(self) -> bool:
        """Return whether the table has rows of other writers that this sink will replace; call it after `open`."""
        return False

    def refresh(self) -> Checkpoint:
        """Reload the table, update the index, and check for fencing, a rollback and a changed schema."""

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt on the refreshed table.

        With `cleared`, the commit also deletes all rows that the sink has written. Only sinks whose rows overwrite
        each other get that.
        """

    def commit(self, task: WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint) -> Committed:
        """Commit one snapshot with these results and the new checkpoint, at most once. Raises StaleFilesError.

        `checkpoint` is the one that `refresh` returned, with the attempt's commit, offsets, plan and state; the writer
        may add an index.
        """

    def invalidate_index(self) -> None:
        """Rebuild at the next `refresh` what the writer stores about the table: a task raised LostIndexError."""
        return
