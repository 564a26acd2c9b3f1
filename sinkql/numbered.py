"""Files of a folder that are numbered 1, 2, …, each made once: a log that several processes may want to write.

A file is made by a link, which fails where the name is taken: of two that would write the same number one does, and the
other reads what that was. The first ones may be deleted; a number that is gone is never made again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sinkql import durable

_SUFFIX = ".json"
_DIGITS = 12


class Numbers(Protocol):
    """Files with numbers, wherever they are."""

    def numbers(self) -> list[int]:
        """Return the numbers of the files that are there, in order."""

    def last(self) -> int:
        """Return the number of the last file, 0 where there is none."""

    def there(self, number: int) -> bool:
        """Tell whether a file is there."""

    def read(self, number: int) -> bytes | None:
        """Return what is in a file; None where it is not there, or not any more."""

    def create(self, number: int, data: bytes) -> bool:
        """Make a file, durably; tell whether its name was free."""

    def follows(self, number: int) -> bool:
        """Tell of a file that was just made whether none of its number had been there, and gone, before."""

    def remove(self, *numbers: int) -> None:
        """Delete files."""


def file_name(number: int) -> str:
    """Return the name of the file of a number."""
    return f"{number:0{_DIGITS}}{_SUFFIX}"


def numbers_in(names: Iterable[str]) -> list[int]:
    """Return the numbers that names of files say, in order."""
    return sorted(int(name[:_DIGITS]) for name in names if name.endswith(_SUFFIX) and not name.startswith("."))


@dataclass(frozen=True, slots=True)
class Numbered:
    """The files in a folder, which need not be there; `Numbers`."""

    folder: Path

    def numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return numbers_in(names)

    def last(self) -> int:
        return max(self.numbers(), default=0)

    def there(self, number: int) -> bool:
        return self._path(number).exists()

    def read(self, number: int) -> bytes | None:
        try:
            return self._path(number).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def create(self, number: int, data: bytes) -> bool:
        try:
            durable.create(self._path(number), data)
        except FileExistsError:
            return False
        return True

    def follows(self, number: int) -> bool:
        return number == 1 or self.there(number - 1) or self.last() == number

    def remove(self, *numbers: int) -> None:
        for number in numbers:
            self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / file_name(number)
