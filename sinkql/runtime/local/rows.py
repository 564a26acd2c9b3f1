"""Operators of one input that keep no state, over Arrow tables: the last row of each key, Flatten and Repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.physical import DIFF
from sinkql.runtime.local.map import values
from sinkql.storage.consolidate import row_codes


def last_rows(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in their order."""
    codes = row_codes(rows.select(list(key)))
    last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    last[codes] = np.arange(len(rows))  # a later place replaces an earlier one
    return rows.take(pa.array(np.sort(last)))


def flattened(operator: physical.Flatten, below: pa.Table) -> pa.Table:
    """Return the rows of a Flatten, with `$diff` if the rows below have it."""
    arrays = below.column(operator.array.column).combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(arrays), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.maximum(lengths, 1) if operator.outer else lengths
    places = np.repeat(np.arange(len(below)), counts)
    numbers = np.arange(len(places)) - (np.cumsum(counts) - counts)[places]
    missing = lengths[places] == 0
    indexes = pa.array((np.cumsum(lengths) - lengths)[places] + numbers, pa.int64(), mask=missing)
    rows = below.take(pa.array(places, pa.int64()))
    columns = {column.name: rows.column(column.name) for column in physical.columns_of(operator.input)}
    columns[operator.name] = pc.list_flatten(arrays).take(indexes).cast(arrow_type(operator.element))
    if operator.ordinality is not None:
        columns[operator.ordinality] = pa.array(numbers + 1, pa.int64(), mask=missing)
    internal = [DIFF] if DIFF in below.column_names else []
    return pa.table(columns | {name: rows.column(name) for name in internal})


def repeated(job: physical.Job, operator: physical.Repeat, below: pa.Table) -> pa.Table:
    """Return the rows of a Repeat; raises as `values` does."""
    times = np.array(values(job, operator.times, below), np.int64)
    diffs = below.column(DIFF).to_numpy() * times
    place = below.column_names.index(DIFF)
    multiplied = below.set_column(place, DIFF, pa.array(diffs, pa.int64()))
    return multiplied.filter(pa.array(diffs != 0))
