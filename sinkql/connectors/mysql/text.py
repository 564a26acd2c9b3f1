"""Rows of a query, as the server prints their values → Arrow arrays, all rows of a column at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.types import arrow_type
from sinkql.connectors.mysql.column import (
    Bad,
    Target,
    as_text,
    dates,
    documents,
    moments,
    strings,
    times,
)
from sinkql.connectors.mysql.rows_event import Cells, Numbers, unsigned
from sinkql.decode.columnar import Block

_NULL = 0xFB
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_PREFIXES = ((0xFC, 2), (0xFD, 3), (0xFE, 8))


def locate_values(block: Block, starts: Numbers, columns: int) -> list[Cells]:
    """Return the cells of rows that start there, each value behind its length."""
    found, position = [], starts
    for _ in range(columns):
        first = block.bytes[position].astype(np.int64)
        lengths, skip = first.copy(), np.ones(len(first), np.int64)
        null = first == _NULL
        lengths[null] = 0
        for mark, width in _PREFIXES:
            longer = np.flatnonzero(first == mark)
            if len(longer):
                lengths[longer] = unsigned(block, position[longer] + 1, width)
                skip[longer] = 1 + width
        found.append(Cells(position + skip, lengths, null))
        position = position + skip + lengths
    return found


def decode_text(block: Block, cells: Cells, target: Target, bad: Bad) -> pa.Array:
    """Return a column's values in the Arrow type of its SQL type; bad ones are NULL."""
    if target.type == "text":
        texts = as_text(strings(block, cells), target, bad)
        if target.kind == "json":
            return documents(texts.to_pylist(), bad)  # as the log's, which has no text of its own
        return _filled(texts, target.filled) if target.kind in _NUMBERS else texts
    if target.type == "bytea":
        return strings(block, cells)
    if target.type == "jsonb":
        return documents(as_text(strings(block, cells), target, bad).to_pylist(), bad)
    if target.kind in _MOMENTS:
        return _MOMENTS[target.kind](block, cells, bad).cast(arrow_type(target.type))
    if target.kind == "bit":
        return _bits(strings(block, cells))
    printed = strings(block, cells).cast(pa.string())
    type_ = arrow_type(target.type)
    if pa.types.is_decimal(type_):
        return _decimals(printed, type_, target.type, bad)
    if type_ == pa.string():  # a uuid
        return pc.utf8_lower(printed)
    return printed.cast(type_)


def _filled(texts: pa.Array, width: int) -> pa.Array:
    """Return the texts of numbers with zeros before them as the column was declared, whatever it is by now."""
    if not width and not pc.any(pc.match_substring_regex(texts, "^0[0-9]")).as_py():
        return texts
    whole = (None if each is None else each.lstrip("0") for each in texts.to_pylist())
    shown = [None if each is None else f"0{each}" if each[:1] in ("", ".") else each for each in whole]
    return pa.array([None if each is None else each.rjust(width, "0") for each in shown], pa.string())


def _decimals(printed: pa.Array, type_: pa.DataType, name: str, bad: Bad) -> pa.Array:
    try:
        return printed.cast(type_)
    except pa.ArrowInvalid:
        most = 10 ** (type_.precision - type_.scale)
        wrong = np.array([each is not None and abs(Decimal(each)) >= most for each in printed.to_pylist()])
        bad.add(np.flatnonzero(wrong), lambda row: f"{printed[row]} does not fit into {name}")
        return pc.if_else(pa.array(~wrong), printed, None).cast(type_)


def _bits(raw: pa.Array) -> pa.Array:
    numbers = [None if each is None else int.from_bytes(each, "big") for each in raw.to_pylist()]
    return pa.array(numbers, pa.decimal128(20, 0))


def _number(block: Block, starts: Numbers, digits: int) -> Numbers:
    """Return numbers of so many digits."""
    found = np.zeros(len(starts), np.int64)
    for at in range(digits):
        found = found * 10 + (block.bytes[starts + at].astype(np.int64) - 48)
    return found


def _micros(block: Block, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return microseconds of fractions of a second, of which all have as many digits, a point before them."""
    digits = int(lengths.max(initial=0)) - 1
    return _number(block, starts + 1, digits) * 10 ** (6 - digits) if digits > 0 else np.zeros(len(starts), np.int64)


def _date(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    at = np.where(cells.null, 0, cells.starts)
    year, month, day = _number(block, at, 4), _number(block, at + 5, 2), _number(block, at + 8, 2)
    return dates(year, month, day, cells.null, bad)


def _datetime(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    at = np.where(cells.null, 0, cells.starts)
    seconds = _number(block, at + 11, 2) * 3600 + _number(block, at + 14, 2) * 60 + _number(block, at + 17, 2)
    micros = seconds * 1_000_000 + _micros(block, at + 19, cells.lengths - 19)
    return moments(_number(block, at, 4), _number(block, at + 5, 2), _number(block, at + 8, 2), micros, cells.null, bad)


def _timestamp(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    return _datetime(block, cells, bad).cast(pa.timestamp("us", "UTC"))


def _time(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    """Return times of day: hours have two digits or three, perhaps behind a minus."""
    at = np.where(cells.null, 0, cells.starts)
    negative = (block.bytes[at] == ord("-")) & ~cells.null
    at = at + negative
    hours = np.where(block.bytes[at + 2] == ord(":"), 2, 3)
    seconds = np.where(hours == 2, _number(block, at, 2), _number(block, at, 3)) * 3600
    at = at + hours
    seconds += _number(block, at + 1, 2) * 60 + _number(block, at + 4, 2)
    rest = np.where(cells.null, 0, cells.starts + cells.lengths - at - 6)
    micros = seconds * 1_000_000 + _micros(block, at + 6, rest)
    return times(np.where(negative, -micros, micros), cells.null, bad)


_MOMENTS: dict[str, Callable[[Block, Cells, Bad], pa.Array]] = {
    "date": _date, "datetime": _datetime, "timestamp": _timestamp, "time": _time,
}  # fmt: skip


def joined(packets: Sequence[bytes]) -> tuple[Block, Numbers]:
    """Return rows as one block, and where each starts in it."""
    sizes = np.fromiter((len(each) for each in packets), np.int64, len(packets))
    return Block(b"".join(packets)), np.cumsum(sizes) - sizes
