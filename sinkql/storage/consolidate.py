"""Consolidate rows with `$diff`: add the diffs of equal rows and drop zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def consolidate(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Sum `$diff`, the last column, over equal rows; rows keep the order of their first change."""
    if not batches:
        return []
    rows = pa.Table.from_batches(batches).combine_chunks()
    diffs = rows.column("$diff").to_numpy()
    codes = row_codes(rows.drop_columns(["$diff"]))
    sums = np.bincount(codes, weights=diffs).astype(np.int64)
    first = np.full(len(sums), len(rows), np.int64)
    np.minimum.at(first, codes, np.arange(len(rows)))
    nonzero = np.flatnonzero(sums)
    nonzero = nonzero[np.argsort(first[nonzero])]
    consolidated = rows.take(pa.array(first[nonzero]))
    index = consolidated.schema.get_field_index("$diff")
    batches = consolidated.set_column(index, "$diff", pa.array(sums[nonzero])).to_batches()
    return list(batches)


def row_codes(rows: pa.Table) -> NDArray[np.int64]:
    """Return a number below the number of rows for each row; equal rows have equal numbers."""
    codes = np.zeros(len(rows), np.int64)
    for column in rows.columns:
        column_codes = _codes(column.combine_chunks())
        combined = codes * (int(column_codes.max(initial=0)) + 1) + column_codes
        codes = np.unique(combined, return_inverse=True)[1].reshape(-1)
    return codes


def _codes(values: pa.Array) -> NDArray[np.int64]:
    """Return a number for each value; equal values have equal numbers."""
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0)  # -0 equals 0
    if pa.types.is_nested(values.type):
        values = pa.array([None if value is None else repr(_alike(value)) for value in values.to_pylist()], pa.string())
    codes = pc.dictionary_encode(values, null_encoding="encode").indices
    return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)


def _alike(value: Any) -> Any:
    """Return a value inside arrays and records with -0 as 0."""
    match value:
        case float():
            return value + 0.0
        case dict():
            return [_alike(part) for part in value.values()]
        case list() | tuple():
            return list(map(_alike, value))
        case _:
            return value
