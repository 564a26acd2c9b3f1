"""Batches of rows that came and went (`$diff`) → one batch without those that did both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def consolidate(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Add up `$diff`, the last column, over equal rows; rows stay in the order of their first change."""
    if not batches:
        return []
    rows = pa.Table.from_batches(batches).combine_chunks()
    diffs = rows.column("$diff").to_numpy()
    codes = np.zeros(len(rows), np.int64)
    for name in rows.schema.names:
        if name != "$diff":
            own = _codes(rows.column(name).combine_chunks())
            codes = np.unique(codes * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1].reshape(-1)
    sums = np.bincount(codes, weights=diffs).astype(np.int64)
    first = np.full(len(sums), len(rows), np.int64)
    np.minimum.at(first, codes, np.arange(len(rows)))
    kept = np.flatnonzero(sums)
    kept = kept[np.argsort(first[kept])]
    found = rows.take(pa.array(first[kept]))
    place = found.schema.get_field_index("$diff")
    batches = found.set_column(place, "$diff", pa.array(sums[kept])).to_batches()
    return list(batches)


def _codes(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a number for each value, the same for equal ones."""
    if pa.types.is_nested(values.type):
        values = pa.array([None if each is None else repr(each) for each in values.to_pylist()], pa.string())
    found = pc.dictionary_encode(values, null_encoding="encode").indices
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
