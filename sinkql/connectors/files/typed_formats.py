"""Decode files with typed columns, Parquet, ORC and Avro, to Arrow rows of declared columns.

Columns are found by name, and other columns of the file are ignored. Messages identify a row by its number in the
file.

Avro files are read here, since Arrow does not read them. A range of an Avro file begins after the next sync mark:
each block ends with one. Blocks are decompressed with Arrow's codecs, for which fastavro needs more packages.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from sinkql import physical
from sinkql.connector_api.stream import Decoded, RowFailure, UndecodableError, WideError
from sinkql.decode.arrow_values import column_of, inferred_type, is_readable
from sinkql.decode.avro_schema import check, columns_of, nodes, read_schema
from sinkql.decode.json_lines import without
from sinkql.decode.parquet_footer import FooterError, row_groups
from sinkql.decode.text_column import WIDE, Failures
from sinkql.errors import in_other_case

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows that are stored together: `before` counts the rows before them, `read` reads them."""

    before: Callable[[], int]
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class _Stored:
    """An open file: its columns, its number of rows, and the pieces that begin in a range of bytes."""

    schema: pa.Schema
    rows: Callable[[], int]
    pieces: Callable[[int, int], Iterator[_Piece]]


class StoredRows:
    """Decode files of one kind, whole or a range of their bytes."""

    def __init__(self, columns: Sequence[physical.Column], opened: Callable[[BinaryIO], _Stored]) -> None:
        self._columns = columns
        self._open = opened

    def columns(self, stream: BinaryIO) -> list[tuple[str, str]]:
        """Return the names and types of a file's columns; raise UndecodableError."""
        with _as_undecodable():
            return [(field.name, inferred_type(field.type)) for field in self._open(stream).schema]

    def rows(self, stream: BinaryIO) -> int:
        """Return the number of rows that a file declares; raise UndecodableError."""
        with _as_undecodable():
            return self._open(stream).rows()

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a file; raise UndecodableError if columns are missing or have other types."""
        yield from self.decode_range(stream, 0, stream.seek(0, 2))

    def decode_range(self, stream: BinaryIO, begin: int, end: int) -> Iterator[Decoded]:
        """Yield the rows of the pieces that begin in a range of bytes; raise as `decode` does."""
        with _as_undecodable():
            file = self._open(stream)
            self._check(file.schema)
            for piece in file.pieces(begin, end):
                done = 0
                for batch in piece.read([column.name for column in self._columns]):
                    yield from self._parts(batch, piece, done)
                    done += batch.num_rows

    def _check(self, schema: pa.Schema) -> None:
        for column in self._columns:
            count = schema.names.count(column.name)
            if count == 0:
                other = in_other_case([column.name], schema.names)
                raise UndecodableError(f"it has no column {column.name}; it has {', '.join(schema.names)}{other}")
            if count > 1:
                raise UndecodableError(f"it has {column.name} more than once")
            type_ = schema.field(column.name).type
            if not is_readable(type_, column.type):
                file_type = inferred_type(type_)
                raise UndecodableError(f'column "{column.name}" has type {file_type} in it, not {column.type}')

    def _parts(self, batch: pa.RecordBatch, piece: _Piece, done: int) -> Iterator[Decoded]:
        """Yield the rows of a batch, in several parts if the values take much memory."""
        try:
            yield self._decoded(batch, piece, done)
        except WideError:
            if batch.num_rows == 1:  # its values alone are too large
                none = self._decoded(batch[:0], piece, done).batch
                yield Decoded(none, 1, [RowFailure(1 + piece.before() + done, WIDE, _raw(batch, 0))])
                return
            middle = batch.num_rows // 2
            yield from self._parts(batch[:middle], piece, done)
            yield from self._parts(batch[middle:], piece, done + middle)

    def _decoded(self, batch: pa.RecordBatch, piece: _Piece, done: int) -> Decoded:
        failures: Failures = {}
        arrays = []
        for column in self._columns:
            values, column_failures = batch.column(batch.schema.get_field_index(column.name)), Failures()
            arrays.append(column_of(values, column.type, column_failures))
            for row, message in column_failures.items():
                failures.setdefault(row, f'column "{column.name}": {message}')
            if not column.nullable and values.null_count:
                for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
                    failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
        rows = pa.record_batch(arrays, names=[column.name for column in self._columns])
        first = 1 + piece.before() + done if failures else 0
        failed = [RowFailure(first + row, failures[row], _raw(batch, row)) for row in sorted(failures)]
        return Decoded(without(rows, failures), batch.num_rows, failed)


def parquet_rows(columns: Sequence[physical.Column]) -> StoredRows:
    """Return the decoder of Parquet, whose pieces are row groups."""
    return StoredRows(columns, _parquet)


def orc_rows(columns: Sequence[physical.Column]) -> StoredRows:
    """Return the decoder of ORC, whose pieces are stripes."""
    return StoredRows(columns, _orc)


def avro_rows(columns: Sequence[physical.Column]) -> StoredRows:
    """Return the decoder of Avro, whose pieces are blocks."""
    return StoredRows(columns, _avro)


def _parquet(stream: BinaryIO) -> _Stored:
    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")  # only the years 1677 to 2262 fit nanoseconds

    def pieces(begin: int, end: int) -> Iterator[_Piece]:
        before = 0
        for number, group in enumerate(row_groups(stream)):
            if begin <= group.begin < end:
                yield _Piece(partial(int, before), partial(_row_group, file, number))
            before += group.rows

    return _Stored(file.schema_arrow, lambda: int(file.metadata.num_rows), pieces)


def _row_group(file: pq.ParquetFile, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    yield from file.iter_batches(_BATCH_ROWS, row_groups=[number], columns=names, use_threads=False)


def _orc(stream: BinaryIO) -> _Stored:
    """Open an ORC file. Arrow does not tell where stripes begin, so all count as equally large."""
    size = stream.seek(0, 2)
    stream.seek(0)
    file = po.ORCFile(stream)
    dotted = any("." in name for name in file.schema.names)  # Arrow reads these as paths to fields
    counted = [0]

    def before(stripe: int) -> int:
        for number in range(len(counted) - 1, stripe):
            columns = None if dotted else file.schema.names[:1]
            counted.append(counted[-1] + file.read_stripe(number, columns=columns).num_rows)
        return counted[stripe]

    def pieces(begin: int, end: int) -> Iterator[_Piece]:
        for stripe in range(file.nstripes):
            if begin <= size * stripe // file.nstripes < end:
                yield _Piece(partial(before, stripe), partial(_stripe, file, stripe, whole=dotted))

    return _Stored(file.schema, lambda: int(file.nrows), pieces)


def _stripe(file: po.ORCFile, number: int, names: Sequence[str], *, whole: bool) -> Iterator[pa.RecordBatch]:
    batch = file.read_stripe(number, columns=None if whole else list(names))
    for first in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(first, _BATCH_ROWS)


def _avro(stream: BinaryIO) -> _Stored:
    file = AvroFile(stream)

    def pieces(begin: int, end: int) -> Iterator[_Piece]:
        for at in file.blocks(begin, end):
            yield _Piece(partial(file.before, at), partial(file.read, at))

    return _Stored(file.schema, file.rows, pieces)


@contextmanager
def _as_undecodable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, FooterError) as error:  # a name may not be UTF-8
        raise UndecodableError(str(error)) from error


def _raw(batch: pa.RecordBatch, row: int) -> bytes:
    """Return a row as text for messages."""
    try:
        return str(batch.slice(row, 1).to_pylist()[0]).encode()
    except (ValueError, OverflowError):  # a text that is not UTF-8, or a year outside Python's range
        return b"it cannot be shown"


_MAGIC = b"Obj\x01"
_MARK = 16
_CHUNK = 1 << 20
_LARGEST = 256 << 20
"""The most bytes of a block, which is decoded in memory."""


class AvroFile:
    """An open Avro file; raises UndecodableError if it is damaged or its values are not records."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = stream.seek(0, 2)
        stream.seek(0)
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise UndecodableError("it does not begin like an Avro file")
        stream.seek(0)
        try:
            header = fastavro.reader(stream)
            self._columns = columns_of(header.writer_schema)
            unpack = _CODECS.get(header.codec)
            self._sync: bytes = header._header["sync"]
            schema = read_schema(self._columns)
            self._head, self._nodes = _head(schema, self._sync), nodes(schema)
        except Exception as error:  # fastavro does not document its errors
            raise UndecodableError(f"its schema cannot be read: {_reason(error)}") from error
        if unpack is None:
            raise UndecodableError(f"its codec {header.codec} is unknown; the codecs are {', '.join(_CODECS)}")
        self._unpack = unpack
        self._begin = stream.tell()
        self._row_count = self._begin, 0

    @property
    def schema(self) -> pa.Schema:
        """Return the columns' names and types."""
        return pa.schema([(name, column.type) for name, column in self._columns.items()])

    def rows(self) -> int:
        """Return the number of rows."""
        return self.before(self._size)

    def before(self, end: int) -> int:
        """Return the number of rows before a block or the end; the count continues from the last call."""
        at, rows = self._row_count if self._row_count[0] <= end else (self._begin, 0)
        self._row_count = end, rows + sum(count for _, count, _ in self._blocks(at, end))
        return self._row_count[1]

    def blocks(self, begin: int, end: int) -> Iterator[int]:
        """Yield the offsets of the blocks that begin in a range of bytes."""
        first = self._first_block(begin)
        if first is not None:
            for at, count, _ in self._blocks(first, end):
                if count:
                    yield at

    def read(self, at: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the block at an offset, with some of the columns."""
        _, count, size = next(self._blocks(at, at + 1))
        data = self._stream.read(size)
        mark = self._stream.read(_MARK)
        try:
            plain = self._unpack(data)
            if len(plain) > _LARGEST:
                raise ValueError(f"it decompresses to more than {_LARGEST >> 20} MiB")
            if count > max(len(plain), _BATCH_ROWS):
                raise ValueError(f"it claims {count} records in {len(plain)} bytes")
            if self._nodes is not None:
                check(self._nodes, plain, count)
            file = b"".join((self._head, _long(count), _long(len(plain)), plain, mark))
            rows: list[Any] = list(fastavro.reader(BytesIO(file)))
            columns = {name: self._columns[name] for name in names}
            for first in range(0, count, _BATCH_ROWS):
                part = rows[first : first + _BATCH_ROWS]
                arrays = [column.array([row[name] for row in part]) for name, column in columns.items()]
                yield pa.record_batch(arrays, names=list(names))
        except Exception as error:  # codecs, fastavro and Arrow raise many types
            raise UndecodableError(f"its block at byte {at} is damaged: {_reason(error)}") from error

    def _first_block(self, begin: int) -> int | None:
        """Return the offset of the first block that begins at or after a byte; None after the last block."""
        if begin <= self._begin:
            return self._begin
        at = max(self._begin, begin - _MARK)
        rest = b""
        self._stream.seek(at)
        while data := self._stream.read(_CHUNK):
            block = rest + data
            index = block.find(self._sync)
            if index >= 0:
                return at - len(rest) + index + _MARK
            at += len(data)
            rest = block[-_MARK + 1 :]
        return None

    def _blocks(self, at: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the offset, the number of records and the size of each block; leave the stream at its data."""
        while at < min(end, self._size):
            self._stream.seek(at)
            count, size = self._number(), self._number()
            after = self._stream.tell() + size + _MARK
            if size > _LARGEST:
                raise UndecodableError(f"its block at byte {at} claims more than {_LARGEST >> 20} MiB")
            if count < 0 or size < 0 or after > self._size:
                raise UndecodableError(f"its block at byte {at} is cut off or damaged")
            begin = self._stream.tell()
            yield at, count, size
            self._stream.seek(begin + size)
            if self._stream.read(_MARK) != self._sync:
                raise UndecodableError(f"its block at byte {at} does not end where it should")
            at = after

    def _number(self) -> int:
        number = shift = 0
        while shift < 64:
            byte = self._stream.read(1)
            if not byte:
                return -1
            number |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
        return -1


def _head(schema: Any, mark: bytes) -> bytes:
    """Return the head of a file with that schema and uncompressed blocks."""
    head = BytesIO()
    fastavro.writer(head, schema, [], codec="null", sync_marker=mark)
    return head.getvalue()


def _long(number: int) -> bytes:
    number, data = number << 1, bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*data, number))


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _deflate(data: bytes) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = unpacking.decompress(data, _LARGEST + 1)
    if len(plain) <= _LARGEST and not unpacking.eof:
        raise ValueError("its data is cut off")
    return plain


def _snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _LARGEST:
        raise ValueError(f"it decompresses to more than {_LARGEST >> 20} MiB")
    plain: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum does not match")
    return plain


def _zstandard(data: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(data), compression="zstd") as stream:
        plain: bytes = stream.read(_LARGEST + 1)
    return plain


def _bzip2(data: bytes) -> bytes:
    with bz2.BZ2File(BytesIO(data)) as stream:
        return stream.read(_LARGEST + 1)


def _xz(data: bytes) -> bytes:
    with lzma.LZMAFile(BytesIO(data)) as stream:
        return stream.read(_LARGEST + 1)


_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes, "deflate": _deflate, "snappy": _snappy, "zstandard": _zstandard, "bzip2": _bzip2, "xz": _xz,
}  # fmt: skip
