"""Decode the cells of a column into an Arrow array, all rows together; values that do not fit are row errors."""

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
from sinkql.connectors.mysql.table_map import LogColumn
from sinkql.connectors.mysql.value import ASCII_TOO, UTF8, BinaryJsonError, decimal_of, groups, json_text, text_decoder
from sinkql.decode.columnar import Block, binaries, fixed_width
from sinkql.logical.jsonb import jsonb, jsonbs
from sinkql.logical.type import BYTEA, JSONB, TEXT, Type

_EPOCH_DAY = np.datetime64("1970-01-01", "D")
_MICROS_A_DAY = 86_400_000_000
_LIMBS = 36
"""The most digits of decimals that are computed in 128 bits; longer ones are computed one by one."""


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """The target of a column: its SQL type, the kind of its declaration, and its character set.

    If the type is text and the kind is not, the column is the text that the server prints. `filled` is the width to
    which zeros pad a number.
    """

    name: str
    type: Type
    kind: str
    charset: str | None = None
    filled: int = 0


@dataclass(slots=True)
class BadRows:
    """Rows with a value that the type cannot hold, each with the reason."""

    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, rows: Iterable[int], reason: Callable[[int], str]) -> None:
        for row in rows:
            self.reasons.setdefault(int(row), reason(int(row)))


def decode(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    """Return a column's values in the Arrow type of its SQL type; bad values are NULL."""
    if target.type == TEXT and column.type not in _TEXTS:
        return _decode_as_text(block, cells, column, target, bad)
    array = _DECODERS[column.type](block, cells, column, target, bad)
    return array.cast(arrow_type(target.type)) if array.type != arrow_type(target.type) else array


def strings(block: Block, cells: Cells) -> pa.Array:
    """Copy a column's bytes into an array. Bytes of decompressed events come after all others in a block."""
    starts, lengths = cells.starts, cells.lengths
    valid = ~cells.null if cells.null.any() else None
    if not np.any(np.diff(starts) < 0):
        return binaries(block, starts, lengths, valid)
    order = np.argsort(starts, kind="stable")
    sorted_ = binaries(block, starts[order], lengths[order], None if valid is None else valid[order])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return sorted_.take(pa.array(back))


def _fixed_array(type_: pa.DataType, values: npt.NDArray[Any], null: Flags) -> pa.Array:
    return fixed_width(values, ~null if null.any() else None, type_)


# --- numbers --------------------------------------------------------------------------------------------------------


def _decode_integer(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    numbers = unsigned(block, cells.starts, column.width)
    if column.unsigned and column.width == 8:
        return _wide_array(np.zeros_like(numbers), numbers, cells.null, 20, 0)
    if not column.unsigned and column.width < 8:
        shift = 64 - 8 * column.width
        numbers = numbers << shift >> shift
    type_ = arrow_type(target.type)
    if pa.types.is_decimal(type_):
        return _wide_array(numbers >> 63, numbers, cells.null, type_.precision, type_.scale)
    return _fixed_array(pa.int64(), numbers, cells.null).cast(type_)


def _decode_float(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    dtype, type_ = ("<f4", pa.float32()) if column.width == 4 else ("<f8", pa.float64())
    return _fixed_array(type_, block.view(dtype)[cells.starts], cells.null)


def _decode_bit(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    numbers = _read_big_endian(block, cells.starts, column.width)
    return _wide_array(np.zeros_like(numbers), numbers, cells.null, 20, 0)


def _decode_year(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    years = unsigned(block, cells.starts, 1)
    return _fixed_array(pa.int64(), np.where(years == 0, 0, years + 1900), cells.null).cast(arrow_type(target.type))


def _decode_decimal(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    type_ = arrow_type(target.type)
    if column.precision > min(_LIMBS, type_.precision) or column.scale != type_.scale:
        return _decode_long_decimal(block, cells, column, type_, bad)
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
            high, low = _multiply_add(high, low, 10**digits, group)
    if column.precision <= 18:
        value = np.where(negative, -low.astype(np.int64), low.astype(np.int64))
        return _wide_array(value >> 63, value, cells.null, type_.precision, type_.scale)
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    return _wide_array(high, low.view(np.int64), cells.null, type_.precision, type_.scale)


def _multiply_add(
    high: Numbers, low: npt.NDArray[np.uint64], factor: int, add: Numbers
) -> tuple[Numbers, npt.NDArray[np.uint64]]:
    """Multiply 128-bit numbers by a factor below 2^30, and add numbers less than the factor."""
    lowest, by = np.uint64(0xFFFFFFFF), np.uint64(factor)
    first = (low & lowest) * by + add.astype(np.uint64)
    second = (low >> np.uint64(32)) * by + (first >> np.uint64(32))
    return high * factor + (second >> np.uint64(32)).astype(np.int64), (second << np.uint64(32)) | (first & lowest)


def _wide_array(high: Numbers, low: Numbers, null: Flags, precision: int, scale: int) -> pa.Array:
    both = np.empty((len(low), 2), np.int64)
    both[:, 0], both[:, 1] = low, high
    return _fixed_array(pa.decimal128(precision, scale), both, null)


def _decode_long_decimal(block: Block, cells: Cells, column: LogColumn, type_: pa.DataType, bad: BadRows) -> pa.Array:
    decimals: list[Decimal | None] = []
    for row, start in enumerate(cells.starts.tolist()):
        value = None if cells.null[row] else _read_decimal(block.raw, start, column)
        if value is not None and value.adjusted() >= type_.precision - type_.scale and value:
            bad.add([row], lambda _, value=value: f"{value} does not fit into {_numeric_name(type_)}")  # type: ignore[misc]  # the lambda's default
            value = None
        decimals.append(value)
    return pa.array(decimals, type_)


def _numeric_name(type_: pa.DataType) -> str:
    return f"numeric({type_.precision},{type_.scale})"


def _read_decimal(raw: bytes, start: int, column: LogColumn) -> Decimal:
    return decimal_of(raw[start : start + column.width], column.precision, column.scale)


# --- times ----------------------------------------------------------------------------------------------------------


def _read_big_endian(block: Block, starts: Numbers, width: int) -> Numbers:
    numbers = np.zeros(len(starts), np.int64)
    for at in range(width):
        numbers = numbers << 8 | block.bytes[starts + at]
    return numbers


def _read_fraction(block: Block, starts: Numbers, digits: int) -> Numbers:
    """Return the microseconds of a fraction with a number of digits."""
    width = (digits + 1) // 2
    return _read_big_endian(block, starts, width) * 100 ** (3 - width) if width else np.zeros(len(starts), np.int64)


def _count_days(year: Numbers, month: Numbers, day: Numbers) -> tuple[Numbers, Flags]:
    """Return days since 1970, and the mask of valid dates: zero dates and February 30 are invalid."""
    right = (year > 0) & (month > 0) & (day > 0) & (month < 13)
    months = (np.where(right, year, 1970) - 1970) * 12 + np.where(right, month, 1) - 1
    first = months.astype("M8[M]").astype("M8[D]")
    length = ((months + 1).astype("M8[M]").astype("M8[D]") - first).astype(np.int64)
    return (first - _EPOCH_DAY).astype(np.int64) + day - 1, right & (day <= length)


def _decode_date(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    packed = unsigned(block, cells.starts, 3)
    return dates(packed >> 9, packed >> 5 & 15, packed & 31, cells.null, bad)


def dates(year: Numbers, month: Numbers, day: Numbers, null: Flags, bad: BadRows) -> pa.Array:
    """Return the dates of years, months and days; invalid dates are bad."""
    days, right = _count_days(year, month, day)
    wrong = ~right & ~null
    bad.add(np.flatnonzero(wrong), lambda row: f"{year[row]:04}-{month[row]:02}-{day[row]:02} is not a date")
    return _fixed_array(pa.date32(), days.astype(np.int32), null | wrong)


def _decode_datetime(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    packed = _read_big_endian(block, cells.starts, 5)
    months = packed >> 22 & 0x1FFFF
    seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
    micros = seconds * 1_000_000 + _read_fraction(block, cells.starts + 5, column.scale)
    return moments(months // 13, months % 13, packed >> 17 & 31, micros, cells.null, bad)


def moments(year: Numbers, month: Numbers, day: Numbers, micros: Numbers, null: Flags, bad: BadRows) -> pa.Array:
    """Return timestamps of dates and microseconds after midnight; invalid dates are bad."""
    days, right = _count_days(year, month, day)
    wrong = ~right & ~null
    bad.add(np.flatnonzero(wrong), lambda row: f"{year[row]:04}-{month[row]:02}-{day[row]:02} is not a date")
    return _fixed_array(pa.timestamp("us"), days * _MICROS_A_DAY + micros, null | wrong)


def _decode_timestamp(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    seconds = _read_big_endian(block, cells.starts, 4)
    micros = seconds * 1_000_000 + _read_fraction(block, cells.starts + 4, column.scale)
    wrong = (micros == 0) & ~cells.null
    bad.add(np.flatnonzero(wrong), lambda row: "0000-00-00 is not a date")
    return _fixed_array(pa.timestamp("us", "UTC"), micros, cells.null | wrong)


def _unpack_time(block: Block, cells: Cells, column: LogColumn) -> Numbers:
    width = (column.scale + 1) // 2
    packed = _read_big_endian(block, cells.starts, 3 + width) - (0x800000 << 8 * width)
    size = np.abs(packed)
    whole = size >> 8 * width
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    fraction = (size & ((1 << 8 * width) - 1)) * 100 ** (3 - width) if width else 0
    micros: Numbers = np.where(packed < 0, -1, 1) * (seconds * 1_000_000 + fraction)
    return micros


def _decode_time(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    return times(_unpack_time(block, cells, column), cells.null, bad)


def times(micros: Numbers, null: Flags, bad: BadRows) -> pa.Array:
    """Return times of day; negative times and times of a day or more are bad."""
    wrong = ((micros < 0) | (micros >= _MICROS_A_DAY)) & ~null
    bad.add(np.flatnonzero(wrong), lambda row: f"{time_text(int(micros[row]), 0)} is not a time of day")
    return _fixed_array(pa.time64("us"), np.where(wrong | null, 0, micros), null | wrong)


def time_text(micros: int, digits: int) -> str:
    """Return a TIME as the server prints it, with a number of fractional digits."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + _format_fraction(fraction, digits)


def _format_fraction(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""


# --- texts ----------------------------------------------------------------------------------------------------------


def _decode_string(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    raw = strings(block, cells)
    return from_bytes(raw, column, target, bad)


def from_bytes(raw: pa.Array, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    """Return byte strings as values of their column: text, bytes, an address or a document."""
    if target.kind in _PACKED:
        return _decode_packed(raw, target)
    if target.type == BYTEA:
        return _pad_binary(raw, column.size) if target.kind == "binary" else raw
    texts = as_text(raw, target, bad)
    return documents(texts.to_pylist(), bad) if target.type == JSONB else texts


def as_text(raw: pa.Array, target: TargetColumn, bad: BadRows) -> pa.Array:
    """Decode bytes of the column's character set."""
    charset = target.charset or "utf8mb4"
    data = raw.buffers()[2]
    if charset in ASCII_TOO and (data is None or not np.any(np.frombuffer(data, np.uint8) & 0x80)):
        return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count, raw.offset)
    if charset in UTF8:
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # decoded one by one, to find the bad rows
    return _decode_texts(
        raw, text_decoder(charset), bad, lambda value: f"{value[:40]!r} is not text of the character set {charset}"
    )


def _decode_texts(raw: pa.Array, one: Callable[[bytes], str], bad: BadRows, reason: Callable[[bytes], str]) -> pa.Array:
    texts: list[str | None] = []
    for row, value in enumerate(raw.to_pylist()):
        try:
            texts.append(None if value is None else one(value))
        except ValueError:
            bad.add([row], lambda _, value=value: reason(value))  # type: ignore[misc]  # the lambda's default
            texts.append(None)
    return pa.array(texts, pa.string())


def _pad_binary(raw: pa.Array, size: int) -> pa.Array:
    """Return the values of a BINARY column in full: the log omits trailing zeros."""
    lengths = np.diff(np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1])
    if np.all((lengths == size) | np.asarray(raw.is_null())):
        return raw
    return pa.array([None if value is None else value.ljust(size, b"\0") for value in raw.to_pylist()], pa.binary())


def _format_uuid(value: bytes) -> str:
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _format_inet6(value: bytes) -> str:
    return inet_ntop(AF_INET6, value)


_PACKED: Mapping[str, tuple[int, Callable[[bytes], str]]] = {
    "uuid": (16, _format_uuid),
    "inet6": (16, _format_inet6),
    "inet4": (4, lambda value: inet_ntop(AF_INET, value)),
}


def _decode_packed(raw: pa.Array, target: TargetColumn) -> pa.Array:
    size, one = _PACKED[target.kind]
    return pa.array([None if v is None else one(v.ljust(size, b"\0")) for v in raw.to_pylist()], pa.string())


def _decode_json(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    texts: list[str | None] = []
    for row, value in enumerate(strings(block, cells).to_pylist()):
        try:
            texts.append(None if value is None else json_text(value))
        except BinaryJsonError as error:
            bad.add([row], lambda _, error=error: str(error))  # type: ignore[misc]  # the lambda's default
            texts.append(None)
    return documents(texts, bad)


def documents(texts: list[str | None], bad: BadRows) -> pa.Array:
    """Convert JSON texts to texts of jsonb."""
    present = [text for text in texts if text is not None]
    all_converted = jsonbs(present)
    if all_converted is not None:
        rest = iter(all_converted)
        return pa.array([None if text is None else next(rest) for text in texts], pa.string())
    converted: list[str | None] = []
    for row, text in enumerate(texts):
        try:
            converted.append(None if text is None else jsonb(text))
        except ValueError as error:
            bad.add([row], lambda _, error=error: f"invalid JSON: {error}")  # type: ignore[misc]  # the lambda's default
            converted.append(None)
    return pa.array(converted, pa.string())


@cache
def _decode_members(column: LogColumn, charset: str) -> tuple[str, ...]:
    decode_member = text_decoder(charset)
    return tuple(decode_member(member) for member in column.members)


def _decode_enum(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    members = ("", *_decode_members(column, target.charset or "utf8mb4"))  # 0 stands for an invalid value
    number = np.where(cells.null, 0, unsigned(block, cells.starts, column.width))
    wrong = number >= len(members)
    bad.add(np.flatnonzero(wrong), lambda row: f"the enumeration has no member {number[row]}")
    places = pa.array(np.where(wrong, 0, number), mask=cells.null | wrong)
    return pa.array(members, pa.string()).take(places)


def _decode_set(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    members = _decode_members(column, target.charset or "utf8mb4")
    bits, place = np.unique(unsigned(block, cells.starts, column.width), return_inverse=True)
    texts = [",".join(member for at, member in enumerate(members) if int(value) >> at & 1) for value in bits]
    return pa.array(texts, pa.string()).take(pa.array(place, mask=cells.null))


# --- other types as the server's text -------------------------------------------------------------------------------


def _decode_as_text(block: Block, cells: Cells, column: LogColumn, target: TargetColumn, bad: BadRows) -> pa.Array:
    """Return values of another type as the server prints them, one by one."""
    match column.type:
        case table_map.DATE:
            packed = unsigned(block, cells.starts, 3).tolist()
            texts = [f"{v >> 9:04}-{v >> 5 & 15:02}-{v & 31:02}" for v in packed]
        case table_map.DATETIME2:
            fractions = _read_fraction(block, cells.starts + 5, column.scale).tolist()
            wholes = _read_big_endian(block, cells.starts, 5).tolist()
            texts = [_format_datetime(*packed, column.scale) for packed in zip(wholes, fractions, strict=True)]
        case table_map.TIMESTAMP2:
            fractions = _read_fraction(block, cells.starts + 4, column.scale).tolist()
            seconds = _read_big_endian(block, cells.starts, 4).tolist()
            texts = [_format_timestamp(*packed, column.scale) for packed in zip(seconds, fractions, strict=True)]
        case table_map.TIME2:
            texts = [time_text(micros, column.scale) for micros in _unpack_time(block, cells, column).tolist()]
        case table_map.YEAR:
            texts = [f"{1900 + year if year else 0:04}" for year in unsigned(block, cells.starts, 1).tolist()]
        case table_map.NEWDECIMAL:
            nulls = cells.null.tolist()
            places = zip(cells.starts.tolist(), nulls, strict=True)
            texts = [
                "" if null else f"{_read_decimal(block.raw, start, column):f}".rjust(target.filled, "0")
                for start, null in places
            ]
        case _:
            numbers = unsigned(block, cells.starts, column.width)
            if not column.unsigned:
                shift = 64 - 8 * column.width
                numbers = numbers << shift >> shift
            whole = (number & (1 << 64) - 1 if column.unsigned else number for number in numbers.tolist())
            texts = [str(number).rjust(target.filled, "0") for number in whole]
    return pa.array(texts, pa.string(), mask=cells.null)


def _format_datetime(packed: int, fraction: int, digits: int) -> str:
    months = packed >> 22 & 0x1FFFF
    text = f"{months // 13:04}-{months % 13:02}-{packed >> 17 & 31:02}"
    return f"{text} {packed >> 12 & 31:02}:{packed >> 6 & 63:02}:{packed & 63:02}{_format_fraction(fraction, digits)}"


def _format_timestamp(seconds: int, fraction: int, digits: int) -> str:
    if not seconds and not fraction:
        return "0000-00-00 00:00:00" + _format_fraction(0, digits)
    day = date(1970, 1, 1) + timedelta(days=seconds // 86400)
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{day} {clock}{_format_fraction(fraction, digits)}"


_Decoder = Callable[[Block, Cells, LogColumn, TargetColumn, BadRows], pa.Array]
_DECODERS: Mapping[int, _Decoder] = {
    **dict.fromkeys(
        (table_map.TINY, table_map.SHORT, table_map.INT24, table_map.LONG, table_map.LONGLONG), _decode_integer
    ),
    table_map.FLOAT: _decode_float, table_map.DOUBLE: _decode_float, table_map.NEWDECIMAL: _decode_decimal,
    table_map.BIT: _decode_bit, table_map.YEAR: _decode_year, table_map.DATE: _decode_date,
    table_map.DATETIME2: _decode_datetime, table_map.TIMESTAMP2: _decode_timestamp, table_map.TIME2: _decode_time,
    **dict.fromkeys((table_map.VARCHAR, table_map.VAR_STRING, table_map.STRING, table_map.BLOB), _decode_string),
    table_map.JSON: _decode_json, table_map.ENUM: _decode_enum, table_map.SET: _decode_set,
}  # fmt: skip
KNOWN = frozenset(_DECODERS)
"""The column types of the log that are decoded."""
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
