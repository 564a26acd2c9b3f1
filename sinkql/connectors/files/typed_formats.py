"""Files that hold columns in types of their own, Parquet, ORC and Avro → Arrow rows of declared columns.

Columns go by name, and others in the file are left out. A row is named by its number in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from sinkql import physical
from sinkql.connector_api.stream import Decoded, RowFailure, UndecodableError, WideError
from sinkql.connectors.files.avro import AvroFile
from sinkql.decode.arrow_values import column_of, inferred, readable
from sinkql.decode.json_lines import without
from sinkql.decode.parquet_footer import FooterError, row_groups
from sinkql.decode.text_column import WIDE, Failures
from sinkql.errors import in_other_case

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows that are stored together: how many rows come before them in the file, and how to read them."""

    before: Callable[[], int]
    read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A file: its columns, how many rows it has, and the pieces that begin from a byte on and before another one."""

    schema: pa.Schema
    rows: Callable[[], int]
    pieces: Callable[[int, int], Iterator[_Piece]]


class StoredRows:
    """Decode whole files of one kind, or what begins in a range of a file's bytes."""

    def __init__(self, columns: Sequence[physical.Column], opened: Callable[[BinaryIO], _Stored]) -> None:
        self._columns = columns
        self._open = opened

    def columns(self, stream: BinaryIO) -> list[tuple[str, str]]:
        """Return the names and types of a file's columns; raises UndecodableError."""
        with _undecodable():
            return [(field.name, inferred(field.type)) for field in self._open(stream).schema]

    def rows(self, stream: BinaryIO) -> int:
        """Return how many rows a file says that it has; raises UndecodableError."""
        with _undecodable():
            return self._open(stream).rows()

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a file; raises UndecodableError where it lacks columns, or has others of their names."""
        yield from self.decode_range(stream, 0, stream.seek(0, 2))

    def decode_range(self, stream: BinaryIO, begin: int, end: int) -> Iterator[Decoded]:
        """Yield the rows that are stored from a byte on and before another one; raises as `decode` does."""
        with _undecodable():
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
            if not readable(type_, column.type):
                raise UndecodableError(f'column "{column.name}" is {inferred(type_)} in it, and not {column.type}')

    def _parts(self, batch: pa.RecordBatch, piece: _Piece, done: int) -> Iterator[Decoded]:
        """Yield the rows of a batch, in several parts where the values take much room."""
        try:
            yield self._decoded(batch, piece, done)
        except WideError:
            if batch.num_rows == 1:  # with a list that is as wide as many rows
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
            values, found = batch.column(batch.schema.get_field_index(column.name)), Failures()
            arrays.append(column_of(values, column.type, found))
            for row, message in found.items():
                failures.setdefault(row, f'column "{column.name}": {message}')
            if not column.nullable and values.null_count:
                for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
                    failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
        rows = pa.record_batch(arrays, names=[column.name for column in self._columns])
        first = 1 + piece.before() + done if failures else 0
        failed = [RowFailure(first + row, failures[row], _raw(batch, row)) for row in sorted(failures)]
        return Decoded(without(rows, failures), batch.num_rows, failed)


def parquet_rows(columns: Sequence[physical.Column]) -> StoredRows:
    """Return the decoder of Parquet; its pieces are row groups."""
    return StoredRows(columns, _parquet)


def orc_rows(columns: Sequence[physical.Column]) -> StoredRows:
    """Return the decoder of ORC; its pieces are stripes."""
    return StoredRows(columns, _orc)


def avro_rows(columns: Sequence[physical.Column]) -> StoredRows:
    """Return the decoder of Avro; its pieces are blocks."""
    return StoredRows(columns, _avro)


def _parquet(stream: BinaryIO) -> _Stored:
    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")  # years from 1677 to 2262 have nanoseconds

    def pieces(begin: int, end: int) -> Iterator[_Piece]:
        before = 0
        for place, group in enumerate(row_groups(stream)):
            if begin <= group.begin < end:
                yield _Piece(partial(int, before), partial(_row_group, file, place))
            before += group.rows

    return _Stored(file.schema_arrow, lambda: int(file.metadata.num_rows), pieces)


def _row_group(file: pq.ParquetFile, place: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    yield from file.iter_batches(_BATCH_ROWS, row_groups=[place], columns=names, use_threads=False)


def _orc(stream: BinaryIO) -> _Stored:
    """Open an ORC file; Arrow does not tell where its stripes begin: they count as if all were of one size."""
    size = stream.seek(0, 2)
    stream.seek(0)
    file = po.ORCFile(stream)
    dotted = any("." in name for name in file.schema.names)  # which Arrow takes for the path to a field of a record
    counted = [0]

    def before(place: int) -> int:
        for each in range(len(counted) - 1, place):
            columns = None if dotted else file.schema.names[:1]
            counted.append(counted[-1] + file.read_stripe(each, columns=columns).num_rows)
        return counted[place]

    def pieces(begin: int, end: int) -> Iterator[_Piece]:
        for place in range(file.nstripes):
            if begin <= size * place // file.nstripes < end:
                yield _Piece(partial(before, place), partial(_stripe, file, place, whole=dotted))

    return _Stored(file.schema, lambda: int(file.nrows), pieces)


def _stripe(file: po.ORCFile, place: int, names: Sequence[str], *, whole: bool) -> Iterator[pa.RecordBatch]:
    batch = file.read_stripe(place, columns=None if whole else list(names))
    for first in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(first, _BATCH_ROWS)


def _avro(stream: BinaryIO) -> _Stored:
    file = AvroFile(stream)

    def pieces(begin: int, end: int) -> Iterator[_Piece]:
        for at in file.blocks(begin, end):
            yield _Piece(partial(file.before, at), partial(file.read, at))

    return _Stored(file.schema, file.rows, pieces)


@contextmanager
def _undecodable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, FooterError) as error:  # a name may not be UTF-8
        raise UndecodableError(str(error)) from error


def _raw(batch: pa.RecordBatch, row: int) -> bytes:
    """Return a row as text, for messages."""
    try:
        return str(batch.slice(row, 1).to_pylist()[0]).encode()
    except (ValueError, OverflowError):  # of a text that is not UTF-8, or a year that Python has not
        return b"it cannot be shown"
