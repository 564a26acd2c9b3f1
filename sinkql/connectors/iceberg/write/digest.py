"""Rows in a table's Arrow types → 128-bit hashes of all their values: rows with equal ones need not be written again.

Values are taken as they are stored, so that 0.0 is not -0.0. Arrays and the like go in as text.
"""

from __future__ import annotations

import pyarrow as pa

from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, hash_rows, is_hashable

_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def digests(rows: pa.Table, hash_key: HashKey) -> tuple[Hashes, Hashes]:
    """Return the two halves of each row's hash; columns count in their order."""
    return hash_rows(hash_key, [_hashed(rows.column(name)) for name in rows.column_names])


def _hashed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    bits = _BITS.get(column.type)
    if bits is not None:
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    if pa.types.is_nested(column.type) or not is_hashable(column.type):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    return column
