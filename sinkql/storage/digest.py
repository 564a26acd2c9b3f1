"""Digests of immutable files: computed while a file is written, or once a process when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

_CACHED_FILES = 1 << 16
_BUFFER_BYTES = 1 << 20


def cached_digest(path: Path, digest: Callable[[Path], bytes]) -> bytes:
    """Return `digest(path)`, computed again only if the file was replaced. Raises OSError."""
    status = path.stat()
    return _compute(path, digest, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=_CACHED_FILES)
def _compute(path: Path, digest: Callable[[Path], bytes], *_: int) -> bytes:
    return digest(path)


def digest_file(file: BinaryIO, size: int) -> bytes:
    """Return a digest of the next `size` bytes of a file, or of the rest if it is shorter."""
    state = xxhash.xxh3_128()
    buffer = bytearray(min(size, _BUFFER_BYTES))
    while size > 0 and (count := file.readinto(memoryview(buffer)[:size])):  # type: ignore[attr-defined]  # files have it
        state.update(memoryview(buffer)[:count])
        size -= count
    digest: bytes = state.digest()
    return digest


class DigestingFile:
    """A file written sequentially, with the digest of its bytes."""

    closed = False

    def __init__(self, file: BinaryIO, digest: Any) -> None:  # xxhash publishes no types
        self._file = file
        self.digest = digest

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()
