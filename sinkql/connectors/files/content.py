"""Read the bytes of listed files in parts with digests, and only while they are as they were listed.

A part has about 16 MiB, and ends with a line if records are lines. A reader gets a part after its digest was compared,
so that no row comes from a file that was rewritten during the read.

The module also decompresses and transcodes files (`Written`), and defines a file as it was listed (`SeenFile`) with the
errors for files that are missing or unreadable.
"""

from __future__ import annotations

import bisect
import io
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, Protocol, cast

import msgspec
import xxhash

from sinkql import codec
from sinkql.connector_api.stream import UndecodableError
from sinkql.errors import GoneError, InvalidFileError, SinkqlError
from sinkql.regex_repeat import RepeatedPattern

PART_BYTES = 16 << 20
_KEPT_PARTS = 4
LONGEST_LINE = 128 << 20
"""The most bytes of a line, which is decoded in memory."""


class LongLineError(ValueError):
    """A line is longer than `LONGEST_LINE`; the argument is its number."""


class ChangedError(SinkqlError):
    """A file is no longer as it was listed."""


class Place(Protocol):
    """The folder or bucket of a source's files."""

    @property
    def pinned(self) -> bool:
        """Return whether a file is opened only as it was listed, by its etag, and so needs no digests."""

    def shown(self, name: str) -> str:
        """Return the name of a file in messages."""

    def open(self, file: SeenFile) -> BinaryIO:
        """Open a file; raise SQ3302 if it is gone, SQ3305 if it cannot be read."""

    def now(self, stream: BinaryIO, file: SeenFile) -> SeenFile:
        """Return the present state of an open file, with the same parts."""

    def difference(self, file: SeenFile) -> str | None:
        """Describe how a file differs from its listed state; None if that is unknown."""


def measure(
    stream: BinaryIO, place: Place, file: SeenFile, *, lines: bool, quote: bytes = b""
) -> Iterator[tuple[Part, bytes]]:
    """Yield the parts after the present ones of `file`, with their bytes; with `lines` they end at line ends.

    With a `quote`, parts end at line ends that have an even number of quotes before them. If none comes for long, the
    rest of the file has parts that end anywhere, with -1 as the number of their lines. The same holds for a file whose
    first line ends with a carriage return, since newlines end none of its records.

    If the last part of `file` was cut short, it is measured again. Raises SQ3301 if its bytes have changed, and
    LongLineError.
    """
    whole = whole_parts(file)
    tail = file.parts[-1] if len(whole) < len(file.parts) else None
    at = whole[-1][0] if whole else 0
    line = 1 + sum(part[1] for part in whole)
    whole_records = True
    stream.seek(at)
    while at < file.size:
        data = _read(stream, place, file, min(PART_BYTES, file.size - at))
        if quote and whole_records:
            data, whole_records = _to_record_end(stream, data, file.size - at - len(data), quote)
            whole_records = whole_records and not (at == 0 and _ends_with_return(data, quote))
        elif lines and not quote and data and not data.endswith(b"\n"):
            data += stream.readline(min(file.size - at - len(data), LONGEST_LINE))
            if at + len(data) < file.size and not data.endswith(b"\n"):
                raise LongLineError(line + data.count(b"\n"))
        if not data or (tail is not None and digest(data[: tail[0] - at]) != tail[2]):
            raise changed(place, file)
        tail = None
        at += len(data)
        line += data.count(b"\n")
        yield (at, data.count(b"\n") if whole_records else -1, digest(data)), data


def _to_record_end(stream: BinaryIO, data: bytes, left: int, quote: bytes) -> tuple[bytes, bool]:
    """Extend data to the end of a record; return it, and whether the end came within the limit."""
    parts, odd, size = [data], data.count(quote) % 2, 0
    last = data
    while size < left and (odd or not last.endswith(b"\n")):
        if size > LONGEST_LINE:
            return b"".join(parts), False
        last = stream.readline(min(left - size, LONGEST_LINE))
        if not last:
            break
        parts.append(last)
        odd, size = (odd + last.count(quote)) % 2, size + len(last)
    return b"".join(parts), True


def _ends_with_return(data: bytes, quote: bytes) -> bool:
    """Return whether the first line ends with a carriage return and no newline."""
    q = re.escape(quote)
    end = RepeatedPattern(rb"[^%b\r\n]+|%b[^%b]*%b" % (q, q, q, q)).end(data)
    return re.match(rb"\r[^\n]", data[end : end + 2]) is not None


def whole_parts(file: SeenFile) -> tuple[Part, ...]:
    """Return the parts of a file without the last one if that was cut short."""
    parts = file.parts
    if not parts or parts[-1][0] == file.size:
        return parts
    begin = parts[-2][0] if len(parts) > 1 else 0
    return parts if parts[-1][0] - begin >= PART_BYTES else parts[:-1]


def listed(stream: BinaryIO, place: Place, file: SeenFile, base: int, parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the bytes of parts, from byte `base` on; raise SQ3301 if they have changed.

    If a file was read in part, the bytes after these parts may change.
    """
    last = not parts or parts[-1][0] == file.size
    if last and place.now(stream, file).size != file.size:
        raise changed(place, file)
    stream.seek(base)
    for end, _, expected in parts:
        data = _read(stream, place, file, end - base)
        if len(data) < end - base or (expected and digest(data) != expected):
            raise changed(place, file)
        base = end
        yield data


class ListedStream(io.RawIOBase):
    """The chunks of an iterator as one stream; `error` is the error that ended it."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._rest = memoryview(b"")
        self.error: SinkqlError | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:  # Any: bytes-like, which has a type only since Python 3.12
        """Fill the buffer from the present chunk."""
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


class SoughtStream(io.RawIOBase, ABC):
    """A stream of known size that is read at any offset, one range at a time."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._at = size, 0

    @abstractmethod
    def range_at(self, at: int, size: int) -> bytes | memoryview:
        """Return at least one and at most `size` bytes from an offset within the stream."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the offset of the next read."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:  # Any: bytes-like, which has a type only since Python 3.12
        """Fill the buffer from one range."""
        size = min(len(buffer), self._size - self._at)
        if size <= 0:
            return 0
        data = self.range_at(self._at, size)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class ListedFile(SoughtStream):
    """A listed file, read at any offset in parts whose digests were compared; `error` ended it."""

    def __init__(self, stream: BinaryIO, place: Place, file: SeenFile, parts: Sequence[Part]) -> None:
        super().__init__(file.size)
        self._stream, self._place, self._file, self._parts = stream, place, file, parts
        self._ends = [end for end, _, _ in parts]
        self._loaded: dict[int, bytes] = {}
        self.error: SinkqlError | None = None
        if place.now(stream, file).size != file.size:
            raise changed(place, file)

    def range_at(self, at: int, size: int) -> memoryview:
        """Return bytes of the part that holds the offset."""
        index = bisect.bisect_right(self._ends, at)
        skip = at - (self._ends[index - 1] if index else 0)
        return memoryview(self._part(index))[skip : skip + size]

    def _part(self, index: int) -> bytes:
        if index not in self._loaded:
            base = self._ends[index - 1] if index else 0
            try:
                data = next(listed(self._stream, self._place, self._file, base, [self._parts[index]]))
            except SinkqlError as error:
                self.error = error
                raise
            while len(self._loaded) >= _KEPT_PARTS:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[index] = data
        return self._loaded[index]


def digest(data: bytes) -> str:
    """Return the digest of a part, which detects accidents and not forgery."""
    value: str = xxhash.xxh3_128_hexdigest(data)
    return value


def changed(place: Place, file: SeenFile) -> ChangedError:
    """Return the error for a file that changed after it was listed, with the difference."""
    return ChangedError(
        "SQ3301",
        f'file "{place.shown(file.name)}" changed after it was listed',
        detail=place.difference(file),
        hint="Each file is read once. Restore the old content under this name, and write new rows to a new file.",
    )


def undecodable(path: Path | str, format_: str, why: object, *, then: str = "") -> InvalidFileError:
    """Return the error for a file that is not of its format; `then` says what follows a correction."""
    return InvalidFileError(
        "SQ3102",
        f'file "{path}" cannot be read as {format_}: {why}',
        hint="Replace the file with a correct one, move it out of the folder, or create the source with the FORMAT and "
        f"the columns of its files.{then}",
    )


def _read(stream: BinaryIO, place: Place, file: SeenFile, size: int) -> bytes:
    try:
        return _bytes(stream, size)
    except OSError as error:
        raise unreadable(place.shown(file.name), error.strerror or str(error)) from error


def _bytes(stream: BinaryIO, size: int) -> bytes:
    return stream.read(size)


Compression = Literal["AUTO", "NONE", "GZIP", "BZIP2", "ZSTD", "LZ4", "ZIP"]
"""How files may be compressed; with `AUTO`, the endings of their names decide."""

ENDINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".zip": "zip"}
"""The endings of names, with the codecs; Arrow's words for the codecs that it has."""
_CODECS = {"NONE": None, "GZIP": "gzip", "BZIP2": "bz2", "ZSTD": "zstd", "LZ4": "lz4", "ZIP": "zip"}
_MEMORY_BYTES = 32 << 20
_MOST_BYTES, _MOST_TIMES = 256 << 20, 200
"""The most bytes, and the most times its size, that a file may have once decompressed.

Text compresses five to fifty times, a repeated byte a thousand times and more.
"""


@dataclass(frozen=True, slots=True)
class Written:
    """How the texts of files are written: their compression, and their encoding, None for UTF-8."""

    compression: Compression = "AUTO"
    encoding: str | None = None

    def codec(self, name: str) -> str | None:
        """Return the codec of a file; None if it is not compressed."""
        automatic = self.compression == "AUTO"
        return ENDINGS.get(PurePath(name).suffix.lower()) if automatic else _CODECS[self.compression]

    def is_plain(self, name: str) -> bool:
        """Return whether the bytes of a file are its text in UTF-8."""
        return self.codec(name) is None and self.encoding is None

    @contextmanager
    def plain(self, stream: BinaryIO, file: SeenFile) -> Iterator[BinaryIO]:
        """Open the stream of a file decompressed, from one member or several, and in UTF-8.

        Raises UndecodableError for an empty file, an archive of several files, bytes that are not text in the encoding,
        and a file that decompresses to far more bytes than data do. Reading raises OSError if the file is damaged or
        cut off.
        """
        if self.is_plain(file.name):
            yield stream
            return
        import pyarrow as pa  # not where connectors are loaded

        codec = self.codec(file.name)
        if codec is not None and file.size == 0:
            raise UndecodableError(f"a {codec} file cannot be empty")
        with _uncompressed(stream, codec, file.size) as uncompressed:
            if self.encoding is None:
                yield uncompressed
                return
            with pa.transcoding_input_stream(
                pa.PythonFile(uncompressed, mode="r"), self.encoding, "utf-8"
            ) as transcoded:
                try:
                    yield transcoded
                except UnicodeDecodeError as error:
                    raise UndecodableError(_no_text(error)) from error


def _no_text(error: UnicodeDecodeError) -> str:
    shown = error.object[error.start : error.end][:8].hex(" ")
    return f"it has bytes that are not text in {error.encoding.replace('charmap', 'its encoding')}: {shown}"


@contextmanager
def _uncompressed(stream: BinaryIO, codec: str | None, size: int) -> Iterator[BinaryIO]:
    import pyarrow as pa

    if codec is None:
        yield stream
        return
    with _archived(stream) if codec == "zip" else pa.input_stream(stream, compression=codec) as source:
        yield cast("BinaryIO", _Bounded(source, max(_MOST_BYTES, _MOST_TIMES * size)))


@contextmanager
def _archived(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Open the only file of an archive. The archive lists its files at its end."""
    with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as copy:
        shutil.copyfileobj(stream, copy)
        try:
            with zipfile.ZipFile(cast("BinaryIO", copy)) as archive, archive.open(_only_file(archive)) as content:
                yield cast("BinaryIO", content)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise UndecodableError(f"it cannot be read as a zip archive: {error}") from error


def _only_file(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    files = [info for info in archive.infolist() if not info.is_dir() and not info.filename.startswith("__MACOSX/")]
    if len(files) != 1:
        raise UndecodableError(f"it is a zip archive of {len(files)} files; only archives of one file can be read")
    if files[0].flag_bits & 1:
        raise UndecodableError("it is a zip archive with a password")
    return files[0]


class _Bounded(io.RawIOBase):
    """A stream that ends with an error after a number of bytes."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream, self._left = stream, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise UndecodableError(
                f"it decompresses to more than {_MOST_BYTES >> 20} MiB, and to more than {_MOST_TIMES} times its size"
            )
        return data


Part = tuple[int, int, str]
"""The byte after its last one, the number of lines that end in it, and its digest; empty without a digest."""


class SeenFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was listed: its name below the source's folder, its stamp, and its parts.

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
        """Return the values that change when a file is written."""
        return self.size, self.mtime_ns, self.changed_ns, self.inode

    @property
    def lines(self) -> int:
        """Return the number of lines that end in the parts."""
        return sum(lines for _, lines, _ in self.parts)

    def data(self) -> list[Any]:
        """Return the file as JSON-able data."""
        data: list[Any] = msgspec.to_builtins(self)
        return data


def seen_file(name: str, status: os.stat_result, parts: tuple[Part, ...] = ()) -> SeenFile:
    """Return a file with the values of its status."""
    return SeenFile(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, parts)


def from_data(data: Any) -> SeenFile:
    """Return the file of JSON-able data."""
    return codec.convert(data, SeenFile)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file without waiting; raise SQ3302 if it is gone, SQ3305 if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise unreadable(path, "it is not a regular file")
        return os.fdopen(handle, "rb")
    except FileNotFoundError as error:
        raise GoneError(
            "SQ3302", f'file "{path}" was removed but must be read', hint="Restore the file; the sink then continues."
        ) from error
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error


class UnreadableError(SinkqlError):
    """A folder, or an entry of it, cannot be read."""


def unreadable(path: Path | str, why: str) -> UnreadableError:
    """Return the error for an entry of the folder that cannot be read."""
    return UnreadableError(
        "SQ3305",
        f'cannot read "{_shown(path)}": {why}',
        hint="Correct or move it, or exclude it with GLOB; names that begin with . or _ are not read. "
        "The sink then continues.",
    )


def _shown(path: Path | str) -> str:
    return str(path).encode(errors="backslashreplace").decode()
