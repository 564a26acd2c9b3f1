"""A file as it was when it was listed, and the local file that it is; what is said where there is none, or no more."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from sinkql import codec
from sinkql.errors import GoneError, SinkqlError

Part = tuple[int, int, str]
"""The byte after its last one, how many lines end in it, and the digest of its bytes; empty where nobody took it."""


class SeenFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was when it was listed: its name below the source's folder, its stamp, and its parts so far.

    An object of S3 has an `etag`, and no inode.
    """

    name: str
    size: int
    mtime_ns: int
    changed_ns: int
    inode: int
    parts: tuple[Part, ...] = ()
    etag: str = ""

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        """Return what a look at the file compares first."""
        return self.size, self.mtime_ns, self.changed_ns, self.inode

    @property
    def lines(self) -> int:
        """Return how many lines end in the parts."""
        return sum(lines for _, lines, _ in self.parts)

    def data(self) -> list[Any]:
        """Return the file as JSON has it."""
        found: list[Any] = msgspec.to_builtins(self)
        return found


def seen_file(name: str, status: os.stat_result, parts: tuple[Part, ...] = ()) -> SeenFile:
    """Return a file as its status says."""
    return SeenFile(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, parts)


def from_data(data: Any) -> SeenFile:
    """Return a file from JSON."""
    return codec.convert(data, SeenFile)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file, and wait for nobody; raises SQ3302 where it is gone, SQ3305 where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise unreadable(path, "it is not a regular file")
        return os.fdopen(handle, "rb")
    except FileNotFoundError as error:
        raise GoneError(
            "SQ3302", f'file "{path}" was removed before it was read', hint="Put it back; the sink then continues."
        ) from error
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error


class UnreadableError(SinkqlError):
    """Say that a folder, or what lies in it, cannot be read."""


def unreadable(path: Path | str, why: str) -> UnreadableError:
    """Return the error for what lies in the folder and cannot be read."""
    return UnreadableError(
        "SQ3305",
        f'cannot read "{_shown(path)}": {why}',
        hint="Correct or move it, or leave it out by GLOB; names that begin with . or _ are not read. "
        "The sink then continues.",
    )


def _shown(path: Path | str) -> str:
    return str(path).encode(errors="backslashreplace").decode()
