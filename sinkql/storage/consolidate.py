"""Consolidate rows with `$diff`: add the diffs of equal rows and drop zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def consolidate(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Sum `$diff`, the last column, over equal rows; rows keep the order of their first change."""
    if not batches:
        return []
    rows = pa.Table.from_batches(batches).combine_chunks()
    diffs = rows.column("$diff").to_numpy()
    codes = np.zeros(len(rows), np.int64)
    for name in rows.schema.names:
        if name != "$diff":
            column_codes = _codes(rows.column(name).combine_chunks())
            codes = np.unique(codes * (int(column_codes.max(initial=0)) + 1) + column_codes, return_inverse=True)[
                1
            ].reshape(-1)
    sums = np.bincount(codes, weights=diffs).astype(np.int64)
    first = np.full(len(sums), len(rows), np.int64)
    np.minimum.at(first, codes, np.arange(len(rows)))
    nonzero = np.flatnonzero(sums)
    nonzero = nonzero[np.argsort(first[nonzero])]
    consolidated = rows.take(pa.array(first[nonzero]))
    index = consolidated.schema.get_field_index("$diff")
    batches = consolidated.set_column(index, "$diff", pa.array(sums[nonzero])).to_batches()
    return list(batches)


def _codes(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a number for each value; equal values have equal numbers."""
    if pa.types.is_nested(values.type):
        values = pa.array([None if value is None else repr(value) for value in values.to_pylist()], pa.string())
    codes = pc.dictionary_encode(values, null_encoding="encode").indices
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)
