"""A file that nothing changes → a digest of its bytes, made as it is written.

Or made once in a process's life as it is read, without mapping it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

_KNOWN = 1 << 16
_AT_ONCE = 1 << 20


def cached_digest(path: Path, digest: Callable[[Path], bytes]) -> bytes:
    """Return what `digest` gives of a file, which is asked again only where the file is another one by now.

    Raises OSError.
    """
    about = path.stat()
    return _digested(path, digest, about.st_ino, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=_KNOWN)
def _digested(path: Path, digest: Callable[[Path], bytes], *_: int) -> bytes:
    return digest(path)


def digest_file(file: BinaryIO, size: int) -> bytes:
    """Return a digest of the next bytes of a file, so many or as many as there are."""
    found = xxhash.xxh3_128()
    buffer = bytearray(min(size, _AT_ONCE))
    while size > 0 and (count := file.readinto(memoryview(buffer)[:size])):  # type: ignore[attr-defined]  # files have it
        found.update(memoryview(buffer)[:count])
        size -= count
    whole: bytes = found.digest()
    return whole


class DigestingFile:
    """A file that is written from its beginning to its end, and the digest of its bytes."""

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
