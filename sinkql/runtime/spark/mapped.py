"""PySpark's mapInArrow, also of columns whose names have dots or backquotes in them, or are stars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Batches = Iterator[pa.RecordBatch]
_PLAIN = re.compile(r"[^.`*]*")


def map_in_arrow(rows: DataFrame, function: Callable[[Batches], Batches], schema: StructType | str) -> DataFrame:
    """Call mapInArrow, which takes the names of a frame's columns for paths: those that are others have plain names."""
    names = rows.columns
    if all(map(_PLAIN.fullmatch, names)):
        return rows.mapInArrow(function, schema)

    def renamed(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*[f"c{place}" for place in range(len(names))]).mapInArrow(renamed, schema)
