"""A file → its parts and their digests, and its bytes again only as they were when it was listed.

A part is a stretch of about 16 MiB that ends at a line's end where records are lines. Whoever reads gets a part when
its digest has been compared, so that no row comes of a file that was rewritten meanwhile.

A file's name, COMPRESSION and ENCODING → a stream of its text in UTF-8.

A file as it was when it was listed, and the local file that it is; what is said where there is none, or no more.
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
"""How long a line may be: all of it is in memory when it is decoded."""


class LongLineError(ValueError):
    """Say that a line, whose number it has, is longer than `LONGEST_LINE`."""


class ChangedError(SinkqlError):
    """Say that a file is not as it was listed."""


class Place(Protocol):
    """Where the files of a source lie."""

    @property
    def pinned(self) -> bool:
        """Tell whether a file is opened only as it was listed, by its etag: it needs no digests then."""

    def shown(self, name: str) -> str:
        """Return what messages call a file."""

    def open(self, file: SeenFile) -> BinaryIO:
        """Open a file; raises SQ3302 where it is gone, SQ3305 where it cannot be read."""

    def now(self, stream: BinaryIO, file: SeenFile) -> SeenFile:
        """Return a file that is open as it is now, with the same parts."""

    def difference(self, file: SeenFile) -> str | None:
        """Return what is different about a file now."""


def measure(
    stream: BinaryIO, place: Place, file: SeenFile, *, lines: bool, quote: bytes = b""
) -> Iterator[tuple[Part, bytes]]:
    """Yield the parts that follow those of `file`, with their bytes; with `lines` they end at line ends.

    With a `quote`, they end at line ends that have an even number of quotes before them; where there is none for long,
    the rest of the file has parts that end anywhere, with -1 for the number of their lines. So has all of a file whose
    first line ends with a carriage return: newlines end no record of it.

    The last part of `file` is measured anew if it was cut short. Raises SQ3301 where it is not as it was, and
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
    """Return data and what comes of the stream up to the end of a record, and whether that was found in time."""
    found, odd, size = [data], data.count(quote) % 2, 0
    last = data
    while size < left and (odd or not last.endswith(b"\n")):
        if size > LONGEST_LINE:
            return b"".join(found), False
        last = stream.readline(min(left - size, LONGEST_LINE))
        if not last:
            break
        found.append(last)
        odd, size = (odd + last.count(quote)) % 2, size + len(last)
    return b"".join(found), True


def _ends_with_return(data: bytes, quote: bytes) -> bool:
    """Return whether the first line ends with a carriage return and no newline."""
    q = re.escape(quote)
    end = RepeatedPattern(rb"[^%b\r\n]+|%b[^%b]*%b" % (q, q, q, q)).end(data)
    return re.match(rb"\r[^\n]", data[end : end + 2]) is not None


def whole_parts(file: SeenFile) -> tuple[Part, ...]:
    """Return the parts of a file, less the last one if it was cut short."""
    parts = file.parts
    if not parts or parts[-1][0] == file.size:
        return parts
    begin = parts[-2][0] if len(parts) > 1 else 0
    return parts if parts[-1][0] - begin >= PART_BYTES else parts[:-1]


def listed(stream: BinaryIO, place: Place, file: SeenFile, base: int, parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the bytes of parts, the first of which begins at `base`; raises SQ3301 where they are other ones now.

    What comes after the parts of a file that was read in part may be other than it was.
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


class SoughtStream(io.RawIOBase, ABC):
    """Read so many bytes anywhere, a stretch at a time."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._at = size, 0

    @abstractmethod
    def stretch(self, at: int, size: int) -> bytes | memoryview:
        """Return bytes from a place on that is within the stream: at least one, and at most so many."""

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
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:  # Any: bytes-like, for which there is no type before Python 3.12
        """Fill the buffer as far as the stretch goes that is read."""
        size = min(len(buffer), self._size - self._at)
        if size <= 0:
            return 0
        data = self.stretch(self._at, size)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class ListedFile(SoughtStream):
    """Read a listed file anywhere, in parts whose digests have been compared; `error` is what ended it."""

    def __init__(self, stream: BinaryIO, place: Place, file: SeenFile, parts: Sequence[Part]) -> None:
        super().__init__(file.size)
        self._stream, self._place, self._file, self._parts = stream, place, file, parts
        self._ends = [end for end, _, _ in parts]
        self._loaded: dict[int, bytes] = {}
        self.error: SinkqlError | None = None
        if place.now(stream, file).size != file.size:
            raise changed(place, file)

    def stretch(self, at: int, size: int) -> memoryview:
        """Return what the part has there."""
        place = bisect.bisect_right(self._ends, at)
        skip = at - (self._ends[place - 1] if place else 0)
        return memoryview(self._part(place))[skip : skip + size]

    def _part(self, place: int) -> bytes:
        if place not in self._loaded:
            base = self._ends[place - 1] if place else 0
            try:
                data = next(listed(self._stream, self._place, self._file, base, [self._parts[place]]))
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


def changed(place: Place, file: SeenFile) -> ChangedError:
    """Return the error for a file that is not as it was listed, with what is different now."""
    return ChangedError(
        "SQ3301",
        f'file "{place.shown(file.name)}" changed after it was listed',
        detail=place.difference(file),
        hint="Each file is read once: restore the old file, and write new rows into a new one.",
    )


def undecodable(path: Path | str, format_: str, why: object, *, then: str = "") -> InvalidFileError:
    """Return the error for a file that is not of its format; `then` says what comes after a correction."""
    return InvalidFileError(
        "SQ3102",
        f'file "{path}" cannot be read as {format_}: {why}',
        hint="Put a correct file in its place, or move it out of the folder, or create the source with the FORMAT and "
        f"the columns that its files have.{then}",
    )


def _read(stream: BinaryIO, place: Place, file: SeenFile, size: int) -> bytes:
    try:
        return _bytes(stream, size)
    except OSError as error:
        raise unreadable(place.shown(file.name), error.strerror or str(error)) from error


def _bytes(stream: BinaryIO, size: int) -> bytes:
    return stream.read(size)


Compression = Literal["AUTO", "NONE", "GZIP", "BZIP2", "ZSTD", "LZ4", "ZIP"]
"""What files may be compressed with; `AUTO`: what their names end in says it."""

ENDINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".zip": "zip"}
"""What names end in, and the codecs: Arrow's words for those that it has."""
_CODECS = {"NONE": None, "GZIP": "gzip", "BZIP2": "bz2", "ZSTD": "zstd", "LZ4": "lz4", "ZIP": "zip"}
_MEMORY_BYTES = 32 << 20
_MOST_BYTES, _MOST_TIMES = 256 << 20, 200
"""Text takes a fifth to a fiftieth of its bytes; a file of one byte repeated takes a thousandth and less."""


@dataclass(frozen=True, slots=True)
class Written:
    """How the texts of files are written: with which compression, and in which encoding, None for UTF-8."""

    compression: Compression = "AUTO"
    encoding: str | None = None

    def codec(self, name: str) -> str | None:
        """Return the codec of a file, None for one that is not compressed."""
        automatic = self.compression == "AUTO"
        return ENDINGS.get(PurePath(name).suffix.lower()) if automatic else _CODECS[self.compression]

    def plainly(self, name: str) -> bool:
        """Tell whether the bytes of a file are its text, in UTF-8."""
        return self.codec(name) is None and self.encoding is None

    @contextmanager
    def plain(self, stream: BinaryIO, file: SeenFile) -> Iterator[BinaryIO]:
        """Open the stream of a file as it was before it was compressed, in one member or several, and in UTF-8.

        Raises UndecodableError for one of no bytes, for an archive of not just one file, where what is read has bytes
        that are no text in the encoding, and where it has far more bytes than data ever do that are compressed so;
        reading raises OSError for one that is damaged or cut off.
        """
        if self.plainly(file.name):
            yield stream
            return
        import pyarrow as pa  # not where connectors are loaded

        codec = self.codec(file.name)
        if codec is not None and file.size == 0:
            raise UndecodableError(f"it is empty, which a {codec} file never is")
        with _uncompressed(stream, codec, file.size) as found:
            if self.encoding is None:
                yield found
                return
            with pa.transcoding_input_stream(pa.PythonFile(found, mode="r"), self.encoding, "utf-8") as transcoded:
                try:
                    yield transcoded
                except UnicodeDecodeError as error:
                    raise UndecodableError(_no_text(error)) from error


def _no_text(error: UnicodeDecodeError) -> str:
    shown = error.object[error.start : error.end][:8].hex(" ")
    return f"it has bytes that are no text in {error.encoding.replace('charmap', 'its encoding')}: {shown}"


@contextmanager
def _uncompressed(stream: BinaryIO, codec: str | None, size: int) -> Iterator[BinaryIO]:
    import pyarrow as pa

    if codec is None:
        yield stream
        return
    with _archived(stream) if codec == "zip" else pa.input_stream(stream, compression=codec) as found:
        yield cast("BinaryIO", _Bounded(found, max(_MOST_BYTES, _MOST_TIMES * size)))


@contextmanager
def _archived(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Open the file of an archive, whose list of files is at its end."""
    with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as kept:
        shutil.copyfileobj(stream, kept)
        try:
            with zipfile.ZipFile(cast("BinaryIO", kept)) as archive, archive.open(_only_file(archive)) as found:
                yield cast("BinaryIO", found)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise UndecodableError(f"it cannot be read as a zip archive: {error}") from error


def _only_file(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    files = [each for each in archive.infolist() if not each.is_dir() and not each.filename.startswith("__MACOSX/")]
    if len(files) != 1:
        raise UndecodableError(f"it is a zip archive of {len(files)} files, and one of a single file can be read")
    if files[0].flag_bits & 1:
        raise UndecodableError("it is a zip archive with a password")
    return files[0]


class _Bounded(io.RawIOBase):
    """A stream that gives so many bytes at most."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream, self._left = stream, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        found = self._stream.read(size if size >= 0 else self._left + 1)
        self._left -= len(found)
        if self._left < 0:
            raise UndecodableError(
                f"it has more than {_MOST_BYTES >> 20} MiB once it is not compressed, and more than {_MOST_TIMES} "
                "times the bytes of the file"
            )
        return found


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
