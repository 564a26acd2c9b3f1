"""Cache the contents of a table's manifests between commits: pyiceberg takes some milliseconds to read one."""

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
"""The most entries of a manifest to keep in memory: about half a megabyte."""

_Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _ManifestContent:
    """The content of a manifest: hashes of its files' names, and the entries if it is small."""

    hashes: _Hashes
    entries: tuple[ManifestEntry, ...] | None

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> _ManifestContent:
        hashes = _hash_names(name_of(entry.data_file) for entry in entries)
        return cls(hashes, tuple(entries) if len(entries) <= _SMALL else None)


class ManifestCache:
    """The cached contents of a table's manifests, which never change.

    Entries that were read live as long as this object.
    """

    def __init__(self, table: Table) -> None:
        self._io = table.io
        self._read: dict[str, Sequence[ManifestEntry]] = {}
        self._contents = _contents(str(table.metadata.table_uuid))

    def only(self, manifests: Iterable[ManifestFile]) -> None:
        """Remove all other manifests from the cache."""
        for path in self._contents.keys() - {manifest.manifest_path for manifest in manifests}:
            self._contents.pop(path, None)  # another sink of this process may remove it too

    def having(self, manifests: Iterable[ManifestFile], names: frozenset[str]) -> dict[str, frozenset[str]]:
        """Return the manifests that contain some of these names, by path, with the names of each."""
        if not names:
            return {}
        hashes = _hash_names(names)
        names_by_path = {manifest.manifest_path: self._names_in(manifest, names, hashes) for manifest in manifests}
        return {path: some for path, some in names_by_path.items() if some}

    def entries(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        """Return the entries of a manifest, with the row ids that its list gives."""
        return numbered(self._entries(manifest), first_row_of(manifest))

    def add(self, path: str, entries: Sequence[ManifestEntry]) -> None:
        """Cache a manifest just written."""
        self._contents[path] = _ManifestContent.of(entries)

    def wrote_new(self, path: str, files: Sequence[DataFile], entry: Callable[[DataFile], ManifestEntry]) -> None:
        """Cache a manifest of new files, just written; `entry` builds the entry of a file."""
        if len(files) <= _SMALL:
            self.add(path, [entry(file) for file in files])
        else:
            self._contents[path] = _ManifestContent(_hash_names(map(name_of, files)), None)

    def _names_in(self, manifest: ManifestFile, names: frozenset[str], hashes: _Hashes) -> frozenset[str]:
        path = manifest.manifest_path
        content = self._contents.get(path)
        if content is None:
            read = said_of(self._io, manifest)
            content = self._contents[path] = _ManifestContent.of(read)
        else:
            read = None
        if not np.isin(hashes, content.hashes).any():
            return frozenset()
        if read is not None:
            self._read[path] = read
        return names.intersection(name_of(entry.data_file) for entry in self._entries(manifest))

    def _entries(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        path = manifest.manifest_path
        content = self._contents.get(path)
        if content is not None and content.entries is not None:
            return content.entries
        if path not in self._read:
            self._read[path] = said_of(self._io, manifest)
        return self._read[path]


def _hash_names(names: Iterable[str]) -> _Hashes:
    return np.fromiter((xxhash.xxh3_64_intdigest(name.encode()) for name in names), np.uint64)


@lru_cache(maxsize=64)
def _contents(table_uuid: str) -> dict[str, _ManifestContent]:
    """Return the cached manifests of a table, as of its last commit."""
    return {}
