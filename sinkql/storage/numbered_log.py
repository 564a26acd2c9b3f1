"""A numbered log: files numbered 1, 2, …, each created once, by any of several processes.

A file is created by a hard link, which fails if the name exists. If two processes write the same number, one succeeds
and the other reads that file. The first files may be deleted. Before that, the new first number is recorded as the name
of a file in `first`, where the greatest number counts. Files below it do not count, even if a process that was
suspended creates one again; after creating a file, a process checks that and deletes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sinkql.storage import failpoint, files

_SUFFIX = ".json"
_DIGITS = 12
FIRST = "first"
"""The folder whose file names record the first number of the log."""


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


def file_name(number: int) -> str:
    """Return the file name of a number."""
    return f"{number:0{_DIGITS}}{_SUFFIX}"


def numbers_in(names: Iterable[str]) -> list[int]:
    """Return the numbers in file names, in order."""
    return sorted(int(name[:_DIGITS]) for name in names if name.endswith(_SUFFIX) and not name.startswith("."))


def first_in(names: Iterable[str]) -> int:
    """Return the greatest number among the file names in `first`; 0 if there is no such file."""
    return max((int(name) for name in names if name.isdecimal()), default=0)


@dataclass(frozen=True, slots=True)
class First:
    """The first number of a log in a folder. Read it after listing or reading the files that it may exclude."""

    folder: Path

    def now(self) -> int:
        """Return the number; 0 if nothing was ever deleted."""
        return first_in(_names(self.folder / FIRST))

    def put(self, number: int) -> None:
        """Record the number durably, unless a greater one is recorded."""
        if number <= self.now():
            return
        with suppress(FileExistsError):
            files.create_new(self.folder / FIRST / first_name(number), b"")
        for name in _names(self.folder / FIRST):
            if name.isdecimal() and int(name) < number:
                (self.folder / FIRST / name).unlink(missing_ok=True)


def first_name(number: int) -> str:
    """Return the name of the file that records a first number."""
    return f"{number:020}"


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


@dataclass(frozen=True, slots=True)
class FolderNumberedLog:
    """A `NumberedLog` in a local folder, which need not exist."""

    folder: Path

    def numbers(self) -> list[int]:
        numbers = numbers_in(_names(self.folder))
        first = self._first.now()
        return [number for number in numbers if number >= first]

    def last(self) -> int:
        return max(self.numbers(), default=0)

    def exists(self, number: int) -> bool:
        return self._path(number).exists() and number >= self._first.now()

    def read(self, number: int) -> bytes | None:
        try:
            data = self._path(number).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return data if number >= self._first.now() else None

    def create(self, number: int, data: bytes) -> bool:
        try:
            files.create_new(self._path(number), data)
        except FileExistsError:
            return False
        return True

    def stays(self, number: int) -> bool:
        if number >= self._first.now():
            return True
        self.remove(number)
        return False

    def begin_at(self, number: int) -> None:
        self._first.put(number)
        failpoint.point("log-begins")
        for present in numbers_in(_names(self.folder)):
            if present < number:
                self.remove(present)
                failpoint.point("log-forgotten")

    def remove(self, *numbers: int) -> None:
        """Delete files."""
        for number in numbers:
            self._path(number).unlink(missing_ok=True)

    @property
    def _first(self) -> First:
        return First(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / file_name(number)
