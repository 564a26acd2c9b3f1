"""Entries of a log: made once each, under the next number, and read one after the other.

An entry is a small file that is put if it is absent, so that of two captures that both mean to go on one finds the
number taken: it is fenced. It names data files, which are whole before it is made.

* `open`: a capture begins here; `captured` are the tables that it captures, `generations` those of first snapshots.
* `changes`: rows of whole transactions after `start` up to `to`.
* `begin`: a generation, a reading of a whole table for sinks that wait for it, begins here.
* `chunk`: rows of a generation, as of now; changes up to `high` may be in them already.
* `schema`: a table has other columns from here on; where it is `lost`, changes of it before here are missing.
* `gap`: changes are lost before here, as `problem` says, and a user has accepted that. Another era begins; not where
  rows are pushed, and the log has those before.
* `close`: a capture ended here, and the log has all rows that were pushed to it; until the next one opens it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from sinkql import codec
from sinkql.capture.log_store import DamagedEntryError, FolderLogStore, LogStore
from sinkql.connector_api.cdc import Position
from sinkql.storage import failpoint
from sinkql.storage.key_value import FolderStore, KeyValueStore

FOLDER = "capture"
Kind = Literal["open", "changes", "begin", "chunk", "schema", "gap", "close"]


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of rows in `data`; `failed` records of it did not decode, and lie beside it."""

    name: str
    rows: int
    bytes: int
    sha256: str
    failed: int = 0


class TableEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an entry has of a table: rows, before which all others went if it was `emptied`.

    `moved`: rows of it have holes with the values of a row of another key, from before the entry. `high` is as in a
    chunk.
    """

    files: tuple[DataFile, ...] = ()
    emptied: bool = False
    moved: bool = False
    high: Position = ""


class SnapshotGeneration(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a generation is: the key of the last row that was read, how many chunks there are, whether that is all.

    `rows` were read, of about `of_rows`, which is -1 as long as nobody asked the server. `begin` is the number of the
    entry where it begins; -1 of one that began in a log that was lost. Chunks are counted within `run`, which goes on
    after `base` chunks of the run `after`. `columns` are names and types of those that its chunks, and all that follows
    it, have.
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
    columns: tuple[tuple[str, str], ...] = ()
    rows: int = 0
    of_rows: int = -1

    def has(self, columns: Iterable[tuple[str, str]]) -> bool:
        """Tell whether it has all of these columns."""
        return set(columns) <= set(self.columns)


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
    tables: dict[str, TableEntry] = {}
    table: str = ""
    generation: SnapshotGeneration | None = None
    generations: tuple[SnapshotGeneration, ...] = ()
    captured: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    problem: str | None = None
    lost: bool = False
    kept: str = ""
    keeper: str = ""
    """What keeps rows that are pushed until the log has them: only where that is there are they not lost."""
    pushed: Position = ""
    """Up to where rows had been pushed when the log began, empty where none are."""
    era: int = 0

    def files(self) -> Iterator[DataFile]:
        """Yield all data files."""
        for part in self.tables.values():
            yield from part.files

    @property
    def size(self) -> int:
        """Return how many bytes its files have."""
        return sum(each.bytes for each in self.files())

    def stops(self, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Tell whether a sink that reads some columns of a table cannot go past it."""
        if self.kind != "schema" or self.table != table:
            return False
        return self.lost or not {(each.name, each.type) for each in self.columns}.issuperset(columns)


_ENTRIES = codec.decoder(Entry)
"""Made with the module: threads that are the first to decode a type, and at once, end the process."""


def source_folder(catalog_folder: Path, source_id: str) -> Path:
    """Return the folder in which all that is kept of a source lies."""
    return catalog_folder / FOLDER / source_id


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """What is kept of a source: its log in `store`, in `notes` what sinks and captures tell, all else in `folder`."""

    folder: Path
    store: LogStore
    notes: KeyValueStore

    @classmethod
    def local(cls, folder: Path) -> LogDirectory:
        """Return one that is all in the folder."""
        return cls(folder, FolderLogStore(folder), FolderStore(folder))

    @property
    def where(self) -> str:
        """Return which machine has the log, and where; nothing of one that all machines reach."""
        return f"{socket.gethostname()}:{self.folder.absolute()}" if isinstance(self.store, FolderLogStore) else ""

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, in order."""
        return self.store.numbers()

    def entry(self, number: int) -> Entry | None:
        """Return an entry, None where there is none; DamagedEntryError (SQ3435) where it cannot be read."""
        data = self.store.entry(number)
        try:
            return decode_entry(data) if data is not None else None
        except ValueError as error:
            raise DamagedEntryError(
                "SQ3435",
                f"entry {number} of the log of a source is damaged",
                detail=str(error),
                hint="The sink continues by itself once the log was read again from the server.",
            ) from error

    def after(self, number: int) -> Iterator[Entry]:
        """Yield the entries that follow a number, up to the first that is not there."""
        while (found := self.entry(number + 1)) is not None:
            yield found
            number += 1


def decode_entry(data: bytes) -> Entry:
    """Return an entry as it was written; raises ValueError where it is damaged."""
    return _ENTRIES.decode(data)


@dataclass(slots=True)
class LogWriter:
    """The log, for the one capture that writes it: all entries that are there, and those that it adds."""

    place: LogDirectory
    id: str
    epoch: int
    entries: list[Entry] = field(default_factory=list)
    era: int = 0
    size: int = field(init=False)
    """How many bytes its files have."""

    def __post_init__(self) -> None:
        self.size = sum(each.size for each in self.entries)

    @classmethod
    def open(cls, place: LogDirectory, epoch: int, *, new_id: str, era: int = 0) -> LogWriter:
        """Read all entries; raises `msgspec.ValidationError` or ValueError where the log is damaged."""
        place.store.open(epoch)
        there = dict(place.store.entries())
        numbers = list(there)
        if numbers and numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise ValueError("entries are missing")
        found = [decode_entry(data) for data in there.values()]
        if len({each.log for each in found}) > 1:
            raise ValueError("entries are of two logs")
        if found and found[-1].era != era:
            raise ValueError("entries are from before a loss that was accepted")
        return cls(place, found[0].log if found else new_id, epoch, found, era)

    @property
    def to(self) -> Position:
        """Return the position up to which it has all changes."""
        return self.entries[-1].to if self.entries else ""

    @property
    def next(self) -> int:
        """Return the number of the next entry."""
        return self.entries[-1].entry + 1 if self.entries else 0

    def add(self, kind: Kind, *, to: Position, at: float, **more: Any) -> Entry:
        """Make the next entry, durably; raises FencedLogError if another capture has."""
        start = self.to if self.entries else more.pop("start", to)
        more.pop("start", None)
        entry = Entry(self.next, self.id, self.epoch, kind, start, to, at, era=self.era, **more)
        failpoint.point("entry-before")
        self.place.store.add(entry.entry, msgspec.json.encode(entry))
        self.entries.append(entry)
        self.size += entry.size
        failpoint.point("entry-made")
        return entry

    def forget(self, count: int) -> None:
        """Delete the first entries, and then their files; never the last one."""
        count = min(count, len(self.entries) - 1)
        if count <= 0:
            return
        self.place.store.begin_at(self.entries[count].entry, self.id)
        failpoint.point("log-begins")
        for entry in self.entries[:count]:
            self.place.store.forget(entry.entry, self.id)
            failpoint.point("entry-deleted")
            for each in entry.files():
                self.place.store.remove(each.name)
        self.size -= sum(each.size for each in self.entries[:count])
        self.entries = self.entries[count:]

    def sweep(self) -> None:
        """Delete data files that no entry names, but those of captures that took over since."""
        named = frozenset(each.name for entry in self.entries for each in entry.files())
        self.place.store.sweep(_Kept(named, self.epoch))


@dataclass(frozen=True, slots=True)
class _Kept:
    """The names of data files that stay: `named` ones, and those of a lease after `epoch`, with which they begin."""

    named: frozenset[str]
    epoch: int

    def __contains__(self, name: object) -> bool:
        epoch = str(name).partition("-")[0]
        return name in self.named or (epoch.isdecimal() and int(epoch) > self.epoch)
