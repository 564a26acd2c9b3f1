"""The key-value stores and timelines that processes of one catalog share.

If hosts share the catalog's database, key-value stores are in it, otherwise in the folders of sinks and sources. The
ticks of a catalog's timeline are always in its database, so that all hosts see the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.catalog.address import ServerUrl
from sinkql.catalog.store import Connection, Store
from sinkql.storage.key_value import EmptyStore, FolderStore, KeyValueStore


def open_notes(store: Store, owner: str, folder: Path) -> KeyValueStore:
    """Return the key-value store of a sink or a source, by its id and its folder on this machine."""
    return NoteTable(store, owner) if isinstance(store.address, ServerUrl) else FolderStore(folder)


@dataclass(frozen=True, slots=True)
class NoteTable:
    """The rows of `notes` of one sink or source, as a `sinkql.storage.key_value.KeyValueStore`.

    In tasks it is empty.
    """

    store: Store
    owner: str

    def __reduce__(self) -> tuple[type[EmptyStore], tuple[()]]:
        return EmptyStore, ()

    def read(self, name: str) -> bytes | None:
        with self.store.read() as connection:
            note = connection.scalar("SELECT note FROM notes WHERE owner = ? AND name = ?", self.owner, name)
        return None if note is None else str(note).encode()

    def write(self, name: str, note: bytes, *, sync: bool = True) -> None:
        with self.store.write() as connection:
            connection.put("notes", "owner, name", {"owner": self.owner, "name": name, "note": note.decode()})

    def remove(self, *names: str) -> None:
        if not any(map(self.read, names)):  # a writer waits for all other writers
            return
        with self.store.write() as connection:
            marks = ", ".join("?" * len(names))
            connection.execute(f"DELETE FROM notes WHERE owner = ? AND name IN ({marks})", (self.owner, *names))

    def names(self, folder: str) -> list[str]:
        return list(self.all(folder))

    def all(self, folder: str) -> Mapping[str, bytes]:
        query = "SELECT name, note FROM notes WHERE owner = ? AND name LIKE ? ORDER BY name"
        with self.store.read() as connection:
            rows = connection.all(query, self.owner, f"{folder}/%")
        return {row.name.removeprefix(f"{folder}/"): row.note.encode() for row in rows}


def forget_notes(connection: Connection, owner: str) -> None:
    """Delete the notes of a dropped sink or source, in a transaction."""
    connection.execute("DELETE FROM notes WHERE owner = ?", (owner,))


@dataclass(frozen=True, slots=True)
class TickTable:
    """The rows of `ticks`, as a `sinkql.storage.numbered_log.NumberedLog`.

    A number is assigned only after the previous one.
    """

    store: Store

    def numbers(self) -> list[int]:
        with self.store.read() as connection:
            return [int(number) for number in connection.scalars("SELECT number FROM ticks ORDER BY number")]

    def last(self) -> int:
        with self.store.read() as connection:
            return int(connection.scalar("SELECT max(number) FROM ticks") or 0)

    def exists(self, number: int) -> bool:
        return self.read(number) is not None

    def read(self, number: int) -> bytes | None:
        with self.store.read() as connection:
            tick = connection.scalar("SELECT tick FROM ticks WHERE number = ?", number)
        return None if tick is None else str(tick).encode()

    def create(self, number: int, data: bytes) -> bool:
        with self.store.write() as connection:
            if int(connection.scalar("SELECT max(number) FROM ticks") or 0) != number - 1:
                return False
            connection.insert("ticks", {"number": number, "tick": data.decode()})
            return True

    def stays(self, number: int) -> bool:
        return True

    def begin_at(self, number: int) -> None:
        with self.store.write() as connection:
            connection.execute("DELETE FROM ticks WHERE number < ?", [number])
