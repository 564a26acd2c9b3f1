"""The storage of a log's entries and data files: a Protocol, and the store in a folder of this machine.

`sinkql.capture.object_log_store` has the store in an object store. Stored objects do not change until they are deleted,
and each entry number is used once. If a store is reached over a network, its methods also raise SinkqlError. The failed
operation may then still take effect.

A log store is no `NumberedLog`: a discarded log and its successor use one place, so an entry counts only with its log.
"""

from __future__ import annotations

import os
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
from sinkql.storage.numbered_log import FileNames, First, NumberedFiles

if TYPE_CHECKING:
    import pyarrow as pa

ENTRY_NAMES = FileNames(20)


class FencedLogError(Exception):
    """Another capture has continued the log."""


class DamagedEntryError(SinkqlError):
    """An entry of a log cannot be read. The capture reads the log again from the server."""


class LostLogError(Exception):
    """The log can no longer be used. With KEEP = 'server' it begins again."""


class LogStore(Protocol):
    """The entries and data files of one log."""

    def open(self, epoch: int) -> None:
        """Allow the capture with this lease to write. Raises FencedLogError for an old lease."""

    def release(self) -> None:
        """Allow any other capture to write."""

    def numbers(self) -> list[int]:
        """Return the numbers of all entries in order."""

    def entry(self, number: int) -> bytes | None:
        """Return an entry, None if it is absent."""

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield all entries with their numbers, in order."""

    def add(self, number: int, data: bytes) -> None:
        """Write the next entry durably. Raises FencedLogError if another capture wrote it.

        If the log already begins behind this number, the entry is deleted again.
        """

    def begin_at(self, number: int, log: str) -> None:
        """Record durably that a log begins at a number.

        Lower entries may be deleted from then on, also if they are written later.
        """

    def delete_entry(self, number: int, log: str | None = None) -> None:
        """Delete an entry before the log's beginning, unless another log has begun here."""

    def discard(self) -> None:
        """Delete all entries in one step, then all data files."""

    def drop(self) -> None:
        """Delete everything: the source was dropped."""

    def note(self, name: str, data: bytes) -> None:
        """Write a small file durably that stays when the log is discarded."""

    def noted(self, name: str) -> bytes | None:
        """Return the content of a small file, None if it is absent."""

    def unnote(self, name: str) -> None:
        """Delete a small file."""

    def open_file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a new data file for writing; it is complete and durable at the end of the block."""

    def write(self, name: str, data: bytes) -> None:
        """Write a small file to the folder of the data files."""

    def read(self, name: str) -> pa.Buffer:
        """Return the content of a data file. Raises FileNotFoundError."""

    def remove(self, name: str) -> None:
        """Delete a data file and its file of failed records."""

    def sweep(self, named: Container[str]) -> None:
        """Delete data files that are not `named`: their captures died before they wrote an entry."""


def failed_records_name(name: str) -> str:
    """Return the name of the file with the records of a data file that did not decode."""
    return f"{name}.errors"


class _LogId(msgspec.Struct, frozen=True):
    """The field of an entry that this module reads: the id of its log."""

    log: str


_LOG_ID = codec.decoder(_LogId)


def _log_id(data: bytes) -> str:
    """Return the id of an entry's log; empty if the entry is damaged."""
    try:
        return _LOG_ID.decode(data).log
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class FolderLogStore:
    """A log in a folder of this machine, or of a shared disk; the lease decides who writes.

    After a log is discarded, another one begins in the same folder, while a capture of the old one may be suspended. So
    the first number of a log is stored under the log's id, and an entry's log is checked before the entry is deleted.
    """

    folder: Path

    @property
    def data(self) -> Path:
        """Return the folder of the data files."""
        return self.folder / "data"

    @property
    def _files(self) -> NumberedFiles:
        return NumberedFiles(self.folder / "log", ENTRY_NAMES)

    def path(self, number: int) -> Path:
        """Return the path of an entry."""
        return self._files.path(number)

    def open(self, epoch: int) -> None:
        files.make_folder(self.folder / "log")
        files.make_folder(self.data)
        numbers = self._files.numbers()
        log = self._log(numbers)
        first = self._first(log).now()
        for number in numbers:
            if number < first:
                self.delete_entry(number, log)

    def release(self) -> None:
        """Do nothing: the lease decides who writes."""

    def numbers(self) -> list[int]:
        numbers = self._files.numbers()
        first = self._first(self._log(numbers)).now()
        return [number for number in numbers if number >= first]

    def _log(self, numbers: list[int]) -> str:
        """Return the id of the log with these entries."""
        entries = (self._files.read(number) for number in reversed(numbers))
        return next((_log_id(data) for data in entries if data is not None), "")

    def _first(self, log: str) -> First:
        return First(self.folder / "log" / log)

    def entry(self, number: int) -> bytes | None:
        data = self._files.read(number)
        return data if data is not None and number >= self._first(_log_id(data)).now() else None

    def entries(self) -> Iterator[tuple[int, bytes]]:
        for number in self.numbers():
            data = self.entry(number)
            if data is not None:
                yield number, data

    def add(self, number: int, data: bytes) -> None:
        if not self._files.create(number, data):
            raise FencedLogError
        failpoint.point("entry-put")
        log = _log_id(data)
        is_next = number == 0 or self._belongs_to(number - 1, log)
        first = self._first(log).now()
        if number < first or not (is_next or number == first):
            self.delete_entry(number, log)  # the entry existed and was deleted, or the log began again
            raise FencedLogError

    def _belongs_to(self, number: int, log: str) -> bool:
        data = self._files.read(number)
        return data is not None and _log_id(data) == log

    def begin_at(self, number: int, log: str) -> None:
        self._first(log).put(number)

    def delete_entry(self, number: int, log: str | None = None) -> None:
        with suppress(FileNotFoundError):
            folder = os.open(self.folder / "log", os.O_RDONLY)  # stays the same folder if the log is discarded now
            try:
                if log is None or self._belongs_to(number, log):
                    os.unlink(ENTRY_NAMES.name(number), dir_fd=folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        lost = self.folder / "lost"
        shutil.rmtree(lost, ignore_errors=True)
        with suppress(FileNotFoundError):
            (self.folder / "log").rename(lost)  # in one step: the first entries alone would look like a log
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

    def open_file(self, name: str) -> AbstractContextManager[BinaryIO]:
        return files.write_stream(self.data / name)

    def write(self, name: str, data: bytes) -> None:
        files.write_atomic(self.data / name, data, private=True)

    def read(self, name: str) -> pa.Buffer:
        import pyarrow as pa

        with pa.memory_map(str(self.data / name)) as mapped:
            return mapped.read_buffer()

    def remove(self, name: str) -> None:
        for file_name in (name, failed_records_name(name)):
            (self.data / file_name).unlink(missing_ok=True)

    def sweep(self, named: Container[str]) -> None:
        for path in self.data.iterdir():
            if path.name.removesuffix(failed_records_name("")) not in named:
                path.unlink(missing_ok=True)
