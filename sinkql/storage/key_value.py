"""Small notes that processes leave for each other, each whole: in a folder, or where several hosts see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sinkql.storage import files


class KeyValueStore(Protocol):
    """Notes by their names, of which one with a slash is in a folder: `want/a`."""

    def read(self, name: str) -> bytes | None:
        """Return a note, None where there is none."""

    def write(self, name: str, note: bytes, *, sync: bool = True) -> None:
        """Put a note in the place of the one of this name; without `sync` a power failure may lose it."""

    def remove(self, *names: str) -> None:
        """Remove notes, as far as they are there."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the notes of a folder, without the folder, in order."""

    def all(self, folder: str) -> Mapping[str, bytes]:
        """Return the notes of a folder by these names, in order."""


@dataclass(frozen=True, slots=True)
class FolderStore:
    """Notes in files of a folder of this machine, which is made with the first of them; `KeyValueStore`."""

    folder: Path

    def read(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except OSError:
            return None

    def write(self, name: str, note: bytes, *, sync: bool = True) -> None:
        files.write_atomic(self._path(name), note, sync=sync)

    def remove(self, *names: str) -> None:
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.stem for path in (self.folder / folder).glob("[!.]*.json"))
        except OSError:
            return []

    def all(self, folder: str) -> Mapping[str, bytes]:
        found = ((name, self.read(f"{folder}/{name}")) for name in self.names(folder))
        return {name: note for name, note in found if note is not None}

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


@dataclass(frozen=True, slots=True)
class EmptyStore:
    """What a task has of notes that its machine does not reach: none; `KeyValueStore`."""

    def read(self, name: str) -> bytes | None:
        return None

    def write(self, name: str, note: bytes, *, sync: bool = True) -> None:
        return

    def remove(self, *names: str) -> None:
        return

    def names(self, folder: str) -> list[str]:
        return []

    def all(self, folder: str) -> Mapping[str, bytes]:
        return {}
