"""Rows in Arrow ↔ rows as Spark carries them: of types that Spark has not as `lowering.spark.text` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from sinkql.extension.types import arrow_type

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def into_spark(rows: Rows) -> Rows:
    """Return rows as Spark takes them: a time of day is its microseconds."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_time64(field.type):
            rows = rows.set_column(place, field.name, _viewed(rows.column(place), pa.int64()))
    return rows


def out_of_spark(rows: Rows, types: Sequence[str | None]) -> Rows:
    """Return rows that Spark gave as columns of these types, None for what is none of SinkQL's, have them."""
    for place, text in enumerate(types):
        if text == "time":
            field = rows.schema.field(place)
            rows = rows.set_column(place, field.name, _viewed(rows.column(place), arrow_type(text)))
    return rows


def batches_into_spark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return batches as Spark takes them."""
    return map(into_spark, batches)


def _viewed(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type_)
    return column.view(type_)
