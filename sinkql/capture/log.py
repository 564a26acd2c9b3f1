"""Entries of a log: made once each, under the next number, and read one after the other.

An entry is a small file that is put if it is absent, so that of two captures that both mean to go on one finds the
number taken: it is fenced. It names data files, which are whole before it is made.

* `open`: a capture begins here; `captured` are the tables that it captures, `generations` those of first snapshots.
* `changes`: rows of whole transactions after `start` up to `to`.
* `begin`: a generation, a reading of a whole table for sinks that wait for it, begins here.
* `chunk`: rows of a generation, as of now; changes up to `high` may be in them already.
* `schema`: a table has other columns from here on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from sinkql import durable, faults
from sinkql.extension.capture import Position

_NAME = re.compile(r"(\d{20})\.json")
FOLDER = "capture"
Kind = Literal["open", "changes", "begin", "chunk", "schema"]


class FencedLogError(Exception):
    """Another capture has gone on with the log."""


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of rows in `data`; `failed` records of it did not decode, and lie beside it."""

    name: str
    rows: int
    bytes: int
    sha256: str
    failed: int = 0


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an entry has of a table: rows, before which all others went if it was `emptied`.

    `moved`: rows of it have holes with the values of a row of another key, from before the entry. `high` is as in a
    chunk.
    """

    files: tuple[DataFile, ...] = ()
    emptied: bool = False
    moved: bool = False
    high: Position = ""


class Generation(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a generation is: the key of the last row that was read, how many chunks there are, whether that is all.

    `begin` is the number of the entry where it begins; -1 of one that began in a log that was lost. Chunks are counted
    within `run`, which goes on after `base` chunks of the run `after`.
    """

    number: int
    table: str
    begin: int
    last: list[Any] | None = None
    chunks: int = 0
    done: bool = False
    high: Position = ""
    base: int = 0
    run: str = ""
    after: str = ""


class Column(msgspec.Struct, frozen=True):
    """A column of a table as it is from an entry on."""

    name: str
    type: str
    nullable: bool


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry; `log` is the id of the log that it is of, `at` the time in seconds, `unseen` transactions of it that
    no snapshot saw yet, with their positions.
    """

    entry: int
    log: str
    epoch: int
    kind: Kind
    start: Position
    to: Position
    at: float
    transactions: int = 0
    unseen: tuple[tuple[Position, Any], ...] = ()
    tables: dict[str, Part] = {}
    table: str = ""
    generation: Generation | None = None
    generations: tuple[Generation, ...] = ()
    captured: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    problem: str | None = None
    kept: str = ""

    def files(self) -> Iterator[DataFile]:
        """Yield all data files."""
        for part in self.tables.values():
            yield from part.files

    @property
    def size(self) -> int:
        """Return how many bytes its files have."""
        return sum(each.bytes for each in self.files())


def source_folder(catalog_folder: Path, source_id: str) -> Path:
    """Return the folder in which all that is kept of a source lies."""
    return catalog_folder / FOLDER / source_id


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder of a source's log, for whoever reads it."""

    folder: Path

    @property
    def data(self) -> Path:
        """Return the folder of data files."""
        return self.folder / "data"

    def path(self, number: int) -> Path:
        """Return the file of an entry."""
        return self.folder / "log" / f"{number:020}.json"

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, in order."""
        try:
            names = os.listdir(self.folder / "log")
        except FileNotFoundError:
            return []
        return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))

    def entry(self, number: int) -> Entry | None:
        """Return an entry, None where there is none."""
        try:
            return msgspec.json.decode(self.path(number).read_bytes(), type=Entry)
        except FileNotFoundError:
            return None

    def after(self, number: int) -> Iterator[Entry]:
        """Yield the entries that follow a number, up to the first that is not there."""
        while (found := self.entry(number + 1)) is not None:
            yield found
            number += 1


@dataclass(slots=True)
class Log:
    """The log, for the one capture that writes it: all entries that are there, and those that it adds."""

    place: LogFolder
    id: str
    epoch: int
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def open(cls, place: LogFolder, epoch: int, *, new_id: str) -> Log:
        """Read all entries; raises `msgspec.ValidationError` or ValueError where the log is damaged."""
        durable.make_folder(place.folder / "log")
        durable.make_folder(place.data)
        numbers = place.numbers()
        if numbers and numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise ValueError("entries are missing")
        found = [entry for number in numbers if (entry := place.entry(number)) is not None]
        if len({each.log for each in found}) > 1:
            raise ValueError("entries are of two logs")
        return cls(place, found[0].log if found else new_id, epoch, found)

    @property
    def to(self) -> Position:
        """Return the position up to which it has all changes."""
        return self.entries[-1].to if self.entries else ""

    @property
    def next(self) -> int:
        """Return the number of the next entry."""
        return self.entries[-1].entry + 1 if self.entries else 0

    @property
    def size(self) -> int:
        """Return how many bytes its files have."""
        return sum(each.size for each in self.entries)

    def add(self, kind: Kind, *, to: Position, at: float, **more: Any) -> Entry:
        """Make the next entry, durably; raises FencedLogError if another capture has."""
        start = self.to if self.entries else more.pop("start", to)
        more.pop("start", None)
        entry = Entry(self.next, self.id, self.epoch, kind, start, to, at, **more)
        faults.point("entry-before")
        if self.entries and not self.place.path(self.entries[-1].entry).exists():
            raise FencedLogError  # the one who went on has forgotten it by now
        try:
            durable.create(self.place.path(entry.entry), msgspec.json.encode(entry))
        except FileExistsError:
            raise FencedLogError from None
        self.entries.append(entry)
        faults.point("entry-made")
        return entry

    def forget(self, count: int) -> None:
        """Delete the first entries, and then their files; never the last one."""
        for entry in self.entries[: min(count, len(self.entries) - 1)]:
            self.place.path(entry.entry).unlink(missing_ok=True)
            faults.point("entry-deleted")
            for each in entry.files():
                remove(self.place.data / each.name)
        self.entries = self.entries[min(count, len(self.entries) - 1) :]

    def sweep(self) -> None:
        """Delete data files that no entry names: of captures that died before they made one."""
        named = {each.name for entry in self.entries for each in entry.files()}
        for path in self.place.data.iterdir():
            if path.name.removesuffix(".errors") not in named:
                path.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Delete a data file, and the records beside it that did not decode."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.errors").unlink(missing_ok=True)
