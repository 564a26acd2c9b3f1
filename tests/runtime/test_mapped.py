"""An Arrow function in Spark gets its columns by name, whatever characters the names contain."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sinkql.lowering.spark.sql import quoted
from sinkql.runtime.spark.arrow import map_in_arrow

pytestmark = pytest.mark.spark


def test_names_are_no_paths(spark: SparkSession) -> None:
    names = ["id", "a.b", "a", "c`d", "*", ".", "a.*", "`", "x y", "$diff"]
    frame = spark.sql(f"SELECT {', '.join(f'{place} AS {quoted(name)}' for place, name in enumerate(names))}")

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch([pa.array([str(batch.to_pylist())])], names=["found"])

    rows = map_in_arrow(frame, told, "found string").collect()
    assert [row.found for row in rows] == [str([{name: place for place, name in enumerate(names)}])]
