"""The manifests of a table → what is known of them between commits: pyiceberg takes some milliseconds to read one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import xxhash
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.table import Table

from sinkql.connectors.iceberg.file.manifest import first_row_of, name_of, numbered, said_of

_SMALL = 128
"""Entries of a manifest that are kept in memory: about half a megabyte."""

_Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Said:
    """What a manifest says: hashes of the names of what it has, eight bytes a file, and of a small one its entries."""

    hashes: _Hashes
    entries: tuple[ManifestEntry, ...] | None

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> _Said:
        hashes = _hashed(name_of(entry.data_file) for entry in entries)
        return cls(hashes, tuple(entries) if len(entries) <= _SMALL else None)


class ManifestCache:
    """What is known of a table's manifests, which never change; entries that were read are kept as long as this is."""

    def __init__(self, table: Table) -> None:
        self._io = table.io
        self._read: dict[str, Sequence[ManifestEntry]] = {}
        self._said = _said(str(table.metadata.table_uuid))

    def only(self, manifests: Iterable[ManifestFile]) -> None:
        """Forget all others."""
        for path in self._said.keys() - {each.manifest_path for each in manifests}:
            self._said.pop(path, None)  # another sink of this process may forget it as well

    def having(self, manifests: Iterable[ManifestFile], names: frozenset[str]) -> dict[str, frozenset[str]]:
        """Return the manifests that have some of these names, by path, each with those that it has."""
        if not names:
            return {}
        hashes = _hashed(names)
        found = {each.manifest_path: self._named(each, names, hashes) for each in manifests}
        return {path: some for path, some in found.items() if some}

    def entries(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Return the entries of a manifest, which is one of a list."""
        return numbered(self._entries(manifest), first_row_of(manifest))

    def add(self, path: str, entries: Sequence[ManifestEntry]) -> None:
        """Take note of a manifest just written."""
        self._said[path] = _Said.of(entries)

    def wrote_new(self, path: str, files: Sequence[DataFile], entry: Callable[[DataFile], ManifestEntry]) -> None:
        """Take note of a manifest just written, of new files; `entry` makes what is said of one."""
        if len(files) <= _SMALL:
            self.add(path, [entry(file) for file in files])
        else:
            self._said[path] = _Said(_hashed(map(name_of, files)), None)

    def _named(self, manifest: ManifestFile, names: frozenset[str], hashes: _Hashes) -> frozenset[str]:
        path = manifest.manifest_path
        said = self._said.get(path)
        if said is None:
            read = said_of(self._io, manifest)
            said = self._said[path] = _Said.of(read)
        else:
            read = None
        if not np.isin(hashes, said.hashes).any():
            return frozenset()
        if read is not None:
            self._read[path] = read
        return names.intersection(name_of(entry.data_file) for entry in self._entries(manifest))

    def _entries(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        path = manifest.manifest_path
        said = self._said.get(path)
        if said is not None and said.entries is not None:
            return said.entries
        if path not in self._read:
            self._read[path] = said_of(self._io, manifest)
        return self._read[path]


def _hashed(names: Iterable[str]) -> _Hashes:
    return np.fromiter((xxhash.xxh3_64_intdigest(name.encode()) for name in names), np.uint64)


@lru_cache(maxsize=64)
def _said(table_uuid: str) -> dict[str, _Said]:
    """Return what is known of a table's manifests, those of the last commit."""
    return {}
