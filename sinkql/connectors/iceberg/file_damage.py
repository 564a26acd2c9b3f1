"""Detect torn, changed and exchanged files of a table by seals, and raise a coded error that names the file.

Iceberg's metadata has no checksums. So files of SinkQL have a seal, a digest of their contents and their name. In Avro
it is an entry of the header, in Parquet it is between the pages and the footer, and in JSON it is white space at the
end, which readers ignore. A file without a seal is another program's, and is checked as far as its format allows.
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
"""The key in Avro's encoding, with the length of the text that follows."""
_WHOLE, _OF_FOOTER = b"\xf5SQLSEAL", b"\xf5SQLFOOT"
"""The prefix of the digest of a Parquet file, or of its footer only."""
_DIGEST = 8
_BLANKS, _OF_NAME = " \t", 32
"""The characters for the bits of a digest after JSON, and the number of bits of the name's digest."""
_PROGRAM_NAME = re.compile(rb"\d+-[0-9a-f-]{36}\.")
"""The prefix of the names of metadata files."""
_GUESS = 1 << 16
"""The last bytes of a file that contain most footers."""
_CHANGED = "the file has changed since it was written"
FOOTER_BYTES = 8
"""The bytes of a Parquet file after its footer: the footer's length, and PAR1."""
_NO_TABLE = NoSuchTableError, NoSuchPropertyException, NoSuchIcebergTableError
_STORES = ("aws error", "google::cloud")


def damaged_file_error(path: str, why: str) -> SinkqlError:
    """Return the error for a damaged or exchanged file."""
    return SinkqlError(
        "SQ3530",
        f'file "{path.rpartition("/")[2]}" of the table is damaged, or is another file',
        detail=f"{path}: {why}",
        hint="Restore the file from a copy. A running sink then continues. If the file is lost, drop the sink and "
        "create it again with a new table.",
    )


@contextmanager
def damage_as_error(path: str) -> Iterator[None]:
    """Convert exceptions of reading a file in the block into SQ3530; exceptions of the storage are unchanged."""
    try:
        yield
    except (SinkqlError, *_NO_TABLE):
        raise
    except Exception as error:
        text = str(error)
        is_of_system = isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
        if is_of_system or type(error) is MemoryError or any(word in text.lower() for word in _STORES):
            raise
        raise damaged_file_error(path, f"{type(error).__name__}: {text}") from error


class SealedOutput(OutputFile):
    """An Avro file that is written as a whole with its seal when it is closed."""

    def __init__(self, output: OutputFile) -> None:
        super().__init__(output.location)
        self._output = output
        self._size = 0

    def __len__(self) -> int:
        """Return the size of the file."""
        return self._size

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._output.exists()

    def to_input_file(self) -> InputFile:
        """Return the file for reading."""
        return self._output.to_input_file()

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return a stream for the contents."""
        return _SealedStream(self, overwrite=overwrite)

    def write(self, data: bytes, *, overwrite: bool) -> None:
        """Write the contents with a seal."""
        sealed = _seal_avro(data, self.location)
        with self._output.create(overwrite=overwrite) as stream:
            stream.write(sealed)
        self._size = len(sealed)


class _SealedStream(io.BytesIO):
    def __init__(self, output: SealedOutput, *, overwrite: bool) -> None:
        super().__init__()
        self._output, self._overwrite = output, overwrite

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._output.write(data, overwrite=self._overwrite)


def check_avro(data: bytes, path: str) -> None:
    """Raise ValueError if an Avro file has a wrong seal."""
    at = data.find(_IN_HEADER)
    if at < 0:
        return
    at += len(_IN_HEADER)
    if data[at : at + 16] != _avro_digest(data, at, path):
        raise ValueError(_CHANGED)


def _seal_avro(data: bytes, path: str) -> bytes:
    at = data.find(_IN_HEADER)
    if at < 0:
        return data  # an interrupted attempt
    at += len(_IN_HEADER)
    return data[:at] + _avro_digest(data, at, path) + data[at + 16 :]


def _avro_digest(data: bytes, at: int, path: str) -> bytes:
    digest = xxhash.xxh3_64(path.rpartition("/")[2].encode())
    digest.update(memoryview(data)[:at])
    digest.update(memoryview(data)[at + 16 :])
    return digest.hexdigest().encode()


def seal_parquet(data: bytes, path: str) -> bytes:
    """Return a Parquet file with a seal of the whole file."""
    cut = _footer_start(data)
    return data[:cut] + _WHOLE + _digest(path, data[:cut], data[cut:]) + data[cut:]


def check_parquet(data: bytes, path: str) -> None:
    """Raise ValueError if a Parquet file does not end like one or has a wrong seal.

    Call it before Arrow reads the footer: a footer with a changed byte may crash the process.
    """
    _check_end(data, len(data))
    at = data.rfind(_WHOLE)
    begin, cut = at + len(_WHOLE), at + len(_WHOLE) + _DIGEST
    if at >= 0 and (cut != _footer_start(data) or data[begin:cut] != _digest(path, data[:at], data[cut:])):
        raise ValueError(_CHANGED)


def seal_json(text: str, path: str) -> str:
    """Return a JSON text with a seal."""
    return text + _as_blanks(text.encode()) + _as_blanks(_file_name(path))[:_OF_NAME]


def check_json(data: bytes, path: str) -> None:
    """Raise ValueError if a JSON file has a wrong seal.

    A file that a user renamed may have the digest of another name: only names in the form of programs are checked.
    """
    cut = len(data) - 8 * _DIGEST - _OF_NAME
    body, seal = data[: max(cut, 0)], data[cut:].decode("latin-1")
    if cut <= 0 or seal.strip(_BLANKS):
        return
    name = _as_blanks(_file_name(path))[:_OF_NAME]
    if not seal.startswith(_as_blanks(body)) or (_PROGRAM_NAME.match(_file_name(path)) and not seal.endswith(name)):
        raise ValueError(_CHANGED)


def _file_name(path: str) -> bytes:
    return path.rpartition("/")[2].encode()


def _as_blanks(data: bytes) -> str:
    return f"{xxhash.xxh3_64_intdigest(data):0{8 * _DIGEST}b}".translate(str.maketrans("01", _BLANKS))


class FooterSealer:
    """A stream to which Arrow writes a Parquet file. It adds a seal of the footer; pages have checksums."""

    def __init__(self, stream: OutputStream, path: str) -> None:
        self._stream, self._path = stream, path
        self._footer_parts: list[bytes] | None = None
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write data, or buffer it if it is part of the footer."""
        if self._footer_parts is None:
            return self._stream.write(data)
        self._footer_parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: the stream flushes when it is closed."""

    def keep_footer(self) -> None:
        """Buffer the data from now on: the end of the file."""
        self._footer_parts = []

    def finish(self) -> None:
        """Write the buffered data with the seal."""
        end, self._footer_parts = b"".join(self._footer_parts or ()), None
        cut = _footer_start(end)
        self._stream.write(end[:cut] + _OF_FOOTER + _digest(self._path, end[cut:]) + end[cut:])


def read_footer(stream: pa.NativeFile, path: str) -> bytes:
    """Return the end of a Parquet file from the footer; raises ValueError as `check_parquet` does."""
    size = stream.size()
    end = _read_end(stream, min(size, _GUESS))
    _check_end(end, size)
    needed = len(end) - _footer_start(end) + len(_OF_FOOTER) + _DIGEST
    if len(end) < needed <= size:
        end = _read_end(stream, needed)
    cut = _footer_start(end)
    at = end.rfind(_OF_FOOTER)
    begin = at + len(_OF_FOOTER)
    if at >= 0 and (begin + _DIGEST != cut or end[begin:cut] != _digest(path, end[cut:])):
        raise ValueError(_CHANGED)
    return end[cut:]


def _read_end(stream: pa.NativeFile, count: int) -> bytes:
    stream.seek(stream.size() - count)
    data: bytes = stream.read(count)
    stream.seek(0)
    return data


def _check_end(end: bytes, size: int) -> None:
    """Raise ValueError if the last bytes of a file of that size are not those of a Parquet file."""
    if (
        len(end) < 2 * FOOTER_BYTES
        or end[-4:] != b"PAR1"
        or not 0 < size - len(end) + _footer_start(end) < size - FOOTER_BYTES
    ):
        raise ValueError("the file does not end like a Parquet file")


def _footer_start(data: bytes) -> int:
    """Return the position of the footer."""
    return len(data) - FOOTER_BYTES - int.from_bytes(data[-FOOTER_BYTES:-4], "little")


def _digest(path: str, *parts: bytes) -> bytes:
    digest = xxhash.xxh3_64(path.rpartition("/")[2].encode())
    for part in parts:
        digest.update(part)
    value: bytes = digest.digest()
    return value
