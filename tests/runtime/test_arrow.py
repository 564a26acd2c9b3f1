"""Arrow rows from Spark."""

from __future__ import annotations

import pyarrow as pa

from sinkql.logical.type import BIGINT, parse_type
from sinkql.runtime.spark.arrow import from_spark


def test_lists_that_spark_gives_have_their_offsets() -> None:
    """Without offsets, Arrow reads out of bounds when it measures rows, and the process may crash."""
    none = pa.ListArray.from_buffers(
        pa.list_(pa.string()), 0, [None, pa.py_buffer(b"")], children=[pa.array([], pa.string())]
    )
    offsets = pa.array([0, 0, 0], pa.int32()).buffers()[1]
    lists = pa.ListArray.from_buffers(pa.list_(none.type), 2, [None, offsets], children=[none])
    batch = pa.record_batch({"id": pa.array([1, 2]), "lists": lists})
    for rows in (batch, pa.Table.from_batches([batch])):
        found = from_spark(rows, [BIGINT, parse_type("text list list")])
        (column,) = pa.Table.from_batches([found]).column("lists").chunks if rows is batch else found["lists"].chunks
        assert column.values.buffers()[1].size >= 4
        assert found.to_pylist() == [{"id": 1, "lists": []}, {"id": 2, "lists": []}]
