"""Where the entries and the data files of a log lie: asked of a folder here, of a bucket in
`sinkql.capture.object_log_store`.

What is put stays as it is until it is deleted, and an entry's number is given once. Methods of a store that is reached
over a network raise SinkqlError as well; what they were to do may be done then, or may not.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from sinkql import codec
from sinkql.errors import SinkqlError
from sinkql.storage import failpoint, files
from sinkql.storage.numbered_log import First

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"(\d{20})\.json")


class FencedLogError(Exception):
    """Another capture has gone on with the log."""


class DamagedEntryError(SinkqlError):
    """An entry of a log cannot be read: the capture reads the log again from the server."""


class LostLogError(Exception):
    """The log cannot be used any more; with KEEP = 'server' it begins again."""


class LogStore(Protocol):
    """Keep the entries and the data files of one log."""

    def open(self, epoch: int) -> None:
        """Let a capture with this lease write, and none before it; raises FencedLogError if a later one does."""

    def release(self) -> None:
        """Let any other capture write."""

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, in order."""

    def entry(self, number: int) -> bytes | None:
        """Return an entry, None where there is none."""

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield all entries with their numbers, in order."""

    def add(self, number: int, data: bytes) -> None:
        """Put the entry that follows the one before it, durably; raises FencedLogError if another capture has.

        That may have been forgotten since: an entry below the first one is taken back.
        """

    def begin_at(self, number: int, log: str) -> None:
        """Have no entries of a log below a number from here on, whoever may still put one: they are to be deleted."""

    def forget(self, number: int, log: str | None = None) -> None:
        """Delete an entry, which the log begins behind already; not where another log has begun here since."""

    def discard(self) -> None:
        """Delete all entries at once, and then all files."""

    def drop(self) -> None:
        """Delete all that there is: its source was dropped."""

    def note(self, name: str, data: bytes) -> None:
        """Put a small file, durably, that stays where the log is discarded."""

    def noted(self, name: str) -> bytes | None:
        """Return what such a file has, None where there is none."""

    def unnote(self, name: str) -> None:
        """Delete such a file."""

    def file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Give a new data file to write to; it is whole, durably, at the block's end."""

    def write(self, name: str, data: bytes) -> None:
        """Put a small file beside the data files."""

    def read(self, name: str) -> pa.Buffer:
        """Return what a file has; raises FileNotFoundError."""

    def remove(self, name: str) -> None:
        """Delete a data file, and what was put beside it."""

    def sweep(self, named: Container[str]) -> None:
        """Delete data files that are not named: of captures that died before they made an entry."""


def failed_records_name(name: str) -> str:
    """Return the name of the file with those records of a data file that did not decode."""
    return f"{name}.errors"


def entry_name(number: int) -> str:
    """Return the name of the file of an entry."""
    return f"{number:020}.json"


def entry_number(name: str) -> int | None:
    """Return the number of the entry that a file of this name has."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found is not None else None


class _Of(msgspec.Struct, frozen=True):
    """What is read of an entry here: the id of the log that it is of."""

    log: str


_OF = codec.decoder(_Of)


def _log_of(data: bytes) -> str:
    try:
        return _OF.decode(data).log
    except ValueError:  # damaged: of none
        return ""


@dataclass(frozen=True, slots=True)
class FolderLogStore:
    """A log in a folder of this machine, or of a disk that several share: those who write are told apart by a lease.

    A log that was discarded begins again in the same place, while a capture of the one before may sleep: with which
    entry a log begins is noted below its id, and what is deleted is looked at first.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """Return the folder of data files."""
        return self.folder / "data"

    def path(self, number: int) -> Path:
        """Return the file of an entry."""
        return self.folder / "log" / entry_name(number)

    def open(self, epoch: int) -> None:
        files.make_folder(self.folder / "log")
        files.make_folder(self.data)
        found = self._numbers()
        log = self._log(found)
        first = self._first(log).now()
        for number in found:
            if number < first:
                self.forget(number, log)

    def release(self) -> None:
        """Do nothing: the lease tells."""

    def numbers(self) -> list[int]:
        found = self._numbers()
        first = self._first(self._log(found)).now()
        return [number for number in found if number >= first]

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder / "log")
        except FileNotFoundError:
            return []
        return sorted(number for name in names if (number := entry_number(name)) is not None)

    def _log(self, numbers: list[int]) -> str:
        """Return the id of the log that has these entries."""
        found = (self._read(number) for number in reversed(numbers))
        return next((_log_of(data) for data in found if data is not None), "")

    def _first(self, log: str) -> First:
        return First(self.folder / "log" / log)

    def _read(self, number: int) -> bytes | None:
        try:
            return self.path(number).read_bytes()
        except FileNotFoundError:
            return None

    def entry(self, number: int) -> bytes | None:
        found = self._read(number)
        return found if found is not None and number >= self._first(_log_of(found)).now() else None

    def entries(self) -> Iterator[tuple[int, bytes]]:
        for number in self.numbers():
            data = self.entry(number)
            if data is not None:
                yield number, data

    def add(self, number: int, data: bytes) -> None:
        try:
            files.create_new(self.path(number), data)
        except FileExistsError:
            raise FencedLogError from None
        failpoint.point("entry-put")
        log = _log_of(data)
        follows = number == 0 or self._is_of(number - 1, log)
        first = self._first(log).now()
        if number < first or not (follows or number == first):
            self.forget(number, log)  # it was there and is forgotten, or the log has begun again meanwhile
            raise FencedLogError

    def _is_of(self, number: int, log: str) -> bool:
        data = self._read(number)
        return data is not None and _log_of(data) == log

    def begin_at(self, number: int, log: str) -> None:
        self._first(log).put(number)

    def forget(self, number: int, log: str | None = None) -> None:
        with suppress(FileNotFoundError):
            folder = os.open(self.folder / "log", os.O_RDONLY)  # the same one, should it be discarded now
            try:
                if log is None or self._is_of(number, log):
                    os.unlink(entry_name(number), dir_fd=folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        lost = self.folder / "lost"
        shutil.rmtree(lost, ignore_errors=True)
        with suppress(FileNotFoundError):
            (self.folder / "log").rename(lost)  # all at once: some of its entries might look like a log
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.rmtree(lost, ignore_errors=True)

    def drop(self) -> None:
        self.discard()

    def note(self, name: str, data: bytes) -> None:
        files.write_atomic(self.folder / name, data)

    def noted(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def unnote(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def file(self, name: str) -> AbstractContextManager[BinaryIO]:
        return files.write_stream(self.data / name)

    def write(self, name: str, data: bytes) -> None:
        files.write_atomic(self.data / name, data, private=True)

    def read(self, name: str) -> pa.Buffer:
        import pyarrow as pa

        with pa.memory_map(str(self.data / name)) as mapped:
            return mapped.read_buffer()

    def remove(self, name: str) -> None:
        for each in (name, failed_records_name(name)):
            (self.data / each).unlink(missing_ok=True)

    def sweep(self, named: Container[str]) -> None:
        for path in self.data.iterdir():
            if path.name.removesuffix(failed_records_name("")) not in named:
                path.unlink(missing_ok=True)
