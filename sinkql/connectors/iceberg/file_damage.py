"""A file of a table that is torn, changed or another one's → one coded error that names it; and seals that show it.

Metadata of a table has no checksums. So files that SinkQL writes have a seal, a digest of what they hold and of their
name: in Avro a word of the header, in Parquet sixteen bytes between the pages and the footer, in JSON blanks at the
end, where no reader looks. A file without one is another program's, and is checked as far as its format allows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import xxhash
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchPropertyException, NoSuchTableError
from pyiceberg.io import InputFile, OutputFile, OutputStream

from sinkql.errors import SinkqlError

SEAL = "sinkql.seal"
UNSEALED = "0" * 16
_IN_HEADER = SEAL.encode() + b"\x20"
"""The word as Avro writes it, with the length of the text that follows."""
_WHOLE, _OF_FOOTER = b"\xf5SQLSEAL", b"\xf5SQLFOOT"
"""What stands before the digest of a Parquet file, or of its footer alone."""
_DIGEST = 8
_BLANKS, _OF_NAME = " \t", 32
"""How the bits of a digest stand behind JSON, and how many of those of the name's."""
_GIVEN = re.compile(rb"\d+-[0-9a-f-]{36}\.")
"""How the names of metadata files begin."""
_GUESS = 1 << 16
"""Bytes that have most footers in them."""
_CHANGED = "it is not as it was written"
FOOTER_BYTES = 8
"""Bytes of a Parquet file behind its footer: the footer's length, and PAR1."""
_NO_TABLE = NoSuchTableError, NoSuchPropertyException, NoSuchIcebergTableError
_STORES = ("aws error", "google::cloud")


def damaged_file_error(path: str, why: str) -> SinkqlError:
    """Return the error for a file that does not say what was written."""
    return SinkqlError(
        "SQ3530",
        f'file "{path.rpartition("/")[2]}" of the table is damaged, or is another file',
        detail=f"{path}: {why}",
        hint="Put the file back from a copy: a running sink goes on by itself. If it is lost for good, drop the sink "
        "and create it again, into a new table.",
    )


@contextmanager
def damage_as_error(path: str) -> Iterator[None]:
    """Turn what reading a file raises in the block into SQ3530; what the storage itself raises goes on as it is."""
    try:
        yield
    except (SinkqlError, *_NO_TABLE):
        raise
    except Exception as error:
        text = str(error)
        other = isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
        if other or type(error) is MemoryError or any(each in text.lower() for each in _STORES):
            raise
        raise damaged_file_error(path, f"{type(error).__name__}: {text}") from error


class SealedOutput(OutputFile):
    """An Avro file that is written at once when it is closed, with its seal."""

    def __init__(self, output: OutputFile) -> None:
        super().__init__(output.location)
        self._output = output
        self._size = 0

    def __len__(self) -> int:
        """Return its size."""
        return self._size

    def exists(self) -> bool:
        """Tell whether it is there."""
        return self._output.exists()

    def to_input_file(self) -> InputFile:
        """Return it to be read."""
        return self._output.to_input_file()

    def create(self, overwrite: bool = False) -> OutputStream:
        """Begin it."""
        return _Waiting(self, overwrite=overwrite)

    def write(self, data: bytes, *, overwrite: bool) -> None:
        """Write all of it."""
        whole = _sealed(data, self.location)
        with self._output.create(overwrite=overwrite) as stream:
            stream.write(whole)
        self._size = len(whole)


class _Waiting(io.BytesIO):
    def __init__(self, output: SealedOutput, *, overwrite: bool) -> None:
        super().__init__()
        self._output, self._overwrite = output, overwrite

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._output.write(data, overwrite=self._overwrite)


def check_avro(data: bytes, path: str) -> None:
    """Raise ValueError for an Avro file with a seal that is not as it was written."""
    at = data.find(_IN_HEADER)
    if at < 0:
        return
    at += len(_IN_HEADER)
    if data[at : at + 16] != _told(data, at, path):
        raise ValueError(_CHANGED)


def _sealed(data: bytes, path: str) -> bytes:
    at = data.find(_IN_HEADER)
    if at < 0:
        return data  # an attempt that was broken off
    at += len(_IN_HEADER)
    return data[:at] + _told(data, at, path) + data[at + 16 :]


def _told(data: bytes, at: int, path: str) -> bytes:
    digest = xxhash.xxh3_64(path.rpartition("/")[2].encode())
    digest.update(memoryview(data)[:at])
    digest.update(memoryview(data)[at + 16 :])
    return digest.hexdigest().encode()


def sealed_parquet(data: bytes, path: str) -> bytes:
    """Return a Parquet file with a seal of all of it."""
    cut = _footer(data)
    return data[:cut] + _WHOLE + _digest(path, data[:cut], data[cut:]) + data[cut:]


def check_parquet(data: bytes, path: str) -> None:
    """Raise ValueError for a Parquet file that does not end like one, or has a seal and is not as it was written.

    To be called before Arrow reads the footer: one with a changed byte may end the process.
    """
    _check_end(data, len(data))
    at = data.rfind(_WHOLE)
    begin, cut = at + len(_WHOLE), at + len(_WHOLE) + _DIGEST
    if at >= 0 and (cut != _footer(data) or data[begin:cut] != _digest(path, data[:at], data[cut:])):
        raise ValueError(_CHANGED)


def sealed_json(text: str, path: str) -> str:
    """Return a JSON text with a seal."""
    return text + _blanks(text.encode()) + _blanks(_named(path))[:_OF_NAME]


def check_json(data: bytes, path: str) -> None:
    """Raise ValueError for a JSON file with a seal that is not as it was written.

    One that a person gave another name may have it: names that no program makes tell nothing.
    """
    cut = len(data) - 8 * _DIGEST - _OF_NAME
    body, seal = data[: max(cut, 0)], data[cut:].decode("latin-1")
    if cut <= 0 or seal.strip(_BLANKS):
        return
    name = _blanks(_named(path))[:_OF_NAME]
    if not seal.startswith(_blanks(body)) or (_GIVEN.match(_named(path)) and not seal.endswith(name)):
        raise ValueError(_CHANGED)


def _named(path: str) -> bytes:
    return path.rpartition("/")[2].encode()


def _blanks(data: bytes) -> str:
    return f"{xxhash.xxh3_64_intdigest(data):0{8 * _DIGEST}b}".translate(str.maketrans("01", _BLANKS))


class FooterSealer:
    """What Arrow writes a Parquet file to, with a seal of the footer before it. Pages have checksums of their own."""

    def __init__(self, stream: OutputStream, path: str) -> None:
        self._stream, self._path = stream, path
        self._held: list[bytes] | None = None
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write what comes, or hold it back."""
        if self._held is None:
            return self._stream.write(data)
        self._held.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Leave that to the stream."""

    def keep_footer(self) -> None:
        """Hold back what comes from now on, the end of the file."""
        self._held = []

    def finish(self) -> None:
        """Write what was held back, with the seal."""
        end, self._held = b"".join(self._held or ()), None
        cut = _footer(end)
        self._stream.write(end[:cut] + _OF_FOOTER + _digest(self._path, end[cut:]) + end[cut:])


def read_footer(stream: pa.NativeFile, path: str) -> bytes:
    """Return the end of a Parquet file, from the footer on; raises ValueError as `check_parquet` does."""
    size = stream.size()
    end = _last(stream, min(size, _GUESS))
    _check_end(end, size)
    needed = len(end) - _footer(end) + len(_OF_FOOTER) + _DIGEST
    if len(end) < needed <= size:
        end = _last(stream, needed)
    cut = _footer(end)
    at = end.rfind(_OF_FOOTER)
    begin = at + len(_OF_FOOTER)
    if at >= 0 and (begin + _DIGEST != cut or end[begin:cut] != _digest(path, end[cut:])):
        raise ValueError(_CHANGED)
    return end[cut:]


def _last(stream: pa.NativeFile, count: int) -> bytes:
    stream.seek(stream.size() - count)
    found: bytes = stream.read(count)
    stream.seek(0)
    return found


def _check_end(end: bytes, size: int) -> None:
    """Raise ValueError where the last bytes of a file of that size are not those of a Parquet file."""
    if (
        len(end) < 2 * FOOTER_BYTES
        or end[-4:] != b"PAR1"
        or not 0 < size - len(end) + _footer(end) < size - FOOTER_BYTES
    ):
        raise ValueError("it does not end as a Parquet file does")


def _footer(data: bytes) -> int:
    """Return where the footer begins."""
    return len(data) - FOOTER_BYTES - int.from_bytes(data[-FOOTER_BYTES:-4], "little")


def _digest(path: str, *parts: bytes) -> bytes:
    digest = xxhash.xxh3_64(path.rpartition("/")[2].encode())
    for each in parts:
        digest.update(each)
    found: bytes = digest.digest()
    return found
