"""A file's name, COMPRESSION and ENCODING → a stream of its text in UTF-8."""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO, Literal, cast

from sinkql.connector_api.stream import UndecodableError
from sinkql.connectors.files.seen import SeenFile

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
