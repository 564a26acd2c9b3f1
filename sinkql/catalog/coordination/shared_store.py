"""Notes of a catalog's sinks and sources: in its database where hosts share that, else in their folders.

The ticks of a catalog's timeline, in its database: all hosts that use the catalog have the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sinkql.catalog.address import ServerUrl
from sinkql.catalog.store import Connection, Store
from sinkql.storage.key_value import EmptyStore, FolderStore, KeyValueStore


def open_notes(store: Store, owner: str, folder: Path) -> KeyValueStore:
    """Return the notes of a sink or a source, by its id, whose folder on this machine is given."""
    return NoteTable(store, owner) if isinstance(store.address, ServerUrl) else FolderStore(folder)


@dataclass(frozen=True, slots=True)
class NoteTable:
    """The rows of `notes` that one sink or source has; `sinkql.storage.key_value.KeyValueStore`. Tasks have none of
    them."""

    store: Store
    owner: str

    def __reduce__(self) -> tuple[type[EmptyStore], tuple[()]]:
        return EmptyStore, ()

    def read(self, name: str) -> bytes | None:
        with self.store.read() as connection:
            found = connection.scalar("SELECT note FROM notes WHERE owner = ? AND name = ?", self.owner, name)
        return None if found is None else str(found).encode()

    def write(self, name: str, note: bytes, *, sync: bool = True) -> None:
        with self.store.write() as connection:
            connection.put("notes", "owner, name", {"owner": self.owner, "name": name, "note": note.decode()})

    def remove(self, *names: str) -> None:
        if not any(map(self.read, names)):  # whoever writes waits for all others that do
            return
        with self.store.write() as connection:
            marks = ", ".join("?" * len(names))
            connection.execute(f"DELETE FROM notes WHERE owner = ? AND name IN ({marks})", (self.owner, *names))

    def names(self, folder: str) -> list[str]:
        return list(self.all(folder))

    def all(self, folder: str) -> Mapping[str, bytes]:
        query = "SELECT name, note FROM notes WHERE owner = ? AND name LIKE ? ORDER BY name"
        with self.store.read() as connection:
            found = connection.all(query, self.owner, f"{folder}/%")
        return {row.name.removeprefix(f"{folder}/"): row.note.encode() for row in found}


def forget_notes(connection: Connection, owner: str) -> None:
    """Delete the notes of a sink or a source that is gone, inside a transaction."""
    connection.execute("DELETE FROM notes WHERE owner = ?", (owner,))


@dataclass(frozen=True, slots=True)
class TickTable:
    """The rows of `ticks`; `sinkql.storage.numbered_log.NumberedLog`. A number is given only after the one before
    it."""

    store: Store

    def numbers(self) -> list[int]:
        with self.store.read() as connection:
            return [int(each) for each in connection.scalars("SELECT number FROM ticks ORDER BY number")]

    def last(self) -> int:
        with self.store.read() as connection:
            return int(connection.scalar("SELECT max(number) FROM ticks") or 0)

    def exists(self, number: int) -> bool:
        return self.read(number) is not None

    def read(self, number: int) -> bytes | None:
        with self.store.read() as connection:
            found = connection.scalar("SELECT tick FROM ticks WHERE number = ?", number)
        return None if found is None else str(found).encode()

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
