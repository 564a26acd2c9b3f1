"""Read the values of a field of the writer's schema for many messages together, as Arrow arrays.

Records, unions with null, and scalars are read for all messages together. Arrays, maps and other unions are read value
by value with fastavro. The arrays have the types that `sinkql.decode.avro_schema` derives for the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from sinkql.connectors.confluent.avro.cursor import BOOLEAN, CUT_OFF, DIGITS, SYMBOL, Cursor, Numbers, Rows
from sinkql.decode.avro_schema import Column, check, column_of_schema, nodes, read_schema
from sinkql.decode.columnar import Mask, binaries, bitmap, booleans, decimals, fixed_width
from sinkql.logical import Interval
from sinkql.logical.time import show_interval

Schema = Any  # decoded JSON
JSON = pa.json_(pa.string())
_FLAT = 38
_MOST_BYTES = 16
_NUMBERS: Mapping[str, pa.DataType] = {"int": pa.int32(), "long": pa.int64()}
_INTS: Mapping[str, pa.DataType] = {"date": pa.date32(), "time-millis": pa.time32("ms")}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_LONGS: Mapping[str, pa.DataType] = {
    "time-micros": pa.time64("us"),
    **{f"timestamp-{name}": pa.timestamp(unit, "UTC") for name, unit in _UNITS.items()},
    **{f"local-timestamp-{name}": pa.timestamp(unit) for name, unit in _UNITS.items()},
}


class Node:
    """A reader of values of one Avro type; `type` is the Arrow type of its arrays."""

    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        """Read the values of some messages; values of invalid messages are arbitrary."""
        raise NotImplementedError

    def skip(self, cursor: Cursor, rows: Rows) -> None:
        """Skip the values of some messages."""
        self.read(cursor, rows)

    def read_some(self, cursor: Cursor, rows: Rows, valid: Mask) -> pa.Array:
        """Read the values of the messages that have one by `valid`; other messages have NULL."""
        values = self.read(cursor, cursor.rows(rows)[valid])
        indexes = np.cumsum(valid) - 1
        return values.take(pa.array(np.where(valid, indexes, 0), mask=~valid))


Raw = tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class Flat(Node):
    """A reader of scalars: `raw` reads one or several numbers for each value, and `make` makes an array of them."""

    type: pa.DataType
    raw: Callable[[Cursor, Rows], tuple[Any, ...]]
    make: Callable[[Cursor, tuple[Any, ...], Mask | None], pa.Array]

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return self.make(cursor, self.raw(cursor, rows), None)

    def skip(self, cursor: Cursor, rows: Rows) -> None:
        self.raw(cursor, rows)

    def read_some(self, cursor: Cursor, rows: Rows, valid: Mask) -> pa.Array:
        whole = []
        for values in self.raw(cursor, cursor.rows(rows)[valid]):
            spread = np.zeros((len(valid), *values.shape[1:]), values.dtype)
            spread[valid] = values
            whole.append(spread)
        return self.make(cursor, tuple(whole), valid)


@dataclass(frozen=True, slots=True)
class Nothing(Node):
    """A reader of the type null."""

    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return pa.nulls(len(cursor.rows(rows)), self.type)


@dataclass(frozen=True, slots=True)
class Optional(Node):
    """A reader of a union of null, which is the branch `null`, and another type."""

    inner: Node
    null: int
    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        present = cursor.branch(rows, 2) != self.null
        return self.inner.read(cursor, rows) if present.all() else self.inner.read_some(cursor, rows, present)

    def skip(self, cursor: Cursor, rows: Rows) -> None:
        present = cursor.branch(rows, 2) != self.null
        self.inner.skip(cursor, rows if present.all() else cursor.rows(rows)[present])


@dataclass(frozen=True, slots=True)
class Record(Node):
    """A reader of a nested record, with the readers of its fields."""

    fields: Mapping[str, Node]
    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        arrays = [node.read(cursor, rows) for node in self.fields.values()]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))

    def skip(self, cursor: Cursor, rows: Rows) -> None:
        for node in self.fields.values():
            node.skip(cursor, rows)


@dataclass(frozen=True, slots=True)
class ValueByValue(Node):
    """A reader that uses fastavro for each value; `deep` is set if values may be nested too deeply for fastavro."""

    column: Column
    schema: Schema
    deep: Any

    @property
    def type(self) -> pa.DataType:
        return self.column.shown

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        indexes = cursor.rows(rows)
        values = [self._value(cursor, row, *span) for row, *span in zip(
            indexes.tolist(), cursor.at[indexes].tolist(), cursor.ends[indexes].tolist(), strict=True)]  # fmt: skip
        return self.column.array(values)

    def _value(self, cursor: Cursor, row: int, at: int, end: int) -> Any:
        if at > end:
            return None  # the message is invalid
        data = cursor.block.raw[at:end]
        stream = BytesIO(data)
        try:
            if self.deep is not None:
                check(self.deep, data, 1)
            value: Any = fastavro.schemaless_reader(stream, self.schema, None)
        except EOFError:
            cursor.fail(np.array([row]), np.ones(1, bool), CUT_OFF)
            return None
        except Exception as error:  # fastavro raises many kinds
            cursor.fail_at(row, str(error) or type(error).__name__)
            return None
        cursor.at[row] = at + stream.tell()
        return value["v"]


def node_of(schema: Schema, names: Mapping[str, Schema]) -> Node:
    """Return the reader of a schema that fastavro has parsed; `names` has its named types."""
    column = column_of_schema(schema, names)
    return _value_by_value(column) if column.type == JSON else _node(schema, names)


def _node(schema: Schema, names: Mapping[str, Schema]) -> Node:
    match schema:
        case list():
            return _union(schema, names)
        case str() if schema in names:
            return _node(names[schema], names)
        case str():
            return _plain(schema)
        case {"type": "record" | "error", "fields": fields}:
            inner = {field["name"]: _node(field["type"], names) for field in fields}
            return Record(inner, pa.struct([(name, node.type) for name, node in inner.items()]))
        case {"type": "enum", "symbols": symbols}:
            return _enum(symbols)
        case {"type": "fixed", "size": size}:
            return _logical_bytes(schema, names, size) or _fixed(size)
        case {"type": "bytes"}:
            return _logical_bytes(schema, names, None) or _plain("bytes")
        case {"type": "int" | "long" as base}:
            return _number(base, schema.get("logicalType"))
        case {"type": str() as base} if base not in ("array", "map"):
            return _node(base, names)
        case {"type": dict() | list() as inner_schema}:
            return _node(inner_schema, names)
    return _value_by_value(column_of_schema(schema, names))


def _union(branches: list[Schema], names: Mapping[str, Schema]) -> Node:
    if len(branches) != 2 or branches.count("null") != 1:
        return _value_by_value(column_of_schema(branches, names))
    null = branches.index("null")
    inner = _node(branches[1 - null], names)
    return Optional(inner, null, inner.type)


def _value_by_value(column: Column) -> Node:
    read = read_schema({"v": column})
    return ValueByValue(column, fastavro.parse_schema(read), nodes(read))


def _plain(name: str) -> Node:
    match name:
        case "null":
            return Nothing(pa.string())
        case "boolean":
            return Flat(pa.bool_(), _boolean, lambda cursor, raw, valid: booleans(raw[0], valid))
        case "int" | "long":
            return _number(name, None)
        case "float" | "double":
            return _floating(*(("<f4", pa.float32()) if name == "float" else ("<f8", pa.float64())))
        case "string" | "bytes":
            return _with_length(pa.string() if name == "string" else pa.binary())
    raise ValueError(f"its schema has {name}")


def _boolean(cursor: Cursor, rows: Rows) -> tuple[Mask]:
    byte = cursor.byte(rows)
    cursor.fail(rows, byte > 1, BOOLEAN)
    return (byte == 1,)


def _number(base: str, logical: str | None) -> Node:
    small = base == "int"
    type_ = (_INTS if small else _LONGS).get(logical or "", _NUMBERS[base])

    def raw(cursor: Cursor, rows: Rows) -> tuple[Numbers]:
        return (cursor.integer(rows) if small else cursor.number(rows),)  # type: ignore[return-value]  # of 32 bits

    return Flat(type_, raw, lambda cursor, raw, valid: fixed_width(raw[0], valid, type_))


def _floating(kind: str, type_: pa.DataType) -> Node:
    def raw(cursor: Cursor, rows: Rows) -> tuple[Any]:
        at = cursor.sized(rows, type_.bit_width // 8)
        return (cursor.block.view(kind)[at],)

    return Flat(type_, raw, lambda cursor, raw, valid: fixed_width(raw[0], valid, type_))


def _with_length(type_: pa.DataType) -> Node:
    def make(cursor: Cursor, raw: Raw, valid: Mask | None) -> pa.Array:
        starts, lengths = raw
        if valid is not None:  # a NULL has no position, and gets the end of the preceding value
            starts = np.where(valid, starts, np.maximum.accumulate(starts + lengths))
        array = binaries(cursor.block, starts, lengths, valid)
        return array if type_ == pa.binary() else array.view(type_)

    return Flat(type_, lambda cursor, rows: cursor.with_length(rows), make)


def _enum(symbols: list[str]) -> Node:
    texts = pa.array(symbols, pa.string())

    def raw(cursor: Cursor, rows: Rows) -> tuple[Numbers]:
        numbers = cursor.number(rows)
        bad = (numbers < 0) | (numbers >= len(symbols))
        cursor.fail(rows, bad, SYMBOL)
        return (np.where(bad, 0, numbers),)

    def make(cursor: Cursor, raw: Raw, valid: Mask | None) -> pa.Array:
        return texts.take(pa.array(raw[0], mask=None if valid is None else ~valid))

    return Flat(pa.string(), raw, make)


def _fixed(size: int) -> Node:
    type_ = pa.binary(size)

    def make(cursor: Cursor, raw: tuple[Any, ...], valid: Mask | None) -> pa.Array:
        return pa.Array.from_buffers(type_, len(raw[0]), [bitmap(valid), pa.py_buffer(np.ascontiguousarray(raw[0]))])

    return Flat(type_, lambda cursor, rows: (_bytes_at(cursor, rows, size),), make)


def _bytes_at(cursor: Cursor, rows: Rows, size: int) -> Any:
    """Read `size` bytes of each message; return them as the rows of a matrix."""
    at = cursor.sized(rows, size)
    if not size:
        return np.zeros((len(at), 0), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(cursor.block.bytes, size)[at]


def _logical_bytes(schema: dict[str, Any], names: Mapping[str, Schema], size: int | None) -> Node | None:
    """Return the reader of a decimal, a uuid or a duration; None for other types."""
    name = schema.get("logicalType")
    if name == "uuid" and size == 16:
        return _fixed(16)
    if name == "duration" and size == 12:
        return Flat(pa.string(), lambda cursor, rows: (_bytes_at(cursor, rows, 12).view("<u4"),), _durations)
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if name != "decimal" or not isinstance(digits, int) or not isinstance(scale, int):
        return None
    if not (0 <= scale <= digits and digits > 0):
        return None
    if digits > _FLAT or (size or 0) > _MOST_BYTES:
        return _value_by_value(column_of_schema(schema, names))
    type_ = pa.decimal128(_FLAT, scale)

    def raw(cursor: Cursor, rows: Rows) -> tuple[Any, ...]:
        at, length = cursor.with_length(rows) if size is None else (cursor.sized(rows, size), None)
        if length is None:
            length = np.full(len(at), size)
        bad = length > _MOST_BYTES
        low, high = _words(cursor, at, np.where(bad, 0, length))
        too_large = _exceeds_digits(low, high)
        cursor.fail(rows, bad | too_large, DIGITS)
        return np.where(too_large, 0, low), np.where(too_large, 0, high)

    def make(cursor: Cursor, raw: tuple[Any, ...], valid: Mask | None) -> pa.Array:
        if (raw[1] == raw[0] >> 63).all():
            return decimals(raw[0], valid, type_)
        words = np.stack(raw, axis=1)
        return pa.Array.from_buffers(type_, len(words), [bitmap(valid), pa.py_buffer(words)])

    return Flat(type_, raw, make)


def _words(cursor: Cursor, at: Numbers, length: Numbers) -> tuple[Numbers, Numbers]:
    """Return big-endian signed numbers of up to 16 bytes as two words, the low and the high one."""
    negative = (cursor.block.bytes.take(at, mode="clip") >= 0x80) & (length > 0)
    low = np.where(negative, -1, 0)
    high = low.copy()
    for index in range(int(length.max(initial=0))):
        present = index < length
        byte = cursor.block.bytes.take(at + index, mode="clip").astype(np.int64)
        high = np.where(present, (high << 8) | ((low >> 56) & 0xFF), high)
        low = np.where(present, (low << 8) | byte, low)
    return low, high


def _exceeds_digits(low: Numbers, high: Numbers) -> Mask:
    """Return the mask of 128-bit numbers, each in two words, that have more than 38 digits."""
    unsigned = low.view(np.uint64)
    over = (high > _LIMIT[0]) | ((high == _LIMIT[0]) & (unsigned >= _LIMIT[1]))
    under = (high < _LEAST[0]) | ((high == _LEAST[0]) & (unsigned <= _LEAST[1]))
    exceeds: Mask = over | under
    return exceeds


def _two_words(number: int) -> tuple[int, np.uint64]:
    return number >> 64, np.uint64(number & (1 << 64) - 1)


_LIMIT, _LEAST = _two_words(10**_FLAT), _two_words(-(10**_FLAT))


def _durations(cursor: Cursor, raw: tuple[Any, ...], valid: Mask | None) -> pa.Array:
    """Return durations in months, days and milliseconds as interval texts."""
    parts = raw[0].tolist()
    present = [True] * len(parts) if valid is None else valid.tolist()
    texts = [
        show_interval(Interval(months, days, milliseconds * 1000)) if is_present else None
        for (months, days, milliseconds), is_present in zip(parts, present, strict=True)
    ]
    return pa.array(texts, pa.string())
