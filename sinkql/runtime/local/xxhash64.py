"""Hash the columns of a batch like Spark's `xxhash64`.

It hashes one column after another, with the previous hash as the seed; NULL leaves the hash unchanged. Numbers are
hashed for all rows together; texts, bytes and numerics of more than 18 digits one by one. Floats have -0 as 0
and a single NaN. Arrays and records are hashed value by value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from sinkql.logical.type import Type
from sinkql.lowering.task_input import Hash
from sinkql.runtime.local.murmur3 import INTS, TEXTS, float_bits, numbers, unscaled
from sinkql.runtime.local.nested_hash import array_lengths, chained, nulls, over_elements

Hashes = NDArray[np.uint64]
_SEED = 42
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)


def row_hashes(hash_: Hash, rows: pa.Table) -> Hashes:
    """Return the hash of values in each row, as `lowering.task_input` defines it and Spark's SQL computes it."""
    hashes = np.full(len(rows), _SEED, np.uint64)
    with np.errstate(over="ignore"):
        hashes = _long(np.full(len(rows), hash_.domain, np.int64).view(np.uint64), hashes)
        for value in hash_.values:
            hashes = _marked(rows.column(value.column).combine_chunks(), value.type, hashes)
    return hashes


def _marked(column: pa.Array, type_: Type, seed: Hashes) -> Hashes:
    """Return the hashes after a column whose NULLs and array lengths are hashed too."""
    null = nulls(column)
    seed = _int(null.astype(np.uint32), seed)
    if type_.name == "record":
        for field, child in zip(type_.fields, column.flatten(), strict=True):
            seed = _marked(child, field.type, seed)
        return seed
    if type_.element is not None:
        element = type_.element
        seed = np.where(null, seed, _int(array_lengths(column).view(np.uint32), seed))
        return over_elements(column, seed, lambda elements, seeds: _marked(elements, element, seeds))
    return np.where(null, seed, _hashed(column, type_, seed))


def xxhash64(columns: Sequence[pa.Array], types: Sequence[Type]) -> Hashes:
    """Return the hash of each row of arrays with these types."""
    hashes = np.full(len(columns[0]), _SEED, np.uint64)
    with np.errstate(over="ignore"):
        for column, type_ in zip(columns, types, strict=True):
            hashes = chained(column, type_, hashes, _hashed)
    return hashes


def _hashed(column: pa.Array, type_: Type, seed: Hashes) -> Hashes:
    if type_.name in TEXTS:
        return _bytes(column.cast(pa.binary()).to_pylist(), seed)
    if pa.types.is_decimal(column.type):
        digits = unscaled(column)
        return _bytes(digits, seed) if isinstance(digits, list) else _long(digits, seed)
    if pa.types.is_floating(column.type):
        bits = float_bits(column)
        return _int(bits, seed) if bits.dtype == np.uint32 else _long(bits, seed)
    if type_.name in INTS:
        return _int(numbers(column, pa.int32()).view(np.uint32), seed)
    return _long(numbers(column, pa.int64()).view(np.uint64), seed)


def _bytes(values: Sequence[bytes | None], seed: Hashes) -> Hashes:
    digests = map(xxhash.xxh64_intdigest, (value or b"" for value in values), seed.tolist())
    return np.fromiter(digests, np.uint64, len(values))


def _int(value: NDArray[np.uint32], seed: Hashes) -> Hashes:
    return _end(_rotated(seed + _P5 + np.uint64(4) ^ value.astype(np.uint64) * _P1, 23) * _P2 + _P3)


def _long(value: NDArray[np.uint64], seed: Hashes) -> Hashes:
    return _end(_rotated(seed + _P5 + np.uint64(8) ^ _rotated(value * _P2, 31) * _P1, 27) * _P1 + _P4)


def _end(hash_: Hashes) -> Hashes:
    hash_ = (hash_ ^ hash_ >> np.uint64(33)) * _P2
    hash_ = (hash_ ^ hash_ >> np.uint64(29)) * _P3
    return hash_ ^ hash_ >> np.uint64(32)


def _rotated(values: Hashes, by: int) -> Hashes:
    return values << np.uint64(by) | values >> np.uint64(64 - by)
