"""Files of a folder that are numbered 1, 2, …, each made once: a log that several processes may want to write.

A file is made by a link, which fails where the name is taken: of two that would write the same number one does, and the
other reads what that was. The first ones may be deleted. Before they are, it is noted with which number the log begins
from then on: as the name of a file in `first`, of which the greatest counts. What is below is not there, whoever makes
it again, as a process may that has slept meanwhile. Who has made a file looks whether that is so, and deletes it.
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
"""The folder in which names of files say with which number the log begins."""


class NumberedLog(Protocol):
    """Files with numbers, wherever they are."""

    def numbers(self) -> list[int]:
        """Return the numbers of the files that are there, in order."""

    def last(self) -> int:
        """Return the number of the last file, 0 where there is none."""

    def exists(self, number: int) -> bool:
        """Tell whether a file is there."""

    def read(self, number: int) -> bytes | None:
        """Return what is in a file; None where it is not there, or not any more."""

    def create(self, number: int, data: bytes) -> bool:
        """Make a file, durably; tell whether its name was free."""

    def stays(self, number: int) -> bool:
        """Tell of a file that was just made whether it is there; one whose number had been there, and gone, goes."""

    def begin_at(self, number: int) -> None:
        """Have nothing below a number from here on; the first ones are deleted."""


def file_name(number: int) -> str:
    """Return the name of the file of a number."""
    return f"{number:0{_DIGITS}}{_SUFFIX}"


def numbers_in(names: Iterable[str]) -> list[int]:
    """Return the numbers that names of files say, in order."""
    return sorted(int(name[:_DIGITS]) for name in names if name.endswith(_SUFFIX) and not name.startswith("."))


def first_in(names: Iterable[str]) -> int:
    """Return the greatest number that names of files in `first` say, 0 where there is none."""
    return max((int(name) for name in names if name.isdecimal()), default=0)


@dataclass(frozen=True, slots=True)
class First:
    """With which number a log in a folder begins. It is asked for after what may be below was found."""

    folder: Path

    def now(self) -> int:
        """Return the number, 0 where nothing was ever deleted."""
        return first_in(_names(self.folder / FIRST))

    def put(self, number: int) -> None:
        """Note the number, durably, unless a greater one is."""
        if number <= self.now():
            return
        with suppress(FileExistsError):
            files.create_new(self.folder / FIRST / first_name(number), b"")
        for name in _names(self.folder / FIRST):
            if name.isdecimal() and int(name) < number:
                (self.folder / FIRST / name).unlink(missing_ok=True)


def first_name(number: int) -> str:
    """Return the name of the file that says with which number a log begins."""
    return f"{number:020}"


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


@dataclass(frozen=True, slots=True)
class FolderNumberedLog:
    """The files in a folder, which need not be there; `NumberedLog`."""

    folder: Path

    def numbers(self) -> list[int]:
        found = numbers_in(_names(self.folder))
        first = self._first.now()
        return [number for number in found if number >= first]

    def last(self) -> int:
        return max(self.numbers(), default=0)

    def exists(self, number: int) -> bool:
        return self._path(number).exists() and number >= self._first.now()

    def read(self, number: int) -> bytes | None:
        try:
            found = self._path(number).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found if number >= self._first.now() else None

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
        for each in numbers_in(_names(self.folder)):
            if each < number:
                self.remove(each)
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
