"""Key-value stores of small values that processes exchange: in a folder, or in a place that several hosts reach."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from sinkql.machine import clock
from sinkql.storage import files

_ENDING = ".json"
_SETTLED_S = 1.0
"""The age from which a file's time tells it from a later version: file systems count time in steps of milliseconds."""


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


class _Read(NamedTuple):
    """A version of a file, by its inode, time and size, and its contents."""

    version: tuple[int, int, int]
    value: bytes


@dataclass(frozen=True, slots=True)
class FolderStore:
    """A `KeyValueStore` of files in a local folder, which the first write creates.

    `all` reads only files that another one has replaced since the last call.
    """

    folder: Path
    _last: dict[str, dict[str, _Read]] = field(default_factory=dict, init=False, compare=False, repr=False)

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
            listed = os.listdir(self.folder / folder)
        except OSError:
            return []
        return sorted(name.removesuffix(_ENDING) for name in listed if name.endswith(_ENDING) and name[0] != ".")

    def all(self, folder: str) -> Mapping[str, bytes]:
        last, values = self._last.get(folder, {}), {}
        reusable: dict[str, _Read] = {}
        for name in self.names(folder):
            path = f"{self.folder}/{folder}/{name}{_ENDING}"
            try:
                status = os.stat(path)
                version = status.st_ino, status.st_mtime_ns, status.st_size
                file = last.get(name)
                if file is None or file.version != version:
                    file = _Read(version, Path(path).read_bytes())
            except OSError:
                continue
            values[name] = file.value
            if clock.time() >= status.st_mtime + _SETTLED_S:
                reusable[name] = file
        self._last[folder] = reusable
        return values

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_ENDING}"


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
