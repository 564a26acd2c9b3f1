"""Cells of a column → an Arrow array, all rows at once; values that SinkQL's type does not hold are row errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sinkql.connector_api.types import arrow_type
from sinkql.connectors.mysql import table_map
from sinkql.connectors.mysql.rows_event import Cells, Flags, Numbers, unsigned
from sinkql.connectors.mysql.table_map import Wire
from sinkql.connectors.mysql.value import ASCII_TOO, UTF8, BinaryJsonError, decimal_of, decoder, groups, json_text
from sinkql.decode.columnar import Block, binaries, fixed_width
from sinkql.logical.jsonb import jsonb, jsonbs
from sinkql.logical.type import BYTEA, JSONB, TEXT, Type

_EPOCH_DAY = np.datetime64("1970-01-01", "D")
_MICROS_A_DAY = 86_400_000_000
_LIMBS = 36
"""Decimals of up to so many digits are computed in 128 bits; longer ones one by one."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a column is to become: its SQL type, the kind that its declaration names, and its character set.

    With the type text, a column of another kind is the text that the server prints: that of a number is `filled` up
    with zeros to so many characters.
    """

    name: str
    type: Type
    kind: str
    charset: str | None = None
    filled: int = 0


@dataclass(slots=True)
class Bad:
    """Rows with a value that the type does not hold, each with its reason."""

    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, rows: Iterable[int], reason: Callable[[int], str]) -> None:
        for row in rows:
            self.reasons.setdefault(int(row), reason(int(row)))


def decode(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    """Return a column's values in the Arrow type of its SQL type; bad ones are NULL."""
    if target.type == TEXT and column.type not in _TEXTS:
        return _as_text(block, cells, column, target, bad)
    array = _DECODERS[column.type](block, cells, column, target, bad)
    return array.cast(arrow_type(target.type)) if array.type != arrow_type(target.type) else array


def strings(block: Block, cells: Cells) -> pa.Array:
    """Return a column's bytes, by one copy; those of decompressed events stand after all others in a block."""
    starts, lengths = cells.starts, cells.lengths
    valid = ~cells.null if cells.null.any() else None
    if not np.any(np.diff(starts) < 0):
        return binaries(block, starts, lengths, valid)
    order = np.argsort(starts, kind="stable")
    sorted_ = binaries(block, starts[order], lengths[order], None if valid is None else valid[order])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return sorted_.take(pa.array(back))


def _fixed(type_: pa.DataType, values: npt.NDArray[Any], null: Flags) -> pa.Array:
    return fixed_width(values, ~null if null.any() else None, type_)


# --- numbers --------------------------------------------------------------------------------------------------------


def _integer(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    found = unsigned(block, cells.starts, column.width)
    if column.unsigned and column.width == 8:
        return _wide(np.zeros_like(found), found, cells.null, 20, 0)
    if not column.unsigned and column.width < 8:
        shift = 64 - 8 * column.width
        found = found << shift >> shift
    type_ = arrow_type(target.type)
    if pa.types.is_decimal(type_):
        return _wide(found >> 63, found, cells.null, type_.precision, type_.scale)
    return _fixed(pa.int64(), found, cells.null).cast(type_)


def _float(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    dtype, type_ = ("<f4", pa.float32()) if column.width == 4 else ("<f8", pa.float64())
    return _fixed(type_, block.view(dtype)[cells.starts], cells.null)


def _bit(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    found = _big_endian(block, cells.starts, column.width)
    return _wide(np.zeros_like(found), found, cells.null, 20, 0)


def _year(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    found = unsigned(block, cells.starts, 1)
    return _fixed(pa.int64(), np.where(found == 0, 0, found + 1900), cells.null).cast(arrow_type(target.type))


def _decimal(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    type_ = arrow_type(target.type)
    if column.precision > min(_LIMBS, type_.precision) or column.scale != type_.scale:
        return _long_decimal(block, cells, column, type_, bad)
    count = len(cells.starts)
    negative = block.bytes[cells.starts] < 0x80
    high, low, at = np.zeros(count, np.int64), np.zeros(count, np.uint64), 0
    for digits in groups(column.precision, column.scale):
        group = np.zeros(count, np.int64)
        for _ in range(table_map.DECIMAL_BYTES[digits]):
            byte = block.bytes[cells.starts + at].astype(np.int64)
            group = group << 8 | np.where(negative, byte ^ 0xFF, byte) ^ (0x80 if at == 0 else 0)
            at += 1
        if column.precision <= 18:
            low = low * np.uint64(10**digits) + group.astype(np.uint64)
        else:
            high, low = _times(high, low, 10**digits, group)
    if column.precision <= 18:
        value = np.where(negative, -low.astype(np.int64), low.astype(np.int64))
        return _wide(value >> 63, value, cells.null, type_.precision, type_.scale)
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    return _wide(high, low.view(np.int64), cells.null, type_.precision, type_.scale)


def _times(
    high: Numbers, low: npt.NDArray[np.uint64], factor: int, add: Numbers
) -> tuple[Numbers, npt.NDArray[np.uint64]]:
    """Return numbers of 128 bits times a factor below 2^30, plus what is less than it."""
    lowest, by = np.uint64(0xFFFFFFFF), np.uint64(factor)
    first = (low & lowest) * by + add.astype(np.uint64)
    second = (low >> np.uint64(32)) * by + (first >> np.uint64(32))
    return high * factor + (second >> np.uint64(32)).astype(np.int64), (second << np.uint64(32)) | (first & lowest)


def _wide(high: Numbers, low: Numbers, null: Flags, precision: int, scale: int) -> pa.Array:
    both = np.empty((len(low), 2), np.int64)
    both[:, 0], both[:, 1] = low, high
    return _fixed(pa.decimal128(precision, scale), both, null)


def _long_decimal(block: Block, cells: Cells, column: Wire, type_: pa.DataType, bad: Bad) -> pa.Array:
    found: list[Decimal | None] = []
    for row, start in enumerate(cells.starts.tolist()):
        value = None if cells.null[row] else _one_decimal(block.raw, start, column)
        if value is not None and value.adjusted() >= type_.precision - type_.scale and value:
            bad.add([row], lambda _, value=value: f"{value} does not fit into {_numeric(type_)}")  # type: ignore[misc]  # of the lambda's default
            value = None
        found.append(value)
    return pa.array(found, type_)


def _numeric(type_: pa.DataType) -> str:
    return f"numeric({type_.precision},{type_.scale})"


def _one_decimal(raw: bytes, start: int, column: Wire) -> Decimal:
    return decimal_of(raw[start : start + column.width], column.precision, column.scale)


# --- times ----------------------------------------------------------------------------------------------------------


def _big_endian(block: Block, starts: Numbers, width: int) -> Numbers:
    found = np.zeros(len(starts), np.int64)
    for at in range(width):
        found = found << 8 | block.bytes[starts + at]
    return found


def _fraction(block: Block, starts: Numbers, digits: int) -> Numbers:
    """Return microseconds of so many digits of a second."""
    width = (digits + 1) // 2
    return _big_endian(block, starts, width) * 100 ** (3 - width) if width else np.zeros(len(starts), np.int64)


def _days(year: Numbers, month: Numbers, day: Numbers) -> tuple[Numbers, Flags]:
    """Return days since 1970, and which of the dates there are: zero dates, and February the 30th, are none."""
    right = (year > 0) & (month > 0) & (day > 0) & (month < 13)
    months = (np.where(right, year, 1970) - 1970) * 12 + np.where(right, month, 1) - 1
    first = months.astype("M8[M]").astype("M8[D]")
    length = ((months + 1).astype("M8[M]").astype("M8[D]") - first).astype(np.int64)
    return (first - _EPOCH_DAY).astype(np.int64) + day - 1, right & (day <= length)


def _date(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    packed = unsigned(block, cells.starts, 3)
    return dates(packed >> 9, packed >> 5 & 15, packed & 31, cells.null, bad)


def dates(year: Numbers, month: Numbers, day: Numbers, null: Flags, bad: Bad) -> pa.Array:
    """Return the dates of these years, months and days; such that there are not are bad."""
    days, right = _days(year, month, day)
    wrong = ~right & ~null
    bad.add(np.flatnonzero(wrong), lambda row: f"there is no date {year[row]:04}-{month[row]:02}-{day[row]:02}")
    return _fixed(pa.date32(), days.astype(np.int32), null | wrong)


def _datetime(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    packed = _big_endian(block, cells.starts, 5)
    months = packed >> 22 & 0x1FFFF
    seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
    micros = seconds * 1_000_000 + _fraction(block, cells.starts + 5, column.scale)
    return moments(months // 13, months % 13, packed >> 17 & 31, micros, cells.null, bad)


def moments(year: Numbers, month: Numbers, day: Numbers, micros: Numbers, null: Flags, bad: Bad) -> pa.Array:
    """Return times of these dates, so many microseconds after midnight."""
    days, right = _days(year, month, day)
    wrong = ~right & ~null
    bad.add(np.flatnonzero(wrong), lambda row: f"there is no date {year[row]:04}-{month[row]:02}-{day[row]:02}")
    return _fixed(pa.timestamp("us"), days * _MICROS_A_DAY + micros, null | wrong)


def _timestamp(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    seconds = _big_endian(block, cells.starts, 4)
    micros = seconds * 1_000_000 + _fraction(block, cells.starts + 4, column.scale)
    wrong = (micros == 0) & ~cells.null
    bad.add(np.flatnonzero(wrong), lambda row: "there is no date 0000-00-00")
    return _fixed(pa.timestamp("us", "UTC"), micros, cells.null | wrong)


def _time_micros(block: Block, cells: Cells, column: Wire) -> Numbers:
    width = (column.scale + 1) // 2
    packed = _big_endian(block, cells.starts, 3 + width) - (0x800000 << 8 * width)
    size = np.abs(packed)
    whole = size >> 8 * width
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    fraction = (size & ((1 << 8 * width) - 1)) * 100 ** (3 - width) if width else 0
    found: Numbers = np.where(packed < 0, -1, 1) * (seconds * 1_000_000 + fraction)
    return found


def _time(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    return times(_time_micros(block, cells, column), cells.null, bad)


def times(micros: Numbers, null: Flags, bad: Bad) -> pa.Array:
    """Return times of day; what is negative, or a day or more, is bad."""
    wrong = ((micros < 0) | (micros >= _MICROS_A_DAY)) & ~null
    bad.add(np.flatnonzero(wrong), lambda row: f"{time_text(int(micros[row]), 0)} is not a time of day")
    return _fixed(pa.time64("us"), np.where(wrong | null, 0, micros), null | wrong)


def time_text(micros: int, digits: int) -> str:
    """Return a TIME as the server prints it, with so many digits of a second."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + _fraction_text(fraction, digits)


def _fraction_text(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""


# --- texts ----------------------------------------------------------------------------------------------------------


def _string(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    raw = strings(block, cells)
    return from_bytes(raw, column, target, bad)


def from_bytes(raw: pa.Array, column: Wire, target: Target, bad: Bad) -> pa.Array:
    """Return what strings of bytes mean in a column: text of its character set, bytes, an address, a document."""
    if target.kind in _PACKED:
        return _packed(raw, target)
    if target.type == BYTEA:
        return _padded(raw, column.size) if target.kind == "binary" else raw
    texts = as_text(raw, target, bad)
    return documents(texts.to_pylist(), bad) if target.type == JSONB else texts


def as_text(raw: pa.Array, target: Target, bad: Bad) -> pa.Array:
    """Return bytes of the column's character set as texts."""
    charset = target.charset or "utf8mb4"
    data = raw.buffers()[2]
    if charset in ASCII_TOO and (data is None or not np.any(np.frombuffer(data, np.uint8) & 0x80)):
        return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count, raw.offset)
    if charset in UTF8:
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # one by one finds the rows
    one = decoder(charset)
    assert one is not None, charset
    return _each(raw, one, bad, lambda value: f"{value[:40]!r} is not text of the character set {charset}")


def _each(raw: pa.Array, one: Callable[[bytes], str], bad: Bad, reason: Callable[[bytes], str]) -> pa.Array:
    found: list[str | None] = []
    for row, value in enumerate(raw.to_pylist()):
        try:
            found.append(None if value is None else one(value))
        except ValueError:
            bad.add([row], lambda _, value=value: reason(value))  # type: ignore[misc]  # bound at once
            found.append(None)
    return pa.array(found, pa.string())


def _padded(raw: pa.Array, size: int) -> pa.Array:
    """Return values of a BINARY column whole: the log leaves out the zeros at their end."""
    lengths = np.diff(np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1])
    if np.all((lengths == size) | np.asarray(raw.is_null())):
        return raw
    return pa.array([None if value is None else value.ljust(size, b"\0") for value in raw.to_pylist()], pa.binary())


def _uuid(value: bytes) -> str:
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _inet6(value: bytes) -> str:
    return inet_ntop(AF_INET6, value)


_PACKED: Mapping[str, tuple[int, Callable[[bytes], str]]] = {
    "uuid": (16, _uuid),
    "inet6": (16, _inet6),
    "inet4": (4, lambda value: inet_ntop(AF_INET, value)),
}


def _packed(raw: pa.Array, target: Target) -> pa.Array:
    size, one = _PACKED[target.kind]
    return pa.array([None if v is None else one(v.ljust(size, b"\0")) for v in raw.to_pylist()], pa.string())


def _json(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    texts: list[str | None] = []
    for row, value in enumerate(strings(block, cells).to_pylist()):
        try:
            texts.append(None if value is None else json_text(value))
        except BinaryJsonError as error:
            bad.add([row], lambda _, error=error: str(error))  # type: ignore[misc]  # bound at once
            texts.append(None)
    return documents(texts, bad)


def documents(texts: list[str | None], bad: Bad) -> pa.Array:
    """Return JSON texts as a jsonb's."""
    known = [each for each in texts if each is not None]
    at_once = jsonbs(known)
    if at_once is not None:
        rest = iter(at_once)
        return pa.array([None if each is None else next(rest) for each in texts], pa.string())
    found: list[str | None] = []
    for row, each in enumerate(texts):
        try:
            found.append(None if each is None else jsonb(each))
        except ValueError as error:
            bad.add([row], lambda _, error=error: f"invalid JSON: {error}")  # type: ignore[misc]  # bound at once
            found.append(None)
    return pa.array(found, pa.string())


@cache
def _members(column: Wire, charset: str) -> tuple[str, ...]:
    one = decoder(charset)
    assert one is not None, charset
    return tuple(one(each) for each in column.members)


def _enum(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    members = ("", *_members(column, target.charset or "utf8mb4"))  # 0 is a value that was none of them
    number = np.where(cells.null, 0, unsigned(block, cells.starts, column.width))
    wrong = number >= len(members)
    bad.add(np.flatnonzero(wrong), lambda row: f"the enumeration has no member {number[row]}")
    places = pa.array(np.where(wrong, 0, number), mask=cells.null | wrong)
    return pa.array(members, pa.string()).take(places)


def _set(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    members = _members(column, target.charset or "utf8mb4")
    bits, place = np.unique(unsigned(block, cells.starts, column.width), return_inverse=True)
    texts = [",".join(each for at, each in enumerate(members) if int(value) >> at & 1) for value in bits]
    return pa.array(texts, pa.string()).take(pa.array(place, mask=cells.null))


# --- other types as the server's text -------------------------------------------------------------------------------


def _as_text(block: Block, cells: Cells, column: Wire, target: Target, bad: Bad) -> pa.Array:
    """Return what the server prints for values of another type, one by one."""
    match column.type:
        case table_map.DATE:
            packed = unsigned(block, cells.starts, 3).tolist()
            texts = [f"{v >> 9:04}-{v >> 5 & 15:02}-{v & 31:02}" for v in packed]
        case table_map.DATETIME2:
            fractions = _fraction(block, cells.starts + 5, column.scale).tolist()
            wholes = _big_endian(block, cells.starts, 5).tolist()
            texts = [_datetime_text(*each, column.scale) for each in zip(wholes, fractions, strict=True)]
        case table_map.TIMESTAMP2:
            fractions = _fraction(block, cells.starts + 4, column.scale).tolist()
            seconds = _big_endian(block, cells.starts, 4).tolist()
            texts = [_timestamp_text(*each, column.scale) for each in zip(seconds, fractions, strict=True)]
        case table_map.TIME2:
            texts = [time_text(each, column.scale) for each in _time_micros(block, cells, column).tolist()]
        case table_map.YEAR:
            texts = [f"{1900 + each if each else 0:04}" for each in unsigned(block, cells.starts, 1).tolist()]
        case table_map.NEWDECIMAL:
            nulls = cells.null.tolist()
            places = zip(cells.starts.tolist(), nulls, strict=True)
            texts = [
                "" if null else f"{_one_decimal(block.raw, start, column):f}".rjust(target.filled, "0")
                for start, null in places
            ]
        case _:
            numbers = unsigned(block, cells.starts, column.width)
            if not column.unsigned:
                shift = 64 - 8 * column.width
                numbers = numbers << shift >> shift
            whole = (each & (1 << 64) - 1 if column.unsigned else each for each in numbers.tolist())
            texts = [str(each).rjust(target.filled, "0") for each in whole]
    return pa.array(texts, pa.string(), mask=cells.null)


def _datetime_text(packed: int, fraction: int, digits: int) -> str:
    months = packed >> 22 & 0x1FFFF
    text = f"{months // 13:04}-{months % 13:02}-{packed >> 17 & 31:02}"
    return f"{text} {packed >> 12 & 31:02}:{packed >> 6 & 63:02}:{packed & 63:02}{_fraction_text(fraction, digits)}"


def _timestamp_text(seconds: int, fraction: int, digits: int) -> str:
    if not seconds and not fraction:
        return "0000-00-00 00:00:00" + _fraction_text(0, digits)
    day = date(1970, 1, 1) + timedelta(days=seconds // 86400)
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{day} {clock}{_fraction_text(fraction, digits)}"


_Decoder = Callable[[Block, Cells, Wire, Target, Bad], pa.Array]
_DECODERS: Mapping[int, _Decoder] = {
    **dict.fromkeys((table_map.TINY, table_map.SHORT, table_map.INT24, table_map.LONG, table_map.LONGLONG), _integer),
    table_map.FLOAT: _float, table_map.DOUBLE: _float, table_map.NEWDECIMAL: _decimal, table_map.BIT: _bit,
    table_map.YEAR: _year,
    table_map.DATE: _date, table_map.DATETIME2: _datetime, table_map.TIMESTAMP2: _timestamp, table_map.TIME2: _time,
    **dict.fromkeys((table_map.VARCHAR, table_map.VAR_STRING, table_map.STRING, table_map.BLOB), _string),
    table_map.JSON: _json, table_map.ENUM: _enum, table_map.SET: _set,
}  # fmt: skip
KNOWN = frozenset(_DECODERS)
"""The types of the log that are decoded."""
_TEXTS = frozenset(
    {
        table_map.VARCHAR,
        table_map.VAR_STRING,
        table_map.STRING,
        table_map.BLOB,
        table_map.JSON,
        table_map.ENUM,
        table_map.SET,
    }
)
