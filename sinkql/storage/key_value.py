"""Key-value stores of small values that processes exchange: in a folder, or in a place that several hosts reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sinkql.storage import files


class KeyValueStore(Protocol):
    """Small values under names; a name may have a folder, such as `want/a`."""

    def read(self, name: str) -> bytes | None:
        """Return a value; None if absent."""

    def write(self, name: str, note: bytes, *, sync: bool = True) -> None:
        """Write or replace a value; without `sync`, a power failure may lose it."""

    def remove(self, *names: str) -> None:
        """Remove values, if they exist."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, without the folder, in order."""

    def all(self, folder: str) -> Mapping[str, bytes]:
        """Return the values in a folder by name, in order."""


@dataclass(frozen=True, slots=True)
class FolderStore:
    """A `KeyValueStore` of files in a local folder, which the first write creates."""

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
        values = ((name, self.read(f"{folder}/{name}")) for name in self.names(folder))
        return {name: value for name, value in values if value is not None}

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


@dataclass(frozen=True, slots=True)
class EmptyStore:
    """An empty `KeyValueStore`, for tasks on machines that do not reach the real one."""

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
