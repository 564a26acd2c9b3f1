"""A file → its parts and their digests, and its bytes again only as they were when it was listed.

A part is a stretch of about 16 MiB that ends at a line's end where records are lines. Whoever reads gets a part when
its digest has been compared, so that no row comes of a file that was rewritten meanwhile.
"""

from __future__ import annotations

import bisect
import io
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import xxhash

from sinkql.connectors.files.folder import unreadable
from sinkql.errors import SinkqlError

PART_BYTES = 16 << 20
_KEPT_PARTS = 4
LONGEST_LINE = 128 << 20
"""How long a line may be: all of it is in memory when it is decoded."""


class LongLineError(ValueError):
    """Say that a line, whose number it has, is longer than `LONGEST_LINE`."""


class GoneError(SinkqlError):
    """Say that a file was removed before all of it was read."""


Part = tuple[int, int, str]
"""The byte after its last one, how many lines end in it, and the digest of its bytes."""


class SeenFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was when it was listed: its name below the source's folder, its stamp, and its parts so far."""

    name: str
    size: int
    mtime_ns: int
    changed_ns: int
    inode: int
    parts: tuple[Part, ...] = ()

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
    return msgspec.convert(data, SeenFile)


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


def measure(stream: BinaryIO, path: Path, file: SeenFile, *, lines: bool) -> Iterator[tuple[Part, bytes]]:
    """Yield the parts that follow those of `file`, with their bytes; with `lines` they end at line ends.

    The last part of `file` is measured anew if it was cut short. Raises SQ3301 where it is not as it was, and
    LongLineError.
    """
    whole = whole_parts(file)
    tail = file.parts[-1] if len(whole) < len(file.parts) else None
    at = whole[-1][0] if whole else 0
    line = 1 + sum(part[1] for part in whole)
    stream.seek(at)
    while at < file.size:
        data = _read(stream, path, min(PART_BYTES, file.size - at))
        if lines and data and not data.endswith(b"\n"):
            data += stream.readline(min(file.size - at - len(data), LONGEST_LINE))
            if at + len(data) < file.size and not data.endswith(b"\n"):
                raise LongLineError(line + data.count(b"\n"))
        if not data or (tail is not None and digest(data[: tail[0] - at]) != tail[2]):
            raise changed(path, file)
        tail = None
        at += len(data)
        line += data.count(b"\n")
        yield (at, data.count(b"\n"), digest(data)), data


def whole_parts(file: SeenFile) -> tuple[Part, ...]:
    """Return the parts of a file, less the last one if it was cut short."""
    parts = file.parts
    if not parts or parts[-1][0] == file.size:
        return parts
    begin = parts[-2][0] if len(parts) > 1 else 0
    return parts if parts[-1][0] - begin >= PART_BYTES else parts[:-1]


def listed(stream: BinaryIO, path: Path, file: SeenFile, base: int, parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the bytes of parts, the first of which begins at `base`; raises SQ3301 where they are other ones now.

    What comes after the parts of a file that was read in part may be other than it was.
    """
    last = not parts or parts[-1][0] == file.size
    if last and os.fstat(stream.fileno()).st_size != file.size:
        raise changed(path, file)
    stream.seek(base)
    for end, _, expected in parts:
        data = _read(stream, path, end - base)
        if digest(data) != expected:
            raise changed(path, file)
        base = end
        yield data


class ListedStream(io.RawIOBase):
    """Read the chunks of an iterator as one stream; `error` is what ended it."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = memoryview(b"")
        self.error: SinkqlError | None = None

    def readable(self) -> bool:
        """Say so."""
        return True

    def readinto(self, buffer: Any) -> int:  # Any: bytes-like, for which there is no type before Python 3.12
        """Fill the buffer as far as the present chunk goes."""
        while not self._rest:
            try:
                data = next(self._chunks, None)
            except SinkqlError as error:
                self.error = error
                raise
            if data is None:
                return 0
            self._rest = memoryview(data)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class ListedFile(io.RawIOBase):
    """Read a listed file anywhere, in parts whose digests have been compared; `error` is what ended it."""

    def __init__(self, stream: BinaryIO, path: Path, file: SeenFile, parts: Sequence[Part]) -> None:
        super().__init__()
        self._stream, self._path, self._file, self._parts = stream, path, file, parts
        self._ends = [end for end, _, _ in parts]
        self._loaded: dict[int, bytes] = {}
        self._at = 0
        self.error: SinkqlError | None = None
        if os.fstat(stream.fileno()).st_size != file.size:
            raise changed(path, file)

    def readable(self) -> bool:
        """Say so."""
        return True

    def seekable(self) -> bool:
        """Say so."""
        return True

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:  # Any: bytes-like, for which there is no type before Python 3.12
        """Fill the buffer as far as the part goes that is read."""
        place = bisect.bisect_right(self._ends, self._at)
        if place == len(self._ends):
            return 0
        data, skip = self._part(place), self._at - (self._ends[place - 1] if place else 0)
        size = min(len(buffer), len(data) - skip)
        buffer[:size] = data[skip : skip + size]
        self._at += size
        return size

    def _part(self, place: int) -> bytes:
        if place not in self._loaded:
            base = self._ends[place - 1] if place else 0
            try:
                data = next(listed(self._stream, self._path, self._file, base, [self._parts[place]]))
            except SinkqlError as error:
                self.error = error
                raise
            while len(self._loaded) >= _KEPT_PARTS:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[place] = data
        return self._loaded[place]


def digest(data: bytes) -> str:
    """Return the digest of a part; it is held against accidents, not against forgers."""
    found: str = xxhash.xxh3_128_hexdigest(data)
    return found


def changed(path: Path, file: SeenFile) -> SinkqlError:
    """Return the error for a file that is not as it was listed, with what is different now."""
    return SinkqlError(
        "SQ3301",
        f'file "{path}" changed after it was listed',
        detail=_difference(path, file),
        hint="Each file is read once: restore the old file, and write new rows into a new one.",
    )


def undecodable(path: Path, format_: str, why: object, *, then: str = "") -> SinkqlError:
    """Return the error for a file that is not of its format; `then` says what comes after a correction."""
    return SinkqlError(
        "SQ3102",
        f'file "{path}" cannot be read as {format_}: {why}',
        hint=f"Put a correct file in its place, or move it out of the folder.{then}",
    )


def _difference(path: Path, file: SeenFile) -> str:
    try:
        status = path.stat()
    except OSError as error:
        return f"It cannot be looked at now: {error.strerror}."
    if status.st_size != file.size:
        return f"It had {file.size} bytes, and has {status.st_size} now."
    how = "it was replaced by another file" if status.st_ino != file.inode else "it was rewritten in place"
    before, now = (_time(each) for each in (file.mtime_ns, status.st_mtime_ns))
    when = f"last modified {before} when it was listed, and {now} now" if before != now else f"last modified {now}"
    return f"It has {file.size} bytes as before, but other ones: {how}; {when}."


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1000 / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def _read(stream: BinaryIO, path: Path, size: int) -> bytes:
    try:
        return _bytes(stream, size)
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error


def _bytes(stream: BinaryIO, size: int) -> bytes:
    return stream.read(size)
