"""Decode the rows of COPY … (FORMAT binary) into rows of a captured table."""

from __future__ import annotations

import json
import select
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from sinkql.connector_api.cdc import CapturedTable, TableRows
from sinkql.connector_api.stream import RowError
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.postgres.client import guarded
from sinkql.connectors.postgres.column import ValuePlaces, decode, read
from sinkql.connectors.postgres.rows import AT, WIDTHS, GarbledError
from sinkql.connectors.postgres.type import ServerColumn
from sinkql.connectors.postgres.value import UnfitError
from sinkql.decode.columnar import Block, Mask, Offsets, mask_or

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(_SIGNATURE) + 8
_TRAILER = b"\xff\xff"
_SHOWN = 200
Message = bytes | memoryview


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Rows as the places of each column's values, and the bytes that they have in a COPY."""

    columns: Sequence[ValuePlaces]
    count: int
    size: int

    def value(self, column: int, row: int) -> bytes | None:
        """Return one value as the server sent it."""
        places = self.columns[column]
        if places.valid is not None and not places.valid[row]:
            return None
        return places.block.slice(int(places.starts[row]), int(places.lengths[row]))


def copy_out(
    connection: psycopg.Connection[tuple[object, ...]], query: str, columns: Sequence[ServerColumn]
) -> CopiedRows:
    """Return the rows of a query whose columns are `columns`; raise psycopg.Error."""
    link = connection.pgconn
    with guarded(connection):
        result = link.exec_(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode())
        if result.status != psycopg.pq.ExecStatus.COPY_OUT:
            raise psycopg.errors.error_from_result(result)
        parts = []
        # a get_copy_data that waits would keep the GIL, and stop a tunnel of this process that brings the data
        get, arrived = link.get_copy_data, select.poll()
        arrived.register(link.socket, select.POLLIN)
        while True:
            size, data = get(1)
            if size > 0:
                parts.append(data)
            elif size < 0:
                break
            else:
                arrived.poll()
                link.consume_input()
        result = link.get_result()  # type: ignore[assignment]  # not None after the end of a copy
        while (more := link.get_result()) is not None:
            more.clear()
        if size != -1 or result.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
    return read_copy(parts, columns)


def read_copy(parts: Sequence[Message], columns: Sequence[ServerColumn]) -> CopiedRows:
    """Return the rows of a complete copy; raise GarbledError.

    Each part is a row. The first part begins with the header, and the last part is the trailer.
    """
    if not parts or parts[0][: len(_SIGNATURE)] != _SIGNATURE or bytes(parts[-1][-2:]) != _TRAILER:
        raise GarbledError("a copy lacks its header or its trailer")
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    ends = np.cumsum(lengths)
    block = Block(b"".join(parts))
    starts = ends - lengths
    starts[0] += _HEADER
    has_row = ends - starts > 2
    starts, ends = starts[has_row], ends[has_row]
    if (block.i2[starts] != len(columns)).any():
        raise GarbledError("a row of a copy has another number of columns than its query")
    return CopiedRows(locate_values(block, starts + 2, ends, len(columns)), len(starts), block.size)


def locate_values(block: Block, at: Offsets, ends: Offsets, count: int, *, skipped: int = 0) -> list[ValuePlaces]:
    """Return the places of the last `count` values of rows; raise GarbledError.

    Each value follows its length, and that follows `skipped` other bytes.
    """
    columns = []
    for _ in range(count):
        lengths = block.i4[at + skipped].astype(np.int64)
        sent: Mask | None = lengths >= 0
        if sent is not None and sent.all():
            sent = None
        else:
            lengths = np.maximum(lengths, 0)
        columns.append(ValuePlaces(block, at + (skipped + 4), lengths, sent))
        at = at + (skipped + 4) + lengths
    if (at != ends).any():
        raise GarbledError("a row of a copy does not end where its message does")
    return columns


# --- records ----------------------------------------------------------------------------------------------------------

_COUNT_BYTES = 4
_OID_BYTES = 4
_HEAD_BYTES = _OID_BYTES + 4
"""The bytes before a value: the id of its type, and its length."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The order of a table's columns in a record: those of fixed width first.

    `places` has the columns' numbers in that order, and `widths` the bytes of the first ones.
    """

    places: Sequence[int]
    widths: Sequence[int]

    @classmethod
    def of(cls, columns: Sequence[ServerColumn]) -> RecordLayout:
        """Return the layout for columns; nullable ones count as variable."""
        widths = [0 if column.nullable else WIDTHS.get(column.type.bare.oid, 0) for column in columns]
        places = sorted(range(len(columns)), key=lambda place: not widths[place])
        return cls(places, [widths[place] for place in places if widths[place]])

    def record(self, values: Sequence[sql.Composable]) -> sql.Composed:
        """Return the SQL of the record of a row's values."""
        ordered = sql.SQL(", ").join([values[place] for place in self.places])
        return sql.SQL("pg_catalog.record_send(ROW({}))").format(ordered)

    def locate(self, records: pa.BinaryArray) -> CopiedRows:
        """Return the rows of records, with their size in a COPY; raise GarbledError."""
        _, offsets, data = records.buffers()
        bounds = np.frombuffer(offsets, np.int32, len(records) + 1, 4 * records.offset).astype(np.int64)
        block = Block(memoryview(b"" if data is None else data))
        starts, ends = bounds[:-1], bounds[1:]
        if records.null_count or (block.i4[starts] != len(self.places)).any():
            raise GarbledError("a record has another number of columns than its query")
        at = starts + _COUNT_BYTES
        located = self._locate_fixed(block, at, ends)
        at = at + sum(_HEAD_BYTES + width for width in self.widths[: len(located)])
        located += locate_values(block, at, ends, len(self.places) - len(located), skipped=_OID_BYTES)
        columns = [places for _, places in sorted(zip(self.places, located, strict=True), key=lambda pair: pair[0])]
        return CopiedRows(columns, len(records), int(bounds[-1] - bounds[0]) - _OID_BYTES * len(records) * len(columns))

    def _locate_fixed(self, block: Block, starts: Offsets, ends: Offsets) -> list[ValuePlaces]:
        """Return the places of the first columns in a copy without the others, if all values have their widths."""
        stride = sum(_HEAD_BYTES + width for width in self.widths)
        if not stride or not len(starts) or (ends - starts < stride).any():
            return []
        together = Block(block.view(f"V{stride}")[starts].view(np.uint8).data)
        columns, at = [], 0
        for width in self.widths:
            at += _HEAD_BYTES
            lengths = np.ndarray((len(starts),), ">i4", together.data, at - 4, (stride,))
            if (lengths != width).any():
                return []
            firsts = np.arange(at, at + len(starts) * stride, stride)
            columns.append(ValuePlaces(together, firsts, np.broadcast_to(np.int64(width), len(starts)), None, stride))
            at += width
        return columns


# --- rows of a table --------------------------------------------------------------------------------------------------


def build_rows(
    table: CapturedTable,
    columns: Sequence[ServerColumn],
    key: Sequence[int],
    copied: CopiedRows,
    *,
    at: int,
    before: int = 0,
) -> TableRows:
    """Return copied rows as inserted rows (`$diff` 1) at a time in microseconds since 1970.

    `before` is the number of rows that the same query returned before these.
    """
    bad: Mask | None = None
    arrays = []
    for column, places in zip(columns, copied.columns, strict=True):
        array, wrong = decode(column, places, binary=True)
        arrays.append(array)
        bad = mask_or(bad, wrong)
    errors = (
        [] if bad is None else [_row_error(columns, key, copied, row, before) for row in np.flatnonzero(bad).tolist()]
    )
    if bad is not None:
        arrays = [array.filter(pa.array(~bad)) for array in arrays]
    count = copied.count - len(errors)
    rows = dict(zip((column.name for column in table.columns), arrays, strict=True))
    rows["$diff"] = pa.array(np.ones(count, np.int64))
    rows["$at"] = pa.array(np.full(count, at, np.int64)).view(AT)
    if table.has_unchanged_values:
        named = {column.name: column for column in table.columns}
        struct = pa.struct([(name, arrow_type(named[name].type)) for name in table.key])
        rows |= {"$hole": pa.nulls(count, pa.binary()), "$from": pa.nulls(count, struct)}
    return TableRows(pa.record_batch(rows), errors)


def _row_error(
    columns: Sequence[ServerColumn], key: Sequence[int], copied: CopiedRows, row: int, before: int
) -> RowError:
    why, shown = "", dict[str, object]()
    for number, column in enumerate(columns):
        raw = copied.value(number, row)
        try:
            shown[column.name] = None if raw is None else read(column, raw, binary=True)
        except UnfitError as error:
            why = why or f'column "{column.name}": {error}'
            shown[column.name] = "\\x" + (raw or b"")[:_SHOWN].hex()
    values = ", ".join(f"{columns[place].name} = {shown[columns[place].name]}" for place in key)
    position = f"the first snapshot, {values or f'row {before + row + 1}'}"
    return RowError(position, "SQ3101", why, json.dumps({"new": shown}, default=str).encode())
