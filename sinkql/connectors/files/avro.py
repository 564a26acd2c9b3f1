"""An Avro file → its columns, and the rows of the blocks that begin in a range of its bytes.

Where a range begins, the mark that stands after each block is looked for. Blocks are unpacked here, since Arrow has the
codecs that fastavro wants more packages for.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa

from sinkql.connector_api.stream import UndecodableError
from sinkql.decode.avro_depth import check, nodes
from sinkql.decode.avro_schema import columns_of, read_schema

_MAGIC = b"Obj\x01"
_MARK = 16
_CHUNK = 1 << 20
_LARGEST = 256 << 20
"""How many bytes a block may have: all of it is in memory when it is decoded."""
_BATCH_ROWS = 1 << 16


class AvroFile:
    """Read one file; raises UndecodableError for one that is damaged, or whose records are not rows."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = stream.seek(0, 2)
        stream.seek(0)
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise UndecodableError("it does not begin as Avro files do")
        stream.seek(0)
        try:
            header = fastavro.reader(stream)
            self._columns = columns_of(header.writer_schema)
            self._unpack = _CODECS.get(header.codec)
            self._mark: bytes = header._header["sync"]
            schema = read_schema(self._columns)
            self._head, self._nodes = _head(schema, self._mark), nodes(schema)
        except Exception as error:  # fastavro raises what comes up in it
            raise UndecodableError(f"its schema cannot be read: {_why(error)}") from error
        if self._unpack is None:
            raise UndecodableError(f"its codec {header.codec} is not known; {', '.join(_CODECS)} are")
        self._begin = stream.tell()
        self._counted = self._begin, 0

    @property
    def schema(self) -> pa.Schema:
        """Return the columns' names and types."""
        return pa.schema([(name, column.told) for name, column in self._columns.items()])

    def rows(self) -> int:
        """Return how many rows there are."""
        return self.before(self._size)

    def before(self, end: int) -> int:
        """Return how many rows come before a block, or the end: counted on from where this was asked for last."""
        at, rows = self._counted if self._counted[0] <= end else (self._begin, 0)
        self._counted = end, rows + sum(count for _, count, _ in self._blocks(at, end))
        return self._counted[1]

    def blocks(self, begin: int, end: int) -> Iterator[int]:
        """Yield where the blocks begin that do so in a range of bytes."""
        first = self._first(begin)
        if first is not None:
            for at, count, _ in self._blocks(first, end):
                if count:
                    yield at

    def read(self, at: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the block that begins there, with some of the columns."""
        _, count, size = next(self._blocks(at, at + 1))
        data = self._stream.read(size)
        mark = self._stream.read(_MARK)
        assert self._unpack is not None
        try:
            plain = self._unpack(data)
            if len(plain) > _LARGEST:
                raise ValueError(f"it has more than {_LARGEST >> 20} MiB when it is unpacked")
            if count > max(len(plain), _BATCH_ROWS):
                raise ValueError(f"it says that it has {count} records, and has {len(plain)} bytes")
            if self._nodes is not None:
                check(self._nodes, plain, count)
            whole = b"".join((self._head, _long(count), _long(len(plain)), plain, mark))
            rows: list[Any] = list(fastavro.reader(BytesIO(whole)))
            columns = {name: self._columns[name] for name in names}
            for first in range(0, count, _BATCH_ROWS):
                part = rows[first : first + _BATCH_ROWS]
                arrays = [column.array([row[name] for row in part]) for name, column in columns.items()]
                yield pa.record_batch(arrays, names=list(names))
        except Exception as error:  # of codecs, of fastavro and of Arrow
            raise UndecodableError(f"its block at byte {at} is damaged: {_why(error)}") from error

    def _first(self, begin: int) -> int | None:
        """Return where the first block begins that does so from a byte on."""
        if begin <= self._begin:
            return self._begin
        at = max(self._begin, begin - _MARK)
        rest = b""
        self._stream.seek(at)
        while data := self._stream.read(_CHUNK):
            block = rest + data
            found = block.find(self._mark)
            if found >= 0:
                return at - len(rest) + found + _MARK
            at += len(data)
            rest = block[-_MARK + 1 :]
        return None

    def _blocks(self, at: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield where blocks begin before a byte, how many records they have, and how many bytes; seeks there."""
        while at < min(end, self._size):
            self._stream.seek(at)
            count, size = self._number(), self._number()
            after = self._stream.tell() + size + _MARK
            if size > _LARGEST:
                raise UndecodableError(f"its block at byte {at} says that it has more than {_LARGEST >> 20} MiB")
            if count < 0 or size < 0 or after > self._size:
                raise UndecodableError(f"its block at byte {at} is cut off, or damaged")
            place = self._stream.tell()
            yield at, count, size
            self._stream.seek(place + size)
            if self._stream.read(_MARK) != self._mark:
                raise UndecodableError(f"its block at byte {at} does not end where it says")
            at = after

    def _number(self) -> int:
        found = shift = 0
        while shift < 64:
            byte = self._stream.read(1)
            if not byte:
                return -1
            found |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
        return -1


def _head(schema: Any, mark: bytes) -> bytes:
    """Return the head of a file of that schema whose blocks are not compressed."""
    head = BytesIO()
    fastavro.writer(head, schema, [], codec="null", sync_marker=mark)
    return head.getvalue()


def _long(number: int) -> bytes:
    number, found = number << 1, bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _deflate(data: bytes) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    found = unpacking.decompress(data, _LARGEST + 1)
    if len(found) <= _LARGEST and not unpacking.eof:
        raise ValueError("its data is cut off")
    return found


def _snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST >> 20} MiB when it is unpacked")
    plain: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is another one")
    return plain


def _zstandard(data: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(data), compression="zstd") as stream:
        found: bytes = stream.read(_LARGEST + 1)
    return found


def _bzip2(data: bytes) -> bytes:
    with bz2.BZ2File(BytesIO(data)) as stream:
        return stream.read(_LARGEST + 1)


def _xz(data: bytes) -> bytes:
    with lzma.LZMAFile(BytesIO(data)) as stream:
        return stream.read(_LARGEST + 1)


_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes, "deflate": _deflate, "snappy": _snappy, "zstandard": _zstandard, "bzip2": _bzip2, "xz": _xz,
}  # fmt: skip
