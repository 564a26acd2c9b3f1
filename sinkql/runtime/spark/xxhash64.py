"""Columns of a batch → the hashes that Spark's `xxhash64` gives their rows.

It hashes one column after the other, each with the hash of the one before as its seed; NULL leaves that as it is.
Numbers are hashed here for all rows at once, texts one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from sinkql.lowering.preparation import Hash, Preparation
from sinkql.physical import DIFF, SEQ
from sinkql.runtime.spark.bucket import HASHED, INTS, TEXTS, numbers

Hashes = NDArray[np.uint64]
_SEED = 42
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)


def hashable(preparation: Preparation) -> bool:
    """Tell whether all that goes into its hashes is hashed here, and rows come one by one."""
    values = [value for each in preparation.hashes for value in each.values]
    return preparation.ordered and all(each.type in HASHED for each in values)


def prepared(preparation: Preparation, rows: pa.Table) -> pa.Table:
    """Return rows as an operator's tasks take them, which comes one by one."""
    found: dict[str, Any] = {each.name: pa.array(_hash(each, rows).view(np.int64)) for each in preparation.hashes}
    found |= {each.name: rows.column(each.column) for each in preparation.values}
    found |= {name: rows.column(name) for name in (DIFF, SEQ)}
    schema = preparation.delivered()
    return pa.table([found[name] for name in schema.names], schema=schema)


def _hash(hash_: Hash, rows: pa.Table) -> Hashes:
    columns: list[pa.Array] = [pa.array(np.full(len(rows), hash_.seed, np.int64))]
    types = ["bigint"]
    for each in hash_.values:
        column = rows.column(each.column).combine_chunks()
        columns += [column.is_null(), column]
        types += ["boolean", each.type]
    return xxhash64(columns, types)


def xxhash64(columns: Sequence[pa.Array], types: Sequence[str]) -> Hashes:
    """Return each row's hash, of arrays of these types."""
    found = np.full(len(columns[0]), _SEED, np.uint64)
    with np.errstate(over="ignore"):
        for column, type_ in zip(columns, types, strict=True):
            null = column.is_null().to_numpy(zero_copy_only=False)
            found = np.where(null, found, _hashed(column, type_, found))
    return found


def _hashed(column: pa.Array, type_: str, seed: Hashes) -> Hashes:
    if type_ in TEXTS:
        texts = pc.fill_null(column, "").cast(pa.binary()).to_pylist()
        each = map(xxhash.xxh64_intdigest, texts, seed.tolist())
        return np.fromiter(each, np.uint64, len(texts))
    if type_ in INTS:
        value = numbers(column, pa.int32()).view(np.uint32).astype(np.uint64)
        return _end(_rotated(seed + _P5 + np.uint64(4) ^ value * _P1, 23) * _P2 + _P3)
    value = numbers(column, pa.int64()).view(np.uint64)
    return _end(_rotated(seed + _P5 + np.uint64(8) ^ _rotated(value * _P2, 31) * _P1, 27) * _P1 + _P4)


def _end(found: Hashes) -> Hashes:
    found = (found ^ found >> np.uint64(33)) * _P2
    found = (found ^ found >> np.uint64(29)) * _P3
    return found ^ found >> np.uint64(32)


def _rotated(values: Hashes, by: int) -> Hashes:
    return values << np.uint64(by) | values >> np.uint64(64 - by)
