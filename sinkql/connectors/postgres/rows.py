"""The changes of one table in a block, all at once → its rows with `$diff`, and the changes that do not decode.

Tuples of one table in a block, all at once → where each column's values stand.
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
from sinkql.connectors.postgres.column import Places, decode, read
from sinkql.connectors.postgres.relation import Relation
from sinkql.connectors.postgres.value import UnfitError
from sinkql.decode import columnar
from sinkql.decode.columnar import Block, Mask, Offsets

NULL, UNCHANGED, TEXT, BINARY = b"nutb"


@dataclass(slots=True)
class Cells:
    """One column of tuples: the kind of each value, where it stands, and whether it is there (None: all are)."""

    kinds: NDArray[np.uint8]
    starts: Offsets
    lengths: Offsets
    sent: Mask | None

    def places(self, block: Block) -> Places:
        """Return where the values stand."""
        return Places(block, self.starts, self.lengths, self.sent)

    def taken(self, which: Offsets | Mask) -> Cells:
        """Return those of some of the tuples, in their order."""
        sent = None if self.sent is None else self.sent[which]
        return Cells(self.kinds[which], self.starts[which], self.lengths[which], sent)

    def fill(self, where: Offsets, other: Cells, which: Offsets) -> None:
        """Have some of the values be those of another column of tuples, each of which stands before its own."""
        self.kinds[where], self.lengths[where] = other.kinds[which], other.lengths[which]
        self.starts[where] = other.starts[which]
        sent = np.ones(len(self.starts), bool) if self.sent is None else self.sent
        sent[where] = True if other.sent is None else other.sent[which]
        self.sent = None if sent.all() else sent


class GarbledError(Exception):
    """What was received is not what the protocol says."""


def walk(block: Block, starts: Offsets, widths: Sequence[int]) -> tuple[list[Cells], Offsets]:
    """Return the columns of the tuples that begin at `starts`, and where each tuple ends.

    `widths` says how many bytes the binary form of each column has, 0 where that differs.
    """
    if (block.i2[starts] != len(widths)).any():
        raise GarbledError("a row has not as many columns as its table")
    at = starts + 2
    found = []
    for width in widths:
        kinds = block.bytes[at]
        if width and (kinds == BINARY).all():
            cells = Cells(kinds, at + 5, np.broadcast_to(np.int64(width), len(at)), None)
        else:
            cells = _cells(block, at, kinds)
        at = cells.starts + cells.lengths
        found.append(cells)
    return found, at


def _cells(block: Block, at: Offsets, kinds: NDArray[np.uint8]) -> Cells:
    sent = (kinds == TEXT) | (kinds == BINARY)
    if sent.all():
        return Cells(kinds, at + 5, block.i4[at + 1].astype(np.int64), None)
    if not (sent | (kinds == NULL) | (kinds == UNCHANGED)).all():
        raise GarbledError("a value is of no kind that is known")
    lengths = np.where(sent, block.i4[at + 1], 0).astype(np.int64)
    return Cells(kinds, np.where(sent, at + 5, at + 1), lengths, sent)


def is_binary(cells: Cells) -> bool:
    """Tell whether values are in binary, and not texts; raises GarbledError for some of both."""
    binary = bool((cells.kinds == BINARY).any())
    if binary and (cells.kinds == TEXT).any():
        raise GarbledError("a column has values in binary and as text")
    return binary


WIDTHS = {16: 1, 20: 8, 21: 2, 23: 4, 26: 4, 700: 4, 701: 8, 1082: 4, 1083: 8, 1114: 8, 1184: 8, 1186: 16, 2950: 16}
"""How many bytes the binary forms of types have whose values all have as many."""


INSERT, UPDATE, DELETE = b"IUD"
_KEY, _OLD = b"KO"
_SHOWN = 200
_TOAST_POINTER = 24
"""Values of so many bytes at most always stand in their row: the server sends them with each change."""
AT = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Changes:
    """Messages of one table: where they begin and end in the block, their kinds, when each was committed, by whom."""

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
    """Tuples of some of the messages, by their numbers, and their columns, in the order of the table's own."""

    messages: Offsets
    cells: list[Cells]


def table_rows(relation: Relation, changes: Changes) -> TableRows:
    """Return the rows of changes; raises GarbledError."""
    new, old, keyed = _tuples(relation, changes)
    _fill_unchanged(relation, changes, new, old, keyed)
    reader = _Reader(relation, changes, new, old)
    found = reader.keyed() if relation.key else reader.keyless()
    return found if relation.reshaped is None else _with_all_columns(relation, found)


def _with_all_columns(relation: Relation, found: TableRows) -> TableRows:
    """Return rows with NULL in the columns that the table is without: sinks that read others go on."""
    rows, planned = found.rows, relation.planned.columns
    own = {each.name: rows.column(each.name) for each in relation.table.columns}
    whole = {each.name: own.get(each.name, pa.nulls(len(rows), arrow_type(each.type))) for each in planned}
    rest = {name: rows.column(name) for name in rows.schema.names if name not in own}
    if "$hole" in rest:
        left = [number for number, each in enumerate(planned) if each.name in own]
        rest["$hole"] = pa.array([_moved_bits(each, left) for each in rest["$hole"].to_pylist()], pa.binary())
    return replace(found, rows=pa.record_batch({**whole, **rest}))


def _moved_bits(bits: bytes | None, to: Sequence[int]) -> bytes | None:
    """Return bits at other places: the first one at the first of them, and so on."""
    if bits is None:
        return None
    number = int.from_bytes(bits, "little")
    moved = sum(1 << place for at, place in enumerate(to) if number >> at & 1)
    return moved.to_bytes(max(to) // 8 + 1, "little")


def _tuples(relation: Relation, changes: Changes) -> tuple[_Tuples, _Tuples, Mask]:
    """Return the new and the old tuples of messages, and which of the old ones have the key alone."""
    block, starts = changes.block, changes.starts
    sub = block.bytes[starts + 5]
    has_old = (sub == _KEY) | (sub == _OLD)
    has_new = changes.kinds != DELETE
    widths = [WIDTHS.get(each.oid, 0) for each in relation.sent.columns]
    before, after = np.flatnonzero(has_old), np.flatnonzero(has_new)
    places = starts + 6
    ends = places
    old_cells: list[Cells] = []
    if len(before):
        old_cells, found = walk(block, places[before], widths)
        places[before] = found + 1
        ends = np.where(has_old, places - 1, 0)
    new_cells: list[Cells] = []
    if len(after):
        new_cells, found = walk(block, places[after], widths)
        ends[after] = found
    if (ends != changes.ends).any():
        raise GarbledError("a change does not end where its message does")
    keyed = sub[before] == _KEY
    return _Tuples(after, _own(relation, new_cells)), _Tuples(before, _own(relation, old_cells)), keyed


def _own(relation: Relation, cells: list[Cells]) -> list[Cells]:
    return [cells[place] for place in relation.places] if cells else []


def _fill_unchanged(relation: Relation, changes: Changes, new: _Tuples, old: _Tuples, keyed: Mask) -> None:
    """Take values that did not change, and were not sent again, from the old tuple where it has them."""
    if not new.cells or not old.cells:
        return
    before = np.full(len(changes.starts), -1, np.int64)
    before[old.messages] = np.arange(len(old.messages))
    whose = before[new.messages]
    for number, cells in enumerate(new.cells):
        if not (cells.kinds == UNCHANGED).any():
            continue
        known = whose >= 0
        if not relation.sent.columns[relation.places[number]].in_key:
            known &= ~keyed[whose]
        where = np.flatnonzero((cells.kinds == UNCHANGED) & known)
        if len(where):
            cells.kinds, cells.starts = cells.kinds.copy(), cells.starts.copy()
            cells.lengths = cells.lengths.copy()
            cells.fill(where, old.cells[number], whose[where])


class _Reader:
    """Decode the tuples of one table's changes, and put them in order.

    `_unfit` are the messages of which the new tuple does not decode, `_unfit_old` those of which the old one does not:
    where the row that goes decodes, it goes, though the one that comes in its place has none.
    """

    def __init__(self, relation: Relation, changes: Changes, new: _Tuples, old: _Tuples) -> None:
        self._relation = relation
        self._changes = changes
        self._new = new
        self._old = old
        self._types = [arrow_type(each.type) for each in relation.table.columns]
        self._unfit = np.zeros(len(changes.starts), bool)
        self._unfit_old = np.zeros(len(changes.starts), bool)

    def keyed(self) -> TableRows:
        """Return rows that are overwritten by their key."""
        new, old, key = self._new, self._old, self._relation.key
        arrays = self._decoded(new, range(len(self._types)), self._unfit)
        before = self._decoded(old, key, self._unfit_old)
        forgets = self._forgets(arrays)
        self._check_holes()
        kinds, count = self._changes.kinds, len(self._changes.starts)
        gone = np.zeros(count, bool)  # the old key has no row any more
        gone[old.messages] = True
        moved = np.flatnonzero(gone & (kinds == UPDATE))
        if len(moved):
            gone[moved] = self._other_key(moved, arrays, before)
        came = (kinds != DELETE) & (~self._unfit | forgets)
        gone &= ~self._unfit_old
        places, diffs, messages = _ordered(gone, came, _numbers(old, count), _numbers(new, count) + len(old.messages))
        columns = []
        for number, type_ in enumerate(self._types):
            parts = [before[number]] if number in key else [pa.nulls(len(old.messages), type_)]
            columns.append(_taken([*parts, arrays[number]], places, len(old.messages), len(new.messages)))
        if forgets.any():
            forgotten = (diffs > 0) & forgets[messages]
            diffs[forgotten] = -1
            columns = [each if number in key else _without(each, forgotten) for number, each in enumerate(columns)]
        more = self._holes(messages, diffs, gone, before) if self._relation.table.holes else {}
        return self._rows(columns, diffs, messages, more)

    def keyless(self) -> TableRows:
        """Return rows that come and go."""
        new, old, count = self._new, self._old, len(self._changes.starts)
        lacks = self._changes.kinds != INSERT
        lacks[old.messages] = False
        self._unfit |= lacks
        everything = range(len(self._types))
        arrays = self._decoded(new, everything, self._unfit)
        before = self._decoded(old, everything, self._unfit_old)
        self._check_holes()
        gone, came = np.zeros(count, bool), self._changes.kinds != DELETE
        gone[old.messages] = True
        gone, came = gone & ~self._unfit_old, came & ~self._unfit
        places, diffs, messages = _ordered(gone, came, _numbers(old, count), _numbers(new, count) + len(old.messages))
        columns = [
            _taken([before[number], arrays[number]], places, len(old.messages), len(new.messages))
            for number in everything
        ]
        found = self._rows(columns, diffs, messages, {})
        return replace(found, transactions=self._changes.transactions[messages])

    def _decoded(self, tuples: _Tuples, wanted: Sequence[int], unfit: Mask) -> dict[int, pa.Array]:
        """Return columns by their numbers, and tell of messages whose tuple does not fit."""
        found = {}
        for number in wanted:
            if not tuples.cells:
                found[number] = pa.nulls(0, self._types[number])
                continue
            cells = tuples.cells[number]
            column = self._relation.columns[number]
            array, bad = decode(column, cells.places(self._changes.block), binary=is_binary(cells))
            found[number] = array
            if bad is not None:
                unfit[tuples.messages[bad]] = True
        return found

    def _forgets(self, arrays: dict[int, pa.Array]) -> Mask:
        """Return the messages that do not fit, and have a long value that later ones may leave out.

        The row that a key had must not give its own value to these: the key has no row until it comes whole.
        """
        found = np.zeros(len(self._changes.starts), bool)
        if not self._relation.table.holes or not self._unfit.any():
            return found
        for column, cells in zip(self._relation.columns, self._new.cells, strict=True):
            if column.long:
                found[self._new.messages[(cells.kinds != UNCHANGED) & (cells.lengths > _TOAST_POINTER)]] = True
        for number in self._relation.key:
            found[self._new.messages[np.asarray(arrays[number].is_null())]] = False
        return found & self._unfit

    def _check_holes(self) -> None:
        """Tell of values that were not sent where they must be: those of keys, and of tables that never miss any."""
        for number, cells in enumerate(self._new.cells):
            if number in self._relation.key or not self._relation.table.holes:
                missing = cells.kinds == UNCHANGED
                if missing.any():
                    self._unfit[self._new.messages[missing]] = True

    def _other_key(self, moved: Offsets, arrays: dict[int, pa.Array], before: dict[int, pa.Array]) -> Mask:
        """Return which of the messages change their row's key."""
        count = len(self._changes.starts)
        olds = pa.array(_numbers(self._old, count)[moved])
        news = pa.array(_numbers(self._new, count)[moved])
        same = [pc.equal(before[each].take(olds), arrays[each].take(news)) for each in self._relation.key]
        return ~np.asarray(pc.fill_null(reduce(pc.and_, same), False).to_numpy(zero_copy_only=False))

    def _holes(
        self,
        messages: Offsets,
        diffs: NDArray[np.int64],
        gone: Mask,
        before: dict[int, pa.Array],
    ) -> dict[str, pa.Array]:
        """Return `$hole` and `$from`."""
        table, count = self._relation.table, len(self._changes.starts)
        struct = pa.struct([(table.columns[each].name, self._types[each]) for each in self._relation.key])
        came = diffs > 0
        holes: Mask | None = None
        for number, cells in enumerate(self._new.cells):
            missing = cells.kinds == UNCHANGED
            if missing.any():
                if holes is None:
                    holes = np.zeros((count, len(self._types)), bool)
                holes[self._new.messages, number] = missing
        if holes is None:
            return {"$hole": pa.nulls(len(messages), pa.binary()), "$from": pa.nulls(len(messages), struct)}
        rows = holes[messages] & came[:, None]
        moved = came & gone[messages] & rows.any(axis=1)
        olds = pa.array(_numbers(self._old, count)[messages], mask=~moved)
        parts = [before[each].take(olds) for each in self._relation.key]
        origin = pa.StructArray.from_arrays(parts, fields=list(struct), mask=pa.array(~moved))
        return {"$hole": _bits(rows), "$from": origin}

    def _rows(
        self, columns: list[pa.Array], diffs: NDArray[np.int64], messages: Offsets, more: dict[str, pa.Array]
    ) -> TableRows:
        names = [each.name for each in self._relation.table.columns]
        at = pa.array(self._changes.at[messages], pa.int64()).view(AT)
        given = {**dict(zip(names, columns, strict=True)), "$diff": pa.array(diffs), "$at": at, **more}
        return TableRows(pa.record_batch(given), self._errors())

    # --- what does not decode -----------------------------------------------------------------------------------------

    def _errors(self) -> list[RowError]:
        unfit = self._unfit | self._unfit_old
        if not unfit.any():
            return []
        count = len(self._changes.starts)
        new, old = _numbers(self._new, count), _numbers(self._old, count)
        return [self._error(each, int(new[each]), int(old[each])) for each in np.flatnonzero(unfit).tolist()]

    def _error(self, message: int, new: int, old: int) -> RowError:
        """Return what is wrong with a change, and what can be read of it as JSON."""
        why, shown = "", dict[str, object]()
        for tuples, number, what in ((self._old, old, "old"), (self._new, new, "new")):
            if number < 0 or not tuples.cells:
                continue
            values: dict[str, object] = {}
            for place, cells in enumerate(tuples.cells):
                name = self._relation.columns[place].name
                if cells.sent is not None and not cells.sent[number]:
                    if cells.kinds[number] == UNCHANGED:
                        must = place in self._relation.key or not self._relation.table.holes
                        why = why or (self._not_sent(name) if must else "")
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
            why = "the server did not send the row that was changed: run ALTER TABLE … REPLICA IDENTITY FULL there"
        return RowError(self._changes.named(message), "SQ3101", why, json.dumps(shown, default=str).encode())

    def _not_sent(self, name: str) -> str:
        return (
            f'column "{name}": the server does not send a long value that did not change: '
            "run ALTER TABLE … REPLICA IDENTITY FULL there"
        )


def _numbers(tuples: _Tuples, count: int) -> Offsets:
    """Return the number of each message's tuple, -1 where it has none."""
    found = np.full(count, -1, np.int64)
    found[tuples.messages] = np.arange(len(tuples.messages))
    return found


def _ordered(gone: Mask, came: Mask, old: Offsets, new: Offsets) -> tuple[Offsets, NDArray[np.int64], Offsets]:
    """Return where rows come from, their diffs, and their messages: what goes stands before what comes."""
    messages = np.repeat(np.arange(len(gone)), gone.astype(np.int64) + came)
    first = np.ones(len(messages), bool)
    first[1:] = messages[1:] != messages[:-1]
    leaves = first & gone[messages]
    return np.where(leaves, old[messages], new[messages]), np.where(leaves, -1, 1).astype(np.int64), messages


def _taken(parts: list[pa.Array], places: Offsets, old: int, new: int) -> pa.Array:
    """Return values of two arrays, one after the other, at places; the second as it is where that are just its own."""
    if len(places) == new and not (places != np.arange(old, old + new)).any():
        return parts[1]
    return pa.concat_arrays(parts).take(pa.array(places))


def _without(values: pa.Array, where: Mask) -> pa.Array:
    """Return values with NULL at some places."""
    return values.take(pa.array(np.arange(len(values)), mask=where))


def _bits(rows: NDArray[np.bool_]) -> pa.Array:
    """Return a bit a column from the lowest of the first byte on, NULL for rows that have none."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    offsets = pa.py_buffer(np.arange(0, packed.size + 1, packed.shape[1], dtype=np.int32))
    some = columnar.bitmap(np.asarray(rows.any(axis=1)))
    return pa.Array.from_buffers(pa.binary(), len(rows), [some, offsets, pa.py_buffer(np.ascontiguousarray(packed))])
