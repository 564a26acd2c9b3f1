"""A compaction: the attempt, the files that it replaces, and the files on which earlier attempts failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.file.data_file import FileEntry

_TRIES = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Footprint:
    """A number of files and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction whose files are written but not committed.

    `deletes` are the manifests of delete files when the old files were read. `index` names the key index as of the
    commit.
    """

    change: FileChange
    deletes: frozenset[str]
    before: Footprint
    after: Footprint
    index: str | None = None


Steps: TypeAlias = Generator[bool, None, Compaction | None]
"""The short steps of a compaction, with batches between them. The result is None if no files are due.

A step yields False if the next one must wait for the next batch.
"""


class Scope:
    """The files that were in the table when a full compaction was requested.

    Only they are rewritten, each once. Otherwise files of concurrent batches would make it endless.
    """

    def __init__(self) -> None:
        self._paths: frozenset[str] | None = None

    def fix(self, paths: Iterable[str]) -> None:
        """Set the files; only the first call has an effect."""
        if self._paths is None:
            self._paths = frozenset(paths)

    def __len__(self) -> int:
        return len(self._paths or ())

    def __contains__(self, path: object) -> bool:
        return self._paths is not None and path in self._paths


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a compaction.

    * `table` returns the present table.
    * `late` returns whether the attempt should end, because an open file keeps the keys that it was opened with.
    * With a `scope`, all its files that can be combined or have dead rows are rewritten, even if that saves little.
    * An attempt `beside` an unfinished one rewrites small files that it does not, and ends without a pause.
    """

    id: str
    table: Callable[[], Table]
    late: Callable[[], bool] = lambda: False
    scope: Scope | None = None
    beside: bool = False


class _FileError(Exception):
    """A compaction failed on one file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class UnreadableFileError(_FileError):
    """A file of the table is unreadable, or its rows differ from its manifest."""


class WrongIndexError(_FileError):
    """The key index is wrong about a file."""


class Failures:
    """The files on which compactions failed. A file that fails twice is skipped."""

    def __init__(self) -> None:
        self._counts: Counter[object] = Counter()
        self._reasons: dict[str, str] = {}

    def record(self, error: Exception | None) -> None:
        """Record the error of a compaction."""
        if isinstance(error, _FileError):
            self._counts[error.path] += 1
            self._reasons[error.path] = str(error)

    def skip_reason(self, paths: Container[str]) -> str | None:
        """Return why one of these files is skipped; None if none is."""
        return next((reason for path, reason in self._reasons.items() if path in self and path in paths), None)

    def __contains__(self, path: object) -> bool:
        return self._counts[path] >= _TRIES


def readable(path: str, parts: Iterator[T]) -> Iterator[T]:
    """Yield the parts read from a file; raises UnreadableFileError if reading fails."""
    try:
        yield from parts
    except Exception as error:
        raise UnreadableFileError(path, str(error) or type(error).__name__) from error


def delete_files(table: Table, files: Iterable[FileEntry]) -> None:
    """Delete written files that will not be committed, as far as the storage allows it."""
    for entry in files:
        with suppress(OSError):
            table.io.delete(entry.path)
