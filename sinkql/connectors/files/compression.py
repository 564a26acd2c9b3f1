"""A file's name, or the option COMPRESSION → its codec, and a stream of it → the bytes that were compressed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO, Literal

from sinkql.extension.stream import UndecodableError

Compression = Literal["AUTO", "NONE", "GZIP", "BZIP2", "ZSTD", "LZ4"]
"""What files may be compressed with; `AUTO`: what their names end in says it."""

ENDINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""What names end in, and Arrow's words for the codecs."""
_CODECS = {"NONE": None, "GZIP": "gzip", "BZIP2": "bz2", "ZSTD": "zstd", "LZ4": "lz4"}


def codec_of(name: str, compression: Compression = "AUTO") -> str | None:
    """Return the codec of a file, None for one that is not compressed."""
    return ENDINGS.get(PurePath(name).suffix.lower()) if compression == "AUTO" else _CODECS[compression]


@contextmanager
def plain(stream: BinaryIO, codec: str | None, *, size: int) -> Iterator[BinaryIO]:
    """Open a stream of `size` bytes as it was before it was compressed, in one member or several.

    Raises UndecodableError for one of no bytes; reading raises OSError for one that is damaged or cut off.
    """
    if codec is None:
        yield stream
        return
    import pyarrow as pa  # not where connectors are loaded

    if size == 0:
        raise UndecodableError(f"it is empty, which a {codec} file never is")
    with pa.input_stream(stream, compression=codec) as found:
        yield found
