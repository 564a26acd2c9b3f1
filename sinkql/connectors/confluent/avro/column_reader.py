"""A writer's Avro schema → what its values are read by, a column of all messages at a time, as arrays of Arrow's types.

Records, unions with null, and what has no parts are read for all messages at once; arrays, maps and other unions value
by value, by fastavro. The arrays are those that `sinkql.decode.avro_schema` tells for columns of the same schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from sinkql.connectors.confluent.avro.cursor import BOOLEAN, CUT_OFF, DIGITS, SYMBOL, Numbers, Rows, Walk
from sinkql.decode.avro_schema import Column, check, column_of_schema, nodes, read_schema
from sinkql.decode.columnar import Mask, binaries, bitmap, booleans, decimals, fixed_width
from sinkql.logical import Interval
from sinkql.logical.time import show_interval

Schema = Any  # as JSON has it
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
    """Values of one type; `type` is that of their array."""

    type: pa.DataType

    def read(self, walk: Walk, rows: Rows) -> pa.Array:
        """Read the values of some messages; those of messages that are wrong mean nothing."""
        raise NotImplementedError

    def skip(self, walk: Walk, rows: Rows) -> None:
        """Go over the values of some messages."""
        self.read(walk, rows)

    def read_some(self, walk: Walk, rows: Rows, valid: Mask) -> pa.Array:
        """Read the values of those of some messages that have one; the others are NULL."""
        values = self.read(walk, walk.rows(rows)[valid])
        places = np.cumsum(valid) - 1
        return values.take(pa.array(np.where(valid, places, 0), mask=~valid))


Raw = tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class Flat(Node):
    """Values that are numbers to begin with: `raw` reads one or more for each, of which `make` makes an array."""

    type: pa.DataType
    raw: Callable[[Walk, Rows], tuple[Any, ...]]
    make: Callable[[Walk, tuple[Any, ...], Mask | None], pa.Array]

    def read(self, walk: Walk, rows: Rows) -> pa.Array:
        return self.make(walk, self.raw(walk, rows), None)

    def skip(self, walk: Walk, rows: Rows) -> None:
        self.raw(walk, rows)

    def read_some(self, walk: Walk, rows: Rows, valid: Mask) -> pa.Array:
        whole = []
        for values in self.raw(walk, walk.rows(rows)[valid]):
            spread = np.zeros((len(valid), *values.shape[1:]), values.dtype)
            spread[valid] = values
            whole.append(spread)
        return self.make(walk, tuple(whole), valid)


@dataclass(frozen=True, slots=True)
class Nothing(Node):
    """The type null."""

    type: pa.DataType

    def read(self, walk: Walk, rows: Rows) -> pa.Array:
        return pa.nulls(len(walk.rows(rows)), self.type)


@dataclass(frozen=True, slots=True)
class Optional(Node):
    """A union of null, its branch `null`, and another type."""

    inner: Node
    null: int
    type: pa.DataType

    def read(self, walk: Walk, rows: Rows) -> pa.Array:
        there = walk.branch(rows, 2) != self.null
        return self.inner.read(walk, rows) if there.all() else self.inner.read_some(walk, rows, there)

    def skip(self, walk: Walk, rows: Rows) -> None:
        there = walk.branch(rows, 2) != self.null
        self.inner.skip(walk, rows if there.all() else walk.rows(rows)[there])


@dataclass(frozen=True, slots=True)
class Record(Node):
    """A record within a message, by the names of its fields."""

    fields: Mapping[str, Node]
    type: pa.DataType

    def read(self, walk: Walk, rows: Rows) -> pa.Array:
        arrays = [node.read(walk, rows) for node in self.fields.values()]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))

    def skip(self, walk: Walk, rows: Rows) -> None:
        for node in self.fields.values():
            node.skip(walk, rows)


@dataclass(frozen=True, slots=True)
class OneByOne(Node):
    """Values that are read by fastavro; `deep` is there where they could be nested too deeply for it."""

    column: Column
    schema: Schema
    deep: Any

    @property
    def type(self) -> pa.DataType:
        return self.column.shown

    def read(self, walk: Walk, rows: Rows) -> pa.Array:
        places = walk.rows(rows)
        values = [self._value(walk, row, *each) for row, *each in zip(
            places.tolist(), walk.at[places].tolist(), walk.ends[places].tolist(), strict=True)]  # fmt: skip
        return self.column.array(values)

    def _value(self, walk: Walk, row: int, at: int, end: int) -> Any:
        if at > end:
            return None  # which is wrong already
        data = walk.block.raw[at:end]
        stream = BytesIO(data)
        try:
            if self.deep is not None:
                check(self.deep, data, 1)
            found: Any = fastavro.schemaless_reader(stream, self.schema, None)
        except EOFError:
            walk.fail(np.array([row]), np.ones(1, bool), CUT_OFF)
            return None
        except Exception as error:  # fastavro raises what comes up in it
            walk.fail_at(row, str(error) or type(error).__name__)
            return None
        walk.at[row] = at + stream.tell()
        return found["v"]


def node_of(schema: Schema, names: Mapping[str, Schema]) -> Node:
    """Return what reads values of a schema, of which fastavro has made one with `names`."""
    column = column_of_schema(schema, names)
    whole = column.type == JSON
    return _one_by_one(column) if whole else _node(schema, names)


def _node(schema: Schema, names: Mapping[str, Schema]) -> Node:
    match schema:
        case list():
            return _union(schema, names)
        case str() if schema in names:
            return _node(names[schema], names)
        case str():
            return _plain(schema)
        case {"type": "record" | "error", "fields": fields}:
            inner = {each["name"]: _node(each["type"], names) for each in fields}
            return Record(inner, pa.struct([(each, node.type) for each, node in inner.items()]))
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
    return _one_by_one(column_of_schema(schema, names))


def _union(branches: list[Schema], names: Mapping[str, Schema]) -> Node:
    if len(branches) != 2 or branches.count("null") != 1:
        return _one_by_one(column_of_schema(branches, names))
    null = branches.index("null")
    inner = _node(branches[1 - null], names)
    return Optional(inner, null, inner.type)


def _one_by_one(column: Column) -> Node:
    read = read_schema({"v": column})
    return OneByOne(column, fastavro.parse_schema(read), nodes(read))


def _plain(name: str) -> Node:
    match name:
        case "null":
            return Nothing(pa.string())
        case "boolean":
            return Flat(pa.bool_(), _boolean, lambda walk, raw, valid: booleans(raw[0], valid))
        case "int" | "long":
            return _number(name, None)
        case "float" | "double":
            return _floating(*(("<f4", pa.float32()) if name == "float" else ("<f8", pa.float64())))
        case "string" | "bytes":
            return _lengthy(pa.string() if name == "string" else pa.binary())
    raise ValueError(f"its schema has {name}")


def _boolean(walk: Walk, rows: Rows) -> tuple[Mask]:
    byte = walk.byte(rows)
    walk.fail(rows, byte > 1, BOOLEAN)
    return (byte == 1,)


def _number(base: str, logical: str | None) -> Node:
    small = base == "int"
    type_ = (_INTS if small else _LONGS).get(logical or "", _NUMBERS[base])

    def raw(walk: Walk, rows: Rows) -> tuple[Numbers]:
        return (walk.integer(rows) if small else walk.number(rows),)  # type: ignore[return-value]  # of 32 bits

    return Flat(type_, raw, lambda walk, raw, valid: fixed_width(raw[0], valid, type_))


def _floating(kind: str, type_: pa.DataType) -> Node:
    def raw(walk: Walk, rows: Rows) -> tuple[Any]:
        at = walk.sized(rows, type_.bit_width // 8)
        return (walk.block.view(kind)[at],)

    return Flat(type_, raw, lambda walk, raw, valid: fixed_width(raw[0], valid, type_))


def _lengthy(type_: pa.DataType) -> Node:
    def make(walk: Walk, raw: Raw, valid: Mask | None) -> pa.Array:
        starts, lengths = raw
        if valid is not None:  # what is NULL has no place, and takes that behind the value before it
            starts = np.where(valid, starts, np.maximum.accumulate(starts + lengths))
        found = binaries(walk.block, starts, lengths, valid)
        return found if type_ == pa.binary() else found.view(type_)

    return Flat(type_, lambda walk, rows: walk.lengthy(rows), make)


def _enum(symbols: list[str]) -> Node:
    texts = pa.array(symbols, pa.string())

    def raw(walk: Walk, rows: Rows) -> tuple[Numbers]:
        found = walk.number(rows)
        bad = (found < 0) | (found >= len(symbols))
        walk.fail(rows, bad, SYMBOL)
        return (np.where(bad, 0, found),)

    def make(walk: Walk, raw: Raw, valid: Mask | None) -> pa.Array:
        return texts.take(pa.array(raw[0], mask=None if valid is None else ~valid))

    return Flat(pa.string(), raw, make)


def _fixed(size: int) -> Node:
    type_ = pa.binary(size)

    def make(walk: Walk, raw: tuple[Any, ...], valid: Mask | None) -> pa.Array:
        return pa.Array.from_buffers(type_, len(raw[0]), [bitmap(valid), pa.py_buffer(np.ascontiguousarray(raw[0]))])

    return Flat(type_, lambda walk, rows: (_bytes_at(walk, rows, size),), make)


def _bytes_at(walk: Walk, rows: Rows, size: int) -> Any:
    """Read so many bytes; return them as rows of a matrix."""
    at = walk.sized(rows, size)
    if not size:
        return np.zeros((len(at), 0), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(walk.block.bytes, size)[at]


def _logical_bytes(schema: dict[str, Any], names: Mapping[str, Schema], size: int | None) -> Node | None:
    """Return what reads a decimal, a uuid or a duration; None for any other."""
    name = schema.get("logicalType")
    if name == "uuid" and size == 16:
        return _fixed(16)
    if name == "duration" and size == 12:
        return Flat(pa.string(), lambda walk, rows: (_bytes_at(walk, rows, 12).view("<u4"),), _durations)
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if name != "decimal" or not isinstance(digits, int) or not isinstance(scale, int):
        return None
    if not (0 <= scale <= digits and digits > 0):
        return None
    if digits > _FLAT or (size or 0) > _MOST_BYTES:
        return _one_by_one(column_of_schema(schema, names))
    type_ = pa.decimal128(_FLAT, scale)

    def raw(walk: Walk, rows: Rows) -> tuple[Any, ...]:
        at, length = walk.lengthy(rows) if size is None else (walk.sized(rows, size), None)
        if length is None:
            length = np.full(len(at), size)
        bad = length > _MOST_BYTES
        low, high = _words(walk, at, np.where(bad, 0, length))
        beyond = _beyond(low, high)
        walk.fail(rows, bad | beyond, DIGITS)
        return np.where(beyond, 0, low), np.where(beyond, 0, high)

    def make(walk: Walk, raw: tuple[Any, ...], valid: Mask | None) -> pa.Array:
        if (raw[1] == raw[0] >> 63).all():
            return decimals(raw[0], valid, type_)
        words = np.stack(raw, axis=1)
        return pa.Array.from_buffers(type_, len(words), [bitmap(valid), pa.py_buffer(words)])

    return Flat(type_, raw, make)


def _words(walk: Walk, at: Numbers, length: Numbers) -> tuple[Numbers, Numbers]:
    """Return signed numbers of up to 16 bytes, the greatest first, as two words: the lower, and the upper."""
    negative = (walk.block.bytes.take(at, mode="clip") >= 0x80) & (length > 0)
    low = np.where(negative, -1, 0)
    high = low.copy()
    for place in range(int(length.max(initial=0))):
        more = place < length
        byte = walk.block.bytes.take(at + place, mode="clip").astype(np.int64)
        high = np.where(more, (high << 8) | ((low >> 56) & 0xFF), high)
        low = np.where(more, (low << 8) | byte, low)
    return low, high


def _beyond(low: Numbers, high: Numbers) -> Mask:
    """Tell which numbers of two words have more than 38 digits."""
    unsigned = low.view(np.uint64)
    over = (high > _LIMIT[0]) | ((high == _LIMIT[0]) & (unsigned >= _LIMIT[1]))
    under = (high < _LEAST[0]) | ((high == _LEAST[0]) & (unsigned <= _LEAST[1]))
    found: Mask = over | under
    return found


def _two_words(number: int) -> tuple[int, np.uint64]:
    return number >> 64, np.uint64(number & (1 << 64) - 1)


_LIMIT, _LEAST = _two_words(10**_FLAT), _two_words(-(10**_FLAT))


def _durations(walk: Walk, raw: tuple[Any, ...], valid: Mask | None) -> pa.Array:
    """Return intervals of months, days and milliseconds as texts."""
    parts = raw[0].tolist()
    there = [True] * len(parts) if valid is None else valid.tolist()
    texts = [
        show_interval(Interval(months, days, milliseconds * 1000)) if known else None
        for (months, days, milliseconds), known in zip(parts, there, strict=True)
    ]
    return pa.array(texts, pa.string())
