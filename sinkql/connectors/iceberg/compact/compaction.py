"""What a compaction does: files in place of others, and how many and how large both are."""

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
    """Count files and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """The files are written, nothing is committed.

    `deletes` are the manifests of delete files that the old files were read under; `index` names the key index of the
    table as it will be.
    """

    change: FileChange
    deletes: frozenset[str]
    before: Footprint
    after: Footprint
    index: str | None = None


Steps: TypeAlias = Generator[bool, None, Compaction | None]
"""A compaction in steps, each of which takes a moment, with batches in between; None if there is nothing to do.

A step that yields False has nothing to do before the next batch.
"""


class Scope:
    """The files that were in a table when somebody wanted all of it compacted.

    Each is written again once, and no other: batches meanwhile would give work without end.
    """

    def __init__(self) -> None:
        self._paths: frozenset[str] | None = None

    def fix(self, paths: Iterable[str]) -> None:
        """Say which files these are; only the first time counts."""
        if self._paths is None:
            self._paths = frozenset(paths)

    def __len__(self) -> int:
        return len(self._paths or ())

    def __contains__(self, path: object) -> bool:
        return self._paths is not None and path in self._paths


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a compaction.

    `table` gives the table as it is now. One with a `scope` takes all its files that others could be made of or that
    have dead rows, not only as many as are worth it. `late` tells that the attempt takes so long that it should come to
    its end: a file that is written stays open under the keys that it was opened with. One `beside` another
    takes small files that the other leaves alone, and comes to its end at once.
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
    """A file of the table cannot be read, or has other rows than its manifest says."""


class WrongIndexError(_FileError):
    """The key index says of a file what is not so."""


class Failures:
    """Remember the files on which compactions failed: one that fails again is left as it is."""

    def __init__(self) -> None:
        self._failed: Counter[object] = Counter()
        self._why: dict[str, str] = {}

    def note(self, error: Exception | None) -> None:
        """Take note of why a compaction was given up."""
        if isinstance(error, _FileError):
            self._failed[error.path] += 1
            self._why[error.path] = str(error)

    def left(self, paths: Container[str]) -> str | None:
        """Return what is the matter with a file of these that is left as it is; None where there is none."""
        return next((why for path, why in self._why.items() if path in self and path in paths), None)

    def __contains__(self, path: object) -> bool:
        return self._failed[path] >= _TRIES


def readable(path: str, parts: Iterator[T]) -> Iterator[T]:
    """Yield what is read of a file; raises UnreadableFileError where that fails."""
    try:
        yield from parts
    except Exception as error:
        raise UnreadableFileError(path, str(error) or type(error).__name__) from error


def remove(table: Table, files: Iterable[FileEntry]) -> None:
    """Delete what a compaction wrote that nothing will commit any more, as far as the storage lets it."""
    for entry in files:
        with suppress(OSError):
            table.io.delete(entry.path)
