"""Put the rows of a batch into the buckets of Spark's shuffle by their keys: Murmur3 as in Spark.

It hashes one column after another, with the previous hash as the seed; NULL leaves the hash unchanged. A text's bytes
are hashed four at a time, and each remaining byte as a number. A numeric of up to 18 digits is hashed as a long, a
longer one as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql.logical.type import Type

Hashes = NDArray[np.uint32]
_SEED = 42
INTS = frozenset({"boolean", "smallint", "integer", "date", "uint2"})
_LONGS = frozenset({"bigint", "uint4", "time", "timestamp", "timestamptz"})
TEXTS = frozenset({"text", "uuid"})
HASHED = INTS | _LONGS | TEXTS
"""The types of keys that this module can hash, besides numeric."""
_LONG_DIGITS = 18


def is_hashable(type_: Type) -> bool:
    """Return whether this module can hash keys of a type."""
    return type_.name in HASHED | {"numeric", "uint8"}


def bucket_numbers(columns: Sequence[Any], types: Sequence[Type], buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each row of arrays with these types."""
    found = np.full(len(columns[0]), _SEED, np.uint32)
    with np.errstate(over="ignore"):
        for column, type_ in zip(columns, types, strict=True):
            null = column.is_null().to_numpy(zero_copy_only=False)
            found = np.where(null, found, _hashed(column, type_, found))
    return found.view(np.int32).astype(np.int64) % buckets


def _hashed(column: pa.Array, type_: Type, seed: Hashes) -> Hashes:
    if type_.name in TEXTS:
        return _bytes(pc.fill_null(column, "").cast(pa.large_binary()), seed)
    if pa.types.is_decimal(column.type):
        digits = unscaled(column)
        if isinstance(digits, list):
            return _bytes(pa.array(digits, pa.large_binary()), seed)
        return _long(digits, seed)
    if type_.name in INTS:
        found = numbers(column, pa.int32()).view(np.uint32)
        return _end(_mixed(seed, found), np.uint32(4))
    return _long(numbers(column, pa.int64()).view(np.uint64), seed)


def _long(whole: NDArray[np.uint64], seed: Hashes) -> Hashes:
    low, high = whole.astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)
    return _end(_mixed(_mixed(seed, low), high), np.uint32(8))


def numbers(column: pa.Array, type_: pa.DataType) -> Any:
    """Return a column as integers of a type, 0 for NULL."""
    return np.ascontiguousarray(pc.fill_null(column.cast(type_), 0).to_numpy(zero_copy_only=False))


def unscaled(column: pa.Array) -> NDArray[np.uint64] | list[bytes]:
    """Return a numeric's unscaled digits: a long for up to 18 digits, otherwise the shortest bytes of the number."""
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    if column.type.precision <= _LONG_DIGITS:
        return np.ascontiguousarray(words[:, 0]).view(np.uint64)
    pairs = zip(words[:, 0].view(np.uint64).tolist(), words[:, 1].tolist(), strict=True)
    return [_fewest((high << 64) | low) for low, high in pairs]


def _fewest(number: int) -> bytes:
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _bytes(values: pa.Array, seed: Hashes) -> Hashes:
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    begin, length = offsets[:-1], np.diff(offsets)
    found, words = seed.copy(), length // 4
    for word in range(int(words.max(initial=0))):
        mine = np.flatnonzero(words > word)
        at = begin[mine] + 4 * word
        four = [bytes_[at + place].astype(np.uint32) << np.uint32(8 * place) for place in range(4)]
        found[mine] = _mixed(found[mine], four[0] | four[1] | four[2] | four[3])
    for left in range(3):
        mine = np.flatnonzero(length % 4 > left)
        signed = bytes_[begin[mine] + 4 * words[mine] + left].view(np.int8).astype(np.int32)
        found[mine] = _mixed(found[mine], signed.view(np.uint32))
    return _end(found, length.astype(np.uint32))


def _mixed(found: Hashes, value: Hashes) -> Hashes:
    value = _rotated(value * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(found ^ value, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _end(found: Hashes, length: Hashes | np.uint32) -> Hashes:
    found = found ^ length
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> np.uint32(shift)) * np.uint32(factor)
    return found ^ found >> np.uint32(16)


def _rotated(values: Hashes, by: int) -> Hashes:
    return values << np.uint32(by) | values >> np.uint32(32 - by)
