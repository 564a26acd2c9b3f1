"""Decode the changes of one table in a block into rows with `$diff`, all rows together.

The values are located first, column by column over all tuples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql.connector_api.cdc import TableRows
from sinkql.connector_api.stream import RowError
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.postgres.column import ValuePlaces, decode, read
from sinkql.connectors.postgres.relation import Relation
from sinkql.connectors.postgres.value import UnfitError
from sinkql.decode import columnar
from sinkql.decode.columnar import Block, Mask, Offsets

NULL, UNCHANGED, TEXT, BINARY = b"nutb"


@dataclass(slots=True)
class Cells:
    """One column of tuples: the kind and place of each value, and the mask of values that were sent (None: all)."""

    kinds: NDArray[np.uint8]
    starts: Offsets
    lengths: Offsets
    sent: Mask | None

    def places(self, block: Block) -> ValuePlaces:
        """Return the places of the values."""
        return ValuePlaces(block, self.starts, self.lengths, self.sent)

    def select(self, which: Offsets | Mask) -> Cells:
        """Return the cells of some of the tuples, in that order."""
        sent = None if self.sent is None else self.sent[which]
        return Cells(self.kinds[which], self.starts[which], self.lengths[which], sent)

    def fill(self, where: Offsets, other: Cells, which: Offsets) -> None:
        """Replace some of the values by values of earlier tuples."""
        self.kinds[where], self.lengths[where] = other.kinds[which], other.lengths[which]
        self.starts[where] = other.starts[which]
        sent = np.ones(len(self.starts), bool) if self.sent is None else self.sent
        sent[where] = True if other.sent is None else other.sent[which]
        self.sent = None if sent.all() else sent


class GarbledError(Exception):
    """The received bytes violate the protocol."""


def locate_columns(block: Block, starts: Offsets, widths: Sequence[int]) -> tuple[list[Cells], Offsets]:
    """Return the columns of the tuples that begin at `starts`, and the end of each tuple.

    `widths` has the bytes of each column's binary form, or 0 if they vary.
    """
    if (block.i2[starts] != len(widths)).any():
        raise GarbledError("a row has another number of columns than its table")
    at = starts + 2
    columns = []
    for width in widths:
        kinds = block.bytes[at]
        if width and (kinds == BINARY).all():
            cells = Cells(kinds, at + 5, np.broadcast_to(np.int64(width), len(at)), None)
        else:
            cells = _locate_cells(block, at, kinds)
        at = cells.starts + cells.lengths
        columns.append(cells)
    return columns, at


def _locate_cells(block: Block, at: Offsets, kinds: NDArray[np.uint8]) -> Cells:
    sent = (kinds == TEXT) | (kinds == BINARY)
    if sent.all():
        return Cells(kinds, at + 5, block.i4[at + 1].astype(np.int64), None)
    if not (sent | (kinds == NULL) | (kinds == UNCHANGED)).all():
        raise GarbledError("a value has an unknown kind")
    lengths = np.where(sent, block.i4[at + 1], 0).astype(np.int64)
    return Cells(kinds, np.where(sent, at + 5, at + 1), lengths, sent)


def is_binary(cells: Cells) -> bool:
    """Return whether the values are binary rather than text; raise GarbledError for a mixture."""
    binary = bool((cells.kinds == BINARY).any())
    if binary and (cells.kinds == TEXT).any():
        raise GarbledError("a column has values in binary and as text")
    return binary


WIDTHS = {16: 1, 20: 8, 21: 2, 23: 4, 26: 4, 700: 4, 701: 8, 1082: 4, 1083: 8, 1114: 8, 1184: 8, 1186: 16, 2950: 16}
"""Bytes of the binary form, for types whose values all have the same size."""


INSERT, UPDATE, DELETE = b"IUD"
_KEY, _OLD = b"KO"
_SHOWN = 200
_TOAST_POINTER = 24
"""The size up to which a value always stays in its row: the server sends it with each change."""
AT = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The messages of one table: their places in the block, kinds, commit times and transactions."""

    block: Block
    starts: Offsets
    ends: Offsets
    kinds: NDArray[np.uint8]
    at: NDArray[np.int64]
    transactions: NDArray[np.int64]
    named: Callable[[int], str]
    """The position of a message, by its number."""


@dataclass(frozen=True, slots=True)
class _Tuples:
    """The tuples of some of the messages: the messages' numbers, and the columns in the table's order."""

    messages: Offsets
    cells: list[Cells]


def table_rows(relation: Relation, changes: TableChanges) -> TableRows:
    """Return the rows of changes; raise GarbledError."""
    new, old, key_only = _locate_tuples(relation, changes)
    _fill_unchanged(relation, changes, new, old, key_only)
    reader = _Reader(relation, changes, new, old)
    decoded = reader.read_keyed() if relation.key else reader.read_keyless()
    return decoded if relation.reshaped is None else _add_missing_columns(relation, decoded)


def _add_missing_columns(relation: Relation, decoded: TableRows) -> TableRows:
    """Add NULL for columns that the table has lost, so that sinks that read other columns continue."""
    rows, planned = decoded.rows, relation.planned.columns
    present = {column.name: rows.column(column.name) for column in relation.table.columns}
    whole = {column.name: present.get(column.name, pa.nulls(len(rows), arrow_type(column.type))) for column in planned}
    rest = {name: rows.column(name) for name in rows.schema.names if name not in present}
    if "$hole" in rest:
        left = [number for number, column in enumerate(planned) if column.name in present]
        rest["$hole"] = pa.array([_move_bits(bits, left) for bits in rest["$hole"].to_pylist()], pa.binary())
    return replace(decoded, rows=pa.record_batch({**whole, **rest}))


def _move_bits(bits: bytes | None, to: Sequence[int]) -> bytes | None:
    """Return the bits at other places: the first bit at the first of them, and so on."""
    if bits is None:
        return None
    number = int.from_bytes(bits, "little")
    moved = sum(1 << place for at, place in enumerate(to) if number >> at & 1)
    return moved.to_bytes(max(to) // 8 + 1, "little")


def _locate_tuples(relation: Relation, changes: TableChanges) -> tuple[_Tuples, _Tuples, Mask]:
    """Return the new and the old tuples of messages, and the mask of old tuples with the key only."""
    block, starts = changes.block, changes.starts
    sub = block.bytes[starts + 5]
    has_old = (sub == _KEY) | (sub == _OLD)
    has_new = changes.kinds != DELETE
    widths = [WIDTHS.get(column.oid, 0) for column in relation.sent.columns]
    before, after = np.flatnonzero(has_old), np.flatnonzero(has_new)
    places = starts + 6
    ends = places
    old_cells: list[Cells] = []
    if len(before):
        old_cells, tuple_ends = locate_columns(block, places[before], widths)
        places[before] = tuple_ends + 1
        ends = np.where(has_old, places - 1, 0)
    new_cells: list[Cells] = []
    if len(after):
        new_cells, tuple_ends = locate_columns(block, places[after], widths)
        ends[after] = tuple_ends
    if (ends != changes.ends).any():
        raise GarbledError("a change does not end where its message does")
    key_only = sub[before] == _KEY
    return (
        _Tuples(after, _table_cells(relation, new_cells)),
        _Tuples(before, _table_cells(relation, old_cells)),
        key_only,
    )


def _table_cells(relation: Relation, cells: list[Cells]) -> list[Cells]:
    return [cells[place] for place in relation.places] if cells else []


def _fill_unchanged(relation: Relation, changes: TableChanges, new: _Tuples, old: _Tuples, key_only: Mask) -> None:
    """Fill unchanged values that were not sent from the old tuple, if it has them."""
    if not new.cells or not old.cells:
        return
    before = np.full(len(changes.starts), -1, np.int64)
    before[old.messages] = np.arange(len(old.messages))
    old_numbers = before[new.messages]
    for number, cells in enumerate(new.cells):
        if not (cells.kinds == UNCHANGED).any():
            continue
        has_old = old_numbers >= 0
        if not relation.sent.columns[relation.places[number]].in_key:
            has_old &= ~key_only[old_numbers]
        filled = np.flatnonzero((cells.kinds == UNCHANGED) & has_old)
        if len(filled):
            cells.kinds, cells.starts = cells.kinds.copy(), cells.starts.copy()
            cells.lengths = cells.lengths.copy()
            cells.fill(filled, old.cells[number], old_numbers[filled])


class _Reader:
    """Decodes the tuples of one table's changes, and puts the rows in order.

    `_unfit` are messages whose new tuple does not decode, `_unfit_old` those whose old tuple does not. If only the old
    row decodes, it is deleted and no row replaces it.
    """

    def __init__(self, relation: Relation, changes: TableChanges, new: _Tuples, old: _Tuples) -> None:
        self._relation = relation
        self._changes = changes
        self._new = new
        self._old = old
        self._types = [arrow_type(column.type) for column in relation.table.columns]
        self._unfit = np.zeros(len(changes.starts), bool)
        self._unfit_old = np.zeros(len(changes.starts), bool)

    def read_keyed(self) -> TableRows:
        """Return changes of rows that have a key."""
        new, old, key = self._new, self._old, self._relation.key
        arrays = self._decode_columns(new, range(len(self._types)), self._unfit)
        before = self._decode_columns(old, key, self._unfit_old)
        forgets = self._find_forgotten(arrays)
        self._check_unchanged()
        kinds, count = self._changes.kinds, len(self._changes.starts)
        deleted = np.zeros(count, bool)  # messages whose old key has no row afterwards
        deleted[old.messages] = True
        moved = np.flatnonzero(deleted & (kinds == UPDATE))
        if len(moved):
            deleted[moved] = self._changes_key(moved, arrays, before)
        inserted = (kinds != DELETE) & (~self._unfit | forgets)
        deleted &= ~self._unfit_old
        places, diffs, messages = _order_rows(
            deleted, inserted, _number_tuples(old, count), _number_tuples(new, count) + len(old.messages)
        )
        columns = []
        for number, type_ in enumerate(self._types):
            parts = [before[number]] if number in key else [pa.nulls(len(old.messages), type_)]
            columns.append(_take_rows([*parts, arrays[number]], places, len(old.messages), len(new.messages)))
        if forgets.any():
            forgotten = (diffs > 0) & forgets[messages]
            diffs[forgotten] = -1
            columns = [
                column if number in key else _mask_values(column, forgotten) for number, column in enumerate(columns)
            ]
        more = (
            self._unchanged_arrays(messages, diffs, deleted, before)
            if self._relation.table.has_unchanged_values
            else {}
        )
        return self._build_rows(columns, diffs, messages, more)

    def read_keyless(self) -> TableRows:
        """Return inserted and deleted rows of a table without a key."""
        new, old, count = self._new, self._old, len(self._changes.starts)
        misses_old = self._changes.kinds != INSERT
        misses_old[old.messages] = False
        self._unfit |= misses_old
        everything = range(len(self._types))
        arrays = self._decode_columns(new, everything, self._unfit)
        before = self._decode_columns(old, everything, self._unfit_old)
        self._check_unchanged()
        deleted, inserted = np.zeros(count, bool), self._changes.kinds != DELETE
        deleted[old.messages] = True
        deleted, inserted = deleted & ~self._unfit_old, inserted & ~self._unfit
        places, diffs, messages = _order_rows(
            deleted, inserted, _number_tuples(old, count), _number_tuples(new, count) + len(old.messages)
        )
        columns = [
            _take_rows([before[number], arrays[number]], places, len(old.messages), len(new.messages))
            for number in everything
        ]
        decoded = self._build_rows(columns, diffs, messages, {})
        return replace(decoded, transactions=self._changes.transactions[messages])

    def _decode_columns(self, tuples: _Tuples, wanted: Sequence[int], unfit: Mask) -> dict[int, pa.Array]:
        """Return columns by their numbers, and mark messages whose tuple does not fit in `unfit`."""
        arrays = {}
        for number in wanted:
            if not tuples.cells:
                arrays[number] = pa.nulls(0, self._types[number])
                continue
            cells = tuples.cells[number]
            column = self._relation.columns[number]
            array, bad = decode(column, cells.places(self._changes.block), binary=is_binary(cells))
            arrays[number] = array
            if bad is not None:
                unfit[tuples.messages[bad]] = True
        return arrays

    def _find_forgotten(self, arrays: dict[int, pa.Array]) -> Mask:
        """Return the misfit messages that have a long value which later changes may omit.

        The key then has no row until it is sent completely. Otherwise later changes would get the long value of the old
        row.
        """
        forgets = np.zeros(len(self._changes.starts), bool)
        if not self._relation.table.has_unchanged_values or not self._unfit.any():
            return forgets
        for column, cells in zip(self._relation.columns, self._new.cells, strict=True):
            if column.long:
                forgets[self._new.messages[(cells.kinds != UNCHANGED) & (cells.lengths > _TOAST_POINTER)]] = True
        for number in self._relation.key:
            forgets[self._new.messages[np.asarray(arrays[number].is_null())]] = False
        return forgets & self._unfit

    def _check_unchanged(self) -> None:
        """Mark messages that omit a value of a key, or of a table whose values are always sent."""
        for number, cells in enumerate(self._new.cells):
            if number in self._relation.key or not self._relation.table.has_unchanged_values:
                missing = cells.kinds == UNCHANGED
                if missing.any():
                    self._unfit[self._new.messages[missing]] = True

    def _changes_key(self, moved: Offsets, arrays: dict[int, pa.Array], before: dict[int, pa.Array]) -> Mask:
        """Return the mask of the messages that change their row's key."""
        count = len(self._changes.starts)
        olds = pa.array(_number_tuples(self._old, count)[moved])
        news = pa.array(_number_tuples(self._new, count)[moved])
        same = [pc.equal(before[place].take(olds), arrays[place].take(news)) for place in self._relation.key]
        return ~np.asarray(pc.fill_null(reduce(pc.and_, same), False).to_numpy(zero_copy_only=False))

    def _unchanged_arrays(
        self,
        messages: Offsets,
        diffs: NDArray[np.int64],
        deleted: Mask,
        before: dict[int, pa.Array],
    ) -> dict[str, pa.Array]:
        """Return the columns `$hole` and `$from`."""
        table, count = self._relation.table, len(self._changes.starts)
        struct = pa.struct([(table.columns[place].name, self._types[place]) for place in self._relation.key])
        inserted = diffs > 0
        unchanged: Mask | None = None
        for number, cells in enumerate(self._new.cells):
            missing = cells.kinds == UNCHANGED
            if missing.any():
                if unchanged is None:
                    unchanged = np.zeros((count, len(self._types)), bool)
                unchanged[self._new.messages, number] = missing
        if unchanged is None:
            return {"$hole": pa.nulls(len(messages), pa.binary()), "$from": pa.nulls(len(messages), struct)}
        rows = unchanged[messages] & inserted[:, None]
        moved = inserted & deleted[messages] & rows.any(axis=1)
        olds = pa.array(_number_tuples(self._old, count)[messages], mask=~moved)
        parts = [before[place].take(olds) for place in self._relation.key]
        origin = pa.StructArray.from_arrays(parts, fields=list(struct), mask=pa.array(~moved))
        return {"$hole": _pack_bits(rows), "$from": origin}

    def _build_rows(
        self, columns: list[pa.Array], diffs: NDArray[np.int64], messages: Offsets, more: dict[str, pa.Array]
    ) -> TableRows:
        names = [column.name for column in self._relation.table.columns]
        at = pa.array(self._changes.at[messages], pa.int64()).view(AT)
        by_name = {**dict(zip(names, columns, strict=True)), "$diff": pa.array(diffs), "$at": at, **more}
        return TableRows(pa.record_batch(by_name), self._row_errors())

    # --- row errors -----------------------------------------------------------------------------------------

    def _row_errors(self) -> list[RowError]:
        unfit = self._unfit | self._unfit_old
        if not unfit.any():
            return []
        count = len(self._changes.starts)
        new, old = _number_tuples(self._new, count), _number_tuples(self._old, count)
        return [
            self._row_error(message, int(new[message]), int(old[message])) for message in np.flatnonzero(unfit).tolist()
        ]

    def _row_error(self, message: int, new: int, old: int) -> RowError:
        """Return the error of a change, with its readable values as JSON."""
        why, shown = "", dict[str, object]()
        for tuples, number, what in ((self._old, old, "old"), (self._new, new, "new")):
            if number < 0 or not tuples.cells:
                continue
            values: dict[str, object] = {}
            for place, cells in enumerate(tuples.cells):
                name = self._relation.columns[place].name
                if cells.sent is not None and not cells.sent[number]:
                    if cells.kinds[number] == UNCHANGED:
                        must = place in self._relation.key or not self._relation.table.has_unchanged_values
                        why = why or (self._missing_value_reason(name) if must else "")
                        continue
                    values[name] = None
                    continue
                raw = self._changes.block.slice(int(cells.starts[number]), int(cells.lengths[number]))
                try:
                    values[name] = read(self._relation.columns[place], raw, binary=is_binary(cells))
                except UnfitError as error:
                    why = why or f'column "{name}": {error}'
                    values[name] = "\\x" + raw[:_SHOWN].hex()
            shown[what] = values
        if not why:
            why = "the server did not send the old row: run ALTER TABLE … REPLICA IDENTITY FULL on the server"
        return RowError(self._changes.named(message), "SQ3101", why, json.dumps(shown, default=str).encode())

    def _missing_value_reason(self, name: str) -> str:
        return (
            f'column "{name}": the server does not send unchanged long values: '
            "run ALTER TABLE … REPLICA IDENTITY FULL on the server"
        )


def _number_tuples(tuples: _Tuples, count: int) -> Offsets:
    """Return the number of each message's tuple, or -1."""
    numbers = np.full(count, -1, np.int64)
    numbers[tuples.messages] = np.arange(len(tuples.messages))
    return numbers


def _order_rows(
    deleted: Mask, inserted: Mask, old: Offsets, new: Offsets
) -> tuple[Offsets, NDArray[np.int64], Offsets]:
    """Return the sources of rows, their diffs, and their messages; a deleted row precedes the inserted one."""
    messages = np.repeat(np.arange(len(deleted)), deleted.astype(np.int64) + inserted)
    first = np.ones(len(messages), bool)
    first[1:] = messages[1:] != messages[:-1]
    leaves = first & deleted[messages]
    return np.where(leaves, old[messages], new[messages]), np.where(leaves, -1, 1).astype(np.int64), messages


def _take_rows(parts: list[pa.Array], places: Offsets, old: int, new: int) -> pa.Array:
    """Return the values at places in the concatenation of two arrays; the second array itself if it is all of them."""
    if len(places) == new and not (places != np.arange(old, old + new)).any():
        return parts[1]
    return pa.concat_arrays(parts).take(pa.array(places))


def _mask_values(values: pa.Array, where: Mask) -> pa.Array:
    """Return values with NULL at some places."""
    return values.take(pa.array(np.arange(len(values)), mask=where))


def _pack_bits(rows: NDArray[np.bool_]) -> pa.Array:
    """Return a bit per column, from the lowest bit of the first byte; NULL for rows without a set bit."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    offsets = pa.py_buffer(np.arange(0, packed.size + 1, packed.shape[1], dtype=np.int32))
    some = columnar.bitmap(np.asarray(rows.any(axis=1)))
    return pa.Array.from_buffers(pa.binary(), len(rows), [some, offsets, pa.py_buffer(np.ascontiguousarray(packed))])
