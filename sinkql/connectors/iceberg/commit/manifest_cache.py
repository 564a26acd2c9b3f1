"""Cache the contents of a table's manifests between commits: pyiceberg takes some milliseconds to read one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.table import Table

from sinkql.connectors.iceberg.file.manifest import first_row_of, name_of, numbered, said_of, vector_of
from sinkql.machine.memory import remembered

_SMALL = 128
"""The most entries of a manifest to keep in memory: about half a megabyte."""

_Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _ManifestContent:
    """The content of a manifest: hashes of its files' names and of their paths, and the entries if it is small."""

    names: _Hashes
    paths: _Hashes
    entries: tuple[ManifestEntry, ...] | None

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> _ManifestContent:
        names, paths = _hash_files([entry.data_file for entry in entries])
        return cls(names, paths, tuple(entries) if len(entries) <= _SMALL else None)


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
        hashes = _hash_texts(names)
        names_by_path = {
            manifest.manifest_path: names.intersection(
                name_of(entry.data_file) for entry in self._entries_if(manifest, hashes, by_path=False)
            )
            for manifest in manifests
        }
        return {path: some for path, some in names_by_path.items() if some}

    def live_files(
        self, manifests: Iterable[ManifestFile], paths: frozenset[str], *, without: frozenset[str] = frozenset()
    ) -> frozenset[str]:
        """Return which of these paths live entries of the manifests have, except entries with a name of `without`."""
        if not paths:
            return frozenset()
        hashes = _hash_texts(paths)
        return paths.intersection(
            entry.data_file.file_path
            for manifest in manifests
            if manifest.has_added_files() or manifest.has_existing_files()
            for entry in self._entries_if(manifest, hashes, by_path=True)
            if not without or name_of(entry.data_file) not in without
        )

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
            self._contents[path] = _ManifestContent(*_hash_files(files), None)

    def _entries_if(self, manifest: ManifestFile, hashes: _Hashes, *, by_path: bool) -> Sequence[ManifestEntry]:
        """Return the entries of a manifest if some have these names, or paths; else none."""
        path = manifest.manifest_path
        content = self._contents.get(path)
        if content is None:
            read = said_of(self._io, manifest)
            content = self._contents[path] = _ManifestContent.of(read)
        else:
            read = None
        if not np.isin(hashes, content.paths if by_path else content.names).any():
            return ()
        if read is not None:
            self._read[path] = read
        return self._entries(manifest)

    def _entries(self, manifest: ManifestFile) -> Sequence[ManifestEntry]:
        path = manifest.manifest_path
        content = self._contents.get(path)
        if content is not None and content.entries is not None:
            return content.entries
        if path not in self._read:
            self._read[path] = said_of(self._io, manifest)
        return self._read[path]


def _hash_files(files: Sequence[DataFile]) -> tuple[_Hashes, _Hashes]:
    """Return the hashes of the files' names and of their paths, which differ for deletion vectors."""
    names = _hash_texts(map(name_of, files))
    has_vectors = any(vector_of(file) is not None for file in files)
    return names, _hash_texts(file.file_path for file in files) if has_vectors else names


def _hash_texts(texts: Iterable[str]) -> _Hashes:
    return np.fromiter((xxhash.xxh3_64_intdigest(text.encode()) for text in texts), np.uint64)


@remembered(64)
def _contents(table_uuid: str) -> dict[str, _ManifestContent]:
    """Return the cached manifests of a table, as of its last commit."""
    return {}
