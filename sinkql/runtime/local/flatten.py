"""What each row is several times, or not at all → its rows, in Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import logical, physical
from sinkql.connector_api.types import arrow_type
from sinkql.runtime.local.map import values


def flattened(operator: physical.Flatten, below: pa.Table) -> pa.Table:
    """Return what a Flatten gives, with the columns that are not the user's."""
    array = operator.array.expression
    assert isinstance(array, logical.Reference)
    held = below.column(array.name).combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(held), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.maximum(lengths, 1) if operator.outer else lengths
    places = np.repeat(np.arange(len(below)), counts)
    numbers = np.arange(len(places)) - (np.cumsum(counts) - counts)[places]
    lacking = lengths[places] == 0
    flat = pc.list_flatten(held)
    taken = pa.array((np.cumsum(lengths) - lengths)[places] + numbers, pa.int64(), mask=lacking)
    own = [name for name in (physical.DIFF,) if name in below.column_names]
    rows = below.take(pa.array(places, pa.int64()))
    columns = {each.name: rows.column(each.name) for each in physical.columns_of(operator.input)}
    columns[operator.name] = flat.take(taken).cast(arrow_type(operator.element))
    if operator.ordinality is not None:
        columns[operator.ordinality] = pa.array(numbers + 1, pa.int64(), mask=lacking)
    return pa.table(columns | {name: rows.column(name) for name in own})


def repeated(job: physical.Job, operator: physical.Repeat, below: pa.Table) -> pa.Table:
    """Return what a Repeat gives."""
    times = np.array(values(job, operator.times, below), np.int64)
    diffs = below.column(physical.DIFF).to_numpy() * times
    place = below.column_names.index(physical.DIFF)
    found = below.set_column(place, physical.DIFF, pa.array(diffs, pa.int64()))
    return found.filter(pa.array(diffs != 0))
