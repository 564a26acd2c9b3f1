"""Entries of a capture log: each is written once, under the next number, and read in order.

An entry is a small file that is created only if its number is free. If two captures continue one log, the second finds
the number taken and is fenced. An entry names data files, which are complete before the entry is written.

* `open`: a capture begins; `captured` are the tables that it captures, `generations` of its initial snapshots.
* `changes`: rows of whole transactions after `start` up to `to`.
* `begin`: a generation begins, that is, one run over a whole table for the sinks that requested it.
* `chunk`: rows of a generation as of now; they may contain changes up to `high`.
* `schema`: a table has other columns from here on; with `lost`, changes of the table before it are missing.
* `gap`: changes before it are lost, as `problem` says, and a user has accepted the loss. Another capture epoch begins,
  unless the rows are pushed and the log has all earlier ones.
* `close`: a capture ended here, and the log has all rows that were pushed to it, until the next capture opens it.
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
    """A file of rows in `data`. The `failed` records that did not decode are in another file."""

    name: str
    rows: int
    bytes: int
    sha256: str
    failed: int = 0


class TableEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry's rows of one table. If `emptied`, the server truncated the table before them.

    `moved`: some rows lack values that an earlier entry has under another key. `high` is as in a chunk.
    """

    files: tuple[DataFile, ...] = ()
    emptied: bool = False
    moved: bool = False
    high: Position = ""


class SnapshotGeneration(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run over a table's chunks: the key of the last row read, the number of chunks, and whether it is `done`.

    `rows` were read of about `of_rows`, which is -1 if the server was not asked. `begin` is the number of the entry
    where it begins, -1 if that was in a lost log. Chunks are counted within `run`, which continues after `base` chunks
    of the run `after`. `columns` are the names and types of the columns in its chunks and in all later changes.
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

    def has_columns(self, columns: Iterable[tuple[str, str]]) -> bool:
        """Return whether the chunks contain all of these columns."""
        return set(columns) <= set(self.columns)

    def can_follow(self, run: str, chunks: int) -> bool:
        """Return whether a sink with `chunks` of a run lacks no chunk before the last one."""
        if self.run == run:
            return self.chunks <= chunks + 1
        is_first = self.chunks == self.base + 1
        return is_first and (not self.base or (self.after == run and self.base <= chunks))


class Column(msgspec.Struct, frozen=True):
    """A column of a table from an entry on."""

    name: str
    type: str
    nullable: bool


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of a log. `log` is the log's id, `at` the time in seconds.

    `unseen` are its transactions, with their positions, that no snapshot saw yet. Large: the fields are the JSON keys
    of the format, for all kinds.
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
    """The id of the machine's store that keeps pushed rows until the log has them; without it they are lost."""
    pushed: Position = ""
    """The position up to which rows had been pushed when the log began; empty if no rows are pushed."""
    era: int = 0

    def files(self) -> Iterator[DataFile]:
        """Yield the data files of all tables."""
        for part in self.tables.values():
            yield from part.files

    @property
    def size(self) -> int:
        """Return the size of its data files in bytes."""
        return sum(file.bytes for file in self.files())

    def is_barrier(self, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Return whether a sink that reads these columns of a table cannot pass this entry."""
        if self.kind != "schema" or self.table != table:
            return False
        return self.lost or not {(column.name, column.type) for column in self.columns}.issuperset(columns)


_ENTRIES = codec.decoder(Entry)
"""Created at import: threads that decode a type for the first time together crash the process."""


def source_folder(catalog_folder: Path, source_id: str) -> Path:
    """Return the folder of a captured source below the catalog's folder."""
    return catalog_folder / FOLDER / source_id


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """The files of a captured source: its log in `store`, messages in a key-value store, the rest in `folder`."""

    folder: Path
    store: LogStore
    messages: KeyValueStore

    @classmethod
    def local(cls, folder: Path) -> LogDirectory:
        """Return a directory whose log and messages are in the folder."""
        return cls(folder, FolderLogStore(folder), FolderStore(folder))

    @property
    def location(self) -> str:
        """Return the host and folder of the log; empty for an object store."""
        return f"{socket.gethostname()}:{self.folder.absolute()}" if isinstance(self.store, FolderLogStore) else ""

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, in order."""
        return self.store.numbers()

    def entry(self, number: int) -> Entry | None:
        """Return an entry, None if it is absent. Raises SQ3435 if it is damaged."""
        data = self.store.entry(number)
        try:
            return decode_entry(data) if data is not None else None
        except ValueError as error:
            raise DamagedEntryError(
                "SQ3435",
                f"entry {number} of the log of a source is damaged",
                detail=str(error),
                hint="Wait until the capture has read the log again from the server. The sink then continues.",
            ) from error

    def entries_after(self, number: int) -> Iterator[Entry]:
        """Yield the entries after a number, up to the first that is absent."""
        while (entry := self.entry(number + 1)) is not None:
            yield entry
            number += 1


def decode_entry(data: bytes) -> Entry:
    """Decode an entry. Raises ValueError if it is damaged."""
    return _ENTRIES.decode(data)


@dataclass(slots=True)
class LogWriter:
    """The log of the one capture that writes it: all stored entries, and the ones it adds."""

    directory: LogDirectory
    id: str
    epoch: int
    entries: list[Entry] = field(default_factory=list)
    capture_epoch: int = 0
    size: int = field(init=False)
    """The size of all data files in bytes."""

    def __post_init__(self) -> None:
        self.size = sum(entry.size for entry in self.entries)

    @classmethod
    def open(cls, directory: LogDirectory, epoch: int, *, new_id: str, capture_epoch: int = 0) -> LogWriter:
        """Read all entries. Raises `msgspec.ValidationError` or ValueError if the log is damaged."""
        directory.store.open(epoch)
        stored = dict(directory.store.entries())
        numbers = list(stored)
        if numbers and numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise ValueError("entries are missing")
        entries = [decode_entry(data) for data in stored.values()]
        if len({entry.log for entry in entries}) > 1:
            raise ValueError("entries belong to two logs")
        if entries and entries[-1].era != capture_epoch:
            raise ValueError("entries are older than an accepted loss")
        return cls(directory, entries[0].log if entries else new_id, epoch, entries, capture_epoch)

    @property
    def to(self) -> Position:
        """Return the position up to which the log has all changes."""
        return self.entries[-1].to if self.entries else ""

    @property
    def next_number(self) -> int:
        """Return the number of the next entry."""
        return self.entries[-1].entry + 1 if self.entries else 0

    def add(self, kind: Kind, *, to: Position, at: float, **more: Any) -> Entry:
        """Write the next entry durably. Raises FencedLogError if another capture wrote it."""
        start = self.to if self.entries else more.pop("start", to)
        more.pop("start", None)
        entry = Entry(self.next_number, self.id, self.epoch, kind, start, to, at, era=self.capture_epoch, **more)
        failpoint.point("entry-before")
        self.directory.store.add(entry.entry, msgspec.json.encode(entry))
        self.entries.append(entry)
        self.size += entry.size
        failpoint.point("entry-made")
        return entry

    def delete_first(self, count: int) -> None:
        """Delete the first entries, then their files; the last entry always stays."""
        count = min(count, len(self.entries) - 1)
        if count <= 0:
            return
        self.directory.store.begin_at(self.entries[count].entry, self.id)
        failpoint.point("log-begins")
        for entry in self.entries[:count]:
            self.directory.store.delete_entry(entry.entry, self.id)
            failpoint.point("entry-deleted")
            for file in entry.files():
                self.directory.store.remove(file.name)
        self.size -= sum(entry.size for entry in self.entries[:count])
        self.entries = self.entries[count:]

    def sweep(self) -> None:
        """Delete data files that no entry names, except files of captures with a later lease."""
        named = frozenset(file.name for entry in self.entries for file in entry.files())
        self.directory.store.sweep(_NamedFiles(named, self.epoch))


@dataclass(frozen=True, slots=True)
class _NamedFiles:
    """The names of the data files that stay: `named` files, and files of leases later than `epoch`."""

    named: frozenset[str]
    epoch: int

    def __contains__(self, name: object) -> bool:
        epoch = str(name).partition("-")[0]
        return name in self.named or (epoch.isdecimal() and int(epoch) > self.epoch)
