"""Locate the values of row images in the rows events of one table; `table_changes` decodes them to rows.

The events advance together: a step reads the next image of every event, and columns are walked in lockstep. So no
Python object is created per row. An image is a bitmap of NULL columns, then the values of the remaining columns.

A row that does not decode is shown as JSON; unreadable values are shown as the bytes that were sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sinkql.connectors.mysql.table_map import TableMap
from sinkql.decode.columnar import Block

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of some row images: the start and size of each value, and the mask of NULL values (without bytes)."""

    starts: Numbers
    lengths: Numbers
    null: Flags

    def take(self, rows: Numbers) -> Cells:
        """Return the cells of some images."""
        return Cells(self.starts[rows], self.lengths[rows], self.null[rows])


@dataclass(frozen=True, slots=True)
class Images:
    """Row images in the order of the log: the event of each, its number in it, and its columns' cells by place."""

    events: Numbers
    steps: Numbers
    cells: dict[int, Cells]


def unsigned(block: Block, starts: Numbers, width: int) -> Numbers:
    """Return little-endian numbers of up to 8 bytes; 8 bytes keep the bits of an unsigned number."""
    if width == 1:
        return block.bytes[starts].astype(np.int64)
    form = "<u2" if width == 2 else "<u4" if width <= 4 else "<i8"
    numbers: Numbers = block.view(form)[starts].astype(np.int64)
    return numbers & ((1 << 8 * width) - 1) if width in (3, 5, 6, 7) else numbers


def locate(block: Block, table: TableMap, starts: Sequence[int], ends: Sequence[int], wanted: Sequence[int]) -> Images:
    """Return the images between each start and end, with the cells of the wanted columns.

    Raises ValueError if the events do not have images of this table.
    """
    places = {number: at for at, number in enumerate(sorted(wanted))}
    walk = _Walk(block, table, places)
    position, end, event = np.array(starts, np.int64), np.array(ends, np.int64), np.arange(len(starts))
    step, event_parts, steps = 0, [], []
    while len(event):
        try:
            position = walk.step(position)
        except IndexError as error:
            raise _too_long_error(table) from error
        if np.any(position > end):
            raise _too_long_error(table)
        event_parts.append(event)
        steps.append(np.full(len(event), step, np.int64))
        more = position < end
        step += 1
        if not more.all():
            position, end, event = position[more], end[more], event[more]
    events = np.concatenate(event_parts) if event_parts else np.empty(0, np.int64)
    order = np.argsort(events, kind="stable")  # the steps of an event are already in order
    number = np.concatenate(steps)[order] if steps else np.empty(0, np.int64)
    return Images(events[order], number, {column: walk.cells(column, order) for column in places})


def _too_long_error(table: TableMap) -> ValueError:
    return ValueError(f"a row of table {table.database}.{table.table} is longer than its event")


class _Walk:
    """The places of the wanted columns, collected step by step."""

    def __init__(self, block: Block, table: TableMap, places: dict[int, int]) -> None:
        self._block = block
        self._columns = table.columns
        self._bitmap = np.arange((len(table.columns) + 7) // 8)
        self._columns_seen: dict[int, list[tuple[Numbers, Numbers | int, Flags]]] = {number: [] for number in places}

    def step(self, position: Numbers) -> Numbers:
        """Read one image at each position, and return their ends."""
        columns, count = self._columns, len(self._columns)
        bits = self._block.bytes[position[:, None] + self._bitmap]
        null: Flags = np.unpackbits(bits, axis=1, count=count, bitorder="little").astype(bool)
        some: Flags = np.asarray(null.any(axis=0))
        position = position + len(self._bitmap)
        for number, column in enumerate(columns):
            absent = null[:, number] if some[number] else None
            if column.width:
                if number in self._columns_seen:
                    self._columns_seen[number].append((position, column.width, null[:, number]))
                advance: Numbers | int = column.width
            else:
                at = position if absent is None else np.where(absent, 0, position)
                lengths = unsigned(self._block, at, column.prefix)
                if number in self._columns_seen:
                    self._columns_seen[number].append((position + column.prefix, lengths, null[:, number]))
                advance = lengths + column.prefix
            position = position + (advance if absent is None else np.where(absent, 0, advance))
        return position

    def cells(self, column: int, order: Numbers) -> Cells:
        """Return a column's cells in an order of the images."""
        parts = self._columns_seen[column]
        if not parts:
            return Cells(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))
        starts = np.concatenate([part[0] for part in parts])[order]
        null = np.concatenate([part[2] for part in parts])[order]
        width = self._columns[column].width
        if width:
            lengths = np.full(len(order), width, np.int64)
        else:
            lengths = np.concatenate([np.asarray(part[1]) for part in parts])[order]
        return Cells(starts, np.where(null, 0, lengths), null)


_SHOWN = 1000


@dataclass(slots=True)
class UndecodableRow:
    """Values that do not fit their columns, and the first reason of each row."""

    reasons: dict[int, str] = field(default_factory=dict)
    values: dict[tuple[int, str], bytes] = field(default_factory=dict)

    def add(self, row: int, column: str, reason: str, value: bytes) -> None:
        """Add a value of a row."""
        self.reasons.setdefault(row, f'column "{column}": {reason}')
        self.values[row, column] = value

    def raw(self, row: int, names: Sequence[str], arrays: Sequence[pa.Array], what: str) -> bytes:
        """Return a row as JSON by column names; `what` is "old" or "new"."""
        shown = {
            name: _format_hex(self.values[row, name]) if (row, name) in self.values else _plain_value(array[row])
            for name, array in zip(names, arrays, strict=True)
        }
        return json.dumps({what: shown}, default=str).encode()


def _plain_value(value: pa.Scalar) -> object:
    plain = value.as_py()
    return _format_hex(plain) if isinstance(plain, bytes) else plain


def _format_hex(value: bytes) -> str:
    return "\\x" + value[:_SHOWN].hex()
