"""Rows in Arrow ↔ rows as Spark carries them: of types that Spark has not as `lowering.spark.text` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from sinkql.connector_api.types import arrow_type

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
Column = TypeVar("Column", pa.Array, pa.ChunkedArray)


def to_spark(rows: Rows) -> Rows:
    """Return rows as Spark takes them: a time of day is its microseconds."""
    for place, field in enumerate(rows.schema):
        carried = _carried(field.type)
        if carried != field.type:
            rows = rows.set_column(place, field.name, rows.column(place).cast(carried))
    return rows


def from_spark(rows: Rows, types: Sequence[str | None]) -> Rows:
    """Return rows that Spark gave as columns of these types, None for what is none of SinkQL's, have them."""
    for place, text in enumerate(types):
        field = rows.schema.field(place)
        if pa.types.is_nested(field.type):
            rows = rows.set_column(place, field.name, _with_offsets(rows.column(place)))
        if text is not None and _TIME.search(text):
            rows = rows.set_column(place, field.name, rows.column(place).cast(arrow_type(text)))
    return rows


def batches_to_spark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return batches as Spark takes them."""
    return map(to_spark, batches)


def _with_offsets(column: Column) -> Column:
    """Return a column with the offsets of its lists: Spark leaves out those of no lists, and `nbytes` reads them."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(map(_with_offsets, column.chunks), column.type)
    return pa.concat_arrays([pa.array([], column.type), column])


def _carried(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_time64(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_carried(field.type)) for field in type_])
    return pa.list_(_carried(type_.value_type)) if pa.types.is_list(type_) else type_


_TIME = re.compile(r"\btime\b")
