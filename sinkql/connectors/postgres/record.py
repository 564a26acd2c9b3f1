"""Select rows as records, and locate the values in the bytes of many records.

The server writes a record with the send functions of its columns, as it writes the columns of a binary COPY. So the
client receives one value a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from psycopg import sql

from sinkql.connectors.postgres.column import ValuePlaces
from sinkql.connectors.postgres.copy import CopiedRows, locate_values
from sinkql.connectors.postgres.rows import WIDTHS, GarbledError
from sinkql.connectors.postgres.type import ServerColumn
from sinkql.decode.columnar import Block, Offsets

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
