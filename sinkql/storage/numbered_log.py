"""A numbered log: files numbered 1, 2, …, each created once, by any of several processes.

A file is created by a hard link, which fails if the name exists. If two processes write the same number, one succeeds
and the other reads that file. The first files may be deleted. Before that, the new first number is recorded as the name
of a file in `first`, where the greatest number counts. Files below it do not count, even if a process that was
suspended creates one again; after creating a file, a process checks that and deletes it.

View logs and timelines are `EntryLog`s over a `NumberedLog`. Capture logs and request logs have other rules for their
writer, and share only the parts below it: `FileNames`, `NumberedFiles`, `First` and `StoredFirst`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sinkql.storage import failpoint, files

T = TypeVar("T")

FIRST = "first"
"""The folder whose file names record the first number of the log."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of numbered files: the number with leading zeros, and a suffix. They sort like their numbers."""

    digits: int
    suffix: str = ".json"

    def name(self, number: int) -> str:
        """Return the file name of a number."""
        return f"{number:0{self.digits}}{self.suffix}"

    def number(self, name: str) -> int | None:
        """Return the number of the file with a name; None for other files."""
        number = name.removesuffix(self.suffix)
        return int(number) if len(number) == self.digits and number.isdecimal() and number != name else None

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers in file names, in order."""
        return sorted(number for name in names if (number := self.number(name)) is not None)


ENTRY_NAMES = FileNames(12)


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """The numbered files in a local folder, which need not exist."""

    folder: Path
    names: FileNames = ENTRY_NAMES

    def path(self, number: int) -> Path:
        """Return the path of a file."""
        return self.folder / self.names.name(number)

    def numbers(self) -> list[int]:
        """Return the numbers of the existing files, in order."""
        return self.names.numbers(_names(self.folder))

    def read(self, number: int) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            return self.path(number).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create(self, number: int, data: bytes) -> bool:
        """Create a file durably; return False if it existed."""
        try:
            files.create_new(self.path(number), data)
        except FileExistsError:
            return False
        return True

    def remove(self, *numbers: int) -> None:
        """Delete files."""
        for number in numbers:
            self.path(number).unlink(missing_ok=True)


class NumberedLog(Protocol):
    """A log of numbered files, local or remote."""

    def numbers(self) -> list[int]:
        """Return the numbers of the existing files, in order."""

    def last(self) -> int:
        """Return the number of the last file; 0 if the log is empty."""

    def exists(self, number: int) -> bool:
        """Return whether a file exists."""

    def read(self, number: int) -> bytes | None:
        """Return the content of a file; None if it does not exist or was deleted."""

    def create(self, number: int, data: bytes) -> bool:
        """Create a file durably; return False if it existed."""

    def stays(self, number: int) -> bool:
        """Return whether a file just created counts; delete it if the log begins later."""

    def begin_at(self, number: int) -> None:
        """Set the first number of the log and delete the files below it."""


# --- the first number -------------------------------------------------------------------------------------------------


def _first_in(names: Iterable[str]) -> int:
    """Return the greatest number among the file names in `first`; 0 if there is no such file."""
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _first_name(number: int) -> str:
    """Return the name of the file that records a first number."""
    return f"{number:020}"


@dataclass(frozen=True, slots=True)
class First:
    """The first number of a log in a folder. Read it after listing or reading the files that it may exclude."""

    folder: Path

    def now(self) -> int:
        """Return the number; 0 if nothing was ever deleted."""
        return _first_in(_names(self.folder / FIRST))

    def put(self, number: int) -> None:
        """Record the number durably, unless a greater one is recorded."""
        if number <= self.now():
            return
        with suppress(FileExistsError):
            files.create_new(self.folder / FIRST / _first_name(number), b"")
        for name in _names(self.folder / FIRST):
            if name.isdecimal() and int(name) < number:
                (self.folder / FIRST / name).unlink(missing_ok=True)


class Listing(Protocol):
    """A store of files or objects that lists their names in order."""

    def list(self, under: str, /) -> Iterator[tuple[str, object]]:
        """Yield the names that begin with `under`, each with its time of storage."""

    def delete(self, names: Iterable[str], /) -> None:
        """Delete the files of these names that exist."""


@dataclass(frozen=True, slots=True)
class StoredFirst:
    """The first number of a log in a store, below the prefix `log` of its names. `put_empty` stores an empty file."""

    store: Listing
    log: str
    put_empty: Callable[[str], object]

    def now(self) -> int:
        """Return the number; 0 if nothing was ever deleted."""
        return _first_in(name.rpartition("/")[2] for name in self._names())

    def put(self, number: int) -> None:
        """Record the number, unless a greater one is recorded."""
        recorded = self._names()
        if number > _first_in(name.rpartition("/")[2] for name in recorded):
            self.put_empty(f"{self.log}{FIRST}/{_first_name(number)}")
            self.store.delete(recorded)

    def entries(self, names: FileNames) -> tuple[list[int], int]:
        """Return the numbers of all stored entries, and the first number of the log.

        The store lists `first` after the entries, so the first number is at least as recent as they are.
        """
        stored = [name.removeprefix(self.log) for name, _ in self.store.list(self.log)]
        return names.numbers(stored), _first_in(name.removeprefix(f"{FIRST}/") for name in stored)

    def _names(self) -> list[str]:
        return [name for name, _ in self.store.list(f"{self.log}{FIRST}/")]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


# --- a log in a folder ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FolderNumberedLog:
    """A `NumberedLog` in a local folder, which need not exist."""

    folder: Path

    def numbers(self) -> list[int]:
        numbers = self._files.numbers()
        first = self._first.now()
        return [number for number in numbers if number >= first]

    def last(self) -> int:
        return max(self.numbers(), default=0)

    def exists(self, number: int) -> bool:
        return self._files.path(number).exists() and number >= self._first.now()

    def read(self, number: int) -> bytes | None:
        data = self._files.read(number)
        return data if data is not None and number >= self._first.now() else None

    def create(self, number: int, data: bytes) -> bool:
        return self._files.create(number, data)

    def stays(self, number: int) -> bool:
        if number >= self._first.now():
            return True
        self.remove(number)
        return False

    def begin_at(self, number: int) -> None:
        self._first.put(number)
        failpoint.point("log-begins")
        for present in self._files.numbers():
            if present < number:
                self.remove(present)
                failpoint.point("log-forgotten")

    def remove(self, *numbers: int) -> None:
        """Delete files."""
        self._files.remove(*numbers)

    @property
    def _files(self) -> NumberedFiles:
        return NumberedFiles(self.folder)

    @property
    def _first(self) -> First:
        return First(self.folder)


# --- entries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EntryLog(Generic[T]):
    """The decoded entries of a numbered log, of which the last `cached` stay in memory.

    `point` names the failpoint before an entry is created; the failpoint after it has the suffix `-made`.
    """

    files: NumberedLog
    encode: Callable[[T], bytes]
    decode: Callable[[int, bytes], T]
    """Return the entry of a number; raise an error if its bytes are damaged."""
    cached: int
    point: str
    _cache: dict[int, T] = field(default_factory=dict, init=False, compare=False, repr=False)

    def entry(self, number: int) -> T | None:
        """Return an entry; None if it is missing or was deleted."""
        if number in self._cache and not self.files.exists(number):
            return None
        return self._read(number)

    def newest(self) -> tuple[int, T] | None:
        """Return the last entry with its number; None without entries.

        A file that still exists after a read without a content is damaged, so it raises what `decode` raises.
        """
        missing = 0
        while number := self.files.last():
            entry = self._read(number)
            if entry is None and number == missing:
                entry = self.decode(number, b"")
            if entry is not None:
                return number, entry
            missing = number  # it may have been deleted since the listing
        return None

    def newest_first(self) -> Iterator[tuple[int, T]]:
        """Yield the entries and their numbers, newest first."""
        for number in reversed(self.files.numbers()):
            entry = self._read(number)
            if entry is not None:
                yield number, entry

    def add(self, number: int, entry: T) -> bool:
        """Create an entry durably; return False if the number exists or was deleted."""
        failpoint.point(self.point)
        if not self.files.create(number, self.encode(entry)):
            return False
        failpoint.point(f"{self.point}-made")
        if not self.files.stays(number):
            return False  # an entry of this number was created and deleted while this process slept
        self._store(number, entry)
        return True

    def begin_at(self, number: int) -> None:
        """Set the first number of the log and delete the entries below it; no process can create them again."""
        self.files.begin_at(number)
        self._evict(number)

    def _read(self, number: int) -> T | None:
        entry = self._cache.get(number)
        if entry is None and (data := self.files.read(number)) is not None:
            entry = self.decode(number, data)
            self._store(number, entry)
        return entry

    def _store(self, number: int, entry: T) -> None:
        self._cache[number] = entry
        self._evict(number - self.cached)

    def _evict(self, before: int) -> None:
        for number in [number for number in list(self._cache) if number < before]:
            self._cache.pop(number, None)
