"""Put the rows of a batch into the buckets of Spark's shuffle by their keys: Murmur3 as in Spark.

It hashes one column after another, with the previous hash as the seed; NULL leaves the hash unchanged. A text's bytes
are hashed four at a time, and each remaining byte as a number. A numeric of up to 18 digits is hashed as a long, a
longer one as bytes. Arrays and records are hashed value by value; floats have -0 as 0 and a single NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import BIGINT, Type
from sinkql.runtime.local.nested_hash import chained

Hashes = NDArray[np.uint32]
_SEED = 42
INTS = frozenset({"boolean", "smallint", "integer", "date", "uint2"})
TEXTS = frozenset({"text", "uuid", "jsonb", "interval", "bytea", *SUBTYPES})
"""The types that are texts or bytes."""
_LONG_DIGITS = 18
_TRIED = 64


def bucket_numbers(columns: Sequence[Any], types: Sequence[Type], buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each row of arrays with these types."""
    hashes = np.full(len(columns[0]), _SEED, np.uint32)
    with np.errstate(over="ignore"):
        for column, type_ in zip(columns, types, strict=True):
            hashes = chained(column, type_, hashes, _hashed)
    return hashes.view(np.int32).astype(np.int64) % buckets


@cache
def hashes_of(buckets: int) -> tuple[int, ...]:
    """Return, for each bucket, a bigint that a shuffle puts there."""
    by_bucket: dict[int, int] = {}
    start = 0
    while len(by_bucket) < buckets:
        values = np.arange(start, start + _TRIED * buckets)
        for value, bucket in zip(values, bucket_numbers([pa.array(values)], [BIGINT], buckets), strict=True):
            by_bucket.setdefault(int(bucket), int(value))
        start += len(values)
    return tuple(by_bucket[bucket] for bucket in range(buckets))


def _hashed(column: pa.Array, type_: Type, seed: Hashes) -> Hashes:
    if type_.name in TEXTS:
        return _bytes(pc.fill_null(column.cast(pa.large_binary()), b""), seed)
    if pa.types.is_decimal(column.type):
        digits = unscaled(column)
        if isinstance(digits, list):
            return _bytes(pa.array(digits, pa.large_binary()), seed)
        return _long(digits, seed)
    if pa.types.is_floating(column.type):
        bits = float_bits(column)
        return _int(bits, seed) if bits.dtype == np.uint32 else _long(bits, seed)
    if type_.name in INTS:
        return _int(numbers(column, pa.int32()).view(np.uint32), seed)
    return _long(numbers(column, pa.int64()).view(np.uint64), seed)


def _int(bits: NDArray[np.uint32], seed: Hashes) -> Hashes:
    return _end(_mixed(seed, bits), np.uint32(4))


def _long(whole: NDArray[np.uint64], seed: Hashes) -> Hashes:
    low, high = whole.astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)
    return _end(_mixed(_mixed(seed, low), high), np.uint32(8))


def numbers(column: pa.Array, type_: pa.DataType) -> Any:
    """Return a column as integers of a type, 0 for NULL."""
    return np.ascontiguousarray(pc.fill_null(column.cast(type_), 0).to_numpy(zero_copy_only=False))


def float_bits(column: pa.Array) -> Any:  # numpy's unsigned integers
    """Return the bits of floats, with -0 as 0 and a single NaN."""
    values = np.ascontiguousarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)) + 0
    values[np.isnan(values)] = np.nan
    return values.view(np.uint32 if values.itemsize == 4 else np.uint64)


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
    hashes, words = seed.copy(), length // 4
    for word in range(int(words.max(initial=0))):
        mine = np.flatnonzero(words > word)
        at = begin[mine] + 4 * word
        four = [bytes_[at + place].astype(np.uint32) << np.uint32(8 * place) for place in range(4)]
        hashes[mine] = _mixed(hashes[mine], four[0] | four[1] | four[2] | four[3])
    for left in range(3):
        mine = np.flatnonzero(length % 4 > left)
        signed = bytes_[begin[mine] + 4 * words[mine] + left].view(np.int8).astype(np.int32)
        hashes[mine] = _mixed(hashes[mine], signed.view(np.uint32))
    return _end(hashes, length.astype(np.uint32))


def _mixed(hash_: Hashes, value: Hashes) -> Hashes:
    value = _rotated(value * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hash_ ^ value, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _end(hash_: Hashes, length: Hashes | np.uint32) -> Hashes:
    hash_ = hash_ ^ length
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hash_ = (hash_ ^ hash_ >> np.uint32(shift)) * np.uint32(factor)
    return hash_ ^ hash_ >> np.uint32(16)


def _rotated(values: Hashes, by: int) -> Hashes:
    return values << np.uint32(by) | values >> np.uint32(32 - by)
